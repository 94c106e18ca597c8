// SPDX-License-Identifier: Apache-2.0
// D = activation(alpha A B + beta C + bias), one output element after the other; of groups of rows each with a B of its own.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_exact.h"
#include "reference_quantised.h"
#include "reference_sum.h"

namespace attile::reference {
namespace {

double activate(std::int32_t activation, double x) {
    switch (activation) {
        case ATTILE_ACTIVATION_RELU:
            return x > 0 || std::isnan(x) ? x : 0;
        // 1 + erf(t) = erfc(-t) and (1 + tanh u) / 2 = 1 / (1 + exp(-2u)): the right-hand sides do not cancel for negative x.
        case ATTILE_ACTIVATION_GELU:
            return x / 2 * std::erfc(-x / std::numbers::sqrt2);
        case ATTILE_ACTIVATION_GELU_TANH: {
            const double u = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
            return x / (1 + std::exp(-2 * u));
        }
        case ATTILE_ACTIVATION_SILU:
            return x / (1 + std::exp(-x));
        default:
            return x;
    }
}

// The factor of the products of one block along k: scales are f32, so that a double holds the product of two.
double factor(const attile_gemm_problem *p, std::int64_t x, std::int64_t y, std::int64_t m, std::int64_t n, std::int64_t k) {
    double value = 1;
    if (present(p->a_scale)) value *= load(p->a_scale, x, y, m / p->a_group[0], k / p->a_group[1]);
    if (present(p->b_scale)) value *= load(p->b_scale, x, y, k / p->b_group[0], n / p->b_group[1]);
    return value;
}

// The sum of each block along k is scaled, then added.
Sum product_of(const attile_gemm_problem *p, std::int64_t x, std::int64_t y, std::int64_t m, std::int64_t n) {
    const bool scaled = present(p->a_scale) || present(p->b_scale);
    std::int64_t depth = p->k;
    if (present(p->a_scale)) depth = std::min(depth, p->a_group[1]);
    if (present(p->b_scale)) depth = std::min(depth, p->b_group[0]);
    Sum product;
    for (std::int64_t first = 0; first < p->k; first += depth) {
        Sum block;
        Sum &sum = scaled ? block : product;
        const double zero = present(p->b_zero) ? load(p->b_zero, x, y, first / p->b_group[0], n / p->b_group[1]) : 0;
        for (std::int64_t k = first; k < first + depth; ++k) sum.add_product(load(p->a, x, y, m, k), load(p->b, x, y, k, n) - zero);
        if (scaled) product.add_product(factor(p, x, y, m, n, first), block);
    }
    return product;
}

// Rows of each entry of the inner batch axis: all, or those of a group, which end where the next one's begin. Asked in order of the groups.
class Rows {
  public:
    Rows(const attile_operand *offsets, std::int64_t m) : offsets_(offsets), m_(m) { end_ = offsets != nullptr ? at(0) : m; }
    void next(std::int64_t group, std::int64_t *begin, std::int64_t *end) {
        *begin = offsets_ != nullptr ? end_ : 0;
        if (offsets_ != nullptr) end_ = at(group + 1);
        *end = end_;
    }

