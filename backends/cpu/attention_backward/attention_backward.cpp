// SPDX-License-Identifier: Apache-2.0
// Attention backward: tasks and the interface.
#include "attention_backward/attention_backward.h"

#include <cstdio>

#include "attention/sequences.h"
#include "element.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr double kFlopsForThreads = 4.0e5;
constexpr char kNoPages[] = "cpu: attention_backward: gradients of paged keys and values are not defined";

double backward_flops(const attile_attention_problem &p) {
    // Scores again, dp, dv, dq and dk.
    return 2 * visible_pairs(p) * (3 * static_cast<double>(p.head_dim) + 2 * static_cast<double>(p.head_dim_v));
}

struct BackwardPlan {
    int threads = 1;
    int64_t query_rows = 0, query_blocks = 0;  // of a key head's rows
    int64_t keys = 0, key_blocks = 0;
    int64_t scratch_bytes = 0, workspace_bytes = 0;
};

template <class T>
BackwardPlan plan_for(const State &state, const attile_attention_problem &p) {
    const BackwardKernels<T> &kernels = backward_kernels<T>(state.target);
    BackwardPlan plan;
    plan.threads = backward_flops(p) < kFlopsForThreads ? 1 : state.threads;
    const int64_t heads = (Size(p.batch) * p.heads_kv).value();
    // Panels of a task: as many as there may be, unless threads would go without.
    const auto panels_for = [&](int64_t extent) {
        const int64_t panels = most(1, ceil_div(extent, kernels.panel));
        return most(1, least(kBackwardPanels, (Size(panels) * heads).value() / (plan.threads == 1 ? 1 : 4 * plan.threads)));
    };
    const int64_t rows = (Size(p.len_q) * (p.heads_q / p.heads_kv)).value();
    plan.query_rows = panels_for(rows) * kernels.panel;
    plan.query_blocks = ceil_div(rows, plan.query_rows);
    plan.keys = panels_for(p.len_k) * kernels.panel;
    plan.key_blocks = ceil_div(p.len_k, plan.keys);
    plan.scratch_bytes = kernels.scratch_bytes(p);
    plan.workspace_bytes = (Size(plan.threads) * plan.scratch_bytes).value();
    return plan;
}

BackwardPlan backward_plan(const State &state, const attile_attention_problem &p) {
    return p.compute == ATTILE_F64 ? plan_for<double>(state, p) : plan_for<float>(state, p);
}

// Rows and keys that belong to no sequence, or lie past a length, get 0.
template <class T>
void clear(const attile_operand &x, int64_t i0, int64_t i1, int64_t e2, int64_t e3) {
    for (int64_t i2 = 0; i2 < e2; ++i2) {
        for (int64_t i3 = 0; i3 < e3; ++i3) store_element<T>(x.data, x.dtype, offset_of(x, i0, i1, i2, i3), T{0});
    }
}

// The tiles that the gradient of the bias is computed in. An axis of extent 1 is summed over the scores' extent; where that is 1 too it is
// the same.
struct BiasTiles {
    int64_t rows = 0, keys = 0, count = 0;
};
BiasTiles bias_tiles(const BackwardProblem &problem, int64_t panel) {
    if (problem.dbias.data == nullptr) return {};
    const int64_t *extent = problem.bias_extent;
    const int64_t rows = extent[2] == 1 ? 1 : ceil_div(extent[2], kBlockKeys), keys = extent[3] == 1 ? 1 : ceil_div(extent[3], panel);
    return {rows, keys, extent[0] * extent[1] * rows * keys};
}

template <class T>
void run_bias(const BackwardKernels<T> &kernels, const BackwardProblem &problem, const BiasTiles &tiles, int64_t task, char *scratch) {
    const attile_attention_problem &p = *problem.forward;
    const int64_t *extent = problem.bias_extent;
    BiasPiece piece{};
    const int64_t key_tile = task % tiles.keys, row_tile = task / tiles.keys % tiles.rows;
    const int64_t h = task / tiles.keys / tiles.rows % extent[1], b = task / tiles.keys / tiles.rows / extent[1];
    piece.b_begin = b;
    piece.b_end = extent[0] == 1 ? p.batch : b + 1;
    piece.h_begin = h;
    piece.h_end = extent[1] == 1 ? p.heads_q : h + 1;
    piece.sum_rows = extent[2] == 1;
    piece.sum_keys = extent[3] == 1;
    piece.row_begin = piece.sum_rows ? 0 : row_tile * kBlockKeys;
    piece.row_end = piece.sum_rows ? p.len_q : least(extent[2], piece.row_begin + kBlockKeys);
    piece.key_begin = piece.sum_keys ? 0 : key_tile * kernels.panel;
    piece.key_end = piece.sum_keys ? p.len_k : least(extent[3], piece.key_begin + kernels.panel);
    piece.at[0] = b;
    piece.at[1] = h;
    piece.at[2] = piece.sum_rows ? 0 : piece.row_begin;
    piece.at[3] = piece.sum_keys ? 0 : piece.key_begin;
    kernels.bias(problem, piece, scratch);
}

