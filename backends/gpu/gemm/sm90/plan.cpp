// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm90/plan.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <optional>
#include <string_view>

#include "host/sizes.h"
#include "host/workspace.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kElementBytes = 2;
constexpr int64_t kInvariantRows = 256;  // The row count that a batch-invariant plan is made for, whatever it is.

// The model. Clocks are a multiprocessor's.
constexpr double kLaunchSeconds = 2.5e-6;
constexpr double kPackSeconds = 3e-6;        // One more kernel.
constexpr double kMemoryShare = 0.85;        // Of the peak bandwidth.
constexpr double kClockShare = 0.85;         // Of the highest clock, that the power limit leaves.
constexpr double kBytesPerClock = 46;        // That a multiprocessor takes from the L2 cache,
constexpr double kSharedBytesPerClock = 58;  // and each of them where all do.
constexpr double kFillClocks = 3500;         // From the start of a block to its first product.
constexpr double kSplitClocks = 6500;        // Two barriers of a cluster, and the others' sums.
constexpr double kHalvesClocks = 1300;       // The same where two take half a tile each,
constexpr double kHalfClocks = 0.16;         // and for each of its sums.
constexpr double kThreeShare = 1.05;         // Of the time of their products that a step of three warpgroups takes.
constexpr double kThreeEnds = 2.2;           // A column of their tile on its way out, to one of two warpgroups': from registers,
constexpr double kThreeGeneralEnds = 1.3;    // by the operation's epilogue.
constexpr double kMulticastClocks = 300;     // Blocks wait for each other.
constexpr double kMulticastShare = 0.81;     // Of the time that B's panel takes where two blocks share it: all of it goes into both.
constexpr double kShareOfA = 0.88;           // Likewise A's,
constexpr double kShareOfAClocks = 700;      // whose blocks wait longer for each other.
constexpr double kPlainClocks = 8;           // A column of a tile on its way out: from registers,
constexpr double kFusedClocks = 8;           // with bias and the like,
constexpr double kGeneralClocks = 35;        // by the operation's epilogue,
constexpr double kTransposedClocks = 60;     // and turned.
constexpr double kTurnedClocks = 7.5;        // Of a turned tile: from registers,
constexpr double kTurnedFusedClocks = 60;    // in float32, with bias and the like, or to rows at odd places.
constexpr double kTurnedThreeEnds = 1.5;     // A column of three warpgroups, to one of two.
constexpr double kTurnedSteps = 0.88;        // Its steps take so much of the time that is expected of others,
constexpr double kTurnedStepsOfA = 0.835;    // where two blocks share its A,
constexpr double kTurnedStepsOfB = 0.956;    // and where they share its B.

constexpr double kPartClocks = 0.35;    // An element of a part's tile on its way to memory.
constexpr double kAddSeconds = 3.5e-6;  // The kernel that adds the parts,
constexpr double kAddBandwidth = 5e12;  // and the bytes a second of its loads.

constexpr int kSplits[] = {1, 2, 3, 4, 8};
constexpr int64_t kMostParts = 16;
constexpr int64_t kLeastPartSteps = 16;  // Shorter ones are not worth a kernel more.
// Rows of D that turned tiles are for: few enough that whole tiles of 128 rows would be badly filled.
constexpr int64_t kLeastTurnedRows = 129, kMostTurnedRows = 1024;

int storage_bytes(int32_t dtype) { return (dtype & 0xff) / 8; }

// Can C be read two elements of a row at a time?
bool is_paired(const GemmOutput &output) {
    return output.col == 1 && reinterpret_cast<uintptr_t>(output.data) % static_cast<uintptr_t>(2 * storage_bytes(output.dtype)) == 0 &&
           ((output.row | output.batch_y | output.batch_x) & 1) == 0;
}

