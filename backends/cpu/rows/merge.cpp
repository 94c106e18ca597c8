// SPDX-License-Identifier: Apache-2.0
// Merging of attention results over disjoint ranges of keys.
#include <cmath>
#include <cstdio>
#include <limits>

#include "element.h"
#include "rows/rows.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

struct MergePlan {
    int64_t rows = 0, rows_per_task = 1, row_bytes = 0, workspace_bytes = 0;
    int threads = 1;
};

MergePlan merge_plan(const State &state, const attile_attention_merge_problem &p) {
    MergePlan plan;
    plan.rows = (Size(p.batch) * p.heads * p.len).value();
    const int64_t elements = most(1, (Size(p.head_dim_v) * p.parts).value());
    plan.rows_per_task = most(1, 8192 / elements);
    plan.threads = (Size(plan.rows) * elements).value() < kMergeElementsForThreads ? 1 : state.threads;
    // Of a row: strips, weights and marks of its parts.
    plan.row_bytes = bytes_for<char>(p.parts, static_cast<int64_t>(sizeof(Strip) + sizeof(double) + sizeof(bool))).value();
    plan.workspace_bytes = (Size(plan.threads) * plan.row_bytes).value();
    return plan;
}

template <class T>
void merge_row(const RowKernels<T> &kernels, const attile_attention_merge_problem &p, int64_t row, char *memory) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const int64_t l = row % p.len, h = row / p.len % p.heads, b = row / p.len / p.heads;
    Strip *const strips = reinterpret_cast<Strip *>(memory);
    T *const weights = reinterpret_cast<T *>(strips + p.parts);
    bool *const used = reinterpret_cast<bool *>(weights + p.parts);
    T top = kHidden;
    for (int64_t part = 0; part < p.parts; ++part) {
        const attile_operand &lse = p.lse_parts[part], &o = p.o_parts[part];
        weights[part] = load_element<T>(lse.data, lse.dtype, offset_at(lse, b, h, l));
        used[part] = weights[part] != kHidden;
        if (weights[part] > top || weights[part] != weights[part]) top = weights[part];
        strips[part] = {static_cast<char *>(o.data) + offset_at(o, b, h, l) * dtype_bytes(o.dtype), o.dtype, o.stride[3], p.head_dim_v};
    }
    T lse = kHidden;
    if (top != kHidden) {
        double weight = 0;  // of all parts, of which there may be very many
        for (int64_t part = 0; part < p.parts; ++part) {
            weights[part] = used[part] ? std::exp(weights[part] - top) : T{0};
            weight += static_cast<double>(weights[part]);
        }
        const T sum = static_cast<T>(weight);
        for (int64_t part = 0; part < p.parts; ++part) weights[part] /= sum;
        lse = top + std::log(sum);
    }
    const Strip y{static_cast<char *>(p.o.data) + offset_at(p.o, b, h, l) * dtype_bytes(p.o.dtype), p.o.dtype, p.o.stride[3], p.head_dim_v};
    kernels.weighted_sum(strips, weights, used, p.parts, y);
    if (p.lse.data != nullptr) store_element<T>(p.lse.data, p.lse.dtype, offset_at(p.lse, b, h, l), lse);
}

template <class T>
void run_plan(const State &state, const MergePlan &plan, const attile_attention_merge_problem &p, char *workspace) {
    const RowKernels<T> &kernels = row_kernels<T>(state.target);
    parallel_for(plan.threads, ceil_div(plan.rows, plan.rows_per_task), [&](int64_t task, int rank) {
        const int64_t end = least(plan.rows, (task + 1) * plan.rows_per_task);
        for (int64_t row = task * plan.rows_per_task; row < end; ++row) merge_row(kernels, p, row, workspace + rank * plan.row_bytes);
    });
}

int32_t query(void *opaque, const attile_attention_merge_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_attention_merge_problem &p = *problem;
    const MergePlan plan = merge_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_merge_%s_%s", p.compute == ATTILE_F64 ? "f64" : "f32",
                  kernel_target_name(state.target));
    const double rows = static_cast<double>(plan.rows), parts = static_cast<double>(p.parts), dv = static_cast<double>(p.head_dim_v);
    support->flops = 2 * rows * parts * dv;
    const double lse = p.lse.dtype == 0 ? 0 : dtype_bytes(p.lse.dtype);
    support->bytes =
        rows * (parts * (dv * dtype_bytes(p.o_parts[0].dtype) + dtype_bytes(p.lse_parts[0].dtype)) + dv * dtype_bytes(p.o.dtype) + lse);
    support->tile_m = reported(plan.rows_per_task);
    support->tile_n = reported(p.head_dim_v);
    support->threads = 1;
    support->blocks = ceil_div(plan.rows, plan.rows_per_task);
    support->splits = 1;
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_attention_merge_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    const MergePlan plan = merge_plan(state, *problem);
    const Workspace workspace(state, problem->launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (problem->compute == ATTILE_F64) {
        run_plan<double>(state, plan, *problem, workspace.data());
    } else {
        run_plan<float>(state, plan, *problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace

const attile_attention_merge_interface g_attention_merge_interface = {sizeof(attile_attention_merge_interface), 1, query, run};

}  // namespace attile::cpu
