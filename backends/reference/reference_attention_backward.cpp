// SPDX-License-Identifier: Apache-2.0
// Gradients of attention. Every gradient is its own loop over the pairs it sums, and computes each pair anew from q, k, v, lse, dout and
// the row's delta: slow, and each loop is one line of the formula in attile.h.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "reference_backend.h"
#include "reference_element.h"
#include "reference_row.h"
#include "reference_score.h"

namespace attile::reference {
namespace {

using Problem = attile_attention_backward_problem;

// dout_i . o_i - dlse_i
double delta_of(const Problem *p, const Entry &entry, std::int64_t h, std::int64_t i) {
    const std::int64_t row = entry.q_start + i;
    const double product = dot(row_of(p->dout, entry.b, h, row), row_of(p->forward->o, entry.b, h, row), p->forward->head_dim_v);
    return present(p->dlse) ? product - load(p->dlse, entry.b, h, row) : product;
}

struct Pair {
    bool hidden;
    double p;       // exp(s - lse)
    double ds;      // gradient of the score after softcap: p (dp - delta)
    double dscore;  // gradient of scale q.k
};

Pair pair_of(const Problem *p, const Entry &entry, std::int64_t h, std::int64_t i, std::int64_t j, double delta) {
    const attile_attention_problem *forward = p->forward;
    const Score s = score(forward, entry, h, i, j);
    if (s.value == kHidden) return {true, 0, 0, 0};
    const std::int64_t row = entry.q_start + i, key = entry.k_start + j, g = kv_head(forward, h);
    const double probability = std::exp(s.value - load(forward->lse, entry.b, h, row));
    const double dp = dot(row_of(p->dout, entry.b, h, row), row_of(forward->v, entry.b, g, key), forward->head_dim_v);
    const double ds = probability * (dp - delta);
    return {false, probability, ds, ds * s.slope};
}

void zero(const attile_operand &x, std::int64_t e0, std::int64_t e1, std::int64_t e2, std::int64_t e3) {
    for (std::int64_t i0 = 0; i0 < e0; ++i0)
        for (std::int64_t i1 = 0; i1 < e1; ++i1)
            for (std::int64_t i2 = 0; i2 < e2; ++i2)
                for (std::int64_t i3 = 0; i3 < e3; ++i3) store(x, 0, i0, i1, i2, i3);
}

// dq_i = scale sum_j dscore_ij k_j
void gradient_q(const Problem *p, const Entry &entry, const double *deltas, double *sum) {
    const attile_attention_problem *forward = p->forward;
    for (std::int64_t h = 0; h < forward->heads_q; ++h)
        for (std::int64_t i = 0; i < entry.len_q; ++i) {
            for (std::int64_t d = 0; d < forward->head_dim; ++d) sum[d] = 0;
            for (std::int64_t j = 0; j < entry.len_k; ++j) {
                const Pair pair = pair_of(p, entry, h, i, j, deltas[h * entry.len_q + i]);
                if (pair.hidden) continue;
                add_multiple(sum, pair.dscore, row_of(forward->k, entry.b, kv_head(forward, h), entry.k_start + j), forward->head_dim);
            }
            for (std::int64_t d = 0; d < forward->head_dim; ++d) store(p->dq, forward->scale * sum[d], entry.b, h, entry.q_start + i, d);
        }
}

// dk_j = scale sum_i dscore_ij q_i and dv_j = sum_i p_ij dout_i, over the rows of every query head that uses the key head
void gradients_kv(const Problem *p, const Entry &entry, const double *deltas, double *dk_sum, double *dv_sum) {
    const attile_attention_problem *forward = p->forward;
    const std::int64_t group = forward->heads_q / forward->heads_kv;
    for (std::int64_t g = 0; g < forward->heads_kv; ++g)
        for (std::int64_t j = 0; j < entry.len_k; ++j) {
            for (std::int64_t d = 0; d < forward->head_dim; ++d) dk_sum[d] = 0;
            for (std::int64_t d = 0; d < forward->head_dim_v; ++d) dv_sum[d] = 0;
            for (std::int64_t h = g * group; h < (g + 1) * group; ++h)
                for (std::int64_t i = 0; i < entry.len_q; ++i) {
                    const Pair pair = pair_of(p, entry, h, i, j, deltas[h * entry.len_q + i]);
                    if (pair.hidden) continue;
                    const std::int64_t row = entry.q_start + i;
                    add_multiple(dk_sum, pair.dscore, row_of(forward->q, entry.b, h, row), forward->head_dim);
                    add_multiple(dv_sum, pair.p, row_of(p->dout, entry.b, h, row), forward->head_dim_v);
                }
            const std::int64_t key = entry.k_start + j;
            for (std::int64_t d = 0; d < forward->head_dim; ++d) store(p->dk, forward->scale * dk_sum[d], entry.b, g, key, d);
            for (std::int64_t d = 0; d < forward->head_dim_v; ++d) store(p->dv, dv_sum[d], entry.b, g, key, d);
        }
}

// One element of dbias: ds summed over the axes that bias broadcasts, which are those of extent 1 here.
double gradient_bias_element(const Problem *p, const std::int64_t at[4]) {
    const attile_attention_problem *forward = p->forward;
    const std::int64_t full[2] = {forward->batch, forward->heads_q};
    const auto first = [&](int axis) { return p->bias_extent[axis] == 1 ? 0 : at[axis]; };
    const auto last = [&](int axis, std::int64_t extent) { return p->bias_extent[axis] == 1 ? extent : std::min(at[axis] + 1, extent); };
    double sum = 0;
    for (std::int64_t b = first(0); b < last(0, full[0]); ++b) {
        const Entry entry = entry_of(forward, b);
        for (std::int64_t h = first(1); h < last(1, full[1]); ++h)
            for (std::int64_t i = first(2); i < last(2, entry.len_q); ++i) {
                const double delta = delta_of(p, entry, h, i);
                for (std::int64_t j = first(3); j < last(3, entry.len_k); ++j) sum += pair_of(p, entry, h, i, j, delta).ds;
            }
    }
    return sum;
}

void gradient_bias(const Problem *p) {
    std::int64_t at[4];
    for (at[0] = 0; at[0] < p->bias_extent[0]; ++at[0])
        for (at[1] = 0; at[1] < p->bias_extent[1]; ++at[1])
            for (at[2] = 0; at[2] < p->bias_extent[2]; ++at[2])
                for (at[3] = 0; at[3] < p->bias_extent[3]; ++at[3])
                    store(p->dbias, gradient_bias_element(p, at), at[0], at[1], at[2], at[3]);
}

// dsink = - sum over entries and rows of exp(sink - lse_i) delta_i
void gradient_sinks(const Problem *p) {
    const attile_attention_problem *forward = p->forward;
    for (std::int64_t h = 0; h < forward->heads_q; ++h) {
        const double sink = load(forward->sinks, 0, h);
        double sum = 0;
        for (std::int64_t b = 0; b < forward->batch && sink != kHidden; ++b) {
            const Entry entry = entry_of(forward, b);
            for (std::int64_t i = 0; i < entry.len_q; ++i)
                sum -= std::exp(sink - load(forward->lse, b, h, entry.q_start + i)) * delta_of(p, entry, h, i);
        }
        store(p->dsinks, sum, 0, h);
    }
}

// A row of dk, one of dv, and the deltas of an entry, if there is one.
std::int64_t scratch_bytes(const attile_attention_problem *forward) {
    std::int64_t deltas = 0;
    if (forward->batch > 0 && __builtin_mul_overflow(forward->heads_q, forward->len_q, &deltas)) return INT64_MAX;
    return bytes_of_doubles(forward->head_dim, forward->head_dim_v, deltas);
}

constexpr char kNoPages[] = "attention_backward: gradients of paged keys and values are not defined";

std::int32_t run(void *, const Problem *p) {
    const attile_attention_problem *forward = p->forward;
    if (present(forward->block_table)) return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, kNoPages);
    const Scratch scratch(forward->launch, scratch_bytes(forward));
    if (scratch.failed()) return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "no memory for one row of gradients and for each row's delta");

