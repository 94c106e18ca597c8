// SPDX-License-Identifier: Apache-2.0
// Exact reduce and softmax: a lane group for each row or, if it is long, a block. Rows are read two or three times: what they hold, its
// sum, and of softmax the results. 256 threads, 5 KB of shared memory. Bound: integer arithmetic of the sums, and float64 of exp.
#include <algorithm>
#include <cstdio>

#include "host/status.h"
#include "rows/exact/plan.h"
#include "rows/exact/sums.h"

namespace attile::gpu::exact {
namespace {

constexpr int64_t kLongRow = 2048;

struct RowParams {
    RowAxes axes;
    const void *x;
    void *y;
    int64_t length, x_stride, y_stride;
    int32_t x_dtype, y_dtype;
    int32_t op, reserved;
};

template <int kWidth>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) reduce_exactly(const RowParams parameter) {
    const RowParams &p = kernel_parameter(parameter);
    __shared__ RowMemory<kWidth> memory;
    const RowThreads<kWidth> threads(memory);
    const int64_t rows = p.axes.count();
    for (int64_t row = int64_t{blockIdx.x} * threads.kRows + threads.row(); row < rows; row += int64_t{gridDim.x} * threads.kRows) {
        const RowOffset begin = row_offset(p.axes, row);
        const auto x = [&](int64_t i) { return load_exact(p.x, begin.x + i * p.x_stride, p.x_dtype); };
        double result;
        if (p.op == ATTILE_REDUCE_MAX || p.op == ATTILE_REDUCE_MIN) {
            const bool is_max = p.op == ATTILE_REDUCE_MAX;
            const auto better = [is_max](double a, double b) { return is_max ? larger(a, b) : smaller(a, b); };
            result = is_max ? minus_infinity() : -minus_infinity();
            for (int64_t i = threads.index(); i < p.length; i += kWidth) result = better(result, x(i));
            result = threads.fold(result, better);
        } else {
            Reach reach;
            for (int64_t i = threads.index(); i < p.length; i += kWidth) reach.add(Number(x(i)));
            reach.share(threads, p.length);
            result = threads.sum(reach.lowest, reach.highest, reach.kinds, [&](int base, int64_t(&sums)[kWindowWords]) {
                for (int64_t i = threads.index(); i < p.length; i += kWidth) add_number(Number(x(i)), base, sums);
            });
            if (p.op == ATTILE_REDUCE_MEAN) result = rounded_quotient(result, static_cast<double>(p.length));
        }
        if (threads.is_first()) store_exact(p.y, begin.y, p.y_dtype, result);
    }
}

template <int kWidth>
__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) softmax_exactly(const RowParams parameter) {
    const RowParams &p = kernel_parameter(parameter);
    __shared__ RowMemory<kWidth> memory;
    const RowThreads<kWidth> threads(memory);
    const int64_t rows = p.axes.count();
    for (int64_t row = int64_t{blockIdx.x} * threads.kRows + threads.row(); row < rows; row += int64_t{gridDim.x} * threads.kRows) {
        const RowOffset begin = row_offset(p.axes, row);
        const auto x = [&](int64_t i) { return load_exact(p.x, begin.x + i * p.x_stride, p.x_dtype); };
        Weights weights;
        for (int64_t i = threads.index(); i < p.length; i += kWidth) weights.add(x(i));
        weights.share(threads);
        const bool has = has_weights(weights.top);
        const double z = has ? weights.sum(threads, p.length, x) : 1.0;
        for (int64_t i = threads.index(); i < p.length; i += kWidth) {  // Element by element, so that y may be x.
            const double y = has ? rounded_quotient(weights.of(x(i)), z) : without_weights(weights.top);
            store_exact(p.y, begin.y + i * p.y_stride, p.y_dtype, y);
        }
    }
}

template <class Problem>
RowParams params_of(const Problem &problem) {
    RowParams p{};
    p.axes = merge_axes(problem.shape, problem.x.stride, problem.y.stride, 3);
    p.x = problem.x.data;
    p.y = problem.y.data;
    p.length = problem.shape[3];
    p.x_stride = problem.x.stride[3];
    p.y_stride = problem.y.stride[3];
    p.x_dtype = problem.x.dtype;
    p.y_dtype = problem.y.dtype;
    return p;
}

struct RowCall {
    const char *operation;
    RowParams p;
    void (*kernel)(RowParams);
    bool is_long, writes_rows;

    int32_t describe(Device &device, attile_support &support) const {
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "%s_exact_%s", operation, is_long ? "block" : "lanes");
        const double rows = static_cast<double>(p.axes.count()), elements = rows * static_cast<double>(p.length);
        support.flops = (writes_rows ? 4 : 1) * elements;
        support.bytes = elements * ((p.x_dtype & 0xff) / 8) + (writes_rows ? elements : rows) * ((p.y_dtype & 0xff) / 8);
        support.tile_m = rows_of_block();
        support.tile_n = static_cast<int32_t>(std::min<int64_t>(p.length, 1 << 30));
        support.splits = 1;
        support.blocks = row_grid(device, p.axes.count(), rows_of_block());
        const int32_t status = fill_resources(device, reinterpret_cast<const void *>(kernel), kRowThreads, support);
        support.predicted_share = 0;  // Arithmetic bounds it, of which no peak is known.
        return status;
    }
    int32_t launch(Device &device, Workspace &, Stream stream) const {
        return gpu::launch(device, kernel, Dim3{row_grid(device, p.axes.count(), rows_of_block())}, Dim3{kRowThreads}, 0, stream, p);
    }
    int32_t rows_of_block() const { return is_long ? 1 : kRowThreads / kLanes; }
};

bool is_exact(const attile_launch &launch) { return (launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0; }

}  // namespace

Planned<attile_reduce_problem> plan_reduce(Device &, const attile_reduce_problem &problem) {
    if (!is_exact(problem.launch)) return {};
    RowParams p = params_of(problem);
    p.op = problem.op;
    const bool is_long = p.length >= kLongRow;
    return Planned<attile_reduce_problem>(
        RowCall{"reduce", p, is_long ? reduce_exactly<kRowThreads> : reduce_exactly<kLanes>, is_long, false}, 0);
}

Planned<attile_softmax_problem> plan_softmax(Device &, const attile_softmax_problem &problem) {
    if (!is_exact(problem.launch)) return {};
    const RowParams p = params_of(problem);
    const bool is_long = p.length >= kLongRow;
    return Planned<attile_softmax_problem>(
        RowCall{"softmax", p, is_long ? softmax_exactly<kRowThreads> : softmax_exactly<kLanes>, is_long, true}, 0);
}

}  // namespace attile::gpu::exact
