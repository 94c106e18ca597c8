// SPDX-License-Identifier: Apache-2.0
// Elementary functions of vectors: exponentials for softmax, tanh, erf and the activations.
#if defined(ATTILE_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_MATH_INL_H
#undef ATTILE_CPU_MATH_INL_H
#else
#define ATTILE_CPU_MATH_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>
#include <limits>

#include "gemm/microkernel-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// The parts of an exponential: e^x = 2^n e^f with n the integer nearest to x log2 e, in the low bits of `shifted`, and |f| <= ln 2 / 2.
// The numbers stay in units of e: where they are scaled to those of 2, the largest overflow.
template <class T>
struct ExpParts {
    static constexpr bool kFloat = sizeof(T) == 4;
    static constexpr T kLog2e = static_cast<T>(1.44269504088896340736), kLn2 = static_cast<T>(0.693147180559945309417);
    // ln 2 in two parts, the first so short that its product with n is exact.
    static constexpr T kLn2High = static_cast<T>(kFloat ? 0x1.63p-1 : 0x1.62e4p-1);
    static constexpr T kLn2Low = static_cast<T>(kFloat ? 0.693147180559945309417 - 0x1.63p-1 : 1.42860682030941723212e-6);
    static constexpr T kMagic = static_cast<T>(kFloat ? 12582912.0 : 6755399441055744.0);  // 1.5 x 2^23 or 2^52: then integers are 1 apart
    static constexpr T kBias = static_cast<T>(kFloat ? 127 : 1023);
    static constexpr int kMantissa = kFloat ? 23 : 52;
    // The lowest x whose n is still an exponent field: 2^n is 0 there. Any lower, n could round to one less, which is no exponent.
    static constexpr T kLowest = static_cast<T>(kFloat ? -88.0296 : -709.0895);
    // Above, 2^n is infinite.
    static constexpr T kHighest = static_cast<T>(kFloat ? 88.7229 : 709.79);
};

// e^f for |f| <= ln 2 / 2. float: minimax with the first two terms exact, relative error below 2^-28; double: Taylor's series, the first
// term left out is below 2^-57.
template <int kCount, class D>
HWY_INLINE void exp_fraction(D d, const hn::Vec<D> (&f)[kCount], hn::Vec<D> (&p)[kCount]) {
    const auto first = [&](double term) HWY_ATTR {
        const auto constant = hn::Set(d, static_cast<hn::TFromD<D>>(term));
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) p[i] = constant;
    };
    const auto next = [&](double term) HWY_ATTR {
        const auto constant = hn::Set(d, static_cast<hn::TFromD<D>>(term));
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) p[i] = hn::MulAdd(p[i], f[i], constant);
    };
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
        first(1.38145359e-3);
        next(8.36874545e-3);
        next(4.16683927e-2);
        next(1.66665211e-1);
        next(4.9999994e-1);
    } else {
        first(1.6059043836821613e-10);
        next(2.08767569878681e-09);
        next(2.505210838544172e-08);
        next(2.755731922398589e-07);
        next(2.7557319223985893e-06);
        next(2.48015873015873e-05);
        next(0.0001984126984126984);
        next(0.001388888888888889);
        next(0.008333333333333333);
        next(0.041666666666666664);
        next(0.16666666666666666);
        next(0.5);
    }
    next(1.0);
    next(1.0);
}

// e^x of several vectors, for x that keep it below 2^127 (double: 2^1023), and infinite from kHighest on; within 2 ulp where it counts
// beside 1, or with kExact wherever they are normal. Results below the normal range are 0; NaN stays NaN. Vectors are interleaved step by
// step: one after the other, an out-of-order window holds too few of the long chains to keep the multipliers busy.
template <int kCount, bool kExact = false, class D>
HWY_INLINE void exp_clamped_each(D d, hn::Vec<D> (&x)[kCount]) {
    using T = hn::TFromD<D>;
    using Parts = ExpParts<T>;
    const hn::RebindToSigned<D> di;
    const auto low = hn::Set(d, Parts::kLowest), log2e = hn::Set(d, Parts::kLog2e);
    // The bias in it makes an exponent of the low bits.
    const auto magic = hn::Set(d, Parts::kMagic + Parts::kBias);
    hn::Vec<D> shifted[kCount], p[kCount];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = at_least(d, low, x[i]);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) shifted[i] = hn::MulAdd(x[i], log2e, magic);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) p[i] = hn::Sub(shifted[i], magic);
    if constexpr (Parts::kFloat && HWY_NATIVE_FMA && !kExact) {
        // The constant's own rounding shows in weights below 2^-30 alone.
        const auto ln2 = hn::Set(d, Parts::kLn2);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) x[i] = hn::NegMulAdd(p[i], ln2, x[i]);
    } else {
        const auto ln2_high = hn::Set(d, Parts::kLn2High), ln2_low = hn::Set(d, Parts::kLn2Low);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) x[i] = hn::NegMulAdd(p[i], ln2_low, hn::NegMulAdd(p[i], ln2_high, x[i]));
    }
    exp_fraction<kCount>(d, x, p);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = hn::Mul(p[i], hn::BitCast(d, hn::ShiftLeft<Parts::kMantissa>(hn::BitCast(di, shifted[i]))));
}

