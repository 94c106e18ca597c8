// SPDX-License-Identifier: Apache-2.0
// What merging and its gradients share: rows that are independent of each other, some a task.
#ifndef ATTILE_CPU_MERGE_ROWS_H
#define ATTILE_CPU_MERGE_ROWS_H

#include <cstdio>

#include "rows/rows.h"
#include "threads/threads.h"

namespace attile::cpu {

// Elements from which on merging and its gradients are worth threads.
inline constexpr int64_t kMergeElementsForThreads = 1 << 14;

// A row of one head of one batch entry.
struct MergeRow {
    int64_t b, h, l;

    int64_t offset_in(const attile_operand &x) const { return b * x.stride[0] + h * x.stride[1] + l * x.stride[2]; }
    Strip strip_of(const attile_operand &x, int64_t count) const {
        return {static_cast<char *>(x.data) + offset_in(x) * dtype_bytes(x.dtype), x.dtype, x.stride[3], count};
    }
};

struct MergePlan {
    int64_t rows = 0, rows_per_task = 1, row_bytes = 0, workspace_bytes = 0;
    int threads = 1;
};

// `row_bytes`: workspace of a thread.
template <class Problem>
MergePlan merge_plan(const State &state, const Problem &p, int64_t row_bytes) {
    MergePlan plan;
    plan.rows = (Size(p.batch) * p.heads * p.len).value();
    const int64_t elements = most(1, (Size(p.head_dim_v) * p.parts).value());
    plan.rows_per_task = most(1, 8192 / elements);
    plan.threads = (Size(plan.rows) * elements).value() < kMergeElementsForThreads ? 1 : state.threads;
    plan.row_bytes = row_bytes;
    plan.workspace_bytes = (Size(plan.threads) * row_bytes).value();
    return plan;
}

// `bytes`: moved for a row.
template <class Problem>
void fill_support(const State &state, const MergePlan &plan, const Problem &p, const char *operation, double bytes,
                  attile_support *support) {
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_%s_%s_%s", operation, p.compute == ATTILE_F64 ? "f64" : "f32",
                  kernel_target_name(state.target));
    support->bytes = static_cast<double>(plan.rows) * bytes;
    support->tile_m = reported(plan.rows_per_task);
    support->tile_n = reported(p.head_dim_v);
    support->threads = 1;
    support->blocks = ceil_div(plan.rows, plan.rows_per_task);
    support->splits = 1;
}

// Calls row_of(kernels, row, workspace of the thread) for every row, with kernels of the type that the problem computes in.
template <class Problem, class RowOf>
int32_t run_rows(State &state, const MergePlan &plan, const Problem &p, RowOf &&row_of) {
    const Workspace workspace(state, p.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    const auto run = [&](const auto &kernels) {
        parallel_for(plan.threads, ceil_div(plan.rows, plan.rows_per_task), [&](int64_t task, int rank) {
            const int64_t end = least(plan.rows, (task + 1) * plan.rows_per_task);
            for (int64_t row = task * plan.rows_per_task; row < end; ++row) {
                row_of(kernels, MergeRow{row / p.len / p.heads, row / p.len % p.heads, row % p.len},
                       workspace.data() + rank * plan.row_bytes);
            }
        });
    };
    p.compute == ATTILE_F64 ? run(row_kernels<double>(state.target)) : run(row_kernels<float>(state.target));
    return ATTILE_OK;
}

}  // namespace attile::cpu

#endif  // ATTILE_CPU_MERGE_ROWS_H
