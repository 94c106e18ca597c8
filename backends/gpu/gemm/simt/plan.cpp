// SPDX-License-Identifier: Apache-2.0
#include "gemm/simt/plan.h"

#include <algorithm>
#include <cstdio>

#include "gemm/run.h"

namespace attile::gpu::simt {
namespace {

bool invariant(const attile_gemm_problem &problem) { return (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; }

struct SimtGemm {
    const attile_gemm_problem *problem;
    GemmShape shape;
    GemmPlan plan;

    int32_t describe(Device &device, attile_support &support) const {
        gemm_work(*problem, support);
        support.level = shape.unit_strides || problem->k == 0 ? ATTILE_SUPPORT_NATIVE : ATTILE_SUPPORT_EMULATED;
        support.status = ATTILE_OK;
        support.tile_m = shape.transposed ? plan.tile_n : plan.tile_m;
        support.tile_n = shape.transposed ? plan.tile_m : plan.tile_n;
        support.tile_k = plan.tile_k;
        support.threads = plan.threads;
        support.splits = plan.splits;
        support.blocks = plan.tiles_m * plan.tiles_n * std::max(plan.splits, 1) * shape.batches;
        std::snprintf(support.kernel, sizeof support.kernel, "%s%s%s", plan.name, plan.variant[0] != '\0' ? "_" : "", plan.variant);
        const bool f64 = shape.dtype == ATTILE_F64;
        const void *kernel = plan.kernel != nullptr ? plan.kernel : f64 ? gemm_combine_f64() : gemm_combine_f32();
        KernelResources resources;
        int32_t status = device.resources(kernel, &resources);
        if (status != ATTILE_OK) return status;
        status = device.occupancy(kernel, plan.threads, 0, &support.blocks_per_unit);
        if (status != ATTILE_OK) return status;
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static;
        const DeviceProperties &properties = device.properties();
        const double peak = f64 ? properties.peak_flops_f64 : properties.peak_flops_f32;
        if (plan.seconds > 0 && peak > 0 && properties.peak_bandwidth > 0) {
            const double floor = std::max(support.flops / peak, support.bytes / properties.peak_bandwidth);
            support.predicted_share = std::min(1.0, floor / plan.seconds);
        }
        char *const text = support.text;
        const std::size_t size = sizeof support.text;
        if (problem->k == 0) {
            std::snprintf(text, size, "no depth: only the epilogue is computed");
        } else if (!shape.unit_strides) {
            std::snprintf(text, size, "A or B has unit stride along neither axis: elements are read one by one");
        } else if (plan.tile_k == kGemmSkinnyStep) {
            std::snprintf(text, size, "at most 16 rows or columns: the large operand is read once, at the rate of memory%s",
                          shape.b_quads ? "" : "; read one by one, since it is not aligned to 16 bytes or 4 elements");
        } else if (!shape.a_vectors || !shape.b_vectors) {
            std::snprintf(text, size, "A or B is not aligned to 16 bytes, or its rows are not a multiple of 4 elements: read one by one");
        } else {
            std::snprintf(text, size, "%d splits of the depth; %lld blocks on %d units%s", plan.splits,
                          static_cast<long long>(support.blocks), properties.compute_units,
                          shape.transposed ? "; computed as its transpose" : "");
        }
        count_matrix_units(properties, problem->a.dtype, support);
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) {
        problem = &to;
        gemm_move(shape.params, to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return gemm_launch(device, shape, plan, workspace, stream);
    }
};

}  // namespace

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem) {
    const GemmShape shape = gemm_shape(problem);
    const GemmPlan plan = gemm_plan(device.properties(), shape, invariant(problem));
    if (!gemm_fits(plan))
        return Planned<attile_gemm_problem>::refused(ATTILE_ERROR_UNSUPPORTED_SHAPE,
                                                     "gemm: %lld x %lld outputs are more blocks than a grid holds",
                                                     static_cast<long long>(problem.m), static_cast<long long>(problem.n));
    return Planned<attile_gemm_problem>(SimtGemm{&problem, shape, plan}, plan.workspace_bytes);
}

}  // namespace attile::gpu::simt
