// SPDX-License-Identifier: Apache-2.0
// Exact products: statistics of lines, integers and their residues, and what residues of sums are put together to.
//
// Every product and sum of floating-point numbers here is exact or its error is in a bound; none depends on fused multiply-adds.
#if defined(ATTILE_CPU_EXACT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_EXACT_INL_H
#undef ATTILE_CPU_EXACT_INL_H
#else
#define ATTILE_CPU_EXACT_INL_H
#endif

#include <cmath>
#include <limits>

#include "gemm/exact.h"
#include "gemm/microkernel-inl.h"  // ATTILE_CPU_UNROLL
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

inline constexpr double kPowerOfLimb = static_cast<double>(int64_t{1} << kLimbBits);

// The value of the last bit of |x|, infinity if x is 0: x without it is the number before, and the difference is exact.
template <class D>
HWY_INLINE hn::Vec<D> last_bit(D d, hn::Vec<D> x) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::BitCast(du, x), fraction = hn::And(bits, hn::Set(du, 0xfffffffffffffu));
    const auto without = hn::And(bits, hn::Sub(bits, hn::Set(du, uint64_t{1})));
    const auto power = hn::Eq(fraction, hn::Zero(du));  // of two, or 0
    const auto last = hn::IfThenElse(hn::RebindMask(d, power), hn::Abs(x), hn::Abs(hn::Sub(x, hn::BitCast(d, without))));
    return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Inf(d), last);
}

template <class S>
void exact_statistics(const S *numbers, int64_t count, LineStatistics *line) {
    const Tag<double> d;
    const auto zero = hn::Zero(d);
    auto largest = zero, not_finite = zero, last = hn::Inf(d);
    for (int64_t i = 0; i < count; i += kLanes<double>) {
        const auto x = load_as(d, numbers + i, count - i);
        largest = hn::Max(largest, hn::Abs(x));
        not_finite = hn::Add(not_finite, hn::Sub(x, x));
        last = hn::Min(last, last_bit(d, x));
    }
    if (hn::GetLane(hn::SumOfLanes(d, not_finite)) != 0) line->special = true;
    if (line->special) return;
    const double most = hn::GetLane(hn::MaxOfLanes(d, largest)), least = hn::GetLane(hn::MinOfLanes(d, last));
    if (most == 0) return;
    const int exponent = std::ilogb(most), half = -exponent / 2;
    const auto first = hn::Set(d, std::ldexp(1.0, half)), second = hn::Set(d, std::ldexp(1.0, -exponent - half));
    auto sum = zero;
    for (int64_t i = 0; i < count; i += kLanes<double>) {
        const auto x = hn::Mul(hn::Mul(load_as(d, numbers + i, count - i), first), second);
        sum = hn::MulAdd(x, x, sum);
    }
    const double squares = hn::GetLane(hn::SumOfLanes(d, sum));
    if (line->last_bit == 0) {
        *line = {false, exponent, squares, least};
        return;
    }
    const int higher = exponent > line->exponent ? exponent : line->exponent;
    line->squares = std::ldexp(line->squares, 2 * (line->exponent - higher)) + std::ldexp(squares, 2 * (exponent - higher));
    line->exponent = higher;
    line->last_bit = least < line->last_bit ? least : line->last_bit;
}

// An integer of up to 2^kWordBits, as a double, in three digits from -2^14 to 2^14, each in 16 bits of its lane.
template <class D>
HWY_INLINE hn::Vec<hn::RebindToUnsigned<D>> digits_of_word(D d, hn::Vec<D> word) {
    const hn::RebindToUnsigned<D> du;
    const hn::Repartition<uint16_t, D> d16;
    constexpr uint64_t kHalves = (uint64_t{1} << 14) + (uint64_t{1} << 29) + (uint64_t{1} << 44);
    const auto magic = hn::Set(d, 0x1.8p52);
    const auto lifted = hn::Add(hn::Sub(hn::BitCast(du, hn::Add(word, magic)), hn::BitCast(du, magic)), hn::Set(du, kHalves));
    const auto low = hn::And(lifted, hn::Set(du, uint64_t{0x7fff}));
    const auto middle = hn::And(hn::ShiftLeft<1>(lifted), hn::Set(du, uint64_t{0x7fff0000}));
    const auto high = hn::And(hn::ShiftLeft<2>(lifted), hn::Set(du, ~uint64_t{0xffffffff}));
    const auto all = hn::BitCast(d16, hn::Or(hn::Or(low, middle), high));
    return hn::BitCast(du, hn::Sub(all, hn::BitCast(d16, hn::Set(du, uint64_t{0x0000400040004000}))));
}

