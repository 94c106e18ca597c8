// SPDX-License-Identifier: Apache-2.0
// Exact merge: a lane group for some columns of a row, whose lanes are parts. Where the parts lie is written to the workspace first: there
// may be more of them than a kernel's parameters hold. The log-sum-exps have a launch of their own, since they may overwrite a part's. 256
// threads, 5 KB of shared memory. Bound: integer arithmetic of the sums.
#include <algorithm>
#include <cstdio>

#include "host/sizes.h"
#include "host/status.h"
#include "rows/exact/plan.h"
#include "rows/exact/sums.h"

namespace attile::gpu::exact {
namespace {

constexpr int kPartsAtOnce = 32, kColumns = 16;

struct Part {
    const void *o, *lse;
    int64_t stride[4], lse_stride[3];  // Axes b, h, l, d.
};

struct PartTable {
    Part part[kPartsAtOnce];
    Part *to;
    int32_t count, reserved;
};
static_assert(sizeof(PartTable) <= 4096, "kernel parameters");

struct MergeParams {
    const Part *parts;
    int64_t count;
    int64_t heads, len, rows, columns;
    Part out;  // o and lse, which are written.
    int32_t dtype, lse_dtype, o_dtype, reserved;
};

__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 1) write_parts(const PartTable parameter) {
    const PartTable &table = kernel_parameter(parameter);
    for (int i = static_cast<int>(threadIdx.x); i < table.count; i += kRowThreads) table.to[i] = table.part[i];
}

// A row of the parts and of the result, and its weights.
class MergedRow {
  public:
    using Threads = RowThreads<kLanes>;

    ATTILE_LANE_FN MergedRow(const MergeParams &p, const Threads &threads, int64_t row) : p_(p) {
        const Division of_len = divide(row, p.len), of_head = divide(of_len.quotient, p.heads);
        at_[0] = of_head.quotient;
        at_[1] = of_head.remainder;
        at_[2] = of_len.remainder;
        for (int64_t i = threads.index(); i < p.count; i += kLanes) weights_.add(lse(i));
        weights_.share(threads);
        if (has_weights(weights_.top)) z_ = weights_.sum(threads, p.count, [this](int64_t i) { return lse(i); });
        own_ = threads.index() < p.count ? lse(threads.index()) : minus_infinity();
        own_weight_ = weights_.of(own_);
        lane_ = threads.index();
    }
    ATTILE_LANE_FN double top() const { return weights_.top; }
    ATTILE_LANE_FN double z() const { return z_; }
    // Calls use(weight, o) for those of this lane's parts that have keys.
    template <class Use>
    ATTILE_LANE_FN void for_parts(int64_t column, Use use) const {
        for (int64_t i = lane_; i < p_.count; i += kLanes) {
            const double x = i == lane_ ? own_ : lse(i);
            if (x == minus_infinity()) continue;
            const Part &part = p_.parts[i];
            use(Number(i == lane_ ? own_weight_ : weights_.of(x)),
                Number(load_exact(part.o, offset(part.stride) + column * part.stride[3], p_.dtype)));
        }
    }
    ATTILE_LANE_FN int64_t offset(const int64_t *stride) const { return at_[0] * stride[0] + at_[1] * stride[1] + at_[2] * stride[2]; }

  private:
    ATTILE_LANE_FN double lse(int64_t i) const {
        const Part &part = p_.parts[i];
        return load_exact(part.lse, offset(part.lse_stride), p_.lse_dtype);
    }

