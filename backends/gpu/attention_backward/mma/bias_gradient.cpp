// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/bias_gradient.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

// Sums of parts: at most this share of the device's memory, and this much, as of what the kernels keep.
constexpr int64_t kSumsShare = 64, kMostSums = 512ll << 20;

// Seconds of the kernel, and of the one that adds up its parts, with members cut into so many.
double seconds_of(const DeviceProperties &device, const attile_attention_problem &p, const BiasGradient &plan, int64_t parts) {
    constexpr double kAnyPeak = 3e14, kAnyBandwidth = 1.5e12, kLaunch = 3e-6, kEnds = 4e-6;
    const double units = std::max(device.compute_units, 1), peak = device.peak_flops_f16 > 0 ? device.peak_flops_f16 : kAnyPeak,
                 bandwidth = device.peak_bandwidth > 0 ? device.peak_bandwidth : kAnyBandwidth;
    const int64_t columns = (ceil_div(p.head_dim, kBiasColumns) + ceil_div(p.head_dim_v, kBiasColumns)) * kBiasColumns;
    const double member =
        plan.kernels.member_seconds + 2.0 * kBiasTile * kBiasTile * static_cast<double>(columns) * units / (plan.kernels.rate * peak);
    const double waves = static_cast<double>(ceil_div(plan.tiles * parts, std::max(device.compute_units, 1)));
    const double adding = kLaunch + static_cast<double>(parts * plan.tiles) * 8.0 * kBiasTile * kBiasTile / bandwidth;
    return waves * (static_cast<double>(ceil_div(plan.members, parts)) * member + kEnds) + (parts > 1 ? adding : 0);
}

}  // namespace

BiasGradient bias_gradient(Device &device, const attile_attention_backward_problem &problem, const BackwardBiasKernels &kernels) {
    const attile_attention_problem &p = *problem.forward;
    const DeviceProperties &properties = device.properties();
    const int64_t *const extent = problem.bias_extent;
    BiasGradient plan;
    plan.kernels = kernels;
    if (extent[2] != p.len_q || extent[3] != p.len_k) return plan;
    int32_t blocks = 0;
    if (properties.shared_opt_in < kernels.shared_bytes ||
        device.occupancy(kernels.gradient, kBiasThreads, kernels.shared_bytes, &blocks) != ATTILE_OK || blocks < 1)
        return plan;
    plan.numbers.keys = kBiasTile;
    backward_cut(problem, plan.numbers);
    plan.tiles = extent[0] * extent[1] * ceil_div(p.len_q, kBiasTile) * ceil_div(p.len_k, kBiasTile);
    plan.members = (extent[0] == 1 ? p.batch : 1) * (extent[1] == 1 ? p.heads_q : 1);
    if (plan.tiles > kMostBackwardBlocks / (kBiasOfThread / 4) || plan.members > kMostBackwardBlocks) return plan;
    // With BATCH_INVARIANT an entry of the bias gets the same whatever others there are, which count among the tiles.
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const int64_t of_part = plan.tiles * kBiasTile * kBiasTile,
                  most = invariant ? 1
                                   : std::min({plan.members, kMostBackwardBlocks / plan.tiles,
                                               std::min(kMostSums, properties.memory_total / kSumsShare) / (4 * of_part)});
    double least = seconds_of(properties, p, plan, 1);
    for (int64_t parts = 2; parts <= most; ++parts) {
        const double seconds = seconds_of(properties, p, plan, parts);
        if (seconds >= least) continue;
        least = seconds;
        plan.parts = parts;
    }
    plan.sums = plan.parts > 1 ? plan.parts * of_part : 0;
    plan.taken = true;
    return plan;
}

int64_t BiasGradient::workspace() const { return backward_workspace(numbers) + (sums > 0 ? workspace_piece(4 * sums) : 0); }

void BiasGradient::name(attile_support &support) const {
    const std::size_t used = std::strlen(support.text);
    std::snprintf(support.text + used, sizeof support.text - used, "; the bias's gradient from scores computed again%s",
                  parts > 1 ? ", in parts" : "");
}

int32_t BiasGradient::launch(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) const {
    const attile_attention_problem &p = *problem.forward;
    BackwardBiasTask task = {};
    BackwardSteps steps(device, problem, numbers, stream, task);
    const bool is_enough = steps.take(workspace) != nullptr;
    if (sums > 0) task.sums = workspace.take<float>(sums);
    if (!is_enough || (sums > 0) != (task.sums != nullptr))
        return fail(ATTILE_ERROR_INTERNAL, "attention_backward: the workspace is smaller than planned");
    task.row_tiles = static_cast<int32_t>(ceil_div(p.len_q, kBiasTile));
    task.key_tiles = static_cast<int32_t>(ceil_div(p.len_k, kBiasTile));
    task.tiles = static_cast<int32_t>(tiles);
    task.members = static_cast<int32_t>(members);
    task.parts = static_cast<int32_t>(parts);
    steps.prepare(false);
    steps.launch(kernels.gradient, &task, tiles * parts, kBiasThreads, kernels.shared_bytes);
    if (sums > 0) steps.launch(kernels.add_parts, &task, tiles * (kBiasOfThread / 4), kBiasThreads, 0);
    return steps.status();
}

}  // namespace attile::gpu::mma
