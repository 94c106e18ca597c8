// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows by wgmma, by one turned tile: 128 columns of D along its rows, and up to 240 rows of a group along its
// columns. A group's rows are cut into tiles of equal width, in steps of 16 from 128 on, so that few of what is multiplied belongs to no
// row. Two blocks side by side share the panel of the group's rows.
#include <algorithm>
#include <cstdio>

#include "gemm/groups.h"
#include "gemm/sm90/plan.h"
#include "host/sizes.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kLeastColumns = 32;  // Fewer would fill too little of a tile.
constexpr double kClockFlops = 4096;   // Of a multiprocessor: four tensor cores, 512 multiply-adds each.
constexpr double kBusyShare = 0.75;    // Of that, of full tiles.
constexpr double kMemoryShare = 0.85;  // Of the peak bandwidth.

struct GroupedGemm {
    const attile_gemm_grouped_problem *problem;
    GemmPlan plan;

    int32_t describe(Device &device, attile_support &support) const {
        const int32_t status = describe_tiles(device, *problem->product, plan, support);
        gemm_groups_work(*problem, support);
        const DeviceProperties &properties = device.properties();
        if (properties.peak_bandwidth > 0 && properties.clock_hz > 0) {
            const double peak = kClockFlops * properties.compute_units * properties.clock_hz;
            const double rows = static_cast<double>(plan.tiles_b) * plan.choice.shape().columns / static_cast<double>(problem->product->m);
            const double arithmetic = support.flops / peak, memory = support.bytes / properties.peak_bandwidth;
            support.predicted_share =
                std::min(1.0, std::max(arithmetic, memory) / std::max(arithmetic * rows / kBusyShare, memory / kMemoryShare));
        }
        return status;
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        RowGroups groups;
        const int32_t status = launch_row_groups(device, *problem, plan.choice.shape().columns, workspace, stream, &groups);
        if (status != ATTILE_OK) return status;
        return launch_tiles(device, plan, problem->product->a.dtype, {}, workspace, stream, &groups);
    }
};

Planned<attile_gemm_grouped_problem> decline(const char *why) {
    Declined reason;
    std::snprintf(reason.text, sizeof reason.text, "%s", why);
    return Planned<attile_gemm_grouped_problem>(reason);
}

}  // namespace

Planned<attile_gemm_grouped_problem> plan_gemm_grouped(Device &device, const attile_gemm_grouped_problem &problem) {
    const attile_gemm_problem &product = *problem.product;
    const bool is_half = product.a.dtype == ATTILE_F16 || product.a.dtype == ATTILE_BF16;
    if (!is_half || product.b.dtype != product.a.dtype || product.k == 0) return {};
    // Whether one row alone lies where TMA reaches it is not known, and with BATCH_INVARIANT may not matter.
    if ((product.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return decline("BATCH_INVARIANT is asked for");
    if (product.n < kLeastColumns) return decline("few columns run as fast without");
    const GemmShape shape = gemm_shape_of_groups(product);
    GemmPlan plan;
    plan.source = GemmSource::kRowGroups;
    plan.params = shape.params;
    plan.batches = shape.batches;
    if (!groups_reachable(plan)) return decline("A or B is not in rows of a multiple of 16 bytes, or A not contiguous along the depth");
    GemmPlan of_all = plan;  // All groups share C and D.
    of_all.params.batch_y = of_all.batches = 1;
    set_way(of_all, product.a.dtype);
    plan.way = of_all.way;
    plan.wide = of_all.wide;
    plan.fused = of_all.fused;
    if (plan.way == kGemmGeneral) return decline("C or D is not contiguous along its columns, or D in float32 has an activation");
    GemmChoice &choice = plan.choice;
    choice.tile = kGemm128x240_turned;
    choice.transposed = true;
    const GemmTileShape &tile = choice.shape();
    choice.multicast = product.n > tile.rows ? kGemmMulticast : 1;
    plan.tiles_a = ceil_div(product.n, int64_t{tile.rows} * choice.multicast);
    plan.tiles_b = most_row_tiles(problem, tile.columns);
    if (!row_groups_fit(problem, tile.columns) || plan.tiles_b > INT32_MAX / 2 / plan.tiles_a)
        return decline("more tiles than are counted");
    plan.tiles = plan.whole = plan.tiles_a * plan.tiles_b;
    const int64_t at_once = std::max(1, device.properties().compute_units / choice.multicast);
    plan.blocks = std::min(plan.tiles, at_once) * choice.multicast;
    plan.seconds = 1;  // Not known: the groups are not.
    return Planned<attile_gemm_grouped_problem>(GroupedGemm{&problem, plan}, row_groups_bytes(problem));
}

}  // namespace attile::gpu::sm90
