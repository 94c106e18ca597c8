// SPDX-License-Identifier: Apache-2.0
// Softmax over the last axis of the problem: y = exp(x - max) / sum exp(x - max).
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_exact.h"

namespace attile::reference {
namespace {

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

void softmax_row(const attile_softmax_problem *p, std::int64_t i, std::int64_t j, std::int64_t l) {
    double max = kMinusInfinity;
    for (std::int64_t r = 0; r < p->shape[3]; ++r) {
        const double x = load(p->x, i, j, l, r);
        if (x > max || std::isnan(x)) max = x;
    }
    const bool empty = max == kMinusInfinity;  // -inf alone: zeros, not the NaN of -inf minus -inf
    double sum = 0;
    for (std::int64_t r = 0; r < p->shape[3] && !empty; ++r) sum += std::exp(load(p->x, i, j, l, r) - max);
    for (std::int64_t r = 0; r < p->shape[3]; ++r)  // element by element, so that y may be x
        store(p->y, empty ? 0 : std::exp(load(p->x, i, j, l, r) - max) / sum, i, j, l, r);
}

std::int32_t run(void *, const attile_softmax_problem *p) {
    if (is_exact(p->launch)) return softmax_exactly(p), ATTILE_OK;
    for (std::int64_t i = 0; i < p->shape[0]; ++i)
        for (std::int64_t j = 0; j < p->shape[1]; ++j)
            for (std::int64_t l = 0; l < p->shape[2]; ++l) softmax_row(p, i, j, l);
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_softmax_problem *p, attile_support *support) {
    double count = 1;
    for (const std::int64_t extent : p->shape) count *= static_cast<double>(extent);
    // A subtraction and an exponential, an addition, a division per element.
    answer(support, is_exact(p->launch) ? "reference_softmax_exact" : "reference_softmax", 0, 4 * count,
           count * (bytes_of(p->x) + bytes_of(p->y)));
    return ATTILE_OK;
}

}  // namespace

const attile_softmax_interface softmax_interface = {sizeof(attile_softmax_interface), 2, query, run};

}  // namespace attile::reference
