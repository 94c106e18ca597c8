// SPDX-License-Identifier: Apache-2.0
// Sum, max, min and mean over the last axis of the problem.
#include <cmath>
#include <limits>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_exact.h"
#include "reference_sum.h"

namespace attile::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double reduce_row(const attile_reduce_problem *p, std::int64_t i, std::int64_t j, std::int64_t l) {
    Sum sum;
    double result = p->op == ATTILE_REDUCE_MAX ? -kInfinity : p->op == ATTILE_REDUCE_MIN ? kInfinity : 0;
    for (std::int64_t r = 0; r < p->shape[3]; ++r) {
        const double x = load(p->x, i, j, l, r);
        switch (p->op) {
            case ATTILE_REDUCE_MAX:
                result = x > result || std::isnan(x) ? x : result;
                break;  // a NaN stays: nothing compares above it
            case ATTILE_REDUCE_MIN:
                result = x < result || std::isnan(x) ? x : result;
                break;
            default:
                sum.add(x);
                break;
        }
    }
    if (p->op == ATTILE_REDUCE_SUM) result = sum.value();
    if (p->op == ATTILE_REDUCE_MEAN) result = sum.value() / static_cast<double>(p->shape[3]);
    return result;
}

std::int32_t run(void *, const attile_reduce_problem *p) {
    if (is_exact(p->launch)) return reduce_exactly(p), ATTILE_OK;
    for (std::int64_t i = 0; i < p->shape[0]; ++i)
        for (std::int64_t j = 0; j < p->shape[1]; ++j)
            for (std::int64_t l = 0; l < p->shape[2]; ++l) store(p->y, reduce_row(p, i, j, l), i, j, l);
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_reduce_problem *p, attile_support *support) {
    const double rows = static_cast<double>(p->shape[0]) * static_cast<double>(p->shape[1]) * static_cast<double>(p->shape[2]);
    const double count = static_cast<double>(p->shape[3]);
    answer(support, is_exact(p->launch) ? "reference_reduce_exact" : "reference_reduce", 0, rows * count,
           rows * (count * bytes_of(p->x) + bytes_of(p->y)));
    return ATTILE_OK;
}

}  // namespace

const attile_reduce_interface reduce_interface = {sizeof(attile_reduce_interface), 2, query, run};

}  // namespace attile::reference
