// SPDX-License-Identifier: Apache-2.0
// reduce: which kernel, how wide, how many splits; the launches. The kernels are in rows/simt/reduce.cuh.
#include "rows/reduce.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "host/sizes.h"
#include "host/status.h"
#include "rows/simt/plan.h"
#include "rows/simt/reduce.cuh"

namespace attile::gpu {
namespace {

constexpr int64_t kBytesOfSplit = 64 << 10;            // No split is shorter.
constexpr int64_t kBytesOfInvariantSplit = 256 << 10;  // With BATCH_INVARIANT, splits depend on the row's length alone.
constexpr int64_t kMostSplits = 1024;
constexpr int64_t kRowBytesOfPartials = 8192;  // Whatever their number, partial results are folded by a lane group a row.
constexpr int kRowsTogether = 4;
constexpr int64_t kFew = 16;            // Elements of a column that one thread takes.
constexpr int64_t kBlocksPerUnit = 16;  // Two waves.

int64_t bytes_of(int32_t dtype) { return (dtype & 0xff) / 8; }

simt::ReduceOutput output_of(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F64:
            return simt::ReduceOutput::kF64;
        case ATTILE_F16:
            return simt::ReduceOutput::kF16;
        case ATTILE_BF16:
            return simt::ReduceOutput::kBF16;
        default:
            return simt::ReduceOutput::kF32;
    }
}

struct ReducePlan {
    bool by_columns = false;
    bool is_few = false;  // Columns, a thread each.
    bool is_vector = false;
    int32_t width = 0;  // Threads that share a row, of the rows kernel,
    int32_t rows = 1;   // and rows they take at a time.
    simt::ReduceArguments first;
    int64_t partials = 0;   // Elements of the compute type between the passes; 0: one pass.
    int64_t items = 0;      // Work items of the first pass,
    int64_t per_block = 1;  // and how many a block takes at once.
};

bool is_multiple(const int64_t (&extent)[3], const int64_t (&stride)[3], int64_t step) {
    for (int i = 0; i < 3; ++i) {
        if (extent[i] > 1 && stride[i] % step != 0) return false;
    }
    return true;
}

// Columns that go on along the fastest outer axis are one axis with it.
void extend_columns(simt::ReduceArguments &arguments) {
    RowAxes &axes = arguments.axes;
    while (axes.extent[2] > 1 && axes.x[2] == arguments.columns && axes.y[2] == arguments.columns * arguments.column_stride_y) {
        arguments.columns *= axes.extent[2];
        for (int i = 2; i >= 0; --i) {
            axes.extent[i] = i > 0 ? axes.extent[i - 1] : 1;
            axes.x[i] = i > 0 ? axes.x[i - 1] : 0;
            axes.y[i] = i > 0 ? axes.y[i - 1] : 0;
        }
    }
}

// Of the rows kernel, for rows of so many bytes.
void choose_width(ReducePlan &plan, int64_t row_bytes) {
    plan.width = row_bytes <= 256 ? 4 : row_bytes <= 8192 ? kLanes : kRowThreads;
    // Four lanes have enough to load of one row from 128 bytes on, a lane group from 2048.
    plan.rows = row_bytes <= 128 || (plan.width == kLanes && row_bytes <= 2048) ? kRowsTogether : 1;
    plan.per_block = kRowThreads / plan.width * plan.rows;
}

// Splits and their length, for rows of which `parallel` blocks' worth exist.
void split_rows(simt::ReduceArguments &arguments, int64_t parallel, int64_t slot_bytes, int32_t units, bool is_invariant, int64_t unit) {
    const int64_t bytes = arguments.length * slot_bytes;
    int64_t splits = is_invariant ? bytes / kBytesOfInvariantSplit
                                  : std::min(ceil_div(kBlocksPerUnit * units, std::max<int64_t>(parallel, 1)), bytes / kBytesOfSplit);
    splits = std::clamp<int64_t>(splits, 1, kMostSplits);
    arguments.split_length = std::max<int64_t>(ceil_div(ceil_div(arguments.length, splits), unit) * unit, 1);
    arguments.splits = static_cast<int32_t>(std::max<int64_t>(ceil_div(arguments.length, arguments.split_length), 1));
}

ReducePlan make_plan(const Device &device, const attile_reduce_problem &problem) {
    ReducePlan plan;
    simt::ReduceArguments &first = plan.first;
    const int64_t *extent = problem.shape, *x = problem.x.stride, *y = problem.y.stride;
    const bool is_invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const int32_t units = std::max(device.properties().compute_units, 1);
    const int64_t size = bytes_of(problem.x.dtype), vec = 16 / size;
    const bool is_aligned_base = is_aligned(problem.x.data, 16);
    first.x = problem.x.data;
    first.y = problem.y.data;
    first.length = extent[3];
    first.stride = x[3];
    if (problem.op == ATTILE_REDUCE_MEAN) first.divisor = static_cast<double>(extent[3]);
    if (problem.op == ATTILE_REDUCE_MIN) first.negate_in = first.negate_out = 1;
    first.output = output_of(problem.y.dtype);

    int column_axis = -1;
    // Whether a row has neighbours must not show in how it is summed if results are to be batch-invariant.
    if (first.length > 1 && x[3] != 1 && !is_invariant) {
        for (int axis = 0; axis < 3; ++axis) {
            if (extent[axis] > 1 && x[axis] == 1) column_axis = axis;
        }
    }
    if (column_axis >= 0) {
        int64_t outer_extent[2], outer_x[2], outer_y[2];
        for (int axis = 0, i = 0; axis < 3; ++axis) {
            if (axis == column_axis) continue;
            outer_extent[i] = extent[axis];
            outer_x[i] = x[axis];
            outer_y[i] = y[axis];
            ++i;
        }
        plan.by_columns = true;
        first.axes = merge_axes(outer_extent, outer_x, outer_y, 2);
        first.columns = extent[column_axis];
        first.column_stride_y = y[column_axis];
        extend_columns(first);
        plan.is_vector =
            is_aligned_base && first.columns % vec == 0 && first.stride % vec == 0 && is_multiple(first.axes.extent, first.axes.x, vec);
        const int64_t threads_needed = ceil_div(first.columns, plan.is_vector ? vec : 1);
        if (first.length <= kFew) {
            plan.is_few = true;
            plan.items = first.axes.count() * threads_needed;
            plan.per_block = kRowThreads;
            first.whole_y = problem.y.dtype == problem.x.dtype && first.column_stride_y == 1 && is_aligned(problem.y.data, 16) &&
                            is_multiple(first.axes.extent, first.axes.y, vec);
            return plan;
        }
        first.lanes = 1;
        while (first.lanes < kRowThreads && first.lanes < threads_needed) first.lanes *= 2;
        const int64_t tiles = ceil_div(threads_needed, first.lanes);
        const int64_t tile_row = std::min(first.columns * size, int64_t{first.lanes} * 16);
        split_rows(first, first.axes.count() * tiles, tile_row, units, false, 1);
        plan.items = first.axes.count() * tiles * first.splits;
        if (first.splits > 1) plan.partials = first.axes.count() * first.splits * first.columns;
    } else {
        first.axes = merge_axes(extent, x, y, 3);
        // Which elements a thread adds must not depend on the row's alignment if results are to be batch-invariant.
        plan.is_vector = first.stride == 1 && is_aligned_base && is_multiple(first.axes.extent, first.axes.x, vec) && !is_invariant;
        choose_width(plan, first.length * size);
        const int64_t rows = first.axes.count();
        split_rows(first, ceil_div(rows, plan.per_block), size, units, is_invariant, 128);
        plan.items = rows * first.splits;
        if (first.splits > 1) plan.partials = rows * first.splits;
    }
    return plan;
}

using ReduceKernel = void (*)(simt::ReduceArguments);

template <class T, bool kIsSum>
ReduceKernel kernel_of(const ReducePlan &plan) {
    constexpr int kVec = 16 / static_cast<int>(sizeof(T));
    if (plan.is_few) return plan.is_vector ? simt::reduce_few<T, kIsSum, kVec> : simt::reduce_few<T, kIsSum, 1>;
    if (plan.by_columns) return plan.is_vector ? simt::reduce_columns<T, kIsSum, kVec> : simt::reduce_columns<T, kIsSum, 1>;
    if (plan.width == 4) {
        if (plan.rows > 1)
            return plan.is_vector ? simt::reduce_rows<T, kIsSum, 4, kRowsTogether, kVec>
                                  : simt::reduce_rows<T, kIsSum, 4, kRowsTogether, 1>;
        return plan.is_vector ? simt::reduce_rows<T, kIsSum, 4, 1, kVec> : simt::reduce_rows<T, kIsSum, 4, 1, 1>;
    }
    if (plan.width == kRowThreads)
        return plan.is_vector ? simt::reduce_rows<T, kIsSum, kRowThreads, 1, kVec> : simt::reduce_rows<T, kIsSum, kRowThreads, 1, 1>;
    if (plan.rows > 1)
        return plan.is_vector ? simt::reduce_rows<T, kIsSum, kLanes, kRowsTogether, kVec>
                              : simt::reduce_rows<T, kIsSum, kLanes, kRowsTogether, 1>;
    return plan.is_vector ? simt::reduce_rows<T, kIsSum, kLanes, 1, kVec> : simt::reduce_rows<T, kIsSum, kLanes, 1, 1>;
}

template <class T, bool kIsSum>
int32_t launch_pass(Device &device, const ReducePlan &plan, const simt::ReduceArguments &arguments, Stream stream) {
    const Dim3 grid{row_grid(device, plan.items, plan.per_block)}, block{kRowThreads};
    return launch(device, kernel_of<T, kIsSum>(plan), grid, block, 0, stream, arguments);
}

template <class T, bool kIsSum>
int32_t run_plan(Device &device, const ReducePlan &plan, Workspace &workspace, Stream stream) {
    using C = Compute<T>;
    if (plan.partials == 0) return launch_pass<T, kIsSum>(device, plan, plan.first, stream);
    C *partials = workspace.take<C>(plan.partials);
    if (partials == nullptr) return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "reduce: the workspace is smaller than the query said");
    // First pass: partial results, neither divided nor negated back, densely by row and split.
    simt::ReduceArguments first = plan.first;
    first.y = partials;
    first.output = simt::ReduceOutput::kPartial;
    first.divisor = 1;
    first.negate_out = 0;
    const int32_t status = launch_pass<T, kIsSum>(device, plan, first, stream);
    if (status != ATTILE_OK) return status;
    // Second pass: the same problem with the partial results as input.
    ReducePlan again;
    again.by_columns = plan.by_columns;
    simt::ReduceArguments second = plan.first;
    second.x = partials;
    second.negate_in = 0;
    second.length = plan.first.splits;
    second.splits = 1;
    second.split_length = second.length;
    second.stride = plan.by_columns ? plan.first.columns : 1;
    int64_t step = plan.first.splits * plan.first.columns;
    for (int axis = 2; axis >= 0; --axis) {
        second.axes.x[axis] = step;
        step *= second.axes.extent[axis];
    }
    if (plan.by_columns) {
        second.lanes = std::min(second.lanes, kLanes);  // More blocks: there is little left to add, and few columns may be all there is.
        again.items = second.axes.count() * ceil_div(second.columns, second.lanes);
    } else {
        choose_width(again, kRowBytesOfPartials);
        again.items = second.axes.count();
    }
    return launch_pass<C, kIsSum>(device, again, second, stream);
}

