// SPDX-License-Identifier: Apache-2.0
// o_i = sum_j exp(s_ij) / Z v_j and lse_i = log Z with Z = sum_j exp(s_ij) + exp(sink), one row after the other.
//
// Keys that a row does not see are skipped, never multiplied by zero, so what their memory holds cannot matter.
#include <cmath>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_exact.h"
#include "reference_quantised.h"
#include "reference_row.h"
#include "reference_score.h"

namespace attile::reference {
namespace {

std::int64_t scratch_bytes(const attile_attention_problem *p) { return bytes_of_doubles(p->len_k, p->head_dim_v); }

void attend_row(const attile_attention_problem *p, const Entry &entry, std::int64_t h, std::int64_t i, double *weight, double *out) {
    const double sink = present(p->sinks) ? load(p->sinks, entry.b, h) : kHidden;
    double max = sink;
    for (std::int64_t j = 0; j < entry.len_k; ++j) {
        weight[j] = score(p, entry, h, i, j).value;
        if (weight[j] > max || std::isnan(weight[j])) max = weight[j];
    }

    // With nothing to see max is -inf, and nothing below subtracts it from itself.
    double sum = max != kHidden && sink != kHidden ? std::exp(sink - max) : 0;
    for (std::int64_t j = 0; j < entry.len_k; ++j) {
        if (weight[j] == kHidden) continue;
        weight[j] = std::exp(weight[j] - max);
        sum += weight[j];
    }

    const std::int64_t row = entry.q_start + i, g = kv_head(p, h);
    for (std::int64_t d = 0; d < p->head_dim_v; ++d) out[d] = 0;
    for (std::int64_t j = 0; j < entry.len_k; ++j) {
        if (weight[j] == kHidden) continue;  // still marked so: exp gives no -inf
        std::int64_t axis0 = 0, axis2 = 0;
        locate_key(p, entry, j, &axis0, &axis2);
        add_multiple(out, weight[j], scaled_row_of(p->v, p->v_scale, p->v_group, axis0, g, axis2), p->head_dim_v);
    }
    for (std::int64_t d = 0; d < p->head_dim_v; ++d) {
        const std::int64_t scale_at = offset_of(p->o_scale, entry.b, h, row, present(p->o_scale) ? d / p->o_group : 0);
        store_result(p->o, max == kHidden ? 0 : out[d] / sum, p->o_scale, scale_at, entry.b, h, row, d);
    }
    if (present(p->lse)) store(p->lse, max == kHidden ? kHidden : max + std::log(sum), entry.b, h, row);
}

std::int32_t run(void *, const attile_attention_problem *p) {
    const Scratch scratch(p->launch, scratch_bytes(p));
    if (scratch.failed()) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for one row of attention scores");
    for (std::int64_t b = 0; b < p->batch; ++b) {
        const Entry entry = entry_of(p, b);
        for (std::int64_t h = 0; h < p->heads_q; ++h)
            for (std::int64_t i = 0; i < entry.len_q; ++i) {
                if (is_exact(p->launch)) {
                    attend_exactly(p, entry, h, i, scratch.data());
                } else {
                    attend_row(p, entry, h, i, scratch.data(), scratch.data() + p->len_k);
                }
            }
    }
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_attention_problem *p, attile_support *support) {
    const double flops = 2 * visible_pairs(p) * (static_cast<double>(p->head_dim) + static_cast<double>(p->head_dim_v));
    answer(support, is_exact(p->launch) ? "reference_attention_exact" : "reference_attention", scratch_bytes(p), flops, attention_bytes(p));
    return ATTILE_OK;
}

}  // namespace

const attile_attention_interface attention_interface = {sizeof(attile_attention_interface), 3, query, run};

}  // namespace attile::reference
