// SPDX-License-Identifier: Apache-2.0
// Softmax: rows or columns, and the interface.
#include <cstdio>

#include "rows/exact.h"
#include "rows/rows.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int64_t kElementsForThreads = 1 << 14;
// Elements of rows taken together. Where memory is waited for, more would keep a row's loads from the arithmetic of the row before.
constexpr int64_t kTogetherInCache = 2048, kTogetherInMemory = 512, kCacheBytes = 8 << 20;

struct SoftmaxPlan {
    int column_axis = -1;  // the axis whose neighbours lie together, when those of the normalised one do not
    int64_t columns = 1, segments = 1, tasks = 0, together = 1;
    int threads = 1;
};

SoftmaxPlan softmax_plan(const State &state, const attile_softmax_problem &p) {
    SoftmaxPlan plan;
    const int64_t rows = (Size(p.shape[0]) * p.shape[1] * p.shape[2]).value();
    // How a row is summed must not depend on the rows beside it, if its bits must not.
    if (p.x.stride[3] != 1 && (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) == 0) {
        for (int axis = 2; axis >= 0; --axis) {
            if (p.x.stride[axis] == 1 && p.shape[axis] > 1) plan.column_axis = axis;
        }
    }
    if (plan.column_axis >= 0) {
        const bool f64 = p.compute == ATTILE_F64;
        plan.columns = 4 * (f64 ? row_kernels<double>(state.target).lanes : row_kernels<float>(state.target).lanes);
        plan.segments = ceil_div(p.shape[plan.column_axis], plan.columns);
        plan.tasks = rows / p.shape[plan.column_axis] * plan.segments;
    } else {
        plan.columns = most(1, 2048 / most(1, p.shape[3]));
        plan.tasks = ceil_div(rows, plan.columns);
    }
    const int64_t bytes = (Size(rows) * p.shape[3] * (dtype_bytes(p.x.dtype) + dtype_bytes(p.y.dtype))).value();
    plan.together = bytes > kCacheBytes ? kTogetherInMemory : kTogetherInCache;
    plan.threads = (Size(rows) * p.shape[3]).value() < kElementsForThreads ? 1 : state.threads;
    return plan;
}

Strip strip_of(const attile_operand &x, const int64_t at[3], int64_t stride, int64_t count) {
    const int64_t offset = at[0] * x.stride[0] + at[1] * x.stride[1] + at[2] * x.stride[2];
    return {static_cast<char *>(x.data) + offset * dtype_bytes(x.dtype), x.dtype, stride, count};
}

template <class T>
void run_plan(const State &state, const SoftmaxPlan &plan, const attile_softmax_problem &p) {
    const RowKernels<T> &kernels = row_kernels<T>(state.target);
    const int64_t rows = p.shape[0] * p.shape[1] * p.shape[2];
    parallel_for(plan.threads, plan.tasks, [&](int64_t task, int) {
        int64_t at[3] = {0, 0, 0};
        if (plan.column_axis < 0) {
            const int64_t end = least(rows, (task + 1) * plan.columns);
            for (int64_t row = task * plan.columns, count = 0; row < end; row += count) {
                at[2] = row % p.shape[2];
                count = least(end - row, p.shape[2] - at[2]);
                at[1] = row / p.shape[2] % p.shape[1];
                at[0] = row / p.shape[2] / p.shape[1];
                kernels.softmax_rows(strip_of(p.x, at, p.x.stride[3], p.shape[3]), p.x.stride[2],
                                     strip_of(p.y, at, p.y.stride[3], p.shape[3]), p.y.stride[2], count, plan.together);
            }
            return;
        }
        int64_t rest = task / plan.segments;
        for (int axis = 2; axis >= 0; --axis) {
            if (axis == plan.column_axis) continue;
            at[axis] = rest % p.shape[axis];
            rest /= p.shape[axis];
        }
        const int64_t first = task % plan.segments * plan.columns;
        const int64_t width = least(plan.columns, p.shape[plan.column_axis] - first);
        at[plan.column_axis] = first;
        kernels.softmax_columns(strip_of(p.x, at, 1, width), p.x.stride[3], strip_of(p.y, at, p.y.stride[plan.column_axis], width),
                                p.y.stride[3], p.shape[3]);
    });
}

int32_t query(void *opaque, const attile_softmax_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_softmax_query(state, *problem, support);
    const attile_softmax_problem &p = *problem;
    const SoftmaxPlan plan = softmax_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_softmax_%s_%s_%s", plan.column_axis < 0 ? "rows" : "columns",
                  p.compute == ATTILE_F64 ? "f64" : "f32", kernel_target_name(state.target));
    double count = 1;
    for (const int64_t extent : p.shape) count *= static_cast<double>(extent);
    // A subtraction and an exponential, an addition, a multiplication per element.
    support->flops = 4 * count;
    support->bytes = count * (dtype_bytes(p.x.dtype) + dtype_bytes(p.y.dtype));
    support->tile_m = reported(plan.columns);
    support->tile_n = reported(p.shape[3]);
    support->threads = 1;
    support->blocks = plan.tasks;
    support->splits = 1;
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_softmax_problem *problem) {
    const State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_softmax_run(state, *problem);
    const SoftmaxPlan plan = softmax_plan(state, *problem);
    if (problem->compute == ATTILE_F64) {
        run_plan<double>(state, plan, *problem);
    } else {
        run_plan<float>(state, plan, *problem);
    }
    return ATTILE_OK;
}

}  // namespace

const attile_softmax_interface g_softmax_interface = {sizeof(attile_softmax_interface), 2, query, run};

}  // namespace attile::cpu