template <class D>
HWY_INLINE hn::Vec<D> exp_clamped(D d, hn::Vec<D> x) {
    hn::Vec<D> one[1] = {x};
    exp_clamped_each<1>(d, one);
    return one[0];
}

// e^x of several vectors over the whole range: infinity above it, subnormals and 0 below, NaN stays NaN.
template <int kCount, class D>
HWY_INLINE void exp_whole_each(D d, hn::Vec<D> (&x)[kCount]) {
    using T = hn::TFromD<D>;
    using Parts = ExpParts<T>;
    constexpr bool kFloat = Parts::kFloat;
    const hn::RebindToSigned<D> di;
    using I = hn::TFromD<decltype(di)>;
    const auto low = hn::Set(d, static_cast<T>(kFloat ? -105.0 : -746.0)), high = hn::Set(d, static_cast<T>(kFloat ? 89.0 : 710.0));
    const auto magic = hn::Set(d, Parts::kMagic), log2e = hn::Set(d, Parts::kLog2e), one_half = hn::Set(d, static_cast<T>(0.5));
    const auto ln2_high = hn::Set(d, Parts::kLn2High), ln2_low = hn::Set(d, Parts::kLn2Low);
    const auto bias = hn::Set(di, static_cast<I>(Parts::kBias));
    hn::Vec<D> shifted[kCount], p[kCount];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) {
        x[i] = at_most(d, high, at_least(d, low, x[i]));
        shifted[i] = hn::MulAdd(x[i], log2e, magic);
        const auto n = hn::Sub(shifted[i], magic);
        x[i] = hn::NegMulAdd(n, ln2_low, hn::NegMulAdd(n, ln2_high, x[i]));
    }
    exp_fraction<kCount>(d, x, p);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) {
        // 2^n as two factors: either alone is in range.
        const auto n = hn::Sub(shifted[i], magic);
        const auto whole = hn::Sub(hn::BitCast(di, shifted[i]), hn::BitCast(di, magic));
        const auto half =
            kFloat ? hn::ShiftRight<1>(whole) : hn::Sub(hn::BitCast(di, hn::Add(hn::Mul(n, one_half), magic)), hn::BitCast(di, magic));
        const auto rest = hn::Sub(whole, half);
        const auto first = hn::BitCast(d, hn::ShiftLeft<Parts::kMantissa>(hn::Add(half, bias)));
        const auto second = hn::BitCast(d, hn::ShiftLeft<Parts::kMantissa>(hn::Add(rest, bias)));
        x[i] = hn::Mul(hn::Mul(p[i], first), second);
    }
}

template <class D>
HWY_INLINE hn::Vec<D> exp_whole(D d, hn::Vec<D> x) {
    hn::Vec<D> one[1] = {x};
    exp_whole_each<1>(d, one);
    return one[0];
}

// e^x of several vectors for x up to 0, subnormals too: a lane's bits do not depend on the others. Faster than exp_whole_each(): 2^n is one
// factor where AVX-512 scales by it, or where no result is subnormal. There results of float below 2^-30 are within 4 ulp, others within 2.
template <int kCount, class D>
HWY_INLINE void exp_fallen_each(D d, hn::Vec<D> (&x)[kCount]) {
    using T = hn::TFromD<D>;
    constexpr bool kFloat = sizeof(T) == 4;
#if HWY_TARGET == HWY_AVX3
    using Parts = ExpParts<T>;
    const auto low = hn::Set(d, static_cast<T>(kFloat ? -105.0 : -746.0)), magic = hn::Set(d, Parts::kMagic);
    const auto log2e = hn::Set(d, Parts::kLog2e);
    hn::Vec<D> n[kCount], p[kCount];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) x[i] = at_least(d, low, x[i]);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) n[i] = hn::MulAdd(x[i], log2e, magic);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) n[i] = hn::Sub(n[i], magic);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) {
        if constexpr (kFloat) {
            x[i] = hn::NegMulAdd(n[i], hn::Set(d, Parts::kLn2), x[i]);
        } else {
            x[i] = hn::NegMulAdd(n[i], hn::Set(d, Parts::kLn2Low), hn::NegMulAdd(n[i], hn::Set(d, Parts::kLn2High), x[i]));
        }
    }
    exp_fraction<kCount>(d, x, p);
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kCount; ++i) {
        if constexpr (kFloat) {
            x[i].raw = _mm512_scalef_ps(p[i].raw, n[i].raw);
        } else {
            x[i].raw = _mm512_scalef_pd(p[i].raw, n[i].raw);
        }
    }
