// SPDX-License-Identifier: Apache-2.0
// Exact products: the sum of an element as it is, rounded once; what follows is rounded step by step.
#include <cmath>
#include <limits>

#include "reference_element.h"
#include "reference_exact.h"

namespace attile::reference {
namespace {

double element(const attile_gemm_problem *p, std::int64_t x, std::int64_t y, std::int64_t row, std::int64_t column) {
    double value = 0;
    if (p->k > 0) {
        ExactSum sum;
        for (std::int64_t depth = 0; depth < p->k; ++depth) {
            sum.add_product(load(p->a, x, y, row, depth), load(p->b, x, y, depth, column));
        }
        value = p->alpha * sum.value();
    }
    if (p->beta != 0) {
        const double product = p->beta * load(p->c, x, y, row, column);
        value = value + product;
    }
    if (present(p->bias)) value = value + load(p->bias, x, y, row, column);
    if (std::isnan(value)) return std::numeric_limits<double>::quiet_NaN();
    return p->activation == ATTILE_ACTIVATION_RELU && !(value > 0) ? 0 : value;
}

}  // namespace

void multiply_exactly(const attile_gemm_problem *p) {
    for (std::int64_t x = 0; x < p->batch[0]; ++x)
        for (std::int64_t y = 0; y < p->batch[1]; ++y)
            for (std::int64_t row = 0; row < p->m; ++row)
                for (std::int64_t column = 0; column < p->n; ++column) store(p->d, element(p, x, y, row, column), x, y, row, column);
}

}  // namespace attile::reference
