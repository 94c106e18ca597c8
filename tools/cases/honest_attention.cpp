// SPDX-License-Identifier: Apache-2.0
// Honest attention: two passes over the keys, and one pass in blocks that counts from a reference near the running maximum, as kernels do
// that leave it where it is while scores rise little. No probability is exactly 1 then, which shows where it is rounded to 16 bits.
#include "honest.h"

#include <algorithm>

#include "honest_scores.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

struct Result {
    Values o, lse, o_magnitude, lse_magnitude;
};

// The reference above the maximum, and what the maximum may rise above it. Of e4m3 little: 2^5 times the weight stays below 448.
constexpr double kHeadroom = 0.3, kRises = 5, kRisesOfBytes = 2.4;
// Keys whose weights are rounded together to steps of their largest, if they are of 8 bits without an exponent.
constexpr std::int64_t kStepKeys = 64;

// One row's o (unnormalised), sum and reference after some keys.
template <class T>
struct Running {
    T max = -std::numeric_limits<T>::infinity();
    T sum = 0;
    std::vector<T> o;
};

// The weights of some keys, a block of which is summed by itself, for `max`.
template <class T>
void take_block(Running<T> &run, const Scores<T> &scores, std::int64_t i, std::int64_t first, std::int64_t last, std::int32_t dtype) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    T sum = 0;
    const bool has_steps = dtype == ATTILE_I8, has_scales = has_steps && !scores.v_scale.empty();
    const double steps = has_scales ? 127 : 255;
    const auto weight_of = [&](std::int64_t j) {  // with the scale of the key's values, if weights are rounded with it
        const T s = scores.s[scores.at(i, j)];
        const double weight = s == kHidden ? 0 : static_cast<double>(std::exp(s - run.max));
        return has_scales && weight != 0 ? weight * scores.v_scale[static_cast<std::size_t>(j)] : weight;
    };
    double top = 0;
    for (std::int64_t j = first; has_steps && j < last; ++j) top = std::max(top, std::fabs(weight_of(j)));
    const auto rounded = [&](std::int64_t j, T p) {
        const double weight = weight_of(j), scale = has_scales ? scores.v_scale[static_cast<std::size_t>(j)] : 1;
        if (weight == 0 || scale == 0 || !(top > 0)) return weight == 0 ? T{0} : p;
        return static_cast<T>(std::nearbyint(steps * weight / top) * top / steps / scale);
    };
    std::vector<T> o(run.o.size(), 0);
    std::vector<DroppedSum> dropped(dtype == ATTILE_F8_E4M3 ? run.o.size() : 0, DroppedSum(ATTILE_F8_E4M3, ATTILE_F8_E4M3));
    for (std::size_t d = 0; d < dropped.size(); ++d) dropped[d].begin(static_cast<double>(run.o[d]));
    for (std::int64_t j = first; j < last; ++j) {
        const T s = scores.s[scores.at(i, j)];
        if (s == kHidden) continue;
        const T p = std::exp(s - run.max);
        sum += p;
        const T operand = has_steps ? rounded(j, p) : as_operand(dtype, p);
        const T *v = scores.v_row[static_cast<std::size_t>(j)];
        for (std::size_t d = 0; d < dropped.size(); ++d) dropped[d].add(static_cast<double>(operand), static_cast<double>(v[d]));
        for (std::size_t d = 0; dropped.empty() && d < o.size(); ++d) o[d] += operand * v[d];
    }
    run.sum += sum;
    for (std::size_t d = 0; d < o.size(); ++d) run.o[d] = dropped.empty() ? run.o[d] + o[d] : static_cast<T>(dropped[d].value());
}

template <class T>
void take_keys(Running<T> &run, const Scores<T> &scores, std::int64_t i, std::int64_t first, std::int64_t last, std::int32_t dtype,
               bool exact_maximum) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    T max = run.max;
    for (std::int64_t j = first; j < last; ++j) {
        const T s = scores.s[scores.at(i, j)];
        if (s > max || std::isnan(s)) max = s;
    }
    if (max == kHidden) return;
    const double rises = dtype == ATTILE_F8_E4M3 ? kRisesOfBytes : kRises;
    if (!exact_maximum) max = run.max != kHidden && max - run.max < static_cast<T>(rises) ? run.max : max + static_cast<T>(kHeadroom);
    if (run.max != kHidden && run.max != max) {
        const T factor = std::exp(run.max - max);
        run.sum *= factor;
        for (T &x : run.o) x *= factor;
    }
    run.max = max;
    const std::int64_t terms = dtype == ATTILE_I8 ? kStepKeys : kHonestTerms;
    for (std::int64_t j = first; j < last; j += terms) take_block(run, scores, i, j, std::min(j + terms, last), dtype);
}

