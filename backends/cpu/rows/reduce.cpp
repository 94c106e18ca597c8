// SPDX-License-Identifier: Apache-2.0
// Reductions: which axis becomes lanes, how long rows are cut, and the interface.
#include <cmath>
#include <cstdio>
#include <limits>

#include "element.h"
#include "rows/exact.h"
#include "rows/rows.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int64_t kElementsForThreads = 1 << 16;

struct ReducePlan {
    int64_t results = 0;
    int64_t pieces = 1;    // of the reduced axis
    int column_axis = -1;  // the axis whose neighbours lie together, when the reduced one's do not; -1: rows
    int64_t columns = 1;   // results a task takes along it
    int64_t segments = 1;  // tasks along it
    int64_t tasks = 0;     // without the pieces
    int threads = 1;
    int64_t workspace_bytes = 0;
};

ReducePlan reduce_plan(const State &state, const attile_reduce_problem &p) {
    ReducePlan plan;
    const bool f64 = p.compute == ATTILE_F64;
    plan.results = (Size(p.shape[0]) * p.shape[1] * p.shape[2]).value();
    plan.pieces = most(1, ceil_div(p.shape[3], kReducePiece));
    // How a row is summed must not depend on the rows beside it, if its bits must not.
    if (p.x.stride[3] != 1 && (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) == 0) {
        for (int axis = 2; axis >= 0; --axis) {
            if (p.x.stride[axis] == 1 && p.shape[axis] > 1) plan.column_axis = axis;
        }
    }
    if (plan.column_axis >= 0) {
        const int lanes = f64 ? row_kernels<double>(state.target).lanes : row_kernels<float>(state.target).lanes;
        plan.columns = 4 * lanes;
        plan.segments = ceil_div(p.shape[plan.column_axis], plan.columns);
        plan.tasks = plan.results / p.shape[plan.column_axis] * plan.segments;
    } else {
        plan.columns = most(1, 4096 / most(1, p.shape[3]));
        plan.tasks = ceil_div(plan.results, plan.columns);
    }
    const bool small = (Size(plan.results) * p.shape[3]).value() < kElementsForThreads;
    plan.threads = small ? 1 : state.threads;
    plan.workspace_bytes = bytes_for<char>(plan.results, plan.pieces, f64 ? 8 : 4).value();
    if (plan.pieces == 1 && plan.column_axis < 0) plan.workspace_bytes = 0;
    return plan;
}

int64_t x_offset(const attile_reduce_problem &p, int64_t result, const attile_operand &x) {
    const int64_t l = result % p.shape[2], j = result / p.shape[2] % p.shape[1], i = result / p.shape[2] / p.shape[1];
    return i * x.stride[0] + j * x.stride[1] + l * x.stride[2];
}

Strip strip_of(const attile_operand &x, int64_t offset, int64_t stride, int64_t count) {
    return {static_cast<char *>(x.data) + offset * dtype_bytes(x.dtype), x.dtype, stride, count};
}

// One result of those of the pieces. A sum keeps what its additions round off, so that the error is that of a piece.
template <class T>
T join(int32_t op, const T *pieces, int64_t count) {
    T whole = pieces[0], rounded_off = 0;
    for (int64_t i = 1; i < count; ++i) {
        const T piece = pieces[i];
        if (op == ATTILE_REDUCE_MAX) {
            whole = whole != whole || whole > piece ? whole : piece;
        } else if (op == ATTILE_REDUCE_MIN) {
            whole = whole != whole || whole < piece ? whole : piece;
        } else {
            const T sum = whole + piece;
            rounded_off += std::fabs(whole) >= std::fabs(piece) ? (whole - sum) + piece : (piece - sum) + whole;
            whole = sum;
        }
    }
    return std::isfinite(whole) ? whole + rounded_off : whole;
}

template <class T>
void write_result(const attile_reduce_problem &p, int64_t result, T value) {
    if (p.op == ATTILE_REDUCE_MEAN) value /= static_cast<T>(p.shape[3]);
    store_element<T>(p.y.data, p.y.dtype, x_offset(p, result, p.y), value);
}