    const MergeParams &p_;
    int64_t at_[3];
    Weights weights_;
    double z_ = 1, own_, own_weight_;
    int lane_;
};

__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) merge_exactly(const MergeParams parameter) {
    const MergeParams &p = kernel_parameter(parameter);
    __shared__ RowMemory<kLanes> memory;
    const RowThreads<kLanes> threads(memory);
    const int64_t pieces = (p.columns + kColumns - 1) / kColumns, items = p.rows * pieces;
    for (int64_t item = int64_t{blockIdx.x} * threads.kRows + threads.row(); item < items; item += int64_t{gridDim.x} * threads.kRows) {
        const Division of_row = divide(item, pieces);
        const MergedRow row(p, threads, of_row.quotient);
        const int64_t begin = of_row.remainder * kColumns, end = begin + kColumns < p.columns ? begin + kColumns : p.columns;
        for (int64_t column = begin; column < end; ++column) {
            double result = without_weights(row.top());
            if (has_weights(row.top())) {
                Reach reach;
                row.for_parts(column, [&](const Number &weight, const Number &o) { reach.add_product(weight, o); });
                reach.share(threads, p.count);
                const double sum = threads.sum(reach.lowest, reach.highest, reach.kinds, [&](int base, int64_t(&sums)[kWindowWords]) {
                    row.for_parts(column, [&](const Number &weight, const Number &o) { add_product(weight, o, base, sums); });
                });
                result = rounded_quotient(sum, row.z());
            }
            if (threads.is_first())
                store_exact(const_cast<void *>(p.out.o), row.offset(p.out.stride) + column * p.out.stride[3], p.o_dtype, result);
        }
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kRowThreads, 2) merge_lse_exactly(const MergeParams parameter) {
    const MergeParams &p = kernel_parameter(parameter);
    __shared__ RowMemory<kLanes> memory;
    const RowThreads<kLanes> threads(memory);
    for (int64_t at = int64_t{blockIdx.x} * threads.kRows + threads.row(); at < p.rows; at += int64_t{gridDim.x} * threads.kRows) {
        const MergedRow row(p, threads, at);
        if (!threads.is_first()) continue;
        const double result =
            has_weights(row.top()) ? rounded_sum(row.top(), log_by_steps(row.z())) : without_weights(row.top()) + row.top();
        store_exact(const_cast<void *>(p.out.lse), row.offset(p.out.lse_stride), p.lse_dtype, result);
    }
}

Part part_of(const attile_operand &o, const attile_operand &lse) {
    Part part{o.data, lse.data, {}, {}};
    std::copy(o.stride, o.stride + 4, part.stride);
    std::copy(lse.stride, lse.stride + 3, part.lse_stride);
    return part;
}

struct MergeCall {
    const attile_attention_merge_problem *problem;
    MergeParams p;

    int64_t items() const { return p.rows * ceil_div(p.columns, kColumns); }
    int32_t describe(Device &device, attile_support &support) const {
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "merge_exact_lanes");
        const double elements = static_cast<double>(p.rows) * static_cast<double>(p.columns), parts = static_cast<double>(p.count);
        support.flops = 2 * parts * elements;
        support.bytes = elements * (parts * ((p.dtype & 0xff) / 8) + (p.o_dtype & 0xff) / 8);
        support.splits = 1;
        support.blocks = row_grid(device, items(), kRowThreads / kLanes);
        const int32_t status = fill_resources(device, reinterpret_cast<const void *>(&merge_exactly), kRowThreads, support);
        support.predicted_share = 0;  // Arithmetic bounds it, of which no peak is known.
        return status;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        MergeParams params = p;
        Part *const parts = workspace.take<Part>(p.count);
        if (parts == nullptr)
            return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "attention_merge: the workspace is smaller than the query said");
        params.parts = parts;
        int32_t status = ATTILE_OK;
        for (int64_t first = 0; first < p.count && status == ATTILE_OK; first += kPartsAtOnce) {
            PartTable table{};
            table.to = parts + first;
            table.count = static_cast<int32_t>(std::min<int64_t>(kPartsAtOnce, p.count - first));
            for (int32_t i = 0; i < table.count; ++i) table.part[i] = part_of(problem->o_parts[first + i], problem->lse_parts[first + i]);
            status = gpu::launch(device, &write_parts, Dim3{1}, Dim3{kRowThreads}, 0, stream, table);
        }
        const auto grid = [&](int64_t count) { return Dim3{row_grid(device, count, kRowThreads / kLanes)}; };
        if (status == ATTILE_OK && p.columns > 0)
            status = gpu::launch(device, &merge_exactly, grid(items()), Dim3{kRowThreads}, 0, stream, params);
        if (status == ATTILE_OK && p.out.lse != nullptr)
            status = gpu::launch(device, &merge_lse_exactly, grid(p.rows), Dim3{kRowThreads}, 0, stream, params);
        return status;
    }
};

}  // namespace

Planned<attile_attention_merge_problem> plan_merge(Device &, const attile_attention_merge_problem &problem) {
    if ((problem.launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) == 0) return {};
    MergeParams p{};
    p.count = problem.parts;
    p.heads = problem.heads;
    p.len = problem.len;
    p.rows = problem.batch * problem.heads * problem.len;
    p.columns = problem.head_dim_v;
    p.out = part_of(problem.o, problem.lse);
    p.dtype = problem.o_parts[0].dtype;
    p.lse_dtype = problem.lse_parts[0].dtype;
    p.o_dtype = problem.o.dtype;
    return Planned<attile_attention_merge_problem>(MergeCall{&problem, p}, workspace_piece(p.count * static_cast<int64_t>(sizeof(Part))));
}

}  // namespace attile::gpu::exact
