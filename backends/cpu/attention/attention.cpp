// SPDX-License-Identifier: Apache-2.0
// Attention forward: tasks, their order, and the interface.
#include "attention/attention.h"

#include <bit>
#include <cstdio>

#include "amx/amx.h"
#include "attention/exact.h"
#include "attention/sequences.h"
#include "rows/exact.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr double kFlopsForThreads = 4.0e5;

double forward_flops(const attile_attention_problem &p) {
    return 2 * visible_pairs(p) * (static_cast<double>(p.head_dim) + static_cast<double>(p.head_dim_v));
}

// A row without keys has one part, too, which is empty.
int64_t parts_of(int64_t len_k) { return most(1, ceil_div(len_k, kDecodeKeys)); }
// The most results of parts that wait at a time to be folded.
int parts_waiting(int64_t parts) { return std::bit_width(static_cast<uint64_t>(parts)) + 1; }

// Folds parts pairwise, so that the error grows with the logarithm of their number. bring(part, n) gives the result of a part while n
// others wait.
template <class T, class Bring>
T *fold_parts(const AttentionKernels<T> &kernels, int64_t rows, int64_t head_dim_v, int64_t parts, Bring &&bring) {
    T *waiting[64 + 1];
    int count = 0;
    const auto fold_last = [&] {
        --count;
        kernels.decode_fold(rows, head_dim_v, waiting[count - 1], waiting[count]);
    };
    for (int64_t part = 0; part < parts; ++part) {
        waiting[count] = bring(part, count);
        ++count;
        for (int64_t n = part + 1; n % 2 == 0; n /= 2) fold_last();
    }
    while (count > 1) fold_last();
    return waiting[0];
}

template <class T>
AttentionPlan plan_for(const State &state, const attile_attention_problem &p) {
    const AttentionKernels<T> &kernels = attention_kernels<T>(state.target);
    AttentionPlan plan;
    // Rows of all heads of a group share panels: keys are read once for them, and fewer keys straddle a panel's diagonal.
    plan.heads_packed = p.heads_q / p.heads_kv;
    plan.groups = p.heads_kv;
    plan.panel_rows = kernels.panel_rows;
    const int64_t rows = (Size(p.len_q) * plan.heads_packed).value();
    // Which kernel a row takes must not depend on how many rows there are, if its bits must not.
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) plan.decode_rows = 0;
    plan.decode = rows <= plan.decode_rows;
    // Flushed products of a weight and a value could make a row's last bits depend on the rows beside it.
    plan.pairs = has_pairs(state.target) && kernels.forward_of_pairs != nullptr && p.q.dtype == ATTILE_BF16 && p.k.dtype == ATTILE_BF16 &&
                 p.v.dtype == ATTILE_BF16 && (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) == 0;
    plan.tiles =
        plan.pairs && !plan.decode && state.target == Target::kAmxBf16 && kernels.forward_of_tiles != nullptr && amx_refusal() == nullptr;
    plan.threads = forward_flops(p) < kFlopsForThreads ? 1 : state.threads;

    // As many panels as keep queries and sums in half the L2 cache, but enough tasks for all threads.
    const int64_t panel_bytes = bytes_for<T>(plan.panel_rows, Size(p.head_dim) + p.head_dim_v + 8).value();
    int64_t fit = most(1, least(16, state.caches.l2 / 2 / panel_bytes));
    // Rows of a bias that heads share are to be in the L2 cache when the next head's task comes. Making tiles of keys and values more often
    // would cost more.
    if (!plan.tiles && p.bias.data != nullptr && p.bias.stride[1] == 0) fit = least(fit, kPanelsOfBias);
    const int64_t panels = ceil_div(rows, plan.panel_rows);
    const int64_t wanted_tasks = plan.threads == 1 ? 1 : 4 * plan.threads;
    const int64_t heads = (Size(p.batch) * plan.groups).value();
    const int64_t share = most(1, (Size(panels) * heads).value() / wanted_tasks);
    plan.panels = least(least(fit, share), panels);
    if (plan.panels < 1) plan.panels = 1;
    plan.row_blocks = plan.decode ? 0 : ceil_div(panels, plan.panels);

    plan.parts = parts_of(p.len_k);
    plan.split_keys = plan.decode_rows > 0 && plan.threads > 1 && plan.parts > 1 && heads < 4 * plan.threads;
    const Size result_size = Size(kDecodeRows) * (Size(p.head_dim_v) + kDecodeNumbers);
    plan.parts_bytes = plan.split_keys ? bytes_for<T>(heads, plan.parts, result_size).value() : 0;
    plan.result_bytes = bytes_for<T>(result_size).value();
    const int64_t decode_bytes = (Size(parts_waiting(plan.parts)) * plan.result_bytes + kernels.decode_scratch_bytes(p)).value();
    plan.scratch_bytes = plan.decode ? decode_bytes : most(decode_bytes, kernels.scratch_bytes(p, plan.panels, plan.tiles));
    plan.workspace_bytes = (Size(plan.threads) * plan.scratch_bytes + plan.parts_bytes).value();
    return plan;
}

AttentionRows rows_of(const attile_attention_problem &p, const AttentionPlan &plan, int64_t b, int64_t group) {
    AttentionRows rows{attention_entry(p, b), group, group * plan.heads_packed, plan.heads_packed, 0, 0};
    rows.end = rows.entry.len_q * rows.heads;
    return rows;
}

