// SPDX-License-Identifier: Apache-2.0
// reduce, softmax and merge with EXACT_PRODUCTS: sums as they are, rounded once; exp and log by steps that are the same everywhere.
#include <cmath>
#include <cstdint>
#include <limits>

#include "reference_element.h"
#include "reference_exact.h"
#include "reference_steps.h"

namespace attile::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The smaller, of zeros -0; NaN if either is.
double smaller(double a, double b) { return std::isnan(a) || a < b || (a == b && std::signbit(a)) ? a : b; }

double reduced(const attile_reduce_problem *p, std::int64_t i, std::int64_t j, std::int64_t l) {
    ExactSum sum;
    double largest = -kInfinity, smallest = kInfinity;
    for (std::int64_t r = 0; r < p->shape[3]; ++r) {
        const double x = load(p->x, i, j, l, r);
        largest = larger(largest, x);
        smallest = smaller(smallest, x);
        sum.add(x);
    }
    if (p->op == ATTILE_REDUCE_MAX) return largest;
    if (p->op == ATTILE_REDUCE_MIN) return smallest;
    return p->op == ATTILE_REDUCE_SUM ? sum.value() : sum.value() / static_cast<double>(p->shape[3]);
}

void softmax_row(const attile_softmax_problem *p, std::int64_t i, std::int64_t j, std::int64_t l) {
    double top = -kInfinity;
    for (std::int64_t r = 0; r < p->shape[3]; ++r) top = larger(top, load(p->x, i, j, l, r));
    const bool has_weights = std::isfinite(top);
    ExactSum sum;
    for (std::int64_t r = 0; r < p->shape[3] && has_weights; ++r) sum.add(exp_by_steps(load(p->x, i, j, l, r) - top));
    const double z = sum.value();
    for (std::int64_t r = 0; r < p->shape[3]; ++r) {  // element by element, so that y may be x
        store(p->y, has_weights ? exp_by_steps(load(p->x, i, j, l, r) - top) / z : without_weights(top), i, j, l, r);
    }
}

void merge_row(const attile_attention_merge_problem *p, std::int64_t b, std::int64_t h, std::int64_t l) {
    double top = -kInfinity;
    for (std::int64_t part = 0; part < p->parts; ++part) top = larger(top, load(p->lse_parts[part], b, h, l));
    const bool has_weights = std::isfinite(top);
    ExactSum sum;
    for (std::int64_t part = 0; part < p->parts && has_weights; ++part) sum.add(exp_by_steps(load(p->lse_parts[part], b, h, l) - top));
    const double z = sum.value();
    for (std::int64_t d = 0; d < p->head_dim_v; ++d) {
        ExactSum product;
        for (std::int64_t part = 0; part < p->parts && has_weights; ++part) {
            const double lse = load(p->lse_parts[part], b, h, l);
            if (lse != -kInfinity) product.add_product(exp_by_steps(lse - top), load(p->o_parts[part], b, h, l, d));
        }
        store(p->o, has_weights ? one_nan(product.value() / z) : without_weights(top), b, h, l, d);
    }
    // Last: it may be a part's, which the loop above reads.
    if (present(p->lse)) store(p->lse, has_weights ? top + log_by_steps(z) : one_nan(without_weights(top) + top), b, h, l);
}

}  // namespace

void reduce_exactly(const attile_reduce_problem *p) {
    for (std::int64_t i = 0; i < p->shape[0]; ++i)
        for (std::int64_t j = 0; j < p->shape[1]; ++j)
            for (std::int64_t l = 0; l < p->shape[2]; ++l) store(p->y, one_nan(reduced(p, i, j, l)), i, j, l);
}

void softmax_exactly(const attile_softmax_problem *p) {
    for (std::int64_t i = 0; i < p->shape[0]; ++i)
        for (std::int64_t j = 0; j < p->shape[1]; ++j)
            for (std::int64_t l = 0; l < p->shape[2]; ++l) softmax_row(p, i, j, l);
}

void merge_exactly(const attile_attention_merge_problem *p) {
    for (std::int64_t b = 0; b < p->batch; ++b)
        for (std::int64_t h = 0; h < p->heads; ++h)
            for (std::int64_t l = 0; l < p->len; ++l) merge_row(p, b, h, l);
}

}  // namespace attile::reference