// What there is to do to the sums, as GemmFused; no value if it cannot be done in registers.
std::optional<int32_t> fused_of(const GemmParams &p) {
    int32_t fused = 0;
    if (p.c.dtype != 0) {
        if (p.c.col != 1) return std::nullopt;
        fused |= kFusedC | (is_paired(p.c) && p.n % 2 == 0 ? 0 : kFusedUnpairedC);
    }
    if (p.bias.dtype != 0) {
        if (p.bias.row != 0 && p.bias.col != 0) return std::nullopt;
        fused |= p.bias.row != 0 ? kFusedBiasRows : kFusedBiasColumns;
    }
    if (p.activation != ATTILE_ACTIVATION_NONE) {
        if (p.d.dtype == ATTILE_F32 && p.activation != ATTILE_ACTIVATION_RELU) return std::nullopt;  // In full float32.
        fused |= kFusedActivation;
    }
    return fused;
}

// The way of a tile that is not split, and whose rows are rows of D or that is made to have them along its columns.
GemmWay direct_way(const GemmPlan &plan, int32_t dtype) {
    const GemmParams &p = plan.params;
    if (p.d.col != 1) return kGemmGeneral;
    if (p.d.dtype == dtype) return kGemmNarrow;
    return p.d.dtype == ATTILE_F32 || p.d.dtype == ATTILE_I32 ? kGemmFloats : kGemmGeneral;
}

// Of a plan whose `way` and `wide` speak of the operands alone.
bool can_halve(const GemmPlan &plan, const GemmChoice &choice) {
    return plan.way == kGemmNarrow && plan.fused == 0 && plan.wide && choice.splits == 2 && choice.shape().columns <= kGemmMostHalved &&
           plan.params.n % 2 == 0;
}
GemmWay way_of(const GemmPlan &plan, const GemmChoice &choice) {
    const bool is_direct = choice.transposed == choice.shape().turned && choice.splits == 1 && choice.shape().columns >= kGemmPiece;
    return is_direct ? plan.way : kGemmGeneral;
}

// Tiles of a cluster that a choice makes, along the rows of the tiles, the columns, and in all; and those of whole rounds of the device.
struct TileCounts {
    int64_t a, b;
    double all;
    TileCounts(const GemmChoice &choice, const GemmPlan &plan) {
        const GemmParams &p = plan.params;
        const GemmTileShape &tile = choice.shape();
        a = ceil_div(choice.transposed ? p.n : p.m, int64_t{tile.rows} * choice.along_rows());
        b = ceil_div(choice.transposed ? p.m : p.n, int64_t{tile.columns} * choice.along_columns());
        all = static_cast<double>(a) * static_cast<double>(b) * static_cast<double>(plan.batches);
    }
    static double at_once(const GemmChoice &choice, double units) {
        const int cluster = std::max(choice.splits, choice.multicast);
        // Clusters lie within a part of the chip of at most 18 multiprocessors, not all of which are there.
        return std::max(1.0, std::floor((cluster <= 2 ? 1.0 : 0.88) * units / cluster));
    }
    double beyond_rounds(double at_once) const { return all - std::floor(all / at_once) * at_once; }
};

struct Model {
    double units, clock, bandwidth;
    double bytes;  // That must move at least.