  private:
    std::int64_t at(std::int64_t group) const { return std::clamp<std::int64_t>(load_i32(*offsets_, 0, group), end_, m_); }
    const attile_operand *offsets_;
    std::int64_t m_, end_ = 0;
};

void multiply(const attile_gemm_problem *p, const attile_operand *row_offsets) {
    for (std::int64_t x = 0; x < p->batch[0]; ++x) {
        Rows rows(row_offsets, p->m);
        for (std::int64_t y = 0; y < p->batch[1]; ++y) {
            std::int64_t first = 0, end = 0;
            rows.next(y, &first, &end);
            for (std::int64_t m = first; m < end; ++m)
                for (std::int64_t n = 0; n < p->n; ++n) {
                    Sum sum;
                    if (p->k > 0) sum.add_product(p->alpha, product_of(p, x, y, m, n));
                    if (p->beta != 0) sum.add_product(p->beta, load(p->c, x, y, m, n));
                    if (present(p->bias)) sum.add(load(p->bias, x, y, m, n));
                    store_result(p->d, activate(p->activation, sum.value()), p->d_scale, offset_of(p->d_scale, x, y, m, n), x, y, m, n);
                }
        }
    }
}

// Each product takes an fma, which is a call of the C library where the compiler may not take the instruction for granted: the same bits,
// in twice the time.
#if defined(__x86_64__) && !defined(__FMA__)
__attribute__((target("fma"), flatten)) void multiply_by_instruction(const attile_gemm_problem *p, const attile_operand *row_offsets) {
    multiply(p, row_offsets);
}
bool has_instruction() { return __builtin_cpu_supports("fma") != 0; }
#else
void multiply_by_instruction(const attile_gemm_problem *p, const attile_operand *row_offsets) { multiply(p, row_offsets); }
bool has_instruction() { return true; }
#endif

std::int32_t run(void *, const attile_gemm_problem *p) {
    if ((p->launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0) {
        multiply_exactly(p);
        return ATTILE_OK;
    }
    has_instruction() ? multiply_by_instruction(p, nullptr) : multiply(p, nullptr);
    return ATTILE_OK;
}

std::int32_t run_grouped(void *, const attile_gemm_grouped_problem *p) {
    has_instruction() ? multiply_by_instruction(p->product, &p->row_offsets) : multiply(p->product, &p->row_offsets);
    return ATTILE_OK;
}

// Elements of an operand that are distinct: an axis of stride 0 counts once.
double distinct(const attile_operand &x, double e0, double e1, double e2, double e3) {
    const double extent[4] = {e0, e1, e2, e3};
    double count = 1;
    for (int axis = 0; axis < 4; ++axis)
        if (x.stride[axis] != 0) count *= extent[axis];
    return present(x) ? count * bytes_of(x) : 0;
}

std::int32_t query(void *, const attile_gemm_problem *p, attile_support *support) {
    const double x = static_cast<double>(p->batch[0]), y = static_cast<double>(p->batch[1]);
    const double m = static_cast<double>(p->m), n = static_cast<double>(p->n), k = static_cast<double>(p->k);
    double bytes = distinct(p->d, x, y, m, n) + distinct(p->d_scale, x, y, m, n) + distinct(p->bias, x, y, m, n);
    if (p->k > 0) bytes += distinct(p->a, x, y, m, k) + distinct(p->b, x, y, k, n);
    if (p->beta != 0) bytes += distinct(p->c, x, y, m, n);
    const auto blocks = [](double extent, std::int64_t group) { return group > 0 ? extent / static_cast<double>(group) : 0; };
    bytes += distinct(p->a_scale, x, y, blocks(m, p->a_group[0]), blocks(k, p->a_group[1]));
    for (const attile_operand *of_b : {&p->b_scale, &p->b_zero})
        bytes += distinct(*of_b, x, y, blocks(k, p->b_group[0]), blocks(n, p->b_group[1]));
    const bool exact = (p->launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0;
    answer(support, exact ? "reference_gemm_exact" : "reference_gemm", 0, 2 * x * y * m * n * k, bytes);
    return ATTILE_OK;
}

std::int32_t query_grouped(void *state, const attile_gemm_grouped_problem *p, attile_support *support) {
    const double groups = static_cast<double>(p->product->batch[1]);
    query(state, p->product, support);
    support->flops /= groups;  // Each row has one group.
    support->bytes += (groups + 1) * bytes_of(p->row_offsets);
    std::snprintf(support->kernel, sizeof support->kernel, "reference_gemm_grouped");
    return ATTILE_OK;
}

}  // namespace

const attile_gemm_grouped_interface gemm_grouped_interface = {sizeof(attile_gemm_grouped_interface), 1, query_grouped, run_grouped};
const attile_gemm_interface gemm_interface = {sizeof(attile_gemm_interface), 3, query, run};

}  // namespace attile::reference
