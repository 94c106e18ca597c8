// SPDX-License-Identifier: Apache-2.0
#include "gemm/narrow/few_rows.h"

#include <cstdio>

#include "gemm/narrow/kernels.h"
#include "gemm/narrow_operands.h"
#include "gemm/problem.h"
#include "host/status.h"

namespace attile::gpu::narrow {
namespace {

constexpr int64_t kRun = 16;           // Numbers that a lane reads at a time.
constexpr double kMemoryShare = 0.75;  // Of the peak bandwidth.
constexpr double kConversion = 2;      // Instructions for a number, besides one for each row.

int64_t bits_of(int32_t dtype) { return dtype & 0xff; }

// What the kernel is launched with, but for addresses.
struct Cut {
    FewRowsKernel kernel;
    int warps_k = 1;
    int64_t blocks_n = 0, blocks = 0;

    Cut(const DeviceProperties &device, const attile_gemm_problem &p) : kernel(few_rows_kernel(p.b.dtype, p.m)) {
        // As many warps share a depth as are needed to have some for every unit.
        constexpr int64_t kWarpsWanted = 12;
        const int64_t units = std::max(1, device.compute_units), groups = ceil_div(p.n, kernel.columns) * p.batch[0] * p.batch[1];
        const int64_t steps = ceil_div(p.k, kFewStep);
        while (2 * warps_k <= kernel.most_warps_k && 2 * warps_k <= kFewWarps && 2 * warps_k <= steps &&
               groups * warps_k < kWarpsWanted * units)
            warps_k *= 2;
        blocks_n = ceil_div(p.n, int64_t{kernel.columns} * (kFewWarps / warps_k));
        blocks = blocks_n * p.batch[0] * p.batch[1];
    }
};

struct FewRows {
    const attile_gemm_problem *problem;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_gemm_problem &p = *problem;
        const DeviceProperties &properties = device.properties();
        const Cut cut(properties, p);
        gemm_work(p, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        support.tile_m = cut.kernel.rows;
        support.tile_n = cut.kernel.columns * kFewWarps / cut.warps_k;
        support.tile_k = kFewStep;
        support.threads = kFewThreads;
        support.splits = 1;
        support.blocks = cut.blocks;
        KernelResources resources;
        int32_t status = device.resources(cut.kernel.kernel, &resources);
        if (status == ATTILE_OK) status = device.occupancy(cut.kernel.kernel, kFewThreads, 0, &support.blocks_per_unit);
        if (status != ATTILE_OK) return status;
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static;
        if (properties.peak_bandwidth > 0 && properties.peak_flops_f32 > 0) {
            const double memory = support.bytes / properties.peak_bandwidth, arithmetic = support.flops / properties.peak_flops_f32;
            const double made = arithmetic * (static_cast<double>(cut.kernel.rows) + kConversion) / static_cast<double>(p.m);
            support.predicted_share = std::max(memory, arithmetic) / std::max(memory / kMemoryShare, made / kMemoryShare);
        }
        std::snprintf(support.kernel, sizeof support.kernel, "gemm_%dbit_few_rows_%d", static_cast<int>(bits_of(p.b.dtype)),
                      cut.kernel.rows);
        std::snprintf(support.text, sizeof support.text, "B is read once, where it lies; %lld blocks on %d units, %d warps share a depth",
                      static_cast<long long>(cut.blocks), properties.compute_units, cut.warps_k);
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &, Stream stream) const {
        const attile_gemm_problem &p = *problem;
        const Cut cut(device.properties(), p);
        FewRowsParams params = {};
        set_few_rows(params, p);
        params.a = p.a.data;
        params.b = p.b.data;
        params.a_batch_x = p.a.stride[0];
        params.a_batch_y = p.a.stride[1];
        params.a_row = p.a.stride[2];
        params.a_depth = p.a.stride[3];
        params.a_dtype = p.a.dtype;
        const auto in_quads = [](int64_t stride) { return stride % 4 == 0; };
        params.a_quads = p.a.stride[3] == 1 && in_quads(p.a.stride[0]) && in_quads(p.a.stride[1]) && in_quads(p.a.stride[2]) &&
                                 reinterpret_cast<uintptr_t>(p.a.data) % static_cast<uintptr_t>(bits_of(p.a.dtype) / 2) == 0
                             ? 1
                             : 0;
        params.warps_k = cut.warps_k;
        params.blocks_n = Divider(cut.blocks_n);
        void *arguments[] = {&params, nullptr};
        return device.launch(cut.kernel.kernel, Dim3{static_cast<uint32_t>(cut.blocks), 1, 1}, Dim3{kFewThreads, 1, 1}, 0, arguments,
                             stream);
    }
};

}  // namespace

Planned<attile_gemm_problem> plan_few_rows(Device &device, const attile_gemm_problem &p, int64_t workspace) {
    // A batch-invariant row has the sums that it has among many.
    if (is_narrow(p.a.dtype) || !is_narrow(p.b.dtype) || p.m > kMostFewRows || p.k < 1 ||
        (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
        return {};
    if (std::max({p.n, p.k, p.batch[0], p.batch[1]}) > kMostExtent) return {};
    const auto is_whole = [](int64_t elements) { return elements % kRun == 0; };
    const int64_t aligned = kRun * bits_of(p.b.dtype) / 8;
    if (p.b.stride[2] != 1 || !is_whole(p.k) || !is_whole(p.b.stride[0]) || !is_whole(p.b.stride[1]) || !is_whole(p.b.stride[3]) ||
        reinterpret_cast<uintptr_t>(p.b.data) % static_cast<uintptr_t>(aligned) != 0)
        return {};
    if (Cut(device.properties(), p).blocks > kMaxGridX) return {};
    return Planned<attile_gemm_problem>(FewRows{&p}, workspace);
}

}  // namespace attile::gpu::narrow
