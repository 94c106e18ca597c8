// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm80/few_narrow.h"

#include <algorithm>
#include <cstdio>

#include "gemm/narrow_operands.h"
#include "gemm/problem.h"
#include "host/status.h"

namespace attile::gpu::sm80 {
namespace {

constexpr double kMemoryShare = 0.75;  // Of the peak bandwidth.

int64_t bits_of(int32_t dtype) { return dtype & 0xff; }

// What the kernel is launched with, but for addresses.
struct FewNarrowGemm {
    const attile_gemm_problem *problem;
    FewNarrowKernel kernel;
    int warps;
    int64_t blocks_n, blocks;

    std::size_t shared() const { return static_cast<std::size_t>(warps) * static_cast<std::size_t>(kernel.warp_bytes); }
    int32_t describe(Device &device, attile_support &support) const {
        const attile_gemm_problem &p = *problem;
        gemm_work(p, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        support.tile_m = kernel.rows;
        support.tile_n = kFewNarrowColumns;
        support.tile_k = 4 * kernel.run * warps;
        support.threads = 32 * warps;
        support.splits = 1;
        support.blocks = blocks;
        KernelResources resources;
        int32_t status = device.resources(kernel.kernel, &resources);
        if (status == ATTILE_OK) status = device.occupancy(kernel.kernel, support.threads, shared(), &support.blocks_per_unit);
        if (status != ATTILE_OK) return status;
        support.registers = resources.registers;
        support.shared_bytes = static_cast<int32_t>(shared());
        support.predicted_share = kMemoryShare;
        std::snprintf(support.kernel, sizeof support.kernel, "gemm_sm80_%s_%dbit_few_rows_%dx%d", p.a.dtype == ATTILE_F16 ? "f16" : "bf16",
                      static_cast<int>(bits_of(p.b.dtype)), kernel.rows, kFewNarrowColumns);
        std::snprintf(support.text, sizeof support.text,
                      "B is read once, where it lies, and widened in registers; %lld blocks on %d units, %d warps share a depth",
                      static_cast<long long>(blocks), device.properties().compute_units, warps);
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &, Stream stream) const {
        const attile_gemm_problem &p = *problem;
        FewNarrowParams params = {};
        params.a = static_cast<const char *>(p.a.data);
        params.b = static_cast<const char *>(p.b.data);
        params.a_batch_x = p.a.stride[0] * 2;
        params.a_batch_y = p.a.stride[1] * 2;
        params.a_row = p.a.stride[2] * 2;
        const auto bytes = [&](int64_t elements) { return elements * bits_of(p.b.dtype) / 8; };
        params.b_batch_x = bytes(p.b.stride[0]);
        params.b_batch_y = bytes(p.b.stride[1]);
        params.b_row = bytes(p.b.stride[3]);
        params.m = p.m;
        params.n = p.n;
        params.k = p.k;
        if (p.beta != 0) params.c = output_of(p.c);
        params.d = output_of(p.d);
        params.bias = output_of(p.bias);
        params.alpha = static_cast<float>(p.alpha);
        params.beta = static_cast<float>(p.beta);
        params.activation = p.activation;
        params.blocks_n = Divider(blocks_n);
        params.batch_y = Divider(p.batch[1]);
        params.scale = scales_of(p.b_scale, 3, 2, p.b_group[1], p.b_group[0]);
        params.zero = scales_of(p.b_zero, 3, 2, p.b_group[1], p.b_group[0]);
        params.by_group = params.scale.data != nullptr && params.scale.depth_group.divisor < p.k ? 1 : 0;
        if (params.zero.data != nullptr) params.by_group = 1;
        void *arguments[] = {&params, nullptr};
        return device.launch_early(kernel.kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1},
                                   Dim3{static_cast<uint32_t>(32 * warps), 1, 1}, shared(), arguments, stream);
    }
};

// The bytes of a row of B that a lane takes at a time; 0: rows do not begin at multiples of any, or scales change within a step.
int run_bytes(const attile_gemm_problem &p) {
    const int64_t bits = bits_of(p.b.dtype);
    for (const int bytes : {16, 8, 4}) {
        if (bytes == 4 && bits == 8) break;
        const auto is_whole = [&](int64_t stride) { return stride * bits % (int64_t{8} * bytes) == 0; };
        const int64_t step = int64_t{4} * bytes * 8 / bits;
        const auto is_constant = [&](const attile_operand &x) {
            return !is_present(x) || p.b_group[0] >= p.k || p.b_group[0] % step == 0;
        };
        if (is_whole(p.b.stride[0]) && is_whole(p.b.stride[1]) && is_whole(p.b.stride[3]) &&
            reinterpret_cast<uintptr_t>(p.b.data) % static_cast<uintptr_t>(bytes) == 0 && is_constant(p.b_scale) && is_constant(p.b_zero))
            return bytes;
    }
    return 0;
}

}  // namespace

Planned<attile_gemm_problem> plan_few_narrow(Device &device, const attile_gemm_problem &p, int64_t workspace) {
    const int32_t of_a = p.a.dtype, of_b = p.b.dtype;
    const bool has_type = (of_a == ATTILE_F16 || of_a == ATTILE_BF16) &&
                          (of_b == ATTILE_I8 || of_b == ATTILE_F8_E4M3 || of_b == ATTILE_I4 || of_b == ATTILE_U4);
    // A batch-invariant row has the sums that it has among many.
    if (!has_type || p.m > kFewNarrowRows || p.k < 1 || p.k % 16 != 0 || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 ||
        std::max({p.n, p.k, p.batch[0], p.batch[1]}) > kMostExtent)
        return {};
    const auto in_pieces = [](int64_t stride) { return stride % 8 == 0; };  // Of 16 bytes.
    if (p.a.stride[3] != 1 || p.b.stride[2] != 1 || !in_pieces(p.a.stride[0]) || !in_pieces(p.a.stride[1]) ||
        (p.m > 1 && !in_pieces(p.a.stride[2])) || reinterpret_cast<uintptr_t>(p.a.data) % 16 != 0)
        return {};
    const int bytes = run_bytes(p);
    if (bytes == 0) return {};
    const DeviceProperties &properties = device.properties();
    FewNarrowGemm plan = {&p, few_narrow_kernel(of_a, of_b, p.m, bytes), 0, 0, 0};
    // Two blocks a multiprocessor, if they have some warps each.
    constexpr int64_t kOwn = 1024;  // Of shared memory, that each block takes besides.
    constexpr int kFewestWarps = 4;
    const int64_t half = properties.shared_per_unit / 2 - kOwn, most = std::min(properties.shared_opt_in, half);
    const auto fit = [&](int64_t bytes_there) {
        return static_cast<int>(std::min<int64_t>(kFewNarrowWarps, bytes_there / plan.kernel.warp_bytes));
    };
    plan.warps = fit(most) >= kFewestWarps ? fit(most) : fit(properties.shared_opt_in);
    plan.warps = static_cast<int>(std::min<int64_t>(plan.warps, ceil_div(p.k, int64_t{4} * plan.kernel.run)));
    plan.blocks_n = ceil_div(p.n, int64_t{kFewNarrowColumns});
    plan.blocks = plan.blocks_n * p.batch[0] * p.batch[1];
    if (plan.warps < 1 || plan.blocks > kMaxGridX) return {};
    return Planned<attile_gemm_problem>(plan, workspace);
}

}  // namespace attile::gpu::sm80