    double seconds(const GemmChoice &choice, const GemmPlan &plan) const {
        const GemmParams &p = plan.params;
        const int rows = choice.shape().rows, columns = choice.shape().columns;
        const int64_t blocks_k = ceil_div(p.k, kGemmDepth);
        const TileCounts counts(choice, plan);
        const double tiles = counts.all;
        const int cluster = std::max(choice.splits, choice.multicast);
        const double at_once = TileCounts::at_once(choice, units);
        const double rounds = choice.parts > 1 ? std::floor(tiles / at_once) : std::ceil(tiles / at_once);
        const double steps = static_cast<double>(ceil_div(blocks_k, choice.splits));
        // Of a B that is contiguous along its columns whole pieces come.
        const int least = plan.panel(choice.transposed).outer_first ? kGemmPiece : kGemmPiece / 4;
        const int of_b = std::max(columns, least);
        const double loaded =
            (choice.along_columns() > 1 ? kShareOfA : 1.0) * rows + (choice.along_rows() > 1 ? kMulticastShare : 1.0) * of_b;
        const double from_cache = static_cast<double>(rows) / choice.along_columns() + static_cast<double>(of_b) / choice.along_rows();
        const double busy_units = std::min(tiles * choice.parts, at_once) * cluster / units;
        const double of_turned = choice.multicast == 1 ? kTurnedSteps : choice.shares_a ? kTurnedStepsOfA : kTurnedStepsOfB;
        const double step =
            (choice.shape().turned ? of_turned : 1.0) *
            std::max({4.0 * columns * rows / 128 * (rows > 128 ? kThreeShare : 1.0), loaded * kGemmDepth * kElementBytes / kBytesPerClock,
                      from_cache * kGemmDepth * kElementBytes * busy_units / kSharedBytesPerClock});
        double epilogue = choice.multicast == 1 ? 0 : choice.shares_a ? kShareOfAClocks : kMulticastClocks;
        if (can_halve(plan, choice)) {
            epilogue += kHalvesClocks + kHalfClocks * rows * columns;
        } else if (choice.shape().turned) {
            epilogue += (plan.leaves_plainly() ? kTurnedClocks : kTurnedFusedClocks) * columns * (rows <= 128 ? 1.0 : kTurnedThreeEnds);
        } else {
            const bool is_general = way_of(plan, choice) == kGemmGeneral;
            const double of_rows = rows <= 128 ? 1.0 : is_general ? kThreeGeneralEnds : kThreeEnds;
            epilogue += (!is_general         ? kPlainClocks + (plan.fused != 0 ? kFusedClocks : 0)
                         : choice.transposed ? kTransposedClocks
                                             : kGeneralClocks) *
                            columns * of_rows +
                        (choice.splits > 1 ? kSplitClocks : 0);
        }
        double busy = (kFillClocks + rounds * (steps * step + epilogue)) / clock, added = 0;
        if (choice.parts > 1) {
            busy += (static_cast<double>(ceil_div(blocks_k, choice.parts)) * step + kPartClocks * rows * columns) / clock;
            const double elements = counts.beyond_rounds(at_once) * choice.multicast * rows * columns;
            added = kAddSeconds + elements * 4 * choice.parts / kAddBandwidth;
        }
        const double floor = bytes / (kMemoryShare * bandwidth);
        return kLaunchSeconds + added + std::max(busy, floor) + 0.25 * std::min(busy, floor);
    }
};

Model model_of(const DeviceProperties &device, const GemmPlan &plan) {
    Model model;
    model.units = std::max(1, device.compute_units);
    model.clock = kClockShare * (device.clock_hz > 0 ? device.clock_hz : 1.7e9);
    model.bandwidth = device.peak_bandwidth > 0 ? device.peak_bandwidth : 3e12;
    const GemmParams &p = plan.params;
    const double outputs = static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(plan.batches);
    model.bytes = plan.input_bytes + outputs * (storage_bytes(p.d.dtype) + (p.c.dtype != 0 ? storage_bytes(p.c.dtype) : 0));
    return model;
}

// Of a batch-invariant product only the number of splits can show in its bits, and the tile is kept too: neither knows the rows.
GemmChoice invariant_choice(Model model, const GemmPlan &plan, const attile_gemm_problem &problem) {
    GemmPlan fixed = plan;
    fixed.batches = 1;
    fixed.params.m = kInvariantRows;
    fixed.params.n = problem.n;
    fixed.way = kGemmGeneral;  // How results leave must not matter.
    model.bytes = 0;
    GemmChoice best;
    double best_seconds = 1e300;
    for (const int splits : kSplits) {
        GemmChoice choice;
        choice.splits = splits;
        if (splits > 1 && ceil_div(problem.k, kGemmDepth) < 4 * splits) break;
        const double seconds = model.seconds(choice, fixed);
        if (seconds < 0.98 * best_seconds) {
            best = choice;
            best_seconds = seconds;
        }
    }
    return best;
}

// Into how many parts the tiles beyond whole rounds can be cut, so that these fill the device once.
int most_parts(const Model &model, const GemmChoice &choice, const GemmPlan &plan) {
    const double at_once = TileCounts::at_once(choice, model.units), beyond = TileCounts(choice, plan).beyond_rounds(at_once);
    if (beyond == 0 || plan.keeps_depth) return 1;
    const int64_t steps = ceil_div(plan.params.k, kGemmDepth);
    return static_cast<int>(std::min({static_cast<int64_t>(at_once / beyond), steps / kLeastPartSteps, kMostParts}));
}