// The type of 8 bits that weights may be rounded to; 0: none. Of e4m3 sums may lose bits, too.
std::int32_t fast_type(const AttentionCase &c) {
    const std::int32_t type = c.type_of(c.q_storage);
    const bool is_one = c.type_of(c.k_storage) == type && c.type_of(c.v_storage) == type;
    return (c.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0 && is_one && (type == ATTILE_F8_E4M3 || type == ATTILE_I8) ? type : 0;
}

template <class T>
Result run(const AttentionData &data, std::int64_t block, bool with_magnitude, bool round_p) {
    const AttentionCase &c = data.c;
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const std::vector<std::int64_t> o_shape = data.q_shape(c.head_dim_v);
    const std::vector<std::int64_t> lse_shape(o_shape.begin(), o_shape.begin() + 3);
    Result result = {Values(o_shape, kNan), Values(lse_shape, kNan), Values(o_shape), Values(lse_shape)};
    const Operands<T> x(data, round_p);
    const std::int32_t fast = round_p ? fast_type(c) : 0, p_type = fast != 0 ? fast : round_p ? c.dtype : ATTILE_F64;
    const bool drops = fast == ATTILE_F8_E4M3;
    if (fast == ATTILE_I8 && block > 0) block = kStepKeys;
    for (std::int64_t b = 0; b < c.batch; ++b) {
        const AttentionEntry e = data.entry(b);
        for (std::int64_t h = 0; h < c.heads_q; ++h) {
            Scores<T> scores = compute_scores(data, x, e, h, block > 0 && !drops, with_magnitude, drops);
            if (fast == ATTILE_I8 && (c.v_storage.axes & 4u) != 0)
                for (const T *v : scores.v_row) scores.v_scale.push_back(stored_row(data.v_numbers, v, x.v, x.dv).scale);
            for (std::int64_t i = 0; i < e.len_q; ++i) {
                Running<T> running;
                running.o.assign(static_cast<std::size_t>(x.dv), 0);
                const std::int64_t step = block > 0 ? block : std::max<std::int64_t>(e.len_k, 1);
                for (std::int64_t j = 0; j < e.len_k; j += step)
                    take_keys(running, scores, i, j, std::min(j + step, e.len_k), p_type, block == 0);
                const T sink = data.sinks.shape.empty() ? kHidden : static_cast<T>(data.sinks(h));
                if (sink != kHidden) {
                    const T max = std::max(running.max, sink);
                    const T factor = running.max == kHidden ? 0 : std::exp(running.max - max);
                    running.sum = running.sum * factor + std::exp(sink - max);
                    for (T &o : running.o) o *= factor;
                    running.max = max;
                }
                const bool empty = running.max == kHidden;
                const std::int64_t entry = c.packed_q ? 0 : b, row = e.q_start + i;
                const T lse = empty ? kHidden : running.max + std::log(running.sum);
                result.lse(entry, h, row) = static_cast<double>(lse);
                for (std::int64_t d = 0; d < x.dv; ++d)
                    result.o(entry, h, row, d) = empty ? 0 : static_cast<double>(running.o[static_cast<std::size_t>(d)] / running.sum);
                if (!with_magnitude || empty) continue;
                // A sink takes part in the denominator with a rounding of its own.
                double weight =
                    sink == kHidden ? 0 : std::exp(static_cast<double>(sink - lse)) * (1 + std::fabs(static_cast<double>(sink)));
                double *o_magnitude = result.o_magnitude.at.data() + result.o_magnitude.offset(entry, h, row);
                for (std::int64_t j = 0; j < e.len_k; ++j) {
                    const std::size_t at = scores.at(i, j);
                    if (scores.s[at] == kHidden) continue;
                    const double p = std::exp(static_cast<double>(scores.s[at] - lse)) * (1 + scores.magnitude[at]);
                    weight += p;
                    const T *v = scores.v_row[static_cast<std::size_t>(j)];
                    for (std::int64_t d = 0; d < x.dv; ++d) o_magnitude[d] += p * std::fabs(static_cast<double>(v[d]));
                }
                for (std::int64_t d = 0; d < x.dv; ++d) o_magnitude[d] += weight * std::fabs(result.o(entry, h, row, d));
                result.lse_magnitude(entry, h, row) = weight + std::fabs(static_cast<double>(lse));
            }
        }
    }
    return result;
}

}  // namespace

void exact_attention(const AttentionData &data, Values *o, Values *lse) {
    Result exact = run<double>(data, 0, false, false);
    *o = std::move(exact.o);
    *lse = std::move(exact.lse);
}

std::vector<Honest> honest_attention(const AttentionData &data) {
    constexpr std::int64_t kBlock = 32;
    Result exact = run<double>(data, 0, true, false);
    Result first, second;
    if (data.c.dtype == ATTILE_F64) {
        first = exact;
        second = run<double>(data, kBlock, false, false);
    } else {
        first = run<float>(data, 0, false, true);
        second = run<float>(data, kBlock, false, true);
    }
    std::vector<Honest> honest = {{std::move(exact.o), std::move(first.o), std::move(second.o), std::move(exact.o_magnitude)},
                                  {std::move(exact.lse), std::move(first.lse), std::move(second.lse), std::move(exact.lse_magnitude)}};
    // The largest weight of a row may be rounded then.
    const bool is_of_16_bits = (data.c.dtype == ATTILE_F16 || data.c.dtype == ATTILE_BF16) && data.c.q_storage.dtype == 0 &&
                               data.c.k_storage.dtype == 0 && data.c.v_storage.dtype == 0;
    if (is_of_16_bits && data.c.out_dtype == ATTILE_F32 && (data.c.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0)
        honest[0].as_exact_as = data.c.dtype;
    return honest;
}

}  // namespace attile::test
