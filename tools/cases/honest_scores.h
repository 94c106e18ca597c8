// SPDX-License-Identifier: Apache-2.0
// Scores of one entry and head in a working precision, for the honest computations of attention and of its gradients.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "attention_data.h"
#include "dropped_sum.h"
#include "test_element.h"

namespace attile::test {

template <class T>
std::vector<T> converted(const Values &values) {
    return std::vector<T>(values.at.begin(), values.at.end());
}

/// sum a[i] b[i], one after the other, or in four interleaved sums.
template <class T>
T dot(const T *a, const T *b, std::int64_t n, bool interleaved) {
    if (!interleaved) {
        T sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += a[i] * b[i];
        return sum;
    }
    T sums[4] = {0, 0, 0, 0};
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
    for (; i < n; ++i) sums[i & 3] += a[i] * b[i];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// A row of numbers as it is stored, and what it is multiplied by.
struct StoredRow {
    const double *numbers;
    double scale;
};
/// One scale for the row: that of its first number which tells.
template <class T>
StoredRow stored_row(const Values &numbers, const T *row, const std::vector<T> &all, std::int64_t n) {
    const double *const stored = numbers.at.data() + (row - all.data());
    for (std::int64_t i = 0; i < n; ++i)
        if (stored[i] != 0 && std::isfinite(stored[i])) return {stored, static_cast<double>(row[i]) / stored[i]};
    return {stored, 1};
}

/// dot() as FAST_ACCUMULATION permits it of 8-bit floats: of the numbers, then scaled.
inline double dropped_dot(const StoredRow &a, const StoredRow &b, std::int64_t n) {
    DroppedSum sum(ATTILE_F8_E4M3, ATTILE_F8_E4M3);
    for (std::int64_t i = 0; i < n; ++i) sum.add(a.numbers[i], b.numbers[i]);
    return sum.value() * a.scale * b.scale;
}

/// dot() of a with each of four b's, one after the other: four chains side by side take little longer than one.
template <class T>
void four_dots(const T *a, const T *const *b, std::int64_t n, T *sums) {
    const T *const b0 = b[0], *const b1 = b[1], *const b2 = b[2], *const b3 = b[3];
    T sum0 = 0, sum1 = 0, sum2 = 0, sum3 = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        const T x = a[i];
        sum0 += x * b0[i];
        sum1 += x * b1[i];
        sum2 += x * b2[i];
        sum3 += x * b3[i];
    }
    sums[0] = sum0;
    sums[1] = sum1;
    sums[2] = sum2;
    sums[3] = sum3;
}

/// sum |a[i] b[i]|, which nothing is compared with: in the order that takes least time.
template <class T>
double magnitude_of_dot(const T *a, const T *b, std::int64_t n) {
    double sums[4] = {0, 0, 0, 0};
    std::int64_t i = 0;
    for (; i + 4 <= n; i += 4)
        for (int lane = 0; lane < 4; ++lane) sums[lane] += std::fabs(static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]));
    for (; i < n; ++i) sums[0] += std::fabs(static_cast<double>(a[i]) * static_cast<double>(b[i]));
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/// The operands of a problem in the working precision.
template <class T>
struct Operands {
    /// rounds: numbers of 8 bits times their scales are rounded to the case's type, where that has 16 bits.
    explicit Operands(const AttentionData &data, bool rounds = false)
        : q(converted<T>(data.q)), k(converted<T>(data.k)), v(converted<T>(data.v)), d(data.c.head_dim), dv(data.c.head_dim_v) {
        if (!rounds || (data.c.dtype != ATTILE_F16 && data.c.dtype != ATTILE_BF16)) return;
        const auto round = [&](const CacheStorage &storage, std::vector<T> &values) {
            if (!is_quantised(storage.dtype)) return;
            for (T &x : values) x = static_cast<T>(round_to(data.c.dtype, static_cast<double>(x)));
        };
        round(data.c.q_storage, q);
        round(data.c.k_storage, k);
        round(data.c.v_storage, v);
    }
    std::vector<T> q, k, v;
    std::int64_t d, dv;
};

/// Scores of every row and key of an entry and head; -inf where hidden.
template <class T>
struct Scores {
    std::vector<T> s, slope;              ///< [len_q][len_k]; slope is what softcap leaves of a change
    std::vector<double> magnitude;        ///< sum of the absolute values that make a score
    std::vector<const T *> k_row, v_row;  ///< per key, nullptr if its page does not exist
    std::vector<double> v_scale;          ///< per key, where weights times it are rounded; else empty
    std::vector<std::int64_t> key_index;  ///< row of k and v in index order

    std::size_t at(std::int64_t i, std::int64_t j) const {
        return static_cast<std::size_t>(i) * k_row.size() + static_cast<std::size_t>(j);
    }
};