bool is_sum(const attile_reduce_problem &problem) { return problem.op == ATTILE_REDUCE_SUM || problem.op == ATTILE_REDUCE_MEAN; }

template <class T>
int32_t run_type(Device &device, const attile_reduce_problem &problem, const ReducePlan &plan, Workspace &workspace, Stream stream) {
    return is_sum(problem) ? run_plan<T, true>(device, plan, workspace, stream) : run_plan<T, false>(device, plan, workspace, stream);
}

template <class T>
const void *kernel_address(const attile_reduce_problem &problem, const ReducePlan &plan) {
    return reinterpret_cast<const void *>(is_sum(problem) ? kernel_of<T, true>(plan) : kernel_of<T, false>(plan));
}

const void *address_of(const attile_reduce_problem &problem, const ReducePlan &plan) {
    switch (problem.x.dtype) {
        case ATTILE_F32:
            return kernel_address<float>(problem, plan);
        case ATTILE_F64:
            return kernel_address<double>(problem, plan);
        case ATTILE_F16:
            return kernel_address<F16>(problem, plan);
        case ATTILE_BF16:
            return kernel_address<BF16>(problem, plan);
        default:
            return nullptr;
    }
}

struct ReduceCall {
    const attile_reduce_problem *problem;
    ReducePlan plan;
    const void *kernel;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_reduce_problem &p = *problem;
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_reduce_%s_%s",
                      plan.is_few       ? "few"
                      : plan.by_columns ? "columns"
                                        : "rows",
                      plan.is_vector ? "vector" : "scalar");
        const double rows = static_cast<double>(p.shape[0]) * static_cast<double>(p.shape[1]) * static_cast<double>(p.shape[2]);
        support.flops = rows * static_cast<double>(p.shape[3]);
        support.bytes = support.flops * static_cast<double>(bytes_of(p.x.dtype)) + rows * static_cast<double>(bytes_of(p.y.dtype));
        support.tile_m = static_cast<int32_t>(plan.by_columns && !plan.is_few ? plan.first.lanes : plan.per_block);
        support.tile_k = static_cast<int32_t>(std::min<int64_t>(plan.first.split_length, 1 << 30));
        support.splits = plan.first.splits;
        support.blocks = row_grid(device, plan.items, plan.per_block);
        return fill_resources(device, kernel, kRowThreads, support);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        switch (problem->x.dtype) {
            case ATTILE_F32:
                return run_type<float>(device, *problem, plan, workspace, stream);
            case ATTILE_F64:
                return run_type<double>(device, *problem, plan, workspace, stream);
            case ATTILE_F16:
                return run_type<F16>(device, *problem, plan, workspace, stream);
            default:
                return run_type<BF16>(device, *problem, plan, workspace, stream);
        }
    }
};

}  // namespace

const void *some_kernel() { return reinterpret_cast<const void *>(&simt::reduce_columns<float, true, 1>); }

Planned<attile_reduce_problem> simt::plan_reduce(Device &device, const attile_reduce_problem &problem) {
    const ReducePlan plan = make_plan(device, problem);
    const void *const kernel = address_of(problem, plan);
    if (kernel == nullptr)
        return Planned<attile_reduce_problem>::refused(ATTILE_ERROR_UNSUPPORTED_DTYPE, "reduce: data type 0x%04x",
                                                       static_cast<unsigned>(problem.x.dtype));
    const int64_t workspace = plan.partials == 0 ? 0 : workspace_piece(plan.partials * (problem.x.dtype == ATTILE_F64 ? 8 : 4));
    return Planned<attile_reduce_problem>(ReduceCall{&problem, plan, kernel}, workspace);
}

}  // namespace attile::gpu
