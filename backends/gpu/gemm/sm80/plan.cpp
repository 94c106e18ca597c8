// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm80/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gemm/mma/operands.h"
#include "gemm/mma/small.h"
#include "gemm/run.h"
#include "gemm/sm80/instances.h"
#include "gemm/sm80/instances_f64.h"
#include "host/sizes.h"
#include "host/status.h"
#include "mma/tf32x3_choice.h"

namespace attile::gpu::sm80 {
namespace {

using namespace mma;

constexpr int64_t kMinSplitDepth = 256;             // Of a part of the depth.
constexpr int kMostSplits = 16;                     // Of the depth.
constexpr int64_t kMostPartialBytes = 256ll << 20;  // Of partial results.

// The model; but for float64 not yet fitted: 1024^3 on an H200 shows that a lone block of 128x128 is slower than it says. Clocks are a
// multiprocessor's.
constexpr double kLaunchSeconds = 2.5e-6;
constexpr double kCombineSeconds = 2.5e-6;  // One more kernel, and so is packing.
constexpr double kCombineSecondsF64 = 5e-6;
constexpr double kMemoryShare = 0.85;  // Of the peak bandwidth.
constexpr double kClockShare = 0.9;    // Of the highest clock, that the power limit leaves.

struct TileModel {
    int resident;         // Blocks a multiprocessor holds at most.
    double rate;          // Share of the tensor cores' peak that so many reach;
    double lone_rate;     // that one reaches.
    double round_clocks;  // Of the start and end of a block that nothing hides.
};
constexpr TileModel kTileModels[kGemmTiles] = {{2, 0.85, 0.6, 3000}, {4, 0.6, 0.25, 2000}};
constexpr TileModel kSplitModels[kGemmTiles] = {{2, 0.75, 0.5, 3000}, {2, 0.6, 0.35, 2000}};  // Of float32.
constexpr TileModel kF64Models[kGemmF64Tiles] = {{2, 0.74, 0.6, 7600}, {2, 0.78, 0.76, 4800}};

// Operations a clock of a multiprocessor's tensor cores by mma.sync with float32 sums, or of float64. An operation of float32 is three of
// TF32, at half the rate.
double clock_flops(int32_t capability, int32_t dtype) {
    if (dtype == ATTILE_F64) return capability == 90 ? 256 : 128;
    const double rate = capability == 80 || (capability >= 90 && capability < 120) ? 2048 : 512;
    return dtype == ATTILE_F32 ? rate / 6 : rate;
}

// The tiles of a type's kernels.
struct Tiles {
    const GemmTileShape *shapes;
    const TileModel *models;
    const GemmFn *kernels;
    int count;
};
Tiles tiles_of(int32_t dtype) {
    if (dtype == ATTILE_F64) return {kGemmF64TileShapes, kF64Models, kGemmF64PlainF64, kGemmF64Tiles};
    if (dtype == ATTILE_F32) return {kGemmTileShapes, kSplitModels, kGemmPlainF32, kGemmTiles};
    return {kGemmTileShapes, kTileModels, dtype == ATTILE_F16 ? kGemmPlainF16 : kGemmPlainBF16, kGemmTiles};
}

// Why a product of float32 is left to ordinary arithmetic; null: it is not. With BATCH_INVARIANT by the depth alone: a single product is
// less precise split, and so are sums in one piece, which SIMT cuts. Else what measured no faster on an H200.
const char *why_not_worth_splitting(const attile_gemm_problem &p) {
    constexpr int64_t kFewestInvariant = 32, kMostInvariant = 1024, kFewestDepth = 192, kFewRows = 128;
    constexpr double kFewProducts = 1 << 26;
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
        return p.k < kFewestInvariant || p.k > kMostInvariant ? "batch-invariant products are split from k = 32 to 1024" : nullptr;
    const double products =
        static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k) * static_cast<double>(gemm_shape(p).batches);
    const bool is_small = p.k < kFewestDepth || std::min(p.m, p.n) <= kFewRows || products < kFewProducts;
    return is_small ? "a product so small runs as fast without" : nullptr;
}

// Why a product of float64 is left to ordinary arithmetic; null: it is not.
const char *why_not_f64(int32_t capability, uint32_t flags) {
    if (capability != 80 && capability != 90) return "tensor cores multiply float64 faster on capabilities 8.0 and 9.0 alone";
    // Whose sums are cut into chains that do not grow with the depth.
    return (flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 ? "batch-invariant products of float64 are summed in short chains" : nullptr;
}

// The problem as the kernels take it, and the plan in the operation's terms.
struct Choice {
    GemmOperands operands;
    gpu::GemmPlan plan;
    int32_t dtype = 0;            // Of A and B.
    int tile = 0;                 // Of its type's.
    int64_t workspace_bytes = 0;  // Copies and partial results.

    int64_t sum_bytes() const { return dtype == ATTILE_F64 ? 8 : 4; }

    int64_t depth() const { return gemm_depth(static_cast<std::size_t>(operands.element_bytes)); }  // Of a stage.
};

// Activations of float64 take so many registers that only the kernel has them that adds partial results.
bool combines_always(const Choice &choice) {
    return choice.dtype == ATTILE_F64 && choice.operands.params.activation != ATTILE_ACTIVATION_NONE;
}

double seconds_of(const DeviceProperties &device, const Choice &choice, int tile, int splits) {
    const GemmParams &p = choice.operands.params;
    const GemmTileShape &shape = tiles_of(choice.dtype).shapes[tile];
    const TileModel &model = tiles_of(choice.dtype).models[tile];
    const double clock = kClockShare * (device.clock_hz > 0 ? device.clock_hz : 1.4e9);
    const double bandwidth = kMemoryShare * (device.peak_bandwidth > 0 ? device.peak_bandwidth : 1.5e12);
    const double units = std::max(1, device.compute_units);
    const double blocks = static_cast<double>(ceil_div(p.m, shape.rows)) * static_cast<double>(ceil_div(p.n, shape.columns)) *
                          static_cast<double>(choice.operands.batches) * splits;
    const double busiest = std::ceil(blocks / units);  // Blocks of the multiprocessor that has the most.
    const double resident = std::min<double>(model.resident, static_cast<double>(device.shared_per_unit) / (shape.shared_bytes() + 1024));
    const double share = std::clamp((busiest - 1) / (model.resident - 1.0), 0.0, std::max(0.0, (resident - 1) / (model.resident - 1.0)));
    const double rate = (model.lone_rate + (model.rate - model.lone_rate) * share) * clock_flops(device.capability, choice.dtype);
    const double depth = static_cast<double>(ceil_div(ceil_div(p.k, splits), choice.depth()) * choice.depth());
    const double rounds = std::ceil(busiest / std::max(1.0, std::floor(resident)));
    const double busy = (busiest * 2 * shape.rows * shape.columns * depth / rate + rounds * model.round_clocks) / clock;
    const double outputs = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(choice.operands.batches);
    const double floor = (choice.operands.input_bytes + outputs * ((p.d.dtype & 0xff) / 8)) / bandwidth;
    double seconds = kLaunchSeconds + std::max(busy, floor);
    // Partial results mostly stay in the L2 cache.
    if (splits > 1 || combines_always(choice))
        seconds += (choice.dtype == ATTILE_F64 ? kCombineSecondsF64 : kCombineSeconds) +
                   outputs * (splits + 1) * static_cast<double>(choice.sum_bytes()) / (2 * bandwidth);
    if (choice.operands.packed_bytes > 0) seconds += kCombineSeconds + 2 * choice.operands.packed_bytes / bandwidth;
    return seconds;
}

void choose_tile(const DeviceProperties &device, bool is_invariant, Choice &choice) {
    const GemmParams &p = choice.operands.params;
    gpu::GemmPlan &plan = choice.plan;
    plan.partial_row = ceil_div(p.n, 8) * 8;  // Stored as whole rows.
    const int64_t outputs = choice.operands.batches * p.m * plan.partial_row;
    int splits = 1;
    plan.seconds = 1e300;
    for (int tile = 0; tile < tiles_of(choice.dtype).count; ++tile) {
        for (int count = 1; count <= kMostSplits; ++count) {
            if (count > 1 && (p.k < count * kMinSplitDepth || outputs > kMostPartialBytes / choice.sum_bytes() / count)) break;
            const double seconds = seconds_of(device, choice, tile, count);
            if (seconds >= 0.99 * plan.seconds) continue;
            plan.seconds = seconds;
            choice.tile = tile;
            splits = count;
            // A row's bits must not depend on how many there are: one tile, no splits.
            if (is_invariant) break;
        }
        if (is_invariant) break;
    }
    plan.split_depth = ceil_div(ceil_div(p.k, splits), choice.depth()) * choice.depth();
    plan.splits = static_cast<int>(ceil_div(p.k, plan.split_depth));
}

Choice choose(const DeviceProperties &device, const attile_gemm_problem &problem) {
    Choice choice;
    choice.operands = gemm_operands(problem);
    choice.dtype = problem.a.dtype;
    if (choice.operands.declined[0] != '\0') return choice;
    choose_tile(device, (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0, choice);
    const GemmParams &p = choice.operands.params;
    const GemmTileShape &tile = tiles_of(choice.dtype).shapes[choice.tile];
    gpu::GemmPlan &plan = choice.plan;
    const bool outer_a = choice.operands.panel(true).outer_first, outer_b = choice.operands.panel(false).outer_first;
    plan.kernel = tiles_of(choice.dtype).kernels[choice.tile]().of_layouts[outer_a][outer_b];
    plan.tile_m = tile.rows;
    plan.tile_n = tile.columns;
    plan.tile_k = static_cast<int>(choice.depth());
    plan.threads = gemm_threads(static_cast<std::size_t>(choice.operands.element_bytes));
    plan.shared = static_cast<std::size_t>(tile.shared_bytes());
    plan.tiles_m = ceil_div(p.m, tile.rows);
    plan.tiles_n = ceil_div(p.n, tile.columns);
    plan.combine = plan.splits > 1 || combines_always(choice);
    if (plan.combine)
        plan.workspace_bytes = workspace_piece(choice.operands.batches * p.m * plan.partial_row * plan.splits * choice.sum_bytes());
    choice.workspace_bytes = choice.operands.workspace_bytes + plan.workspace_bytes;
    if (!gemm_fits(plan)) std::snprintf(choice.operands.declined, sizeof choice.operands.declined, "D has more tiles than a grid holds");
    return choice;
}

// A or B where and how packing left it.
void read_packed(GemmInput &input, const GemmPanel &panel, const void *data) {
    input.data = data;
    input.outer = panel.outer_first ? 1 : panel.row;
    input.depth = panel.outer_first ? panel.row : 1;
    input.batch_x = panel.count_x > 1 ? panel.batch_x : 0;
    input.batch_y = panel.count_y > 1 ? panel.batch_y : 0;
}

struct TiledGemm {
    const attile_gemm_problem *problem;
    Choice choice;

    int32_t describe(Device &device, attile_support &support) const {
        const DeviceProperties &properties = device.properties();
        const GemmOperands &operands = choice.operands;
        const gpu::GemmPlan &plan = choice.plan;
        const bool is_packed = operands.pack_a || operands.pack_b;
        int32_t status = device.occupancy(plan.kernel, plan.threads, plan.shared, &support.blocks_per_unit);
        KernelResources resources;
        if (status == ATTILE_OK) status = device.resources(plan.kernel, &resources);
        if (status != ATTILE_OK) return status;
        gemm_work(*problem, support);
        support.level = ATTILE_SUPPORT_NATIVE;
        support.status = ATTILE_OK;
        support.tile_m = plan.tile_m;
        support.tile_n = plan.tile_n;
        support.tile_k = plan.tile_k;
        support.threads = plan.threads;
        support.splits = plan.splits;
        support.blocks = plan.tiles_m * plan.tiles_n * plan.splits * operands.batches;
        support.registers = resources.registers;
        support.shared_bytes = resources.shared_static + static_cast<int32_t>(plan.shared);
        if (properties.peak_bandwidth > 0 && properties.clock_hz > 0) {
            const double peak = problem->a.dtype == ATTILE_F64   ? properties.peak_flops_f64
                                : problem->a.dtype == ATTILE_F32 ? properties.peak_flops_f32
                                                                 : properties.peak_flops_f16;
            support.predicted_share =
                std::min(1.0, std::max(support.flops / peak, support.bytes / properties.peak_bandwidth) / plan.seconds);
        }
        std::snprintf(support.kernel, sizeof support.kernel, "gemm_sm80_%s_%dx%dx%d%s",
                      problem->a.dtype == ATTILE_F64   ? "f64"
                      : problem->a.dtype == ATTILE_F32 ? "split_tf32"
                      : problem->a.dtype == ATTILE_F16 ? "f16"
                                                       : "bf16",
                      plan.tile_m, plan.tile_n, plan.tile_k, is_packed ? "_packed" : "");
        std::snprintf(support.text, sizeof support.text, "%d splits of the depth; %lld blocks on %d units%s", plan.splits,
                      static_cast<long long>(support.blocks), properties.compute_units,
                      is_packed ? "; A or B is copied first, since its rows are not a multiple of 16 bytes apart" : "");
        return ATTILE_OK;
    }
    void move_to(const attile_gemm_problem &to) {
        problem = &to;
        gemm_move(choice.operands.params, to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        const GemmOperands &operands = choice.operands;
        GemmProduct product = {operands.params, choice.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32, operands.batches};
        if (operands.pack_a || operands.pack_b) {
            const void *a = nullptr, *b = nullptr;
            const int32_t status = gemm_pack(device, operands, workspace, stream, &a, &b);
            if (status != ATTILE_OK) return status;
            if (operands.pack_a) read_packed(product.params.a, operands.panel(true), a);
            if (operands.pack_b) read_packed(product.params.b, operands.panel(false), b);
        }
        return gemm_launch(device, product, choice.plan, workspace, stream);
    }
};

Planned<attile_gemm_problem> declined(const char *why) {
    Declined reason;
    std::snprintf(reason.text, sizeof reason.text, "%s", why);
    return Planned<attile_gemm_problem>(reason);
}

Planned<attile_gemm_problem> plan_tiles(const DeviceProperties &properties, const attile_gemm_problem &problem) {
    const Choice choice = choose(properties, problem);
    if (choice.operands.declined[0] != '\0') return declined(choice.operands.declined);
    Declined reason;
    if (gemm_is_left_to_simt(properties, problem, choice.operands, choice.plan.seconds, reason))
        return Planned<attile_gemm_problem>(reason);
    return Planned<attile_gemm_problem>(TiledGemm{&problem, choice}, choice.workspace_bytes);
}

}  // namespace

Planned<attile_gemm_problem> plan_gemm(Device &device, const attile_gemm_problem &problem) {
    if ((problem.a.dtype != ATTILE_F16 && problem.a.dtype != ATTILE_BF16) || problem.k == 0) return {};
    const SmallGemmPlan small = small_gemm_plan(device.properties(), problem);
    if (small.taken) return Planned<attile_gemm_problem>(SmallGemm{&problem, "sm80", small}, 0);
    return plan_tiles(device.properties(), problem);
}

Planned<attile_gemm_problem> plan_gemm_tf32x3(Device &device, const attile_gemm_problem &problem) {
    if (problem.a.dtype != ATTILE_F32 || problem.k == 0) return {};
    if (const char *const why = why_no_tf32x3(device.properties().capability, problem.launch.flags)) return declined(why);
    if (const char *const why = why_not_worth_splitting(problem)) return declined(why);
    return plan_tiles(device.properties(), problem);
}

Planned<attile_gemm_problem> plan_gemm_f64(Device &device, const attile_gemm_problem &problem) {
    if (problem.a.dtype != ATTILE_F64 || problem.k == 0) return {};
    if (const char *const why = why_not_f64(device.properties().capability, problem.launch.flags)) return declined(why);
    return plan_tiles(device.properties(), problem);
}

}  // namespace attile::gpu::sm80