template <class T>
void run_tasks(const State &state, const AttentionPlan &plan, const attile_attention_problem &p, char *workspace) {
    const AttentionKernels<T> &kernels = attention_kernels<T>(state.target);
    const int64_t heads = p.batch * plan.groups;
    // Later rows see more keys under a causal mask: longest tasks first.
    const int64_t panel_tasks = heads * plan.row_blocks;
    const int64_t decode_tasks = heads * (plan.split_keys ? plan.parts : 1);
    const int64_t result_size = kDecodeRows * (p.head_dim_v + kDecodeNumbers);
    T *const parts = reinterpret_cast<T *>(workspace);
    char *const scratch0 = workspace + plan.parts_bytes;
    const auto do_task = [&](int64_t task, int rank) {
        char *scratch = scratch0 + rank * plan.scratch_bytes;
        if (task < panel_tasks) {
            const int64_t head = task % heads;
            AttentionRows rows = rows_of(p, plan, head / plan.groups, head % plan.groups);
            if (rows.end <= plan.decode_rows) return;
            const int64_t block = plan.panels * plan.panel_rows;
            rows.begin = (plan.row_blocks - 1 - task / heads) * block;
            rows.end = least(rows.end, rows.begin + block);
            const auto forward = plan.tiles ? kernels.forward_of_tiles : plan.pairs ? kernels.forward_of_pairs : kernels.forward;
            if (rows.begin < rows.end) forward(p, rows, scratch);
            return;
        }
        task -= panel_tasks;
        const int64_t head = task % heads;
        const AttentionRows rows = rows_of(p, plan, head / plan.groups, head % plan.groups);
        if (rows.end > plan.decode_rows || rows.end == 0) return;
        if (plan.split_keys) {
            const int64_t part = task / heads;
            kernels.decode_part(p, rows, part, parts + (head * plan.parts + part) * result_size, scratch);
            return;
        }
        char *const rest = scratch + parts_waiting(plan.parts) * plan.result_bytes;
        T *const sums = fold_parts(kernels, rows.end, p.head_dim_v, parts_of(rows.entry.len_k), [&](int64_t part, int waiting) {
            T *const result = reinterpret_cast<T *>(scratch + waiting * plan.result_bytes);
            kernels.decode_part(p, rows, part, result, rest);
            return result;
        });
        kernels.decode_finish(p, rows, sums);
    };
    const auto fold = [&](int64_t head, int) {
        const AttentionRows rows = rows_of(p, plan, head / plan.groups, head % plan.groups);
        if (rows.end > plan.decode_rows || rows.end == 0) return;
        T *const first = parts + head * plan.parts * result_size;
        const auto bring = [&](int64_t part, int) { return first + part * result_size; };
        kernels.decode_finish(p, rows, fold_parts(kernels, rows.end, p.head_dim_v, parts_of(rows.entry.len_k), bring));
    };
    const bool meet = sequences_meet(p);
    for (int64_t b = 0; meet && b < p.batch; ++b) {
        for (int64_t first = 0; first < panel_tasks + decode_tasks; first += heads) {
            for (int64_t group = 0; group < plan.groups; ++group) do_task(first + b * plan.groups + group, 0);
        }
        for (int64_t group = 0; plan.split_keys && group < plan.groups; ++group) fold(b * plan.groups + group, 0);
    }
    if (meet) return;
    parallel_in_turn(plan.threads, Loop{panel_tasks + decode_tasks, do_task}, Loop{plan.split_keys ? heads : 0, fold});
}

int32_t query(void *opaque, const attile_attention_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_attention_problem &p = *problem;
    if (is_exact(p.launch)) return exact_attention_query(state, p, support);
    const AttentionPlan plan = attention_plan(state, p);
    const bool f64 = p.compute == ATTILE_F64, pairs = plan.pairs && !plan.decode;
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_%s_%s_%s", plan.decode ? "decode" : "panel",
                  f64     ? "f64"
                  : pairs ? "bf16"
                          : "f32",
                  pairs ? target_name(plan.tiles ? Target::kAmxBf16 : Target::kAvx512Bf16) : kernel_target_name(state.target));
    if (pairs && !plan.tiles && state.target == Target::kAmxBf16) {
        std::snprintf(support->text, sizeof support->text, "%s", amx_refusal());
    } else if (p.block_mask.dtype != 0) {
        std::snprintf(support->text, sizeof support->text, "keys of hidden blocks are skipped");
    }
    support->flops = forward_flops(p);
    support->bytes = attention_bytes(p);
    support->tile_m = reported(plan.decode ? kDecodeRows : plan.panels * plan.panel_rows);
    support->tile_n = reported(plan.tiles ? kTileKeys : kBlockKeys);
    support->tile_k = reported(p.head_dim);
    support->threads = 1;
    support->splits = reported(plan.decode ? plan.parts : 1);
    const int64_t blocks = plan.decode ? (plan.split_keys ? plan.parts : 1) : plan.row_blocks;
    support->blocks = (Size(p.batch) * plan.groups * blocks).value();
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_attention_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_attention_run(state, *problem);
    const AttentionPlan plan = attention_plan(state, *problem);
    const Workspace workspace(state, problem->launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (problem->compute == ATTILE_F64) {
        run_tasks<double>(state, plan, *problem, workspace.data());
    } else {
        run_tasks<float>(state, plan, *problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace

AttentionPlan attention_plan(const State &state, const attile_attention_problem &p) {
    return p.compute == ATTILE_F64 ? plan_for<double>(state, p) : plan_for<float>(state, p);
}

const attile_attention_interface g_attention_interface = {sizeof(attile_attention_interface), 3, query, run};

}  // namespace attile::cpu
