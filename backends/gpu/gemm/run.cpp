// SPDX-License-Identifier: Apache-2.0
// GEMM by SIMT: its plan described and launched; and the launches that other families' plans make too.
#include "gemm/run.h"

#include <algorithm>
#include <cstdio>

#include "gemm/simt/plan.h"
#include "host/status.h"

namespace attile::gpu {
namespace {

constexpr uint32_t kRaster = 16;  // Rows of tiles walked together; 4 to 32 measured alike.

bool invariant(const attile_gemm_problem &problem) { return (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; }

int32_t launch_kernel(Device &device, const void *kernel, int64_t blocks, int threads, std::size_t shared, void *params, Stream stream) {
    void *arguments[] = {params, nullptr};
    return device.launch(kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{static_cast<uint32_t>(threads), 1, 1}, shared, arguments,
                         stream);
}

int32_t run_combine(Device &device, const GemmProduct &product, const GemmPlan &plan, const void *partial, Stream stream) {
    const GemmParams &p = product.params;
    GemmCombineParams combine = {};
    combine.partial = partial;
    combine.partial_row = plan.partial_row;
    combine.partial_batch = p.m * plan.partial_row;
    combine.partial_split = product.batches * combine.partial_batch;
    combine.c = p.c;
    combine.d = p.d;
    combine.bias = p.bias;
    combine.m = p.m;
    combine.n = p.n;
    combine.batch_y = p.batch_y;
    combine.batches = product.batches;
    combine.alpha = p.alpha;
    combine.beta = p.beta;
    combine.splits = plan.splits;
    combine.vectorised = gemm_vectorised(p) ? 1 : 0;
    combine.activation = p.activation;
    const bool f64 = product.dtype == ATTILE_F64;
    if (gemm_combines_plainly(product, plan.splits)) {
        constexpr int64_t kEach = int64_t{simt::kGemmCombineThreads} * simt::kGemmCombinePlainOutputs;
        const int64_t blocks = (p.m * plan.partial_row + kEach - 1) / kEach;
        return launch_kernel(device, simt::gemm_combine_plain_f32(gemm_vectorised(p)), blocks, simt::kGemmCombineThreads, 0, &combine,
                             stream);
    }
    // Many splits of few outputs would keep few threads busy for long.
    combine.ways = plan.splits >= simt::kGemmCombineWays ? simt::kGemmCombineWays : 1;
    const int64_t vectors = product.batches * p.m * ((p.n + 1) / (f64 ? 2 : 4) + 1);
    const int64_t most = int64_t{32} * std::max(1, device.properties().compute_units);
    const int64_t blocks = std::min(most, vectors * combine.ways / simt::kGemmCombineThreads + 1);
    return launch_kernel(device, f64 ? simt::gemm_combine_f64() : simt::gemm_combine_f32(), blocks, simt::kGemmCombineThreads, 0, &combine,
                         stream);
}

}  // namespace

bool gemm_fits(const GemmPlan &plan) {
    return plan.tiles_m <= kMaxGridX && plan.tiles_n <= kMaxGridX && plan.tiles_m * plan.tiles_n <= kMaxGridX / std::max(plan.splits, 1);
}

namespace {

// By SIMT.
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
        const void *kernel = plan.kernel != nullptr ? plan.kernel : f64 ? simt::gemm_combine_f64() : simt::gemm_combine_f32();
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
        } else if (plan.tile_k == simt::kGemmSkinnyStep) {
            std::snprintf(text, size, "at most 16 rows or columns: the large operand is read once, at the rate of memory%s",
                          shape.b_quads ? "" : "; read one by one, since it is not aligned to 16 bytes or 4 elements");
        } else if (!shape.a_vectors || !shape.b_vectors) {
            std::snprintf(text, size, "A or B is not aligned to 16 bytes or its rows are no multiple of 4 elements: read one by one");
        } else {
            std::snprintf(text, size, "%d splits of the depth; %lld blocks on %d units%s", plan.splits,
                          static_cast<long long>(support.blocks), properties.compute_units,
                          shape.transposed ? "; computed as its transpose" : "");
        }
        count_matrix_units(properties, problem->a.dtype, support);
        return ATTILE_OK;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return gemm_launch(device, shape, plan, workspace, stream);
    }
};

}  // namespace

Planned<attile_gemm_problem> simt::plan_gemm(Device &device, const attile_gemm_problem &problem) {
    const GemmShape shape = gemm_shape(problem);
    const GemmPlan plan = gemm_plan(device.properties(), shape, invariant(problem));
    if (!gemm_fits(plan))
        return Planned<attile_gemm_problem>::refused(ATTILE_ERROR_UNSUPPORTED_SHAPE,
                                                     "gemm: %lld x %lld outputs are more blocks than a grid holds",
                                                     static_cast<long long>(problem.m), static_cast<long long>(problem.n));
    return Planned<attile_gemm_problem>(SimtGemm{&problem, shape, plan}, plan.workspace_bytes);
}

int32_t gemm_launch(Device &device, const GemmProduct &product, const GemmPlan &plan, Workspace &workspace, Stream stream) {
    if (plan.kernel == nullptr) return run_combine(device, product, plan, nullptr, stream);

    GemmParams p = product.params;
    p.split_depth = plan.split_depth;
    p.splits = static_cast<uint32_t>(plan.splits);
    p.tiles_m = static_cast<uint32_t>(plan.tiles_m);
    p.tiles_n = static_cast<uint32_t>(plan.tiles_n);
    p.raster = kRaster;
    p.b.chunk_bytes = static_cast<int32_t>(p.b.depth * plan.tile_k * 4);  // Only read where it fits.
    p.columns = p.n;
    p.vectorised = gemm_vectorised(p) ? 1 : 0;
    void *partial = nullptr;
    if (plan.combine) {
        const bool f64 = product.dtype == ATTILE_F64;
        const int64_t batch = p.m * plan.partial_row;
        if (plan.workspace_bytes > 0) partial = workspace.take<char>(plan.workspace_bytes);
        if (partial == nullptr) return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than the query asked for");
        // Partial results are dense, their rows padded to whole vectors; the real epilogue is the combining kernel's.
        p.d = {partial, p.batch_y * batch, batch, plan.partial_row, 1, f64 ? ATTILE_F64 : ATTILE_F32, 0};
        p.c = p.bias = {};
        p.d_split = product.batches * batch;
        p.columns = plan.partial_row;
        p.vectorised = 1;
        p.alpha = 1;
        p.activation = ATTILE_ACTIVATION_NONE;
    }
    const int64_t blocks_each = plan.tiles_m * plan.tiles_n * plan.splits;
    const int64_t at_once = kMaxGridX / blocks_each;
    for (int64_t first = 0; first < product.batches; first += at_once) {
        p.first_batch = first;
        const int64_t count = std::min(at_once, product.batches - first);
        const int32_t status = launch_kernel(device, plan.kernel, count * blocks_each, plan.threads, plan.shared, &p, stream);
        if (status != ATTILE_OK) return status;
    }
    return plan.combine ? run_combine(device, product, plan, partial, stream) : ATTILE_OK;
}

}  // namespace attile::gpu
