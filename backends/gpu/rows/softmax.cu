// SPDX-License-Identifier: Apache-2.0
// softmax: which kernel, how wide, how many splits; the launches. The kernels are in rows/simt.
#include <algorithm>
#include <cstdio>

#include "host/sizes.h"
#include "host/status.h"
#include "rows/simt/plan.h"
#include "rows/simt/softmax.cuh"
#include "rows/simt/softmax_columns.cuh"
#include "rows/simt/softmax_whole.cuh"

namespace attile::gpu {
namespace {

constexpr int64_t kBytesOfTask = 64 << 10;  // Softmax_stream: long beside a ticket, short beside a row,
constexpr int64_t kLeastOfTask = 8192;      // elements: what a block loads at once, where tasks of that size do not fill the units.
constexpr int64_t kShareOfL2 = 8;           // A group of rows takes this part of the cache, and a few groups are under way at once.
constexpr int64_t kStreamBlocksPerUnit = 3;
constexpr int64_t kMostSplits = 1024;  // whose states each of its tasks reads.
// Softmax_columns: blocks wanted, rounds that a block loads of a column, of which so many pass while two more launches would be made.
constexpr int64_t kColumnBlocksPerUnit = 6, kRoundsOfSplit = 2, kRoundsOfLaunches = 6;
constexpr int64_t kMostColumnSplits = 512;
constexpr int64_t kColumnLanes = 32;

int64_t bytes_of(int32_t dtype) { return (dtype & 0xff) / 8; }

enum class SoftmaxPath { kCached, kWhole, kStream, kColumns };

struct SoftmaxPlan {
    SoftmaxPath path = SoftmaxPath::kCached;
    bool is_vector = false;
    int32_t width = 0;  // Cached: threads that share a row,
    int32_t rows = 1;   // and rows that they take at a time.
    simt::SoftmaxArguments arguments;
    int64_t states = 0;
    int64_t blocks = 1;
};

bool is_multiple(const simt::SoftmaxArguments &arguments, int64_t step) {
    for (int i = 0; i < 3; ++i) {
        if (arguments.axes.extent[i] > 1 && (arguments.axes.x[i] % step != 0 || arguments.axes.y[i] % step != 0)) return false;
    }
    return true;
}

// Rows that fit registers: the narrowest instance that holds them.
bool plan_cached(const Device &device, SoftmaxPlan &plan, int64_t size, int64_t vec, bool is_whole) {
    const simt::SoftmaxArguments &arguments = plan.arguments;
    const int64_t held = simt::softmax_held(static_cast<int>(size));
    // A vector may hold the ends of its row alone.
    const int64_t length = !plan.is_vector || is_whole ? arguments.length : (arguments.length + 2 * vec - 2) / vec * vec;
    for (const int32_t width : {4, kLanes, kRowThreads, 512, 1024}) {
        for (const int32_t rows : {simt::kSoftmaxRows, 1}) {
            if ((width > kRowThreads && (rows > 1 || !plan.is_vector || !is_whole)) || length > width * held / rows) continue;
            plan.width = width;
            plan.rows = rows;
            plan.blocks = row_grid(device, arguments.axes.count(), std::max(kRowThreads / width, 1) * rows);
            return true;
        }
    }
    return false;
}

// A block a row, if rows fill the units: in whole rounds but for a few.
bool plan_whole(const Device &device, SoftmaxPlan &plan, const attile_softmax_problem &problem) {
    constexpr double kFull = 0.85;
    const int64_t rows = plan.arguments.axes.count(), units = std::max(device.properties().compute_units, 1);
    if (kSparesRegisters || !plan.is_vector || plan.arguments.length % 4 != 0 || plan.arguments.length > simt::kSoftmaxWholeFloats ||
        problem.x.dtype != ATTILE_F32 || problem.y.dtype != ATTILE_F32 ||
        static_cast<double>(rows) < kFull * static_cast<double>(ceil_div(rows, units) * units))
        return false;
    plan.path = SoftmaxPath::kWhole;
    plan.blocks = std::min(rows, units);
    return true;
}

// Whether vectors of x begin where those of y do, in each row.
bool have_vectors_alike(const simt::SoftmaxArguments &arguments, int64_t size_x, int64_t size_y) {
    const int64_t of_vector = 16 / size_y;
    const auto place = [](const void *data, int64_t size) { return static_cast<int64_t>(reinterpret_cast<uintptr_t>(data)) / size; };
    if ((place(arguments.x, size_x) - place(arguments.y, size_y)) % of_vector != 0) return false;
    for (int i = 0; i < 3; ++i)
        if (arguments.axes.extent[i] > 1 && (arguments.axes.x[i] - arguments.axes.y[i]) % of_vector != 0) return false;
    return true;
}

void plan_stream(const Device &device, SoftmaxPlan &plan, int64_t size, bool is_invariant) {
    simt::SoftmaxArguments &arguments = plan.arguments;
    plan.path = SoftmaxPath::kStream;
    const int64_t rows = arguments.axes.count(), units = std::max(device.properties().compute_units, 1);
    const int64_t least = ceil_div(ceil_div(arguments.length, kMostSplits), 1024) * 1024;
    int64_t task = kBytesOfTask / size;
    // Where results are to be the same in any batch, splits depend on the row's length alone.
    if (!is_invariant) {
        const int64_t filling = ceil_div(ceil_div(rows * arguments.length, kStreamBlocksPerUnit * units), 1024) * 1024;
        task = std::clamp(filling, std::min(kLeastOfTask, task), task);
    }
    arguments.split_length = std::max(task, least);
    arguments.splits = static_cast<int32_t>(ceil_div(arguments.length, arguments.split_length));
    const int64_t l2 = std::max<int64_t>(device.properties().l2_bytes, 2 << 20);
    arguments.group_rows = std::min(ceil_div(l2 / kShareOfL2, arguments.length * size), rows);
    plan.states = rows * arguments.splits;
    plan.blocks = std::min<int64_t>(2 * plan.states, kStreamBlocksPerUnit * units);
}

void plan_columns(const Device &device, SoftmaxPlan &plan, int64_t size, int64_t vec) {
    simt::SoftmaxArguments &arguments = plan.arguments;
    plan.path = SoftmaxPath::kColumns;
    const int64_t of_thread = plan.is_vector ? vec : 1, needed = ceil_div(arguments.columns, of_thread);
    // A warp's width, or less where far fewer threads are idle then, down to 128 bytes of a row.
    const int64_t least = std::min<int64_t>(kColumnLanes, 128 / (size * of_thread));
    int64_t lanes = kColumnLanes;
    const auto taken = [&](int64_t by) { return ceil_div(needed, by) * by; };
    while (lanes > least && 7 * taken(lanes) > 8 * taken(least)) lanes /= 2;
    while (lanes / 2 >= needed) lanes /= 2;
    // Short columns leave the other threads no rows.
    const int64_t rows_at_once = simt::softmax_column_rows(static_cast<int>(of_thread));
    while (lanes < kRowThreads && lanes < needed && kRowThreads / lanes * rows_at_once > arguments.length) lanes *= 2;
    arguments.lanes = static_cast<int32_t>(lanes);
    const int64_t parallel = arguments.axes.count() * ceil_div(needed, lanes);
    const int64_t round = kRowThreads / lanes * rows_at_once;
    const int64_t rounds = ceil_div(arguments.length, round);
    const int64_t wanted = ceil_div(kColumnBlocksPerUnit * std::max(device.properties().compute_units, 1), parallel);
    int64_t splits = std::min({wanted, ceil_div(rounds, kRoundsOfSplit), kMostColumnSplits});
    if (rounds <= kRoundsOfLaunches) splits = 1;
    arguments.split_length = ceil_div(rounds, splits) * round;
    arguments.splits = static_cast<int32_t>(ceil_div(arguments.length, arguments.split_length));
    if (arguments.splits > 1) plan.states = arguments.axes.count() * arguments.columns * arguments.splits;
    plan.blocks = row_grid(device, parallel * arguments.splits, 1);
}

SoftmaxPlan make_plan(const Device &device, const attile_softmax_problem &problem) {
    SoftmaxPlan plan;
    simt::SoftmaxArguments &arguments = plan.arguments;
    const int64_t *extent = problem.shape, *x = problem.x.stride, *y = problem.y.stride;
    const bool is_invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const int64_t size = bytes_of(problem.x.dtype), vec = 16 / size;
    const bool is_aligned_base = is_aligned(problem.x.data, 16) && is_aligned(problem.y.data, 16);
    arguments.x = problem.x.data;
    arguments.y = problem.y.data;
    arguments.length = extent[3];
    arguments.stride_x = x[3];
    arguments.stride_y = y[3];
    int column_axis = -1;
    // Whether a row has neighbours must not show in how it is summed if results are to be batch-invariant.
    // One element has no sum.
    const bool may_go_by_columns = arguments.length == 1 || (x[3] != 1 && !is_invariant);
    for (int axis = 0; axis < 3 && may_go_by_columns; ++axis) {
        if (extent[axis] > 1 && x[axis] == 1) column_axis = axis;
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
        arguments.axes = merge_axes(outer_extent, outer_x, outer_y, 2);
        arguments.columns = extent[column_axis];
        arguments.column_y = y[column_axis];
        const bool has_aligned_rows = arguments.length == 1 || (x[3] % vec == 0 && y[3] % vec == 0);
        plan.is_vector =
            is_aligned_base && arguments.column_y == 1 && arguments.columns % vec == 0 && has_aligned_rows && is_multiple(arguments, vec);
        plan_columns(device, plan, size, vec);
        return plan;
    }
    arguments.axes = merge_axes(extent, x, y, 3);
    // Which elements a thread adds must not depend on the row's alignment if results are to be batch-invariant.
    plan.is_vector = x[3] == 1 && y[3] == 1 && !is_invariant && have_vectors_alike(arguments, size, bytes_of(problem.y.dtype));
    const bool is_whole = is_aligned_base && is_multiple(arguments, vec) && arguments.length % vec == 0;  // All rows are of whole vectors.
    if (plan_cached(device, plan, size, vec, is_whole) || (is_whole && plan_whole(device, plan, problem))) return plan;
    plan_stream(device, plan, size, is_invariant);
    return plan;
}

using SoftmaxKernel = void (*)(simt::SoftmaxArguments);

template <class T, class Out, int kVec>
SoftmaxKernel cached_kernel(const SoftmaxPlan &plan) {
    const bool is_short = plan.rows > 1;
    switch (plan.width) {
        case 4:
            return is_short ? simt::softmax_cached<T, Out, 4, simt::kSoftmaxRows, kVec> : simt::softmax_cached<T, Out, 4, 1, kVec>;
        case kLanes:
            return is_short ? simt::softmax_cached<T, Out, kLanes, simt::kSoftmaxRows, kVec>
                            : simt::softmax_cached<T, Out, kLanes, 1, kVec>;
        case 512:
            return simt::softmax_cached<T, Out, 512, 1, 16 / sizeof(T)>;
        case 1024:
            return simt::softmax_cached<T, Out, 1024, 1, 16 / sizeof(T)>;
        default:
            return is_short ? simt::softmax_cached<T, Out, kRowThreads, simt::kSoftmaxRows, kVec>
                            : simt::softmax_cached<T, Out, kRowThreads, 1, kVec>;
    }
}

SoftmaxKernel whole_kernel() {
#if defined(ATTILE_GPU_WAVES)
    return nullptr;  // Too many registers for AMD's compilers.
#else
    return simt::softmax_whole;
#endif
}

// The plan's kernel for one pair of types, and the bytes of a state.
struct SoftmaxChoice {
    SoftmaxKernel kernel = nullptr;
    int64_t state_bytes = 0;
};

template <class T, class Out>
SoftmaxChoice choose(const SoftmaxPlan &plan) {
    constexpr int kVec = 16 / static_cast<int>(sizeof(T));
    constexpr int64_t kState = sizeof(simt::SoftmaxState<Compute<T>>);
    switch (plan.path) {
        case SoftmaxPath::kCached:
            return {plan.is_vector ? cached_kernel<T, Out, kVec>(plan) : cached_kernel<T, Out, 1>(plan), kState};
        case SoftmaxPath::kWhole:
            return {whole_kernel(), 0};
        case SoftmaxPath::kStream:
            return {plan.is_vector ? simt::softmax_stream<T, Out, kVec> : simt::softmax_stream<T, Out, 1>, kState};
        default:
            return {plan.is_vector ? simt::softmax_columns<T, Out, kVec> : simt::softmax_columns<T, Out, 1>, kState};
    }
}

SoftmaxChoice choose_for(const attile_softmax_problem &problem, const SoftmaxPlan &plan) {
    const int32_t from = problem.x.dtype, to = problem.y.dtype;
    if (from == ATTILE_F32 && to == ATTILE_F32) return choose<float, float>(plan);
    if (from == ATTILE_F64 && to == ATTILE_F64) return choose<double, double>(plan);
    if (from == ATTILE_F16 && to == ATTILE_F16) return choose<F16, F16>(plan);
    if (from == ATTILE_F16 && to == ATTILE_F32) return choose<F16, float>(plan);
    if (from == ATTILE_BF16 && to == ATTILE_BF16) return choose<BF16, BF16>(plan);
    if (from == ATTILE_BF16 && to == ATTILE_F32) return choose<BF16, float>(plan);
    return {};
}

int32_t threads_of(const SoftmaxPlan &plan) { return std::max(plan.width, kRowThreads); }

// Of tickets and softmax_stream's counters, which begin at zero. softmax_whole draws none where each row has a block.
int64_t counter_bytes(const SoftmaxPlan &plan) {
    const int64_t rows = plan.arguments.axes.count();
    return plan.path == SoftmaxPath::kStream                        ? workspace_piece(8 + rows * static_cast<int64_t>(sizeof(int32_t)))
           : plan.path == SoftmaxPath::kWhole && rows > plan.blocks ? workspace_piece(8)
                                                                    : 0;
}

const char *name_of(SoftmaxPath path) {
    return path == SoftmaxPath::kCached   ? "cached"
           : path == SoftmaxPath::kWhole  ? "whole"
           : path == SoftmaxPath::kStream ? "stream"
                                          : "columns";
}

int64_t workspace_bytes(const SoftmaxPlan &plan, const SoftmaxChoice &choice) {
    return workspace_piece(plan.states * choice.state_bytes) + counter_bytes(plan);
}

int32_t run_softmax(Device &device, const attile_softmax_problem &problem, SoftmaxPlan plan, const SoftmaxChoice &choice,
                    Workspace &workspace, Stream stream) {
    if (plan.arguments.length == 0) return ATTILE_OK;
    const int64_t counters_bytes = counter_bytes(plan);
    char *counters = nullptr;
    if (plan.states > 0) plan.arguments.states = workspace.take<char>(plan.states * choice.state_bytes);
    if (counters_bytes > 0) counters = workspace.take<char>(counters_bytes);
    if ((plan.states > 0 && plan.arguments.states == nullptr) || (counters_bytes > 0 && counters == nullptr))
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "softmax: the workspace is smaller than the query said");
    if (counters != nullptr) {
        plan.arguments.ticket = reinterpret_cast<unsigned long long *>(counters);
        if (plan.path == SoftmaxPath::kStream) plan.arguments.done = reinterpret_cast<int32_t *>(counters + 8);
        const int32_t zeroed = device.fill_zero(counters, counters_bytes, stream);
        if (zeroed != ATTILE_OK) return zeroed;
    }
    const Dim3 grid{static_cast<uint32_t>(plan.blocks)}, block{static_cast<uint32_t>(threads_of(plan))};
    const bool is_split = plan.path == SoftmaxPath::kColumns && plan.arguments.splits > 1;
    plan.arguments.steps = is_split ? simt::kSoftmaxStates : simt::kSoftmaxStates | simt::kSoftmaxWrites;
    const int32_t status = launch(device, choice.kernel, grid, block, 0, stream, plan.arguments);
    if (status != ATTILE_OK || !is_split) return status;
    const auto merge_kernel = problem.x.dtype == ATTILE_F64 ? simt::softmax_merge_states<double> : simt::softmax_merge_states<float>;
    const Dim3 merge_grid{row_grid(device, plan.arguments.axes.count() * plan.arguments.columns, simt::kSoftmaxMergeColumns)};
    const int32_t merged = launch(device, merge_kernel, merge_grid, Dim3{kRowThreads}, 0, stream, plan.arguments);
    if (merged != ATTILE_OK) return merged;
    plan.arguments.steps = simt::kSoftmaxWrites;
    return launch(device, choice.kernel, grid, block, 0, stream, plan.arguments);
}

struct SoftmaxCall {
    const attile_softmax_problem *problem;
    SoftmaxPlan plan;
    SoftmaxChoice choice;