template <class T>
void run_plan(const State &state, const BackwardPlan &plan, const BackwardProblem &problem, char *workspace) {
    const BackwardKernels<T> &kernels = backward_kernels<T>(state.target);
    const attile_attention_problem &p = *problem.forward;
    const bool packed_q = p.cu_len_q.data != nullptr, packed_k = p.cu_len_k.data != nullptr;
    const int64_t cleared_q = packed_q ? p.heads_q : 0;
    const int64_t cleared_k = packed_k ? p.heads_kv : p.key_lengths.data != nullptr ? p.batch * p.heads_kv : 0;
    const auto clear_head = [&](int64_t index, int) {
        if (index < cleared_q) return clear<T>(problem.dq, 0, index, p.total_q, p.head_dim);
        index -= cleared_q;
        clear<T>(problem.dk, index / p.heads_kv, index % p.heads_kv, p.total_k, p.head_dim);
        clear<T>(problem.dv, index / p.heads_kv, index % p.heads_kv, p.total_k, p.head_dim_v);
    };
    const int64_t heads = p.batch * p.heads_kv, group = p.heads_q / p.heads_kv;
    const int64_t query_tasks = heads * plan.query_blocks, key_tasks = heads * plan.key_blocks;
    const auto do_task = [&](int64_t task, int rank) {
        char *scratch = workspace + rank * plan.scratch_bytes;
        const bool over_keys = task < key_tasks;
        if (!over_keys) task -= key_tasks;
        const int64_t head = task % heads, b = head / p.heads_kv, kv_head = head % p.heads_kv;
        const AttentionEntry entry = attention_entry(p, b);
        if (over_keys) {
            const int64_t begin = task / heads * plan.keys, end = least(entry.len_k, begin + plan.keys);
            if (begin < end) kernels.keys(problem, entry, kv_head, begin, end, scratch);
            return;
        }
        AttentionRows rows{entry, kv_head, kv_head * group, group, 0, 0};
        rows.begin = (plan.query_blocks - 1 - task / heads) * plan.query_rows;
        rows.end = least(entry.len_q * group, rows.begin + plan.query_rows);
        if (rows.begin < rows.end) kernels.queries(problem, rows, scratch);
    };
    int64_t clears = cleared_q + cleared_k, tasks = query_tasks + key_tasks;
    if (sequences_meet(p)) {
        for (int64_t index = 0; index < clears; ++index) clear_head(index, 0);
        for (int64_t b = 0; b < p.batch; ++b) {
            for (int64_t first = 0; first < tasks; first += heads) {
                for (int64_t head = 0; head < p.heads_kv; ++head) do_task(first + b * p.heads_kv + head, 0);
            }
        }
        clears = tasks = 0;
    }
    const BiasTiles tiles = bias_tiles(problem, kernels.panel);
    parallel_in_turn(
        plan.threads, Loop{clears, clear_head}, Loop{tasks, do_task},
        Loop{tiles.count, [&](int64_t task, int rank) { run_bias(kernels, problem, tiles, task, workspace + rank * plan.scratch_bytes); }},
        Loop{problem.dsinks.data == nullptr ? 0 : p.heads_q,
             [&](int64_t head, int rank) { kernels.sink(problem, head, workspace + rank * plan.scratch_bytes); }});
}

int32_t query(void *opaque, const BackwardProblem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_attention_problem &p = *problem->forward;
    if (p.block_table.dtype != 0) {
        support->level = ATTILE_SUPPORT_NONE;
        support->status = ATTILE_ERROR_UNSUPPORTED_FEATURE;
        std::snprintf(support->text, sizeof support->text, "%s", kNoPages);
        return ATTILE_OK;
    }
    const BackwardPlan plan = backward_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_backward_%s_%s", p.compute == ATTILE_F64 ? "f64" : "f32",
                  kernel_target_name(state.target));
    support->flops = backward_flops(p);
    support->bytes = 2 * attention_bytes(p);
    support->tile_m = reported(plan.query_rows);
    support->tile_n = reported(plan.keys);
    support->tile_k = reported(p.head_dim);
    support->threads = 1;
    support->splits = 1;
    support->blocks = (Size(p.batch) * p.heads_kv * (Size(plan.query_blocks) + plan.key_blocks)).value();
    return ATTILE_OK;
}

int32_t run(void *opaque, const BackwardProblem *problem) {
    State &state = *static_cast<State *>(opaque);
    const attile_attention_problem &p = *problem->forward;
    if (p.block_table.dtype != 0) return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, kNoPages);
    const BackwardPlan plan = backward_plan(state, p);
    const Workspace workspace(state, p.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (p.compute == ATTILE_F64) {
        run_plan<double>(state, plan, *problem, workspace.data());
    } else {
        run_plan<float>(state, plan, *problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace

const attile_attention_backward_interface g_attention_backward_interface = {sizeof(attile_attention_backward_interface), 1, query, run};

}  // namespace attile::cpu
