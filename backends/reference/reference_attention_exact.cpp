// SPDX-License-Identifier: Apache-2.0
// A row of attention with EXACT_PRODUCTS: sums as they are, rounded once; exp and log by steps that are the same everywhere.
#include <cmath>

#include "reference_element.h"
#include "reference_exact.h"
#include "reference_score.h"
#include "reference_steps.h"

namespace attile::reference {

void attend_exactly(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, double *weight) {
    const double sink = present(p->sinks) ? load(p->sinks, entry.b, h) : kHidden;
    double top = sink;
    for (std::int64_t j = 0; j < entry.len_k; ++j) {
        weight[j] = score(p, entry, h, i, j).value;
        top = larger(top, weight[j]);
    }
    const bool has_weights = std::isfinite(top);
    ExactSum sum;
    if (has_weights) sum.add(exp_by_steps(sink - top));
    for (std::int64_t j = 0; j < entry.len_k && has_weights; ++j) {
        if (weight[j] == kHidden) continue;
        weight[j] = exp_by_steps(weight[j] - top);
        sum.add(weight[j]);
    }
    const double z = sum.value();
    const std::int64_t row = entry.q_start + i, g = kv_head(p, h);
    for (std::int64_t d = 0; d < p->head_dim_v; ++d) {
        ExactSum product;
        for (std::int64_t j = 0; j < entry.len_k && has_weights; ++j) {
            if (weight[j] == kHidden) continue;  // still marked so
            std::int64_t axis0 = 0, axis2 = 0;
            locate_key(p, entry, j, &axis0, &axis2);
            product.add_product(weight[j], load(p->v, axis0, g, axis2, d));
        }
        store(p->o, has_weights ? one_nan(product.value() / z) : without_weights(top), entry.b, h, row, d);
    }
    if (present(p->lse)) store(p->lse, has_weights ? top + log_by_steps(z) : one_nan(without_weights(top) + top), entry.b, h, row);
}

}  // namespace attile::reference
