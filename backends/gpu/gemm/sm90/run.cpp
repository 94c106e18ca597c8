// SPDX-License-Identifier: Apache-2.0
// gemm by wgmma: which of the kernels takes a problem, and how the plan for tiles is described and launched.
#include <algorithm>
#include <cstdio>
#include <iterator>

#include "gemm/mma/small.h"
#include "gemm/sm90/add_parts.h"
#include "gemm/sm90/few_rows.h"
#include "gemm/sm90/fp8_groups_instances.h"
#include "gemm/sm90/fp8_instances.h"
#include "gemm/sm90/int8_instances.h"
#include "gemm/sm90/plan.h"
#include "gemm/sm90/residues_instances.h"
#include "gemm/sm90/row_groups_instances.h"
#include "host/status.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kRasterRows = 2048;  // That are walked together.
constexpr double kClockFlops = 4096;   // Of a multiprocessor: four tensor cores, 512 multiply-adds each.

bool is_half(int32_t dtype) { return dtype == ATTILE_F16 || dtype == ATTILE_BF16; }

// Turned tiles stand last. The others have general kernels.
constexpr int kFirstTurned = std::size(kGemmGeneralF16);
static_assert(!kGemmTileShapes[kFirstTurned - 1].turned && kGemmTileShapes[kFirstTurned].turned &&
              kGemmTiles - kFirstTurned == std::size(kGemmTurnedFusedF16));

// The kernel, and the contiguity of the operands along the tiles' rows and columns.
const void *kernel_of(const GemmPlan &plan, int32_t dtype, bool *outer_b) {
    const bool turned = plan.choice.transposed;
    const bool first = plan.panel(!turned).outer_first, second = plan.panel(turned).outer_first;
    *outer_b = second;
    const bool f16 = dtype == ATTILE_F16;
    const GemmFn *tiles = f16 ? kGemmPlainF16 : kGemmPlainBF16;
    if (plan.end() == GemmEnd::kFused) tiles = f16 ? kGemmFusedF16 : kGemmFusedBF16;
    if (plan.end() == GemmEnd::kGeneral) tiles = f16 ? kGemmGeneralF16 : kGemmGeneralBF16;
    if (plan.source == GemmSource::kInt8) tiles = f16 ? kGemmInt8PlainF16 : kGemmInt8PlainBF16;
    if (plan.source == GemmSource::kResidues) tiles = kGemmResiduesPlainBF16;
    if (plan.source == GemmSource::kFloat8Groups)
        return (f16 ? kGemmFp8GroupsPlainF16 : kGemmFp8GroupsPlainBF16)[0]().of_layouts[0][plan.column_scales ? 1 : 0];
    if (plan.source == GemmSource::kFloat8) tiles = f16 ? kGemmFp8PlainF16 : kGemmFp8PlainBF16;
    if (plan.source == GemmSource::kRowGroups) {
        const bool is_plain = plan.end() == GemmEnd::kTurned;
        tiles = f16 ? (is_plain ? kGemmRowGroupsPlainF16 : kGemmRowGroupsFusedF16)
                    : (is_plain ? kGemmRowGroupsPlainBF16 : kGemmRowGroupsFusedBF16);
        return tiles[0]().of_layouts[first ? 1 : 0][0];
    }
    int tile = plan.choice.tile;
    if (plan.end() == GemmEnd::kTurnedFused) {
        tiles = f16 ? kGemmTurnedFusedF16 : kGemmTurnedFusedBF16;
        tile -= kFirstTurned;
    }
    return tiles[tile]().of_layouts[first ? 1 : 0][second ? 1 : 0];
}
// All tiles that have a way to fuse (way_of) stand before those that have not, and have a kernel that does.
static_assert(kGemmTileShapes[std::size(kGemmFusedF16) - 1].columns >= kGemmPiece &&
              kGemmTileShapes[std::size(kGemmFusedF16)].columns < kGemmPiece);

