// SPDX-License-Identifier: Apache-2.0
#include "gemm/mma/small.h"

#include <algorithm>
#include <cstdio>

#include "gemm/mma/operands.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kMostDepth = 64;  // Beyond it, a tile kernel's pipeline stages matter more.
constexpr int64_t kFewest = 64;     // Products: below it, each may have a multiprocessor to itself.
constexpr int64_t kMost = 1 << 24;
constexpr int64_t kVector = 8;  // Elements that D is stored by.

SmallMatrix matrix_of(const void *data, int64_t batch_x, int64_t batch_y, int64_t row) {
    return {const_cast<char *>(static_cast<const char *>(data)), batch_x * kElementBytes, batch_y * kElementBytes, row * kElementBytes};
}
SmallMatrix matrix_of(const GemmInput &input, const GemmPanel &panel) {
    return matrix_of(input.data, input.batch_x, input.batch_y, panel.row);
}

}  // namespace

SmallGemmPlan small_gemm_plan(const DeviceProperties &device, const attile_gemm_problem &problem) {
    SmallGemmPlan plan;
    if (std::max(problem.m, problem.n) > kSmallExtent || problem.k > kMostDepth || problem.k == 0 ||
        (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
        return plan;
    const GemmOperands operands = gemm_operands(problem);
    const GemmParams &p = operands.params;
    if (operands.declined[0] != '\0' || operands.pack_a || operands.pack_b || operands.batches < kFewest || operands.batches > kMost ||
        p.n % kVector != 0 || !is_plain(p, problem.a.dtype) || !is_wide(p.d, p.m, p.batch_y, operands.batches / p.batch_y))
        return plan;
    const GemmPanel a = operands.panel(true), b = operands.panel(false);
    SmallGemmArguments &arguments = plan.arguments;
    arguments.a = matrix_of(p.a, a);
    arguments.b = matrix_of(p.b, b);
    arguments.d = matrix_of(p.d.data, p.d.batch_x, p.d.batch_y, p.d.row);
    arguments.batch_y = Divider(p.batch_y);
    arguments.batches = static_cast<uint32_t>(operands.batches);
    arguments.m = static_cast<int32_t>(p.m);
    arguments.n = static_cast<int32_t>(p.n);
    arguments.k = static_cast<int32_t>(p.k);
    arguments.alpha = static_cast<float>(p.alpha);
    plan.kernel = small_gemm_kernel(problem.a.dtype == ATTILE_F16, a.outer_first ? 1 : 0, b.outer_first ? 1 : 0);
    const int64_t units = std::max(1, device.compute_units);
    plan.warps = static_cast<int>(std::clamp<int64_t>(operands.batches / units, 1, kSmallWarps));
    plan.blocks = (operands.batches + plan.warps - 1) / plan.warps;
    plan.taken = true;
    return plan;
}

int32_t SmallGemm::describe(Device &device, attile_support &support) const {
    KernelResources resources;
    const int32_t status = device.resources(plan.kernel, &resources);
    if (status != ATTILE_OK) return status;
    gemm_work(*problem, support);
    support.level = ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    support.tile_m = kSmallExtent;
    support.tile_n = kSmallExtent;
    support.tile_k = kSmallDepth;
    support.threads = plan.warps * 32;
    support.splits = 1;
    support.blocks = plan.blocks;
    support.registers = resources.registers;
    support.shared_bytes = resources.shared_static;
    std::snprintf(support.kernel, sizeof support.kernel, "gemm_%s_%s_small_%dx%dx%d", generation,
                  problem->a.dtype == ATTILE_F16 ? "f16" : "bf16", kSmallExtent, kSmallExtent, kSmallDepth);
    std::snprintf(support.text, sizeof support.text, "a warp for each product; %lld blocks", static_cast<long long>(plan.blocks));
    return device.occupancy(plan.kernel, support.threads, 0, &support.blocks_per_unit);
}

void SmallGemm::move_to(const attile_gemm_problem &to) {
    problem = &to;
    SmallGemmArguments &arguments = plan.arguments;
    for (SmallMatrix *x : {&arguments.a, &arguments.b, &arguments.d})
        x->data = const_cast<char *>(static_cast<const char *>(gemm_address(to, x->data)));
}

int32_t SmallGemm::launch(Device &device, Workspace &, Stream stream) const {
    SmallGemmArguments copy = plan.arguments;
    void *arguments[] = {&copy, nullptr};
    return device.launch_early(plan.kernel, Dim3{static_cast<uint32_t>(plan.blocks), 1, 1},
                               Dim3{static_cast<uint32_t>(plan.warps) * 32, 1, 1}, 0, arguments, stream);
}

}  // namespace attile::gpu::mma