// Can the kernels make the problem by this choice? A panel is shared by tiles of two blocks that D has.
bool is_possible(const GemmChoice &choice, const GemmPlan &plan) {
    const GemmTileShape &tile = choice.shape();
    const GemmParams &p = plan.params;
    if (plan.of_pairs() && (choice.transposed || choice.splits > 1 || tile.columns < kGemmPiece || tile.rows < 128)) return false;
    if (plan.source == GemmSource::kFloat8Groups && choice.tile != kGemm128x128) return false;
    if (tile.turned && (!choice.transposed || choice.splits > 1 || plan.way == kGemmGeneral || plan.panel(true).outer_first)) return false;
    if (choice.splits > 1 && (choice.multicast > 1 || choice.parts > 1 || ceil_div(p.k, kGemmDepth) < 2 * choice.splits)) return false;
    if (choice.multicast == 1) return !choice.shares_a;
    if (choice.shares_a) return tile.columns >= kGemmPiece && (choice.transposed ? p.m : p.n) > tile.columns;
    const bool may_share_b =
        choice.tile == kGemm128x256 || choice.tile == kGemm64x64 || tile.turned || plan.source == GemmSource::kFloat8Groups;
    return may_share_b && (choice.transposed ? p.n : p.m) > tile.rows;
}

GemmChoice best_choice(const Model &model, const GemmPlan &plan) {
    GemmChoice best;
    double best_seconds = 1e300;
    const auto compare = [&](const GemmChoice &choice) {
        const double seconds = model.seconds(choice, plan);
        if (seconds < 0.99 * best_seconds) {
            best = choice;
            best_seconds = seconds;
        }
    };
    const auto consider = [&](GemmChoice choice) {
        if (!is_possible(choice, plan)) return;
        compare(choice);
        const int parts = choice.splits > 1 ? 1 : most_parts(model, choice, plan);
        if (parts < 2) return;
        choice.parts = parts;
        compare(choice);
    };
    const bool may_turn = plan.params.m >= kLeastTurnedRows && plan.params.m <= kMostTurnedRows;
    for (int tile = 0; tile < kGemmTiles; ++tile) {
        if (kGemmTileShapes[tile].turned && !may_turn) continue;
        for (const bool transposed : {false, true}) {
            GemmChoice choice;
            choice.tile = static_cast<GemmTile>(tile);
            choice.transposed = transposed;
            choice.multicast = kGemmMulticast;
            for (const bool shares_a : {false, true}) {
                choice.shares_a = shares_a;
                consider(choice);
            }
            choice.multicast = 1;
            choice.shares_a = false;
            for (const int splits : kSplits) {
                choice.splits = splits;
                consider(choice);
            }
        }
    }
    return best;
}

// What the environment asks for, as in "128x144,turned,share=b,parts=2": for measurements and tests. No value where it is no choice, or
// none that can make the problem; with parts=1 none is cut, else as many as fill the device once, or fewer.
std::optional<GemmChoice> asked_choice(const char *text, const Model &model, const GemmPlan &plan) {
    int rows = 0, columns = 0, at = 0;
    if (std::sscanf(text, "%dx%d%n", &rows, &columns, &at) != 2) return std::nullopt;
    GemmChoice choice;
    choice.parts = static_cast<int>(kMostParts);
    std::string_view rest = text + at;
    while (!rest.empty()) {
        rest.remove_prefix(1);
        const std::string_view word = rest.substr(0, rest.find(','));
        rest.remove_prefix(word.size());
        const std::string_view value = word.substr(std::min(word.size(), word.find('=') + 1));
        int number = 0;
        std::from_chars(value.data(), value.data() + value.size(), number);
        if (word == "turned") {
            choice.transposed = true;
        } else if (word == "share=a" || word == "share=b") {
            choice.multicast = kGemmMulticast;
            choice.shares_a = value == "a";
        } else if (word.substr(0, 7) == "splits=" && std::find(std::begin(kSplits), std::end(kSplits), number) != std::end(kSplits)) {
            choice.splits = number;
        } else if (word.substr(0, 6) == "parts=" && number > 0) {
            choice.parts = number;
        } else {
            return std::nullopt;
        }
    }
    for (int tile = 0; tile < kGemmTiles; ++tile) {
        choice.tile = static_cast<GemmTile>(tile);
        const GemmTileShape &shape = choice.shape();
        if (shape.rows != rows || shape.columns != columns) continue;
        choice.parts = choice.splits > 1 ? 1 : std::max(1, std::min(choice.parts, most_parts(model, choice, plan)));
        if (is_possible(choice, plan)) return choice;
    }
    return std::nullopt;
}

}  // namespace

