// SPDX-License-Identifier: Apache-2.0
// The launches of a plan: the kernel, and where the depth is split the one that adds the partial results.
#include "gemm/run.h"

#include <algorithm>
#include <cstdio>

#include "host/status.h"

namespace attile::gpu {
namespace {

constexpr uint32_t kRaster = 16;  // Rows of tiles walked together; 4 to 32 measured alike.

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