template <class T>
const T *q_row(const AttentionData &data, const std::vector<T> &x, const AttentionEntry &e, std::int64_t h, std::int64_t i,
               std::int64_t dim) {
    const std::int64_t b = data.c.packed_q ? 0 : e.b;
    return x.data() + ((b * data.c.heads_q + h) * data.total_q + e.q_start + i) * dim;
}

/// Two ways to a score: scaled after the product; or with the scale and log2(e) folded into q before it, which rounds each element of q, as
/// kernels do that take powers of two. drops: products are sums that drop bits. Magnitudes only if they are asked for.
template <class T>
Scores<T> compute_scores(const AttentionData &data, const Operands<T> &x, const AttentionEntry &e, std::int64_t h, bool folded,
                         bool with_magnitude, bool drops = false) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity(), kLn2 = static_cast<T>(0.693147180559945309417);
    Scores<T> r;
    const std::int64_t g = data.kv_head(h);
    for (std::int64_t j = 0; j < e.len_k; ++j) {
        std::int64_t axis0 = 0, axis2 = 0;
        const bool exists = data.locate_key(e, j, &axis0, &axis2);
        const std::int64_t row = (axis0 * data.c.heads_kv + g) * data.total_k + axis2;
        r.key_index.push_back(row);
        r.k_row.push_back(exists ? x.k.data() + row * x.d : nullptr);
        r.v_row.push_back(exists ? x.v.data() + row * x.dv : nullptr);
    }
    const auto size = static_cast<std::size_t>(e.len_q * e.len_k);
    r.s.assign(size, kHidden);
    r.slope.assign(size, 1);
    r.magnitude.assign(with_magnitude ? size : 0, 0);
    const T scale = static_cast<T>(data.scale()), cap = static_cast<T>(data.c.softcap);
    const T factor = static_cast<T>(data.scale() / 0.693147180559945309417);
    std::vector<T> folded_q(static_cast<std::size_t>(x.d)), products;
    std::vector<std::int64_t> keys;  // that the row sees
    std::vector<const T *> rows;     // of these keys
    const double alibi = data.slope_at(e.b, h);
    for (std::int64_t i = 0; i < e.len_q; ++i) {
        const T *q = q_row(data, x.q, e, h, i, x.d);
        std::transform(q, q + x.d, folded_q.begin(), [factor](T value) { return value * factor; });
        keys.clear();
        rows.clear();
        for (std::int64_t j = 0; j < e.len_k; ++j) {
            if (!data.sees(e, h, i, j)) continue;
            keys.push_back(j);
            rows.push_back(r.k_row[static_cast<std::size_t>(j)]);
        }
        products.resize(keys.size());
        const T *const left = folded ? folded_q.data() : q;
        std::size_t done = 0;
        for (; done + 4 <= keys.size(); done += 4) four_dots(left, &rows[done], x.d, &products[done]);
        for (; done < keys.size(); ++done) products[done] = dot(left, rows[done], x.d, false);
        for (std::size_t place = 0; drops && place < keys.size(); ++place)
            products[place] = static_cast<T>(
                dropped_dot(stored_row(data.q_numbers, q, x.q, x.d), stored_row(data.k_numbers, rows[place], x.k, x.d), x.d));
        for (std::size_t place = 0; place < keys.size(); ++place) {
            const std::int64_t j = keys[place];
            const std::size_t at = r.at(i, j);
            const T *k = rows[place];
            T s = folded ? products[place] * kLn2 : scale * products[place];
            double magnitude = with_magnitude ? magnitude_of_dot(q, k, x.d) * std::fabs(data.scale()) : 0;
            if (cap != 0) {
                const double wide = std::tanh(static_cast<double>(s) / data.c.softcap);  // of a cap that T cannot hold
                const T t = std::isnormal(cap) ? std::tanh(s / cap) : static_cast<T>(wide);
                s = std::isnormal(cap) ? cap * t : static_cast<T>(data.c.softcap * wide);
                r.slope[at] = 1 - t * t;
                magnitude = magnitude * static_cast<double>(r.slope[at]) + std::fabs(static_cast<double>(s));
            }
            const double bias = data.bias_at(e, h, i, j);
            const double distance = static_cast<double>(std::abs(j - i - e.alibi_shift));
            s += static_cast<T>(bias);
            s -= static_cast<T>(alibi) * static_cast<T>(distance);
            r.s[at] = s;
            if (with_magnitude) r.magnitude[at] = magnitude + std::fabs(bias) + alibi * distance;
        }
    }
    return r;
}

/// The type a probability is rounded to before it multiplies: f16 and bf16 for such inputs, else the working precision; e4m3, of 2^5 times
/// it, where FAST_ACCUMULATION permits it.
template <class T>
T as_operand(std::int32_t dtype, T p) {
    if (dtype == ATTILE_F8_E4M3) return static_cast<T>(round_to(dtype, 32 * static_cast<double>(p)) / 32);
    return dtype == ATTILE_F16 || dtype == ATTILE_BF16 ? static_cast<T>(round_to(dtype, static_cast<double>(p))) : p;
}

}  // namespace attile::test
