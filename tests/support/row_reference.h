// SPDX-License-Identifier: Apache-2.0
// One row, or one element, of each operation in double precision, as plain loops: the reference of tests that look at some rows of problems
// that are too large for the reference backend to do whole. What a test may not differ by stays with the test, with the sizes given here.
#pragma once

#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace attile::test {

constexpr double kHiddenScore = -std::numeric_limits<double>::infinity();

/// Which keys a mask lets row `i` of `len_q` see, of `keys` keys.
struct RowMask {
    std::int32_t mask = ATTILE_MASK_NONE;
    std::int64_t left = -1, right = -1;

    bool is_bottom() const { return mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT || mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT; }
    bool sees(std::int64_t i, std::int64_t j, std::int64_t len_q, std::int64_t keys) const {
        const bool causal = mask == ATTILE_MASK_CAUSAL_TOP_LEFT || mask == ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        const bool window = mask == ATTILE_MASK_WINDOW_TOP_LEFT || mask == ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
        const std::int64_t diagonal = i + (is_bottom() ? keys - len_q : 0);
        if (j >= keys || (causal && j > diagonal)) return false;
        return !window || ((left < 0 || j >= diagonal - left) && (right < 0 || j <= diagonal + right));
    }
};

/// A row of attention. Functions that are empty: every key is seen, nothing is added to a score.
struct AttentionRow {
    std::int64_t keys = 0, dim = 0, dim_v = 0;
    double scale = 0, softcap = 0, sink = kHiddenScore;
    const float *q = nullptr;
    std::function<const float *(std::int64_t key)> k, v;
    std::function<bool(std::int64_t key)> sees;
    std::function<double(std::int64_t key)> added;  ///< After softcap: bias, ALiBi.
};

struct AttentionRowResult {
    std::vector<double> o, magnitude;  ///< Magnitude: the same sum of absolute values.
    double lse = kHiddenScore;
    double spread = 1;  ///< Size of the terms that are rounded on the way to the largest score, and of that score.
};

inline AttentionRowResult attention_row(const AttentionRow &row) {
    AttentionRowResult result;
    std::vector<double> weight(static_cast<std::size_t>(row.keys), kHiddenScore);
    double top = row.sink, key_top = kHiddenScore;
    for (std::int64_t j = 0; j < row.keys; ++j) {
        if (row.sees && !row.sees(j)) continue;
        double sum = 0, size = 0;
        const float *const k = row.dim > 0 ? row.k(j) : nullptr;
        for (std::int64_t d = 0; d < row.dim; ++d) {
            const double product = static_cast<double>(row.q[d]) * static_cast<double>(k[d]);
            sum += product;
            size += std::fabs(product);
        }
        double score = row.scale * sum;
        if (row.softcap != 0) score = row.softcap * std::tanh(score / row.softcap);
        if (row.added) score += row.added(j);
        weight[static_cast<std::size_t>(j)] = score;
        top = std::max(top, score);
        if (score > key_top) {
            key_top = score;
            result.spread = 1 + std::fabs(score) + row.scale * size;
        }
    }
    if (top != kHiddenScore) result.spread += std::fabs(top);
    double sum = row.sink != kHiddenScore ? std::exp(row.sink - top) : 0;
    result.o.assign(static_cast<std::size_t>(row.dim_v), 0);
    result.magnitude = result.o;
    for (std::int64_t j = 0; j < row.keys; ++j) {
        const double score = weight[static_cast<std::size_t>(j)], w = score == kHiddenScore ? 0 : std::exp(score - top);
        if (w == 0) continue;
        sum += w;
        const float *const v = row.v(j);
        for (std::size_t d = 0; d < result.o.size(); ++d) {
            result.o[d] += w * static_cast<double>(v[d]);
            result.magnitude[d] += w * std::fabs(static_cast<double>(v[d]));
        }
    }
    if (sum == 0) return result;
    for (double &x : result.o) x /= sum;
    for (double &x : result.magnitude) x /= sum;
    result.lse = top + std::log(sum);
    return result;
}

/// An element of a product: the sum of a(l) b(l), of their absolute values, and of their squares.
struct ProductElement {
    double sum = 0, magnitude = 0, squares = 0;
};
template <class A, class B>
ProductElement product_element(std::int64_t k, A a, B b) {
    ProductElement element;
    for (std::int64_t l = 0; l < k; ++l) {
        const double product = static_cast<double>(a(l)) * static_cast<double>(b(l));
        element.sum += product;
        element.magnitude += std::fabs(product);
        element.squares += product * product;
    }
    return element;
}

inline double activated(double x, std::int32_t activation) {
    switch (activation) {
        case ATTILE_ACTIVATION_RELU:
            return x < 0 ? 0 : x;
        case ATTILE_ACTIVATION_GELU:
            return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
        case ATTILE_ACTIVATION_GELU_TANH:
            return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
        case ATTILE_ACTIVATION_SILU:
            return x / (1 + std::exp(-x));
        default:
            return x;
    }
}

/// A reduction of x(0) to x(length - 1).
struct ReducedRow {
    double value = 0, magnitude = 0;  ///< Magnitude: the same of absolute values; 0 where nothing is rounded.
};
template <class X>
ReducedRow reduced_row(std::int64_t length, std::int32_t op, X x) {
    double sum = 0, absolute = 0, most = kHiddenScore, least = -kHiddenScore;
    for (std::int64_t i = 0; i < length; ++i) {
        const double value = x(i);
        sum += value;
        absolute += std::fabs(value);
        most = std::max(most, value);
        least = std::min(least, value);
    }
    if (op == ATTILE_REDUCE_MAX) return {most, 0};
    if (op == ATTILE_REDUCE_MIN) return {least, 0};
    const double count = op == ATTILE_REDUCE_MEAN ? static_cast<double>(length) : 1;
    return {sum / count, absolute / count};
}

/// softmax of x(0) to x(length - 1), zeros where all are -inf.
template <class X>
std::vector<double> softmax_row(std::int64_t length, X x) {
    std::vector<double> y(static_cast<std::size_t>(length), 0);
    double most = kHiddenScore, sum = 0;
    for (std::int64_t i = 0; i < length; ++i) most = std::max(most, static_cast<double>(x(i)));
    if (most == kHiddenScore) return y;
    for (std::int64_t i = 0; i < length; ++i) sum += y[static_cast<std::size_t>(i)] = std::exp(static_cast<double>(x(i)) - most);
    for (double &value : y) value /= sum;
    return y;
}

}  // namespace attile::test
