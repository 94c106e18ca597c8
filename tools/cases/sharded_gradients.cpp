// SPDX-License-Identifier: Apache-2.0
#include "sharded_gradients.h"

#include <algorithm>
#include <cmath>

#include "checker.h"

namespace attile::test {
namespace {

// An extent of 1 that stands for more, or for none, becomes that extent with a stride of 0. Without elements the strides are those of a
// dense tensor.
void widen(attile_tensor *tensor, const std::int64_t (&extents)[4]) {
    bool empty = false;
    for (std::int32_t axis = 0; axis < tensor->rank; ++axis) {
        const std::int64_t extent = extents[4 - tensor->rank + axis];
        if (tensor->shape[axis] == 1 && extent != 1) {
            tensor->shape[axis] = extent;
            tensor->stride[axis] = 0;
        }
        empty = empty || tensor->shape[axis] == 0;
    }
    if (empty) attile_tensor_init(tensor, tensor->data, tensor->dtype, tensor->rank, attile_tensor(*tensor).shape);
}

// A rank without rows that asks by strides for the sum over rows has no place for it.
bool is_untouched(const Values &values) {
    return std::all_of(values.at.begin(), values.at.end(), [](double value) { return std::isnan(value); });
}

}  // namespace

ShardedGradients::ShardedGradients(const BackwardCase &c) : data_(c), expected_(*make_backward_problem(c, Contents::kDrawn)) {}

void ShardedGradients::run(const RankOfCase &rank, const ShardedRun &run, ResultsOfRank *results) const {
    const AttentionCase &c = data_.forward.c;
    const std::size_t at = static_cast<std::size_t>(rank.rank);
    const std::vector<std::int64_t> rows = positions_of(run.layout, data_.forward.total_q, run.ranks, run.cuts_q)[at];
    const std::vector<std::int64_t> keys = positions_of(run.layout, data_.forward.total_k, run.ranks, run.cuts_k)[at];
    GuardedTensors tensors(rank);
    attile_attention_args forward;
    bind_shard(tensors, data_.forward, rows, keys, &forward);
    forward.o = tensors.input(c.out_dtype, take_rows(data_.o, rows), c.o_layout);
    Values lse = data_.lse;
    lse.shape.push_back(1);
    lse = take_rows(lse, rows);
    lse.shape.pop_back();
    forward.lse = tensors.input(compute_type(c.dtype), lse, c.lse_layout);
    attile_attention_backward_args local;
    attile_attention_backward_init(&local, sizeof local);
    local.flags = c.flags;
    local.forward = &forward;
    local.dout = tensors.input(data_.c.dout_dtype, take_rows(data_.dout, rows), c.o_layout);
    const std::int64_t batch = data_.forward.q.shape[0];
    const std::int64_t len_q = static_cast<std::int64_t>(rows.size()), len_k = static_cast<std::int64_t>(keys.size());
    local.dq = tensors.output(data_.c.grad_dtype, {batch, c.heads_q, len_q, c.head_dim}, c.o_layout);
    local.dk = tensors.output(data_.c.grad_dtype, {batch, c.heads_kv, len_k, c.head_dim}, c.o_layout);
    local.dv = tensors.output(data_.c.grad_dtype, {batch, c.heads_kv, len_k, c.head_dim_v}, c.o_layout);
    if (!data_.forward.bias.shape.empty() && data_.c.dbias) {
        const Values own = c.packed_q ? data_.forward.bias : take(data_.forward.bias, 2, rows);
        local.dbias = tensors.output(data_.c.dbias_dtype, own.shape, c.numbers_layout);
        if (run.strides) {
            const std::int64_t extents[4] = {c.batch, c.heads_q, c.packed_q ? 1 : len_q, c.packed_q ? 1 : c.len_k};
            widen(&forward.bias, extents);
            widen(&local.dbias, extents);
        }
    }
    if (!data_.forward.sinks.shape.empty() && data_.c.dsinks) {
        local.dsinks = tensors.output(compute_type(c.dtype), data_.forward.sinks.shape, c.numbers_layout);
    }
    attile_attention_backward_distributed_args args;
    attile_attention_backward_distributed_init(&args, sizeof args);
    args.local = &local;
    args.layout = run.layout;
    args.method = run.method;
    args.len_q = data_.forward.total_q;
    args.len_k = data_.forward.total_k;
    attile_distributed_support support;
    attile_distributed_support_init(&support, sizeof support);
    if (attile_attention_backward_distributed_query(rank.comm, &args, &support) == ATTILE_OK) results->kernel = support.kernel;
    if (results->take(attile_attention_backward_distributed(rank.comm, &args))) tensors.fetch(results);
}

std::int32_t ShardedGradients::stored(const std::string &name) const {
    if (name == "dbias") return data_.c.dbias_dtype;
    return name == "dsinks" ? expected_.compute_dtype : data_.c.grad_dtype;
}

Verdict ShardedGradients::judge(const ShardedRun &run, const std::vector<ResultsOfRank> &results) const {
    Verdict all;
    const AttentionCase &c = data_.forward.c;
    const std::vector<std::vector<std::int64_t>> rows = positions_of(run.layout, data_.forward.total_q, run.ranks, run.cuts_q);
    const std::vector<std::vector<std::int64_t>> keys = positions_of(run.layout, data_.forward.total_k, run.ranks, run.cuts_k);
    for (std::size_t i = 0; i < expected_.values.size(); ++i) {
        const std::string &name = expected_.names[i];
        const Values &expected = expected_.values[i];
        Values whole(expected.shape);
        const bool by_key = name == "dk" || name == "dv";
        const bool bias_rows = !c.packed_q && expected.shape.size() > 1 && expected.shape[expected.shape.size() - 2] > 1;
        const bool own_rows = name == "dq" || (name == "dbias" && bias_rows);
        // Where every rank has one row, a bias of one row is taken for that row's, and its gradient is not the sum over ranks.
        const bool is_own = name == "dbias" && !c.packed_q && expected.shape.size() > 1 && !bias_rows &&
                            std::all_of(rows.begin(), rows.end(), [](const auto &own) { return own.size() == 1; });
        const bool has_no_place = run.strides && !c.packed_q && expected.shape.size() > 1;
        bool first = true;
        for (std::size_t rank = 0; rank < results.size(); ++rank) {
            const bool known = !results[rank].outputs.empty();
            const std::vector<std::int64_t> &own = by_key ? keys[rank] : rows[rank];
            if (by_key || own_rows) {
                put(whole, known ? results[rank].outputs[i] : take(expected, 2, own), 2, own);
                continue;
            }
            if (!known) continue;
            const Values &part = results[rank].outputs[i];
            if (name == "dbias" && has_no_place && rows[rank].empty()) {
                if (!is_untouched(part)) return {false, all.worst, "dbias: written on a rank that has none"};
                continue;
            }
            if (first) {
                whole = part;
                first = false;
            } else if (is_own) {
                for (std::size_t at = 0; at < whole.at.size(); ++at) whole.at[at] += part.at.at(at);
            } else {
                for (std::size_t at = 0; at < whole.at.size(); ++at) {
                    const bool same = part.at.at(at) == whole.at[at] || (part.at[at] != part.at[at] && whole.at[at] != whole.at[at]);
                    if (!same) return {false, all.worst, name + ": ranks have different sums"};
                }
            }
        }
        const Verdict verdict = check_values(whole, expected, expected_.honest[i], stored(name), expected_.compute_dtype);
        all.worst = std::max(all.worst, verdict.worst);
        if (!verdict.passed) return {false, all.worst, name + verdict.message};
    }
    return all;
}

}  // namespace attile::test