void set_way(GemmPlan &plan, int32_t dtype) {
    const GemmParams &p = plan.params;
    plan.wide = is_wide(p.d, p.m, p.batch_y, plan.batches / p.batch_y);
    const std::optional<int32_t> fused = fused_of(p);
    plan.fused = fused.value_or(0);
    plan.way = fused.has_value() ? direct_way(plan, dtype) : kGemmGeneral;
}

namespace {

// The plan as the choice sees it: with operands at the roundest of addresses, since the workspace must not depend on them.
GemmPlan by_strides(const GemmPlan &plan, int32_t dtype) {
    GemmPlan ideal = plan;
    ideal.params.c.data = ideal.params.d.data = ideal.params.bias.data = nullptr;
    set_way(ideal, dtype);
    return ideal;
}

}  // namespace

int64_t GemmPlan::partial_bytes() const {
    const GemmTileShape &tile = choice.shape();
    return gemm_partial(units() - whole, choice.multicast, 0, tile.rows * tile.columns) * static_cast<int64_t>(sizeof(float));
}

GemmPlan gemm_plan(const DeviceProperties &device, const attile_gemm_problem &problem, GemmSource source) {
    const bool is_asked_invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    GemmPlan plan;
    plan.source = source;
    // Of 8 bits, sums are the same whatever the tile: exact ones, and those of floats as long as all of the depth is one chain.
    const bool is_invariant = is_asked_invariant && !plan.of_pairs();
    plan.keeps_depth = source == GemmSource::kInt8 || source == GemmSource::kResidues || is_asked_invariant;
    static_cast<GemmOperands &>(plan) = gemm_operands(problem);
    if (plan.declined[0] != '\0') return plan;
    const Model model = model_of(device, plan);
    const GemmPlan ideal = by_strides(plan, problem.a.dtype);
    if (plan.of_pairs() && ideal.way == kGemmGeneral) {
        std::snprintf(plan.declined, sizeof plan.declined, "products of 8 bits have no general epilogue");
        return plan;
    }
    const std::optional<GemmChoice> asked = is_invariant ? std::nullopt : asked_choice(device.gemm_by, model, ideal);
    plan.choice = is_invariant ? invariant_choice(model, ideal, problem) : asked.has_value() ? *asked : best_choice(model, ideal);
    plan.is_asked = asked.has_value();
    const GemmChoice &choice = plan.choice;
    set_way(plan, problem.a.dtype);
    plan.seconds = model.seconds(choice, plan);
    plan.halves = can_halve(plan, choice);
    plan.way = way_of(plan, choice);
    if (plan.packed_bytes > 0) plan.seconds += kPackSeconds + 2 * plan.packed_bytes / (kMemoryShare * model.bandwidth);
    const TileCounts counts(choice, plan);
    plan.tiles_a = counts.a;
    plan.tiles_b = counts.b;
    if (counts.all * std::max(choice.splits, choice.multicast) > 2e9) {
        std::snprintf(plan.declined, sizeof plan.declined, "D has more tiles than a grid holds");
        return plan;
    }
    plan.tiles = plan.tiles_a * plan.tiles_b * plan.batches;
    const int64_t at_once = std::max<int64_t>(1, std::max(1, device.compute_units) / choice.multicast);
    plan.whole = choice.parts > 1 ? plan.tiles - plan.tiles % at_once : plan.tiles;
    plan.blocks = choice.splits > 1 ? plan.tiles * choice.splits : std::min(plan.units(), at_once) * choice.multicast;
    if (choice.parts > 1) plan.workspace_bytes += workspace_piece(plan.partial_bytes());
    return plan;
}

}  // namespace attile::gpu::sm90