#else
    // From the one on results are normal, up to the other they are 0.
    const auto normal = hn::Set(d, static_cast<T>(kFloat ? -87.0 : -708.0)), none = hn::Set(d, static_cast<T>(kFloat ? -104.5 : -745.5));
    auto lowest = x[0];
    ATTILE_CPU_UNROLL
    for (int i = 1; i < kCount; ++i) lowest = hn::Min(lowest, x[i]);
    if (!hn::AllTrue(d, hn::Ge(lowest, normal))) {
        auto subnormal = hn::And(hn::Lt(x[0], normal), hn::Gt(x[0], none));
        ATTILE_CPU_UNROLL
        for (int i = 1; i < kCount; ++i) subnormal = hn::Or(subnormal, hn::And(hn::Lt(x[i], normal), hn::Gt(x[i], none)));
        if (!hn::AllFalse(d, subnormal)) return exp_whole_each<kCount>(d, x);
    }
    exp_clamped_each<kCount, true>(d, x);
#endif
}

// A compensated sum over many blocks: the rounding error of each addition is kept beside it, so that the error is that of one block.
template <class D>
struct LongSum {
    hn::Vec<D> total, rounded_off;

    HWY_INLINE void add(hn::Vec<D> block) {
        const auto sum = hn::Add(total, block);
        const auto part = hn::Sub(sum, total);
        rounded_off = hn::Add(rounded_off, hn::Add(hn::Sub(total, hn::Sub(sum, part)), hn::Sub(block, part)));
        total = sum;
    }
    HWY_INLINE void scale(hn::Vec<D> factor) {
        const auto product = hn::Mul(total, factor);
        rounded_off = hn::MulAdd(rounded_off, factor, hn::MulSub(total, factor, product));
        total = product;
    }
    // An infinite total has rounded nothing off.
    HWY_INLINE hn::Vec<D> value() const { return hn::IfThenElse(hn::IsFinite(total), hn::Add(total, rounded_off), total); }
};