int32_t make_map(Device &device, const void *data, int32_t dtype, const GemmPanel &panel, int32_t rows, int32_t depths, TensorMap *map) {
    TensorMapShape shape;
    shape.axes = 4;
    const int64_t extent[4] = {panel.outer_first ? panel.outer : panel.depth, panel.outer_first ? panel.depth : panel.outer, panel.count_y,
                               panel.count_x};
    // An axis of extent 1 may have any stride.
    const int64_t stride[4] = {1, extent[1] > 1 ? panel.row : 0, extent[2] > 1 ? panel.batch_y : 0, extent[3] > 1 ? panel.batch_x : 0};
    const int32_t box[4] = {panel.outer_first ? kGemmPiece : kGemmDepth, panel.outer_first ? depths : rows, 1, 1};
    for (int i = 0; i < 4; ++i) {
        shape.extent[i] = extent[i];
        shape.stride[i] = stride[i];
        shape.box[i] = box[i];
    }
    return device.make_tensor_map(data, dtype, shape, map);
}

void name_tiles(const GemmPlan &plan, int32_t dtype, const DeviceProperties &properties, attile_support &support) {
    const GemmChoice &choice = plan.choice;
    static constexpr const char *kSources[] = {"", "i8_", "e4m3_", "e4m3_groups_", "row_groups_", "i8_"};
    const bool is_packed = plan.pack_a || plan.pack_b;
    std::snprintf(support.kernel, sizeof support.kernel, "gemm_sm90_%s%s_%dx%dx%d%s%s", kSources[static_cast<int>(plan.source)],
                  dtype == ATTILE_F16 ? "f16" : "bf16", kGemmTileShapes[choice.tile].rows, kGemmTileShapes[choice.tile].columns,
                  plan.of_pairs() ? 2 * kGemmDepth : kGemmDepth, choice.parts > 1 ? "_parts" : "", is_packed ? "_packed" : "");
    std::snprintf(support.text, sizeof support.text, "%lld blocks on %d units, clusters of %d%s%s%s%s", static_cast<long long>(plan.blocks),
                  properties.compute_units, std::max(choice.splits, choice.multicast),
                  !choice.shares_a    ? ""
                  : choice.transposed ? " that share B"
                                      : " that share A",
                  choice.transposed ? "; computed as its transpose" : "",
                  choice.parts > 1 ? "; the last tiles are cut along the depth" : "",
                  is_packed ? "; A or B is copied first, since its rows are not a multiple of 16 bytes apart" : "");
}

// Up to 16 rows go to their own kernel, unless two blocks share every tile's depth by halves, which is as fast or faster but for very few
// rows beside a B that is contiguous along the depth. `plan` is the tiles', complete where the few rows are not taken.
FewRowsPlan few_plan(const DeviceProperties &properties, const attile_gemm_problem &problem, GemmPlan &plan) {
    constexpr int64_t kVeryFewRows = 4;
    FewRowsPlan few = few_rows_plan(properties, problem);
    const GemmParams &p = few.shape.params;
    if (few.taken && p.b.along_depth != 0 && p.m <= kVeryFewRows) return few;
    plan = gemm_plan(properties, problem);
    if (few.taken)
        few.taken = plan.declined[0] != '\0' || plan.pack_a || plan.pack_b || !plan.halves || plan.blocks > properties.compute_units;
    return few;
}

// The tiles whose depth was cut into parts.
int32_t add_parts(Device &device, const GemmPlan &plan, const GemmArguments &product, Stream stream) {
    const GemmTileShape shape = kGemmTileShapes[plan.choice.tile];
    GemmAddArguments arguments = {product, shape.rows, shape.columns};
    const int64_t tiles = (plan.tiles - plan.whole) * plan.choice.multicast,
                  blocks = tiles * (shape.rows * shape.columns / 4 / kAddPartsThreads);
    void *pointers[] = {&arguments, nullptr};
    LaunchExtras extras;
    extras.overlaps = true;
    return device.launch_with(extras, gemm_add_parts_kernel(), Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{kAddPartsThreads, 1, 1}, 0,
                              pointers, stream);
}

}  // namespace

