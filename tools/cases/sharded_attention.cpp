// SPDX-License-Identifier: Apache-2.0
#include "sharded_attention.h"

#include <algorithm>

#include "checker.h"

namespace attile::test {
namespace {

std::vector<std::vector<std::int64_t>> rows_of(std::int64_t len_q, const ShardedRun &run) {
    if (!run.replicated) return positions_of(run.layout, len_q, run.ranks, run.cuts_q);
    return std::vector<std::vector<std::int64_t>>(static_cast<std::size_t>(run.ranks), positions_of(ATTILE_SHARDS_CONTIGUOUS, len_q, 1)[0]);
}

}  // namespace

ShardedCase::ShardedCase(const AttentionCase &c) : data_(c), expected_(*make_attention_problem(c, Contents::kDrawn)) {}

void ShardedCase::run(const RankOfCase &rank, const ShardedRun &run, ResultsOfRank *results) const {
    const AttentionCase &c = data_.c;
    const std::size_t at = static_cast<std::size_t>(rank.rank);
    const std::vector<std::int64_t> rows = rows_of(data_.total_q, run)[at];
    GuardedTensors tensors(rank);
    attile_attention_args local;
    bind_shard(tensors, data_, rows, positions_of(run.layout, data_.total_k, run.ranks, run.cuts_k)[at], &local);
    const std::int64_t batch = data_.q.shape[0];
    const std::int64_t count = static_cast<std::int64_t>(rows.size());
    local.o = tensors.output(c.out_dtype, {batch, c.heads_q, count, c.head_dim_v}, c.o_layout);
    if (c.lse) local.lse = tensors.output(compute_type(c.dtype), {batch, c.heads_q, count}, c.lse_layout);
    attile_attention_distributed_args args;
    attile_attention_distributed_init(&args, sizeof args);
    args.local = &local;
    args.layout = run.layout;
    args.method = run.method;
    args.len_q = data_.total_q;
    args.len_k = data_.total_k;
    args.rows = run.replicated ? ATTILE_ROWS_REPLICATED : ATTILE_ROWS_SHARDED;
    attile_distributed_support support;
    attile_distributed_support_init(&support, sizeof support);
    if (attile_attention_distributed_query(rank.comm, &args, &support) == ATTILE_OK) results->kernel = support.kernel;
    if (results->take(attile_attention_distributed(rank.comm, &args))) tensors.fetch(results);
}

Verdict ShardedCase::judge(const ShardedRun &run, const std::vector<ResultsOfRank> &results) const {
    Verdict all;
    const std::vector<std::vector<std::int64_t>> rows = rows_of(data_.total_q, run);
    for (std::size_t i = 0; i < expected_.values.size(); ++i) {
        const std::size_t axis = i == 0 ? 2 : 1;
        Values whole(expected_.values[i].shape);
        for (std::size_t rank = 0; rank < results.size(); ++rank) {
            const bool known = !results[rank].outputs.empty();
            if (known || !run.replicated)
                put(whole, known ? results[rank].outputs[i] : take(expected_.values[i], axis, rows[rank]), axis, rows[rank]);
        }
        const std::int32_t stored = i == 0 ? data_.c.out_dtype : expected_.compute_dtype;
        const Verdict verdict = check_values(whole, expected_.values[i], expected_.honest[i], stored, expected_.compute_dtype);
        all.worst = std::max(all.worst, verdict.worst);
        if (!verdict.passed) return {false, all.worst, expected_.names[i] + verdict.message};
    }
    const ResultsOfRank *first = nullptr;
    for (const ResultsOfRank &one : results) {
        if (!run.replicated || one.outputs.empty()) continue;
        if (first == nullptr) first = &one;
        if (one.bytes != first->bytes) return {false, all.worst, "ranks have different bits"};
    }
    return all;
}

}  // namespace attile::test