template <int kWords>
double exact_digits_of(const double *numbers, int64_t count, double first, double second, int32_t *pairs, int64_t step) {
    const Tag<double> d;
    const hn::RebindToUnsigned<decltype(d)> du;
    const Tag<int32_t> di;
    constexpr double kWord = static_cast<double>(int64_t{1} << kWordBits);
    auto changes = hn::Zero(d);
    for (int64_t i = 0; i < count; i += kLanes<int32_t>) {
        hn::Vec<decltype(du)> word[2][kWords];
        ATTILE_CPU_UNROLL
        for (int part = 0; part < 2; ++part) {
            const int64_t at = i + part * kLanes<double>;
            auto x = hn::Mul(hn::Mul(load_first(d, numbers + at, count - at), hn::Set(d, first)), hn::Set(d, second));
            const auto rounded = hn::Round(x), change = hn::Sub(x, rounded);
            changes = hn::MulAdd(change, change, changes);
            x = rounded;
            ATTILE_CPU_UNROLL
            for (int w = kWords - 1; w > 0; --w) {
                const double power = w == 1 ? kWord : kWord * kWord;
                const auto whole = hn::Round(hn::Mul(x, hn::Set(d, 1 / power)));
                word[part][w] = digits_of_word(d, whole);
                x = hn::NegMulAdd(whole, hn::Set(d, power), x);
            }
            word[part][0] = digits_of_word(d, x);
        }
        hn::Vec<decltype(di)> low[kWords], high[kWords];
        ATTILE_CPU_UNROLL
        for (int w = 0; w < kWords; ++w) {
            low[w] = hn::ConcatEven(di, hn::BitCast(di, word[1][w]), hn::BitCast(di, word[0][w]));
            high[w] = hn::ConcatOdd(di, hn::BitCast(di, word[1][w]), hn::BitCast(di, word[0][w]));
            hn::StoreU(low[w], di, pairs + w * step + i);
        }
        if constexpr (kWords == 1) {
            hn::StoreU(high[0], di, pairs + step + i);
        } else {
            hn::StoreU(hn::Or(high[0], hn::ShiftLeft<16>(high[1])), di, pairs + kWords * step + i);
            if constexpr (kWords == 3) hn::StoreU(high[2], di, pairs + (kWords + 1) * step + i);
        }
    }
    return hn::GetLane(hn::SumOfLanes(d, changes));
}

double exact_digits(const double *numbers, int64_t count, double first, double second, int words, int32_t *pairs, int64_t step) {
    const auto of_words = words == 1 ? exact_digits_of<1> : words == 2 ? exact_digits_of<2> : exact_digits_of<3>;
    return of_words(numbers, count, first, second, pairs, step);
}

// Residues of the power of two: the last eight bits.
HWY_INLINE Vec<int32_t> last_byte(Vec<int32_t> x) { return hn::ShiftRight<24>(hn::ShiftLeft<24>(x)); }

HWY_INLINE void store_residues(Vec<int32_t> x, int8_t *to) {
    const hn::Rebind<int8_t, Tag<int32_t>> d8;
    hn::StoreU(hn::DemoteTo(d8, x), d8, to);
}