    // Rows and keys of no sequence, and keys past a length, get 0.
    const std::int64_t entries_q = present(forward->cu_len_q) ? 1 : forward->batch;
    const std::int64_t entries_k = present(forward->cu_len_k) ? 1 : forward->batch;
    zero(p->dq, entries_q, forward->heads_q, forward->total_q, forward->head_dim);
    zero(p->dk, entries_k, forward->heads_kv, forward->total_k, forward->head_dim);
    zero(p->dv, entries_k, forward->heads_kv, forward->total_k, forward->head_dim_v);
    for (std::int64_t b = 0; b < forward->batch; ++b) {
        const Entry entry = entry_of(forward, b);
        double *const dk_sum = scratch.data(), *const dv_sum = dk_sum + forward->head_dim, *const deltas = dv_sum + forward->head_dim_v;
        for (std::int64_t h = 0; h < forward->heads_q; ++h)
            for (std::int64_t i = 0; i < entry.len_q; ++i) deltas[h * entry.len_q + i] = delta_of(p, entry, h, i);
        gradient_q(p, entry, deltas, dk_sum);
        gradients_kv(p, entry, deltas, dk_sum, dv_sum);
    }
    if (present(p->dbias)) gradient_bias(p);
    if (present(p->dsinks)) gradient_sinks(p);
    return ATTILE_OK;
}

std::int32_t query(void *, const Problem *p, attile_support *support) {
    const attile_attention_problem *forward = p->forward;
    if (present(forward->block_table)) {
        support->level = ATTILE_SUPPORT_NONE;
        support->status = ATTILE_ERROR_UNSUPPORTED_FEATURE;
        std::snprintf(support->text, sizeof support->text, "%s", kNoPages);
        return ATTILE_OK;
    }
    // Scores again, dp, dv, dq and dk.
    const double d = static_cast<double>(forward->head_dim), dv = static_cast<double>(forward->head_dim_v);
    answer(support, "reference_attention_backward", scratch_bytes(forward), 2 * visible_pairs(forward) * (3 * d + 2 * dv),
           2 * attention_bytes(forward));
    return ATTILE_OK;
}

}  // namespace

const attile_attention_backward_interface attention_backward_interface = {sizeof(attile_attention_backward_interface), 2, query, run};

}  // namespace attile::reference
