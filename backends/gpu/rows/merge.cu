// SPDX-License-Identifier: Apache-2.0
// merge: rounds of parts, vector width, launches. The kernels are in rows/simt/merge.cuh.
#include <algorithm>
#include <cstdio>

#include "host/status.h"
#include "rows/merge.h"
#include "rows/simt/merge.cuh"
#include "rows/simt/plan.h"

namespace attile::gpu {
namespace {

struct MergePlan {
    bool is_vector = false;
    int32_t along = 1;  // As in MergeArguments.
    int32_t rounds = 1;
    int64_t rows = 0;
    int64_t workspace_bytes = 0;             // Of the running results between rounds: two, in turn.
    int64_t running_o = 0, running_lse = 0;  // Elements of one.
};

MergePlan make_plan(const attile_attention_merge_problem &problem) {
    MergePlan plan;
    const int64_t size = bytes_of(problem.o_parts[0].dtype), vec = 16 / size;
    plan.rows = problem.batch * problem.heads * problem.len;
    plan.rounds = static_cast<int32_t>((problem.parts + simt::kMergeParts - 1) / simt::kMergeParts);
    plan.is_vector = problem.head_dim_v % vec == 0 &&
                     rows_aligned(problem.o, problem.head_dim_v, std::min<int64_t>(16, vec * bytes_of(problem.o.dtype)));
    for (int64_t p = 0; p < problem.parts; ++p) plan.is_vector = plan.is_vector && rows_aligned(problem.o_parts[p], problem.head_dim_v, 16);
    if (plan.is_vector) {
        plan.along = simt::merge_along(static_cast<int>(vec));
        while (problem.head_dim_v / vec % plan.along != 0) plan.along /= 2;
    }
    if (plan.rounds > 1) {
        const int64_t compute = problem.compute == ATTILE_F64 ? 8 : 4;
        plan.running_o = plan.rows * problem.head_dim_v;
        plan.running_lse = plan.rows;
        plan.workspace_bytes = 2 * (workspace_piece(plan.running_o * compute) + workspace_piece(plan.running_lse * compute));
    }
    return plan;
}

using MergeKernel = void (*)(simt::MergeArguments);

template <class T, class Out>
MergeKernel kernel_of(bool is_vector) {
    return is_vector ? simt::merge_parts<T, Out, 16 / static_cast<int>(sizeof(T))> : simt::merge_parts<T, Out, 1>;
}

// nullptr: the pair of types is not one of the interface's.
MergeKernel kernel_for(int32_t from, int32_t to, bool is_vector) {
    switch (from) {
        case ATTILE_F32:
            return to == ATTILE_F32    ? kernel_of<float, float>(is_vector)
                   : to == ATTILE_F16  ? kernel_of<float, F16>(is_vector)
                   : to == ATTILE_BF16 ? kernel_of<float, BF16>(is_vector)
                                       : nullptr;
        case ATTILE_F64:
            return to == ATTILE_F64    ? kernel_of<double, double>(is_vector)
                   : to == ATTILE_F32  ? kernel_of<double, float>(is_vector)
                   : to == ATTILE_F16  ? kernel_of<double, F16>(is_vector)
                   : to == ATTILE_BF16 ? kernel_of<double, BF16>(is_vector)
                                       : nullptr;
        case ATTILE_F16:
            return to == ATTILE_F16 ? kernel_of<F16, F16>(is_vector) : to == ATTILE_F32 ? kernel_of<F16, float>(is_vector) : nullptr;
        case ATTILE_BF16:
            return to == ATTILE_BF16 ? kernel_of<BF16, BF16>(is_vector) : to == ATTILE_F32 ? kernel_of<BF16, float>(is_vector) : nullptr;
        default:
            return nullptr;
    }
}

template <class C>
int32_t run_rounds(Device &device, const attile_attention_merge_problem &problem, const MergePlan &plan, Workspace &workspace,
                   Stream stream) {
    const int32_t from = problem.o_parts[0].dtype;
    const int32_t compute = problem.compute == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    C *running_o[2] = {nullptr, nullptr}, *running_lse[2] = {nullptr, nullptr};
    if (plan.rounds > 1) {
        for (int i = 0; i < 2; ++i) {
            running_o[i] = workspace.take<C>(plan.running_o);
            running_lse[i] = workspace.take<C>(plan.running_lse);
            if (running_o[i] == nullptr || running_lse[i] == nullptr) {
                return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL, "attention_merge: the workspace is smaller than the query said");
            }
        }
    }
    const int64_t vec = plan.is_vector ? 16 / bytes_of(from) : 1;
    const Dim3 block{kRowThreads};
    const Dim3 grid{row_grid(device, plan.rows * (problem.head_dim_v / vec / plan.along), kRowThreads)};
    const Dim3 lse_grid{row_grid(device, plan.rows, kRowThreads)};
    for (int32_t round = 0; round < plan.rounds; ++round) {
        const bool is_last = round == plan.rounds - 1;
        simt::MergeArguments arguments;
        arguments.heads = problem.heads;
        arguments.len = problem.len;
        arguments.rows = plan.rows;
        arguments.head_dim = problem.head_dim_v;
        arguments.along = plan.along;
        const int64_t first = int64_t{round} * simt::kMergeParts;
        arguments.parts = static_cast<int32_t>(std::min<int64_t>(problem.parts - first, simt::kMergeParts));
        for (int32_t p = 0; p < arguments.parts; ++p) {
            const attile_operand &o = problem.o_parts[first + p], &lse = problem.lse_parts[first + p];
            simt::MergePart &part = arguments.part[p];
            part.o = o.data;
            part.lse = lse.data;
            std::copy(o.stride, o.stride + 4, part.stride);
            std::copy(lse.stride, lse.stride + 3, part.lse_stride);
        }
        if (round > 0) {
            arguments.running_o = running_o[(round - 1) % 2];
            arguments.running_lse = running_lse[(round - 1) % 2];
        }
        int32_t to = problem.o.dtype;
        if (is_last) {
            arguments.o = problem.o.data;
            arguments.lse = problem.lse.data;
            std::copy(problem.o.stride, problem.o.stride + 4, arguments.stride);
            std::copy(problem.lse.stride, problem.lse.stride + 3, arguments.lse_stride);
        } else {
            to = compute;
            arguments.o = running_o[round % 2];
            arguments.lse = running_lse[round % 2];
            const int64_t d = problem.head_dim_v;
            const int64_t dense[4] = {problem.heads * problem.len * d, problem.len * d, d, 1};
            std::copy(dense, dense + 4, arguments.stride);
            arguments.lse_stride[0] = problem.heads * problem.len;
            arguments.lse_stride[1] = problem.len;
            arguments.lse_stride[2] = 1;
        }
        int32_t status = ATTILE_OK;
        if (problem.head_dim_v > 0) status = launch(device, kernel_for(from, to, plan.is_vector), grid, block, 0, stream, arguments);
        if (status == ATTILE_OK && arguments.lse != nullptr)
            status = launch(device, &simt::merge_lse<C>, lse_grid, block, 0, stream, arguments);
        if (status != ATTILE_OK) return status;
    }
    return ATTILE_OK;
}

struct MergeCall {
    const attile_attention_merge_problem *problem;
    MergePlan plan;
    MergeKernel kernel;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t from = problem->o_parts[0].dtype;
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_merge_%s", plan.is_vector ? "vector" : "scalar");
        const double elements = static_cast<double>(plan.rows) * static_cast<double>(problem->head_dim_v);
        const double parts = static_cast<double>(problem->parts);
        support.flops = 2 * parts * elements;
        support.bytes = elements * (parts * static_cast<double>(bytes_of(from)) + static_cast<double>(bytes_of(problem->o.dtype)));
        support.splits = plan.rounds;
        const int64_t vec = plan.is_vector ? 16 / bytes_of(from) : 1;
        support.blocks = row_grid(device, plan.rows * (problem->head_dim_v / vec / plan.along), kRowThreads);
        return fill_resources(device, reinterpret_cast<const void *>(kernel), kRowThreads, support);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return problem->compute == ATTILE_F64 ? run_rounds<double>(device, *problem, plan, workspace, stream)
                                              : run_rounds<float>(device, *problem, plan, workspace, stream);
    }
};

}  // namespace

Planned<attile_attention_merge_problem> simt::plan_merge(Device &, const attile_attention_merge_problem &problem) {
    const MergePlan plan = make_plan(problem);
    const int32_t from = problem.o_parts[0].dtype;
    const MergeKernel kernel = kernel_for(from, problem.o.dtype, plan.is_vector);
    if (kernel == nullptr)
        return Planned<attile_attention_merge_problem>::refused(ATTILE_ERROR_UNSUPPORTED_DTYPE,
                                                                "attention_merge: from data type 0x%04x to 0x%04x",
                                                                static_cast<unsigned>(from), static_cast<unsigned>(problem.o.dtype));
    return Planned<attile_attention_merge_problem>(MergeCall{&problem, plan, kernel}, plan.workspace_bytes);
}

}  // namespace attile::gpu