    int32_t describe(Device &device, attile_support &support) const {
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_softmax_%s_%s", name_of(plan.path),
                      plan.is_vector ? "vector" : "scalar");
        const double elements = static_cast<double>(problem->shape[0]) * static_cast<double>(problem->shape[1]) *
                                static_cast<double>(problem->shape[2]) * static_cast<double>(problem->shape[3]);
        support.flops = 5 * elements;  // Compare, subtract, exponential, add, multiply.
        support.bytes = elements * static_cast<double>(bytes_of(problem->x.dtype) + bytes_of(problem->y.dtype));
        support.tile_m = plan.path == SoftmaxPath::kColumns ? plan.arguments.lanes : std::max(kRowThreads / std::max(plan.width, 1), 1);
        support.tile_n = static_cast<int32_t>(std::min<int64_t>(
            plan.path == SoftmaxPath::kCached || plan.path == SoftmaxPath::kWhole ? plan.arguments.length : plan.arguments.split_length,
            1 << 30));
        support.splits = plan.arguments.splits;
        support.blocks = plan.blocks;
        return fill_resources(device, reinterpret_cast<const void *>(choice.kernel), threads_of(plan), support);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return run_softmax(device, *problem, plan, choice, workspace, stream);
    }
};

}  // namespace

Planned<attile_softmax_problem> simt::plan_softmax(Device &device, const attile_softmax_problem &problem) {
    const SoftmaxPlan plan = make_plan(device, problem);
    const SoftmaxChoice choice = choose_for(problem, plan);
    if (choice.kernel == nullptr)
        return Planned<attile_softmax_problem>::refused(ATTILE_ERROR_UNSUPPORTED_DTYPE, "softmax: from data type 0x%04x to 0x%04x",
                                                        static_cast<unsigned>(problem.x.dtype), static_cast<unsigned>(problem.y.dtype));
    int64_t workspace = workspace_bytes(plan, choice);
    if (problem.x.data == nullptr || problem.y.data == nullptr) {
        // Where x and y will lie is not known yet: as much as they need anywhere. Vectors begin where rows do, or at other elements of x
        // and y alike, or not alike.
        constexpr int64_t kElements[][2] = {{0, 0}, {1, 1}, {1, 2}};
        for (const auto &[of_x, of_y] : kElements) {
            attile_softmax_problem elsewhere = problem;
            elsewhere.x.data = reinterpret_cast<void *>(of_x * bytes_of(problem.x.dtype));
            elsewhere.y.data = reinterpret_cast<void *>(of_y * bytes_of(problem.y.dtype));
            const SoftmaxPlan other = make_plan(device, elsewhere);
            workspace = std::max(workspace, workspace_bytes(other, choose_for(elsewhere, other)));
        }
    }
    return Planned<attile_softmax_problem>(SoftmaxCall{&problem, plan, choice}, workspace);
}

}  // namespace attile::gpu