template <int kPairs>
void exact_residues_of(const int32_t *pairs, int64_t step, int64_t count, const int32_t *weights, const ExactModulus &modulus,
                       int8_t *residues) {
    const Tag<int32_t> di;
    const Tag<float> df;
    const auto inverse = hn::Set(df, modulus.inverse), p = hn::Set(df, static_cast<float>(modulus.p));
    // Once brings a sum to p / 2, and 4 more where rounding made the quotient miss; larger moduli have no room for these.
    const bool twice = modulus.p > 247, is_power = modulus.p == 256;
    for (int64_t i = 0; i < count; i += kLanes<int32_t>) {
        auto sum = hn::Zero(di), other = hn::Zero(di);
        ATTILE_CPU_UNROLL
        for (int w = 0; w < kPairs; ++w) sum = PairSum::add(hn::LoadU(di, pairs + w * step + i), hn::Set(di, weights[w]), sum, other);
        sum = PairSum::value(sum, other);
        if (is_power) {
            store_residues(last_byte(sum), residues + i);
            continue;
        }
        auto x = hn::ConvertTo(df, sum);  // exact: below 2^24
        x = hn::NegMulAdd(hn::Round(hn::Mul(x, inverse)), p, x);
        if (twice) x = hn::NegMulAdd(hn::Round(hn::Mul(x, inverse)), p, x);
        store_residues(hn::ConvertTo(di, x), residues + i);
    }
}

void exact_residues(const int32_t *pairs, int64_t step, int64_t count, int words, const int32_t *weights, const ExactModulus &modulus,
                    int8_t *residues) {
    (words == 1   ? exact_residues_of<pairs_of(1)>
     : words == 2 ? exact_residues_of<pairs_of(2)>
                  : exact_residues_of<pairs_of(3)>)(pairs, step, count, weights, modulus, residues);
}

void exact_reduce(const int32_t *sums, int64_t count, const ExactModulus &modulus, const int8_t *before, int8_t *residues) {
    const Tag<int32_t> di;
    const Tag<float> df;
    const hn::Rebind<int8_t, decltype(di)> d8;
    const auto inverse = hn::Set(df, modulus.inverse);
    const auto p = hn::Set(di, modulus.p);
    const auto less = [&](Vec<int32_t> x)
                          HWY_ATTR { return hn::Sub(x, hn::Mul(hn::NearestInt(hn::Mul(hn::ConvertTo(df, x), inverse)), p)); };
    for (int64_t i = 0; i < count; i += kLanes<int32_t>) {
        auto x = hn::LoadU(di, sums + i);
        if (modulus.p != 256) x = less(x);  // up to 400 in magnitude: a sum of 31 bits is rounded to float
        if (before != nullptr) x = hn::Add(x, hn::PromoteTo(di, hn::LoadU(d8, before + i)));
        x = modulus.p == 256 ? last_byte(x) : less(x);
        store_residues(x, residues + i);
    }
}

// a + b and what rounding it leaves, if |a| >= |b| or a is 0.
template <class V>
HWY_INLINE V sum_of(V a, V b, V *rest) {
    const V sum = hn::Add(a, b);
    *rest = hn::Sub(b, hn::Sub(sum, a));
    return sum;
}
// The same for any a and b.
template <class V>
HWY_INLINE V any_sum_of(V a, V b, V *rest) {
    const V sum = hn::Add(a, b), of_b = hn::Sub(sum, a);
    *rest = hn::Add(hn::Sub(a, hn::Sub(sum, of_b)), hn::Sub(b, of_b));
    return sum;
}

