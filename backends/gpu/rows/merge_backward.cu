// SPDX-License-Identifier: Apache-2.0
// Gradients of merge: rounds of parts, vectors, launches. The kernel is in rows/simt/merge_backward.cuh.
#include <algorithm>
#include <cstdio>

#include "host/status.h"
#include "rows/merge.h"
#include "rows/simt/merge_backward.cuh"
#include "rows/simt/plan.h"

namespace attile::gpu {
namespace {

using Problem = attile_attention_merge_backward_problem;

struct GradientPlan {
    bool is_vector = false;
    int32_t rounds = 1, width = 1;
    int64_t rows = 0, vec = 1;  // vec: elements that a lane takes at a time.
};

// Whether a lane's elements can be loaded or stored at once.
bool has_vectors(const attile_operand &operand, int64_t head_dim, int64_t vec) {
    return head_dim % vec == 0 && rows_aligned(operand, head_dim, std::min<int64_t>(16, vec * bytes_of(operand.dtype)));
}

GradientPlan make_plan(const Problem &problem) {
    GradientPlan plan;
    plan.vec = 16 / bytes_of(problem.o_parts[0].dtype);
    plan.rows = problem.batch * problem.heads * problem.len;
    plan.rounds = static_cast<int32_t>((problem.parts + simt::kMergeParts - 1) / simt::kMergeParts);
    while (plan.width < kLanes && plan.width * plan.vec < problem.head_dim_v) plan.width *= 2;
    plan.is_vector = true;
    for (int64_t p = 0; p < problem.parts && plan.is_vector; ++p)
        plan.is_vector =
            has_vectors(problem.o_parts[p], problem.head_dim_v, plan.vec) && has_vectors(problem.do_parts[p], problem.head_dim_v, plan.vec);
    return plan;
}

using GradientKernel = void (*)(simt::MergeGradientArguments);

template <class T, class Out>
GradientKernel kernel_of(bool is_vector) {
    return is_vector ? simt::merge_gradients<T, Out, true> : simt::merge_gradients<T, Out, false>;
}

// nullptr: the pair of types is not one of the interface's.
GradientKernel kernel_for(int32_t from, int32_t to, bool is_vector) {
    switch (from) {
        case ATTILE_F32:
            return to == ATTILE_F32 ? kernel_of<float, float>(is_vector) : nullptr;
        case ATTILE_F64:
            return to == ATTILE_F64   ? kernel_of<double, double>(is_vector)
                   : to == ATTILE_F32 ? kernel_of<double, float>(is_vector)
                                      : nullptr;
        case ATTILE_F16:
            return to == ATTILE_F16 ? kernel_of<F16, F16>(is_vector) : to == ATTILE_F32 ? kernel_of<F16, float>(is_vector) : nullptr;
        case ATTILE_BF16:
            return to == ATTILE_BF16 ? kernel_of<BF16, BF16>(is_vector) : to == ATTILE_F32 ? kernel_of<BF16, float>(is_vector) : nullptr;
        default:
            return nullptr;
    }
}

simt::MergedRows merged_rows(const attile_operand &operand, int64_t head_dim, int64_t vec) {
    simt::MergedRows rows;
    rows.data = operand.data;
    std::copy(operand.stride, operand.stride + 4, rows.stride);
    rows.dtype = operand.dtype;
    rows.is_vector = has_vectors(operand, head_dim, vec);
    return rows;
}

simt::MergeGradientPart part_of(const Problem &problem, int64_t p) {
    const attile_operand &o = problem.o_parts[p], &lse = problem.lse_parts[p], &d_o = problem.do_parts[p], &d_lse = problem.dlse_parts[p];
    simt::MergeGradientPart part;
    part.o = o.data;
    part.lse = lse.data;
    part.d_o = d_o.data;
    part.d_lse = d_lse.data;
    std::copy(o.stride, o.stride + 4, part.stride);
    std::copy(lse.stride, lse.stride + 3, part.lse_stride);
    std::copy(d_o.stride, d_o.stride + 4, part.d_stride);
    std::copy(d_lse.stride, d_lse.stride + 3, part.d_lse_stride);
    return part;
}

struct GradientCall {
    const Problem *problem;
    GradientPlan plan;
    GradientKernel kernel;

    uint32_t blocks(const Device &device) const { return row_grid(device, plan.rows, kRowThreads / plan.width); }

    int32_t describe(Device &device, attile_support &support) const {
        const auto bytes = [](const attile_operand &x) { return static_cast<double>(bytes_of(x.dtype)); };
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_merge_backward_%s", plan.is_vector ? "vector" : "scalar");
        const double elements = static_cast<double>(plan.rows) * static_cast<double>(problem->head_dim_v);
        const double parts = static_cast<double>(problem->parts);
        support.flops = 4 * parts * elements;
        support.bytes =
            elements * (parts * (bytes(problem->o_parts[0]) + bytes(problem->do_parts[0])) + bytes(problem->o) + bytes(problem->dout));
        support.splits = plan.rounds;
        support.blocks = blocks(device);
        return fill_resources(device, reinterpret_cast<const void *>(kernel), kRowThreads, support);
    }

    int32_t launch(Device &device, Workspace &, Stream stream) const {
        simt::MergeGradientArguments arguments;
        arguments.width = plan.width;
        arguments.heads = problem->heads;
        arguments.len = problem->len;
        arguments.rows = plan.rows;
        arguments.head_dim = problem->head_dim_v;
        arguments.o = merged_rows(problem->o, problem->head_dim_v, plan.vec);
        arguments.dout = merged_rows(problem->dout, problem->head_dim_v, plan.vec);
        arguments.lse = problem->lse.data;
        arguments.dlse = problem->dlse.data;
        std::copy(problem->lse.stride, problem->lse.stride + 3, arguments.lse_stride);
        std::copy(problem->dlse.stride, problem->dlse.stride + 3, arguments.dlse_stride);
        const Dim3 block{kRowThreads};
        const Dim3 grid{blocks(device)};
        for (int32_t round = 0; round < plan.rounds; ++round) {
            const int64_t first = int64_t{round} * simt::kMergeParts;
            arguments.parts = static_cast<int32_t>(std::min<int64_t>(problem->parts - first, simt::kMergeParts));
            for (int32_t p = 0; p < arguments.parts; ++p) arguments.part[p] = part_of(*problem, first + p);
            const int32_t status = gpu::launch(device, kernel, grid, block, 0, stream, arguments);
            if (status != ATTILE_OK) return status;
        }
        return ATTILE_OK;
    }
};

}  // namespace

Planned<Problem> simt::plan_merge_backward(Device &, const Problem &problem) {
    const GradientPlan plan = make_plan(problem);
    const int32_t from = problem.o_parts[0].dtype, to = problem.do_parts[0].dtype;
    const GradientKernel kernel = kernel_for(from, to, plan.is_vector);
    if (kernel == nullptr)
        return Planned<Problem>::refused(ATTILE_ERROR_UNSUPPORTED_DTYPE, "attention_merge_backward: from data type 0x%04x to 0x%04x",
                                         static_cast<unsigned>(from), static_cast<unsigned>(to));
    return Planned<Problem>(GradientCall{&problem, plan, kernel}, 0);
}

}  // namespace attile::gpu