int32_t launch_tiles(Device &device, const GemmPlan &plan, int32_t dtype, const TileScales &scales, Workspace &workspace, Stream stream,
                     const RowGroups *row_groups, const GemmModuli *moduli) {
    const GemmParams &p = plan.params;
    const GemmChoice &choice = plan.choice;
    const void *a = p.a.data, *b = p.b.data;
    int32_t status = ATTILE_OK;
    if (plan.pack_a || plan.pack_b) status = gemm_pack(device, plan, workspace, stream, &a, &b);
    if (status != ATTILE_OK) return status;

    GemmArguments g = {};
    const bool turned = choice.transposed;
    const GemmTileShape tile = kGemmTileShapes[choice.tile];
    const GemmPanel first = plan.panel(!turned), second = plan.panel(turned);
    // Blocks that share A, or a single piece of B, load a half of each piece; all of a turned tile's B is one piece.
    const int halves_a = choice.along_columns(), halves_b = tile.columns == kGemmPiece || tile.turned ? choice.along_rows() : 1;
    const int rows_b = tile.turned ? tile.columns : std::min(kGemmPiece, tile.columns);
    const int box_b = row_groups != nullptr ? kGemmGroupPiece : rows_b / halves_b;
    status = make_map(device, turned ? b : a, dtype, first, kGemmPiece / halves_a, kGemmDepth / halves_a, &g.map_a);
    if (status == ATTILE_OK) {
        status = make_map(device, turned ? a : b, dtype, second, box_b, kGemmDepth / halves_b, &g.map_b);
    }
    if (status != ATTILE_OK) return status;
    g.c = p.c;
    g.d = p.d;
    g.bias = p.bias;
    g.m = p.m;
    g.n = p.n;
    g.alpha = static_cast<float>(p.alpha);
    g.beta = static_cast<float>(p.beta);
    const int64_t raster = std::min(kRasterRows / (tile.rows * choice.along_rows()), plan.tiles_a);
    const int64_t bands = (plan.tiles_a + raster - 1) / raster;
    g.units = static_cast<uint32_t>(plan.units());
    g.whole = static_cast<uint32_t>(plan.whole);
    g.parts = Divider(choice.parts);
    if (choice.parts > 1) {
        g.partial = workspace.take<float>(plan.partial_bytes() / static_cast<int64_t>(sizeof(float)));
        if (g.partial == nullptr) return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than the query asked for");
    }
    g.entry = Divider(plan.tiles_a * plan.tiles_b);
    g.band = Divider(raster * plan.tiles_b);
    g.rows = Divider(raster);
    g.last = Divider(plan.tiles_a - (bands - 1) * raster);
    g.last_band = static_cast<uint32_t>(bands - 1);
    g.batch_y = Divider(p.batch_y);
    g.a_batch_x = first.count_x > 1 ? 1 : 0;
    g.a_batch_y = first.count_y > 1 ? 1 : 0;
    g.b_batch_x = second.count_x > 1 ? 1 : 0;
    g.b_batch_y = second.count_y > 1 ? 1 : 0;
    const int64_t depth_blocks = (p.k + kGemmDepth - 1) / kGemmDepth;
    g.depth_each = static_cast<int32_t>(depth_blocks / choice.splits);
    g.depth_more = static_cast<int32_t>(depth_blocks % choice.splits);
    g.part_each = static_cast<int32_t>(depth_blocks / choice.parts);
    g.part_more = static_cast<int32_t>(depth_blocks % choice.parts);
    g.splits = choice.splits;
    g.multicast = choice.multicast;
    g.shares_a = choice.shares_a ? 1 : 0;
    g.transposed = turned ? 1 : 0;
    g.way = plan.way;
    g.wide = plan.wide ? 1 : 0;
    g.fused = plan.way == kGemmGeneral ? 0 : plan.fused;
    g.halves = plan.halves ? 1 : 0;
    g.simple = p.c.dtype == 0 && !gemm_has_epilogue(p) ? 1 : 0;
    g.vectorised = gemm_vectorised(p) ? 1 : 0;
    g.activation = p.activation;
    g.columns_first = scales.columns_first ? 1 : 0;
    g.grouped = scales.grouped ? 1 : 0;
    g.row_scale = scales.rows;
    g.column_scale = scales.columns;
    if (row_groups != nullptr) {
        g.row_groups = *row_groups;
        g.of_group = Divider(plan.tiles_a);
    }
    if (moduli != nullptr) g.moduli = *moduli;
    bool outer_b = false;
    const void *const kernel = kernel_of(plan, dtype, &outer_b);
    void *arguments[] = {&g, nullptr};
    LaunchExtras extras;
    extras.cluster = static_cast<uint32_t>(std::max(choice.splits, choice.multicast));
    extras.overlaps = true;
    status = device.launch_with(extras, kernel, Dim3{static_cast<uint32_t>(plan.blocks), 1, 1},
                                Dim3{static_cast<uint32_t>(gemm_threads(tile.rows)), 1, 1},
                                static_cast<std::size_t>(gemm_shared_bytes(tile, outer_b)), arguments, stream);
    return status == ATTILE_OK && plan.whole < plan.tiles ? add_parts(device, plan, g, stream) : status;
}