template <class T>
void run_plan(const State &state, const ReducePlan &plan, const attile_reduce_problem &p, T *partial) {
    const RowKernels<T> &kernels = row_kernels<T>(state.target);
    const auto reduce = [&](int64_t index, int) {
        const int64_t piece = index % plan.pieces, task = index / plan.pieces;
        const int64_t begin = piece * kReducePiece, count = least(p.shape[3] - begin, kReducePiece);
        if (plan.column_axis < 0) {
            for (int64_t result = task * plan.columns; result < least(plan.results, (task + 1) * plan.columns); ++result) {
                const Strip strip = strip_of(p.x, x_offset(p, result, p.x) + begin * p.x.stride[3], p.x.stride[3], count);
                const T value = kernels.reduce_strip(p.op, strip);
                if (plan.pieces == 1) {
                    write_result(p, result, value);
                } else {
                    partial[result * plan.pieces + piece] = value;
                }
            }
            return;
        }
        // Task -> the other two axes and a segment of this one; result numbers are those of the row-major outer axes.
        const int64_t extents[3] = {p.shape[0], p.shape[1], p.shape[2]};
        int64_t at[3] = {0, 0, 0}, rest = task / plan.segments;
        for (int axis = 2; axis >= 0; --axis) {
            if (axis == plan.column_axis) continue;
            at[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        const int64_t first = task % plan.segments * plan.columns;
        const int64_t width = least(plan.columns, extents[plan.column_axis] - first);
        at[plan.column_axis] = first;
        const int64_t offset = at[0] * p.x.stride[0] + at[1] * p.x.stride[1] + at[2] * p.x.stride[2] + begin * p.x.stride[3];
        T values[64];
        kernels.reduce_columns(p.op, strip_of(p.x, offset, 1, width), p.x.stride[3], count, values);
        const int64_t result_step = plan.column_axis == 2 ? 1 : plan.column_axis == 1 ? extents[2] : extents[1] * extents[2];
        const int64_t result0 = (at[0] * extents[1] + at[1]) * extents[2] + at[2];
        for (int64_t c = 0; c < width; ++c) partial[(result0 + c * result_step) * plan.pieces + piece] = values[c];
    };
    const auto join_pieces = [&](int64_t block, int) {
        for (int64_t result = block * 1024; result < least(plan.results, (block + 1) * 1024); ++result) {
            write_result(p, result, join(p.op, partial + result * plan.pieces, plan.pieces));
        }
    };
    parallel_in_turn(plan.threads, Loop{plan.tasks * plan.pieces, reduce},
                     Loop{partial == nullptr ? 0 : ceil_div(plan.results, 1024), join_pieces});
}

int32_t query(void *opaque, const attile_reduce_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_reduce_query(state, *problem, support);
    const attile_reduce_problem &p = *problem;
    const ReducePlan plan = reduce_plan(state, p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_reduce_%s_%s_%s", plan.column_axis < 0 ? "rows" : "columns",
                  p.compute == ATTILE_F64 ? "f64" : "f32", kernel_target_name(state.target));
    const double rows = static_cast<double>(plan.results), count = static_cast<double>(p.shape[3]);
    support->flops = rows * count;
    support->bytes = rows * (count * dtype_bytes(p.x.dtype) + dtype_bytes(p.y.dtype));
    support->tile_m = reported(plan.columns);
    support->tile_n = reported(least(p.shape[3], kReducePiece));
    support->threads = 1;
    support->blocks = (Size(plan.tasks) * plan.pieces).value();
    support->splits = reported(plan.pieces);
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_reduce_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    if (is_exact(problem->launch)) return exact_reduce_run(state, *problem);
    const ReducePlan plan = reduce_plan(state, *problem);
    const Workspace workspace(state, problem->launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (problem->compute == ATTILE_F64) {
        run_plan<double>(state, plan, *problem, reinterpret_cast<double *>(workspace.data()));
    } else {
        run_plan<float>(state, plan, *problem, reinterpret_cast<float *>(workspace.data()));
    }
    return ATTILE_OK;
}

}  // namespace

const attile_reduce_interface g_reduce_interface = {sizeof(attile_reduce_interface), 2, query, run};

}  // namespace attile::cpu