template <int kLimbs>
uint64_t exact_join_limbs(const ExactWeights &weights, const ExactRow &row, double *values) {
    const Tag<double> d;
    const hn::RebindToSigned<decltype(d)> di;
    const hn::Rebind<int8_t, decltype(d)> d8;
    const hn::Rebind<int32_t, decltype(d)> d32;
    using V = Vec<double>;
    const auto zero = hn::Zero(d);
    const V limb = hn::Set(d, kPowerOfLimb), of_limb = hn::Set(d, 1 / kPowerOfLimb);
    uint64_t undecided = 0;
    for (int64_t c = 0; c < row.count; c += kLanes<double>) {
        // Limbs of the sum of residues times weights: exact, as 31 products of 7 and 40 bits are.
        V sum[kLimbs];
        ATTILE_CPU_UNROLL
        for (int l = 0; l < kLimbs; ++l) sum[l] = zero;
        const int8_t *residue = row.residues + c;
        for (int i = 0; i < weights.moduli; ++i, residue += row.modulus_step) {
            const V x = hn::PromoteTo(d, hn::PromoteTo(d32, hn::LoadU(d8, residue)));
            ATTILE_CPU_UNROLL
            for (int l = 0; l < kLimbs; ++l) sum[l] = hn::MulAdd(x, hn::Set(d, weights.weight[i][l]), sum[l]);
        }
        // Minus a multiple of the product of the moduli: what is left is less than 0.46 of it, so that rounding finds the multiple.
        V share = sum[kLimbs - 1];
        if constexpr (kLimbs > 1) share = hn::MulAdd(sum[kLimbs - 2], of_limb, share);
        const V multiple = hn::Round(hn::Mul(share, hn::Set(d, weights.inverse)));
        ATTILE_CPU_UNROLL
        for (int l = 0; l < kLimbs; ++l) sum[l] = hn::NegMulAdd(multiple, hn::Set(d, weights.modulus[l]), sum[l]);
        // Each limb but the last below half of the next one's unit.
        ATTILE_CPU_UNROLL
        for (int l = 0; l + 1 < kLimbs; ++l) {
            const V carry = hn::Round(hn::Mul(sum[l], of_limb));
            sum[l] = hn::NegMulAdd(carry, limb, sum[l]);
            sum[l + 1] = hn::Add(sum[l + 1], carry);
        }
        // From the smallest up: high + rests is the sum, and each rest is below the last bit of the part after it.
        V high = sum[0], rests[kLimbs], unit = limb;
        ATTILE_CPU_UNROLL
        for (int l = 1; l < kLimbs; ++l) {
            high = sum_of(hn::Mul(sum[l], unit), high, &rests[l]);
            unit = hn::Mul(unit, limb);
        }
        V low = zero, error = hn::MulAdd(hn::Set(d, row.row_error), hn::LoadU(d, row.column_sizes + c),
                                         hn::Mul(hn::Set(d, row.row_size), hn::LoadU(d, row.column_errors + c)));
        ATTILE_CPU_UNROLL
        for (int l = kLimbs - 1; l > 0; --l) {
            V rest;
            low = any_sum_of(low, rests[l], &rest);
            error = hn::Add(error, hn::Abs(rest));
        }
        // The bound is rounded itself, and so are the ends of the interval.
        const V rounding = hn::IfThenElseZero(hn::Gt(error, zero), hn::Set(d, 0x1p-51));
        error = hn::MulAdd(hn::Abs(low), rounding, hn::Mul(error, hn::Set(d, 1 + 0x1p-40)));
        const V upper = hn::Add(high, hn::Add(low, error)), lower = hn::Add(high, hn::Sub(low, error));
        // Times a power of two, if the result is a normal number.
        const auto scale = hn::Neg(hn::Add(hn::Set(di, row.row_scale), hn::LoadU(di, row.column_scales + c)));
        const auto bits = hn::BitCast(di, upper);
        const auto field = hn::Add(hn::And(hn::ShiftRight<52>(bits), hn::Set(di, int64_t{0x7ff})), scale);
        const auto is_zero = hn::Eq(upper, zero);
        const auto normal = hn::RebindMask(d, hn::And(hn::Gt(field, hn::Zero(di)), hn::Lt(field, hn::Set(di, int64_t{2047}))));
        const auto decided = hn::And(hn::Eq(upper, lower), hn::Or(normal, is_zero));
        hn::StoreU(hn::IfThenZeroElse(is_zero, hn::BitCast(d, hn::Add(bits, hn::ShiftLeft<52>(scale)))), d, values + c);
        uint8_t mask[8] = {};
        hn::StoreMaskBits(d, hn::Not(decided), mask);
        undecided |= static_cast<uint64_t>(mask[0]) << c;
    }
    return row.count >= kExactRun ? undecided : undecided & ((uint64_t{1} << row.count) - 1);
}

uint64_t exact_join(const ExactWeights &weights, const ExactRow &row, double *values) {
    using Fn = uint64_t (*)(const ExactWeights &, const ExactRow &, double *);
    static constexpr Fn kTable[kMostLimbs] = {exact_join_limbs<1>, exact_join_limbs<2>, exact_join_limbs<3>,
                                              exact_join_limbs<4>, exact_join_limbs<5>, exact_join_limbs<6>};
    return kTable[weights.limbs - 1](weights, row, values);
}

template <class T>
const ExactKernels<T> &kernels() {
    static constexpr ExactKernels<T> kTable = {
        &exact_statistics<double>, &exact_statistics<float>, &exact_digits, &exact_residues, &exact_reduce, &exact_join};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