int32_t describe_tiles(Device &device, const attile_gemm_problem &problem, const GemmPlan &plan, attile_support &support) {
    const DeviceProperties &properties = device.properties();
    bool outer_b = false;
    const void *const kernel = kernel_of(plan, problem.a.dtype, &outer_b);
    const GemmTileShape tile = kGemmTileShapes[plan.choice.tile];
    gemm_work(problem, support);
    support.level = ATTILE_SUPPORT_NATIVE;
    support.status = ATTILE_OK;
    support.tile_m = plan.choice.transposed ? tile.columns : tile.rows;
    support.tile_n = plan.choice.transposed ? tile.rows : tile.columns;
    support.tile_k = kGemmDepth;
    support.threads = gemm_threads(tile.rows);
    support.splits = plan.choice.splits;
    support.blocks = plan.blocks;
    support.blocks_per_unit = 1;
    KernelResources resources;
    const int32_t status = device.resources(kernel, &resources);
    if (status != ATTILE_OK) return status;
    support.registers = resources.registers;
    support.shared_bytes = gemm_shared_bytes(tile, outer_b);
    if (properties.peak_bandwidth > 0 && properties.clock_hz > 0) {
        const double peak = kClockFlops * properties.compute_units * properties.clock_hz;
        support.predicted_share = std::min(1.0, std::max(support.flops / peak, support.bytes / properties.peak_bandwidth) / plan.seconds);
    }
    name_tiles(plan, problem.a.dtype, properties, support);
    return ATTILE_OK;
}

namespace {

struct TiledGemm {
    const attile_gemm_problem *problem;
    GemmPlan plan;

    int32_t describe(Device &device, attile_support &support) const { return describe_tiles(device, *problem, plan, support); }
    void move_to(const attile_gemm_problem &to) {
        problem = &to;
        gemm_move(plan.params, to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return launch_tiles(device, plan, problem->a.dtype, {}, workspace, stream);
    }
};

}  // namespace

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem) {
    if (!is_half(problem.a.dtype) || problem.k == 0) return {};
    const DeviceProperties &properties = device.properties();
    const SmallGemmPlan small = small_gemm_plan(properties, problem);
    if (small.taken) return Planned<attile_gemm_problem>(SmallGemm{&problem, "sm90", small}, 0);
    GemmPlan plan;
    const FewRowsPlan few = few_plan(properties, problem, plan);
    if (few.taken) return Planned<attile_gemm_problem>(FewRowsGemm{&problem, few}, 0);
    Declined reason;
    if (plan.declined[0] != '\0') {
        std::snprintf(reason.text, sizeof reason.text, "%s", plan.declined);
        return Planned<attile_gemm_problem>(reason);
    }
    if (!plan.is_asked && gemm_is_left_to_simt(properties, problem, plan, plan.seconds, reason))
        return Planned<attile_gemm_problem>(reason);
    return Planned<attile_gemm_problem>(TiledGemm{&problem, plan}, plan.workspace_bytes);
}

}  // namespace attile::gpu::sm90
