// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm90/few_rows.h"
#include "host/sizes.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kAccess = 16;           // Bytes of a load; of B along columns half as many.
constexpr int64_t kVector = 8;            // Elements of it: extents and strides are multiples.
constexpr int64_t kFewestDepth = 512;     // Below, the tiles of other kernels do as well.
constexpr double kFewestBytes = 2 << 20;  // Of B.
constexpr int64_t kMostExtent = 0x7fffffff - 512;
constexpr int kSplits[] = {1, 2, 4, 8};

// The model.
constexpr double kLaunchSeconds = 2.5e-6;
constexpr double kBlockSeconds = 2.5e-6;  // Of the start and end of a block.
constexpr double kMemoryShare = 0.8;      // Of the peak bandwidth.
constexpr double kClusterShare = 0.88;    // Of the multiprocessors: clusters lie within a part of the chip, and leave some over.

bool in_vectors(int64_t stride) { return stride % kVector == 0; }
bool is_aligned(const void *data) { return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(kAccess) == 0; }

bool is_readable(const GemmParams &p) {
    const int64_t b_stride = p.b.along_depth != 0 ? p.b.outer : p.b.depth;
    return p.a.depth == 1 && (p.m == 1 || in_vectors(p.a.outer)) && in_vectors(p.a.batch_x) && in_vectors(p.a.batch_y) &&
           in_vectors(b_stride) && in_vectors(p.b.batch_x) && in_vectors(p.b.batch_y) && in_vectors(p.k) && in_vectors(p.n) &&
           is_aligned(p.a.data) && is_aligned(p.b.data);
}

}  // namespace

FewRowsPlan few_rows_plan(const DeviceProperties &device, const attile_gemm_problem &problem) {
    FewRowsPlan plan;
    if ((problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 || std::min(problem.m, problem.n) > kFewRowsMost) return plan;
    plan.shape = gemm_shape(problem);
    GemmParams &p = plan.shape.params;
    const double b_bytes = 2.0 * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(plan.shape.batches);
    if (p.m > kFewRowsMost || p.k < kFewestDepth || std::max(p.n, p.k) > kMostExtent || b_bytes < kFewestBytes ||
        !plan.shape.unit_strides || !is_readable(p))
        return plan;
    // Rows of B a block's columns wide are short pieces of memory: worth it while B may stay in the L2 cache.
    if (p.b.along_depth == 0 && device.l2_bytes > 0 && b_bytes > static_cast<double>(device.l2_bytes)) return plan;
    const int64_t tiles = ceil_div(p.n, kFewRowsColumns) * plan.shape.batches;
    const double units = std::max(1, device.compute_units), bandwidth = device.peak_bandwidth > 0 ? device.peak_bandwidth : 3e12;
    // Two blocks of a multiprocessor take what one alone takes at half the rate.
    const double tile_seconds = b_bytes / static_cast<double>(tiles) * units * kFewRowsBlocks / (kMemoryShare * bandwidth);
    plan.seconds = 1e300;
    for (const int splits : kSplits) {
        if (splits > 1 && p.k < splits * kFewestDepth) break;
        const double at_once = std::floor((splits > 2 ? kClusterShare : 1.0) * units) * kFewRowsBlocks;
        const double rounds = std::ceil(static_cast<double>(tiles * splits) / at_once);
        const double seconds = kLaunchSeconds + rounds * (kBlockSeconds + tile_seconds / splits);
        if (seconds >= 0.98 * plan.seconds) continue;
        plan.seconds = seconds;
        p.splits = static_cast<uint32_t>(splits);
    }
    plan.blocks = tiles * p.splits;
    // With more blocks than the device runs at once larger tiles are ahead.
    if (static_cast<double>(plan.blocks) > units * kFewRowsBlocks) return plan;
    p.tiles_n = static_cast<uint32_t>(ceil_div(p.n, kFewRowsColumns));
    p.split_depth = ceil_div(p.k, p.splits);
    plan.kernel = (problem.a.dtype == ATTILE_F16 ? few_rows_kernel_f16 : few_rows_kernel_bf16)(static_cast<int>(p.m), p.b.along_depth != 0);
    plan.taken = true;
    return plan;
}

int32_t FewRowsGemm::describe(Device &device, attile_support &support) const {
    KernelResources resources;
    const int32_t status = device.resources(plan.kernel, &resources);
    if (status != ATTILE_OK) return status;
    gemm_work(*problem, support);
    const GemmParams &p = plan.shape.params;
    const int rows = p.m <= 8 ? 8 : kFewRowsMost;
    support.level = ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    support.tile_m = plan.shape.transposed ? kFewRowsColumns : rows;
    support.tile_n = plan.shape.transposed ? rows : kFewRowsColumns;
    support.tile_k = kFewRowsDepth * kFewRowsWarps;
    support.threads = kFewRowsThreads;
    support.splits = static_cast<int32_t>(p.splits);
    support.blocks = plan.blocks;
    support.blocks_per_unit = kFewRowsBlocks;
    support.registers = resources.registers;
    support.shared_bytes = resources.shared_static;
    const double bandwidth = device.properties().peak_bandwidth;
    if (bandwidth > 0) support.predicted_share = std::min(1.0, support.bytes / bandwidth / plan.seconds);
    std::snprintf(support.kernel, sizeof support.kernel, "gemm_sm90_%s_few_rows_%dx%d", plan.shape.dtype == ATTILE_F16 ? "f16" : "bf16",
                  rows, kFewRowsColumns);
    std::snprintf(support.text, sizeof support.text,
                  "at most 16 rows or columns: the large operand is read once; %lld blocks, clusters of %u",
                  static_cast<long long>(plan.blocks), p.splits);
    return ATTILE_OK;
}

int32_t FewRowsGemm::launch(Device &device, Workspace &, Stream stream) const {
    GemmParams p = plan.shape.params;
    void *arguments[] = {&p, nullptr};
    LaunchExtras extras;
    extras.cluster = p.splits;
    extras.overlaps = true;
    return device.launch_with(extras, plan.kernel, Dim3{static_cast<uint32_t>(plan.blocks), 1, 1}, Dim3{kFewRowsThreads, 1, 1}, 0,
                              arguments, stream);
}

}  // namespace attile::gpu::sm90
