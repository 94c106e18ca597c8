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
    int warps = 0, groups = 1;
    int64_t blocks_n = 0, blocks = 0;

    // Warps of a block with so many groups of columns; 0: too few for it to be worth it.
    void cut(const DeviceProperties &device) {
        const attile_gemm_problem &p = *problem;
        const int64_t batches = p.batch[0] * p.batch[1], units = std::max(1, device.compute_units),
                      steps = ceil_div(p.k, int64_t{kernel.step});
        const auto blocks_of = [&](int of_groups) { return ceil_div(p.n, int64_t{of_groups} * kFewNarrowColumns) * batches; };
        // Two groups read A half as often, and one block fills a multiprocessor; of one there are two blocks.
        constexpr int64_t kOwn = 1024;  // Of shared memory, that each block takes besides.
        const auto most_warps = [&](int64_t bytes, int of_groups, int most) {
            int most_shares = most / of_groups;
            while (most_shares > 0 && kernel.shared(most_shares * of_groups, of_groups) > bytes) --most_shares;
            return static_cast<int>(std::min<int64_t>(most_shares, steps)) * of_groups;
        };
        const int64_t rounds = ceil_div(blocks_of(2), units);
        groups = 10 * blocks_of(2) >= 9 * rounds * units ? 2 : 1;
        if (groups == 2) {
            warps = most_warps(device.shared_opt_in, 2, kFewNarrowWarps);
        } else {
            constexpr int kFewest = 4;
            warps = most_warps(std::min(device.shared_opt_in, device.shared_per_unit / 2 - kOwn), 1, kFewNarrowWarps / 2);
            if (warps < std::min<int64_t>(kFewest, steps)) warps = most_warps(device.shared_opt_in, 1, kFewNarrowWarps / 2);
        }
        blocks = blocks_of(groups);
        blocks_n = blocks / std::max<int64_t>(batches, 1);
    }
    std::size_t shared() const { return static_cast<std::size_t>(kernel.shared(warps, groups)); }
    int32_t describe(Device &device, attile_support &support) const {
        const attile_gemm_problem &p = *problem;
        gemm_work(p, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        support.tile_m = kernel.rows;
        support.tile_n = groups * kFewNarrowColumns;
        support.tile_k = kernel.step * warps / groups;
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
                      static_cast<int>(bits_of(p.b.dtype)), kernel.rows, groups * kFewNarrowColumns);
        std::snprintf(support.text, sizeof support.text,
                      "B is read once, where it lies, and widened in registers; %lld blocks on %d units, %d warps share a depth",
                      static_cast<long long>(blocks), device.properties().compute_units, warps / groups);
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &, Stream stream) const {
        const attile_gemm_problem &p = *problem;
        FewNarrowParams params = {};
        set_few_rows(params, p);
        params.a = static_cast<const char *>(p.a.data);
        params.b = static_cast<const char *>(p.b.data);
        params.a_batch_x = p.a.stride[0] * 2;
        params.a_batch_y = p.a.stride[1] * 2;
        params.a_row = p.a.stride[2] * 2;
        params.groups = groups;
        params.blocks_n = Divider(blocks_n);
        void *arguments[] = {&params, nullptr};
        return device.launch_early(kernel.kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{static_cast<uint32_t>(32 * warps), 1, 1},
                                   shared(), arguments, stream);
    }
};

// The parts of a step, within which scales are the same; 0: they change within all that there are.
int parts_of(const attile_gemm_problem &p) {
    const int64_t step = 64 * 8 / bits_of(p.b.dtype);
    for (const int parts : {1, 2, 4}) {
        const int64_t depth = step / parts;
        if (depth < 32) break;
        if ((!is_present(p.b_scale) && !is_present(p.b_zero)) || p.b_group[0] >= p.k || p.b_group[0] % depth == 0) return parts;
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
    const auto in_pieces = [](const attile_operand &x, int row, int64_t rows) {
        const auto is_whole = [&](int64_t stride) { return stride * bits_of(x.dtype) % 128 == 0; };
        return x.stride[5 - row] == 1 && is_whole(x.stride[0]) && is_whole(x.stride[1]) && (rows == 1 || is_whole(x.stride[row])) &&
               reinterpret_cast<uintptr_t>(x.data) % 16 == 0;
    };
    const int parts = parts_of(p);
    if (!in_pieces(p.a, 2, p.m) || !in_pieces(p.b, 3, p.n) || parts == 0) return {};
    FewNarrowGemm plan = {&p, few_narrow_kernel(of_a, of_b, p.m, parts)};
    plan.cut(device.properties());
    if (plan.warps < 1 || plan.blocks > kMaxGridX) return {};
    return Planned<attile_gemm_problem>(plan, workspace);
}

}  // namespace attile::gpu::sm80
