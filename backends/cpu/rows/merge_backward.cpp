// SPDX-License-Identifier: Apache-2.0
// Gradients of merging attention results: of every part's o, and of its lse.
#include <cmath>
#include <cstdio>
#include <limits>

#include "element.h"
#include "rows/rows.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

using Problem = attile_attention_merge_backward_problem;

struct GradientPlan {
    int64_t rows = 0, rows_per_task = 1, row_bytes = 0, workspace_bytes = 0;
    int threads = 1;
};

GradientPlan gradient_plan(const State &state, const Problem &p) {
    GradientPlan plan;
    plan.rows = (Size(p.batch) * p.heads * p.len).value();
    const int64_t elements = most(1, (Size(p.head_dim_v) * p.parts).value());
    plan.rows_per_task = most(1, 8192 / elements);
    plan.threads = (Size(plan.rows) * elements).value() < kMergeElementsForThreads ? 1 : state.threads;
    // Of a row: dout and o, which all parts read.
    plan.row_bytes = bytes_for<char>(p.head_dim_v, 2 * static_cast<int64_t>(sizeof(double))).value();
    plan.workspace_bytes = (Size(plan.threads) * plan.row_bytes).value();
    return plan;
}

Strip strip_at(const attile_operand &x, int64_t offset, int64_t count) {
    return {static_cast<char *>(x.data) + offset * dtype_bytes(x.dtype), x.dtype, x.stride[3], count};
}

template <class T>
void gradient_row(const RowKernels<T> &kernels, const Problem &p, int64_t row, char *memory) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const int64_t l = row % p.len, h = row / p.len % p.heads, b = row / p.len / p.heads;
    T *const dout = reinterpret_cast<T *>(memory), *const o = dout + p.head_dim_v;
    kernels.widen(strip_at(p.dout, offset_at(p.dout, b, h, l), p.head_dim_v), dout);
    kernels.widen(strip_at(p.o, offset_at(p.o, b, h, l), p.head_dim_v), o);
    const T lse = load_element<T>(p.lse.data, p.lse.dtype, offset_at(p.lse, b, h, l));
    const T dlse = p.dlse.data != nullptr ? load_element<T>(p.dlse.data, p.dlse.dtype, offset_at(p.dlse, b, h, l)) : T{0};
    for (int64_t part = 0; part < p.parts; ++part) {
        const attile_operand &lse_part = p.lse_parts[part], &dlse_part = p.dlse_parts[part];
        const Strip x = strip_at(p.o_parts[part], offset_at(p.o_parts[part], b, h, l), p.head_dim_v);
        const Strip y = strip_at(p.do_parts[part], offset_at(p.do_parts[part], b, h, l), p.head_dim_v);
        const T part_lse = load_element<T>(lse_part.data, lse_part.dtype, offset_at(lse_part, b, h, l));
        const bool used = lse != kHidden && part_lse != kHidden;
        const T weight = used ? std::exp(part_lse - lse) : T{0};
        const T sum = kernels.merge_gradient(dout, o, x, weight, used, y);
        store_element<T>(dlse_part.data, dlse_part.dtype, offset_at(dlse_part, b, h, l), used ? weight * (sum + dlse) : T{0});
    }
}

template <class T>
void run_plan(const State &state, const GradientPlan &plan, const Problem &p, char *workspace) {
    const RowKernels<T> &kernels = row_kernels<T>(state.target);
    parallel_for(plan.threads, ceil_div(plan.rows, plan.rows_per_task), [&](int64_t task, int rank) {
        const int64_t end = least(plan.rows, (task + 1) * plan.rows_per_task);
        for (int64_t row = task * plan.rows_per_task; row < end; ++row) gradient_row(kernels, p, row, workspace + rank * plan.row_bytes);
    });
}

int32_t query(void *opaque, const Problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const Problem &p = *problem;
    const GradientPlan plan = gradient_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_attention_merge_backward_%s_%s", p.compute == ATTILE_F64 ? "f64" : "f32",
                  kernel_target_name(state.target));
    const double rows = static_cast<double>(plan.rows), parts = static_cast<double>(p.parts), dv = static_cast<double>(p.head_dim_v);
    support->flops = 4 * rows * parts * dv;
    const int lse = dtype_bytes(p.lse.dtype);
    const double once = dv * (dtype_bytes(p.o.dtype) + dtype_bytes(p.dout.dtype)) + lse + (p.dlse.dtype == 0 ? 0 : lse);
    const double each = dv * (dtype_bytes(p.o_parts[0].dtype) + dtype_bytes(p.do_parts[0].dtype)) + 2 * lse;
    support->bytes = rows * (parts * each + once);
    support->tile_m = reported(plan.rows_per_task);
    support->tile_n = reported(p.head_dim_v);
    support->threads = 1;
    support->blocks = ceil_div(plan.rows, plan.rows_per_task);
    support->splits = 1;
    return ATTILE_OK;
}

int32_t run(void *opaque, const Problem *problem) {
    State &state = *static_cast<State *>(opaque);
    const GradientPlan plan = gradient_plan(state, *problem);
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

const attile_attention_merge_backward_interface g_attention_merge_backward_interface = {sizeof(attile_attention_merge_backward_interface),
                                                                                        1, query, run};

}  // namespace attile::cpu