// c tanh(s / c) for any c > 0, also one that T cannot hold, or whose inverse it cannot.
template <class T>
class Softcap {
  public:
    explicit Softcap(double c) {
        constexpr bool kFloat = sizeof(T) == 4;
        constexpr double kLargest = static_cast<double>(std::numeric_limits<T>::max());
        wide_ = c > (kFloat ? 0x1p100 : 0x1p900);
        const double factor = wide_ ? static_cast<double>(kShift) : 1;
        // So far above all scores nothing is capped.
        const bool endless = kFloat && c > 0x1p150;
        limit_ = static_cast<T>(endless ? 0 : c * factor);
        inverse_ = static_cast<T>(endless ? 0 : std::fmin(1 / (c * factor), kLargest));
        unchanged_ = static_cast<T>(std::fmin(c * 0x1p-13, kLargest));
        if (endless) unchanged_ = std::numeric_limits<T>::infinity();
        if (kFloat && c >= 0x1p-18 && c <= 0x1p18) {
            near_ = static_cast<T>(c * c / 16);
            const double square = 1 / (c * c);
            term_[0] = static_cast<T>(-0.333332400882 * square);
            term_[1] = static_cast<T>(0.133242366306 * square * square);
            term_[2] = static_cast<T>(-0.0514300288342 * square * square * square);
        }
    }
    // Of several scores at once.
    template <int kCount>
    HWY_INLINE void each(Vec<T> (&s)[kCount]) const {
        const Tag<T> d;
        Vec<T> square[kCount], largest = hn::Set(d, -std::numeric_limits<T>::infinity());
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) {
            square[i] = hn::Mul(s[i], s[i]);
            largest = hn::Max(largest, square[i]);
        }
        const bool are_near = hn::AllTrue(d, hn::Le(largest, hn::Set(d, near_)));
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) s[i] = are_near ? of_near(s[i], square[i]) : (*this)(s[i]);
    }
    // tanh(s / c) to `tangent`.
    HWY_INLINE Vec<T> operator()(Vec<T> s, Vec<T> *tangent) const {
        const Tag<T> d;
        const Vec<T> square = hn::Mul(s, s), near = of_near(s, square);
        const auto is_near = hn::Le(square, hn::Set(d, near_));
        if (hn::AllTrue(d, is_near)) {
            *tangent = hn::Mul(near, hn::Set(d, inverse_));
            return near;
        }
        const Vec<T> capped = of_any(s, tangent);
        *tangent = hn::IfThenElse(is_near, hn::Mul(near, hn::Set(d, inverse_)), *tangent);
        return hn::IfThenElse(is_near, near, capped);
    }
    HWY_INLINE Vec<T> operator()(Vec<T> s) const {
        Vec<T> tangent;
        return (*this)(s, &tangent);
    }

  private:
    // Most scores are small beside their cap. A lane's result is its own: what is near it does not depend on the others.
    //
    // Up to a quarter of the cap: odd and minimax; largest relative error 3e-9.
    HWY_INLINE Vec<T> of_near(Vec<T> s, Vec<T> square) const {
        const Tag<T> d;
        const Vec<T> f = hn::MulAdd(hn::Set(d, term_[2]), square, hn::Set(d, term_[1]));
        return hn::MulAdd(hn::Mul(s, square), hn::MulAdd(f, square, hn::Set(d, term_[0])), s);
    }
    HWY_INLINE Vec<T> of_any(Vec<T> s, Vec<T> *tangent) const {
        const Tag<T> d;
        if (!wide_) {
            *tangent = tanh_of(hn::Mul(s, hn::Set(d, inverse_)));
            return hn::Mul(hn::Set(d, limit_), *tangent);
        }
        // Where s / c is small it may be no normal number, but then s is not changed by a rounding.
        *tangent = hn::Tanh(d, hn::Mul(hn::Mul(s, hn::Set(d, kShift)), hn::Set(d, inverse_)));
        const Vec<T> capped = hn::Mul(hn::Mul(hn::Set(d, limit_), *tangent), hn::Set(d, 1 / kShift));
        return hn::IfThenElse(hn::Le(hn::Abs(s), hn::Set(d, unchanged_)), s, capped);
    }
    static HWY_INLINE Vec<T> tanh_of(Vec<T> x) {
        const Tag<T> d;
        if constexpr (sizeof(T) == 4) {
            // Odd and minimax; largest relative error 6e-8.
            const Vec<T> y = hn::Mul(x, x);
            Vec<T> f = hn::MulAdd(hn::Set(d, -0.00443368172f), y, hn::Set(d, 0.0192264114f));
            f = hn::MulAdd(f, y, hn::Set(d, -0.0531955473f));
            f = hn::MulAdd(f, y, hn::Set(d, 0.133231759f));
            f = hn::MulAdd(f, y, hn::Set(d, -0.333328933f));
            const Vec<T> near = hn::MulAdd(hn::Mul(x, y), f, x);
            const auto is_near = hn::Lt(hn::Abs(x), hn::Set(d, 0.8f));
            if (hn::AllTrue(d, is_near)) return near;
            return hn::IfThenElse(is_near, near, hn::Tanh(d, x));
        }
        return hn::Tanh(d, x);
    }

    static constexpr T kShift = static_cast<T>(0x1p-32);
    T limit_, inverse_, unchanged_;
    T near_ = -1, term_[3] = {};  // squares up to which scores are near 0; none is
    bool wide_;
};

// An activation on `count` elements in place.
template <class T>
HWY_NOINLINE void activate(int32_t activation, T *x, int64_t count) {
    const Tag<T> d;
    const auto half = hn::Set(d, static_cast<T>(0.5));
    const auto one = hn::Set(d, T{1});
    if (activation == ATTILE_ACTIVATION_GELU) {
        for (int64_t i = 0; i < count; ++i) x[i] = x[i] / 2 * (1 + std::erf(x[i] * static_cast<T>(0.7071067811865475244)));
        return;
    }
    for (int64_t i = 0; i < count; i += kLanes<T>) {
        const auto v = load_first(d, x + i, count - i);
        auto y = v;
        if (activation == ATTILE_ACTIVATION_RELU) {
            y = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
        } else if (activation == ATTILE_ACTIVATION_GELU_TANH) {
            const auto cubic = hn::MulAdd(hn::Mul(hn::Mul(v, v), v), hn::Set(d, static_cast<T>(0.044715)), v);
            const auto t = hn::Tanh(d, hn::Mul(hn::Set(d, static_cast<T>(0.79788456080286535588)), cubic));
            y = hn::Mul(hn::Mul(half, v), hn::Add(one, t));
        } else {
            const auto e = exp_whole(d, hn::Neg(v));
            y = hn::Div(v, hn::Add(one, e));
        }
        store_first(d, y, x + i, count - i);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
