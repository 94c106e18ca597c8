// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "attention/run.h"
#include "attention_backward/simt/instances.h"
#include "host/sizes.h"
#include "host/workspace.h"

namespace attile::gpu {
namespace {

constexpr int64_t kAnyRows = 64, kAnyKeys = 32;  // How the work is cut where pairs are taken one by one.
// Parts of dq and whatever else a launch leaves for the next step: at most this share of the device's memory, and this much:
// with all else less than a context's pool keeps as a rule, so that calls after the first find their workspace there. P and dS may take
// more: the more of them a launch holds, the more of what its sums take is worth their ends (d = 64 at 512 MiB 1 to 3 % slower, causal 4
// %).
constexpr int64_t kPartsShare = 64, kMostParts = 512ll << 20, kMostScores = 1ll << 30;
constexpr int64_t kWavesWanted = 8;  // Waves of blocks that a launch over few pairs should fill before it takes more units instead.
constexpr int64_t kMostSplits = 64;
// Products are taken where they are expected to need no more than this of the tile kernel's time: expectations err.
constexpr double kGain = 0.95;

bool is_packed(const attile_attention_problem &p) { return is_present(p.cu_len_q) || is_present(p.cu_len_k); }

// Float rows of exactly `depth` columns that begin at whole vectors, the first row's address aside.
bool has_panel_rows(const attile_operand &x, int64_t cols, int64_t depth) {
    return x.dtype == ATTILE_F32 && cols == depth && x.stride[3] == 1 && x.stride[0] % 4 == 0 && x.stride[1] % 4 == 0 &&
           x.stride[2] % 4 == 0 && std::llabs(x.stride[2]) < (int64_t{1} << 29);
}
bool is_unaligned(const attile_operand &x) { return reinterpret_cast<uintptr_t>(x.data) % 16 != 0; }
bool has_whole_quads(const attile_operand &x, int64_t cols) { return cols % 4 == 0 && has_panel_rows(x, cols, cols) && !is_unaligned(x); }

// Of multiply-adds in float32; where a device does not say, anything: times are compared with one another alone.
double peak_of(const DeviceProperties &device) { return device.peak_flops_f32 > 0 ? device.peak_flops_f32 : 1e12; }

void find_occupancy(Device &device, AttentionBackwardPlan &plan) {
    if (device.occupancy(reinterpret_cast<const void *>(plan.kernel), plan.threads, 0, &plan.blocks_per_unit) != ATTILE_OK ||
        plan.blocks_per_unit < 1)
        plan.blocks_per_unit = 1;
}

void take_tile(Device &device, const simt::AttentionBackwardTile &tile, AttentionBackwardPlan &plan) {
    plan.kernel = tile.kernel;
    plan.rows = tile.rows;
    plan.keys = tile.keys;
    plan.threads = tile.threads;
    find_occupancy(device, plan);
}

void choose_kernel(Device &device, const attile_attention_backward_problem &problem, AttentionBackwardPlan &plan) {
    const attile_attention_problem &p = *problem.forward;
    plan.wide = p.compute == ATTILE_F64;
    plan.rows = kAnyRows;
    plan.keys = kAnyKeys;
    plan.threads = simt::kBackwardThreads;
    plan.depth = static_cast<int32_t>(std::min<int64_t>(std::max(p.head_dim, p.head_dim_v), INT32_MAX));
    plan.name = plan.wide ? "attention_backward_any_f64" : "attention_backward_any_f32";
    plan.share = 0.01;
    if (plan.wide) return;
    for (const simt::AttentionBackwardFn kernel : simt::kAttentionBackwardPlain) {
        const simt::AttentionBackwardTileKernel tile = kernel();
        if (tile.depth < std::max(p.head_dim, p.head_dim_v)) continue;
        plan.name = tile.name;
        plan.depth = tile.depth;
        plan.share = tile.share;
        plan.copy_q = !has_panel_rows(p.q, p.head_dim, tile.depth);
        plan.copy_k = !has_panel_rows(p.k, p.head_dim, tile.depth);
        plan.copy_v = !has_panel_rows(p.v, p.head_dim_v, tile.depth);
        plan.copy_dout = !has_panel_rows(problem.dout, p.head_dim_v, tile.depth);
        plan.unaligned = (!plan.copy_q && is_unaligned(p.q)) || (!plan.copy_k && is_unaligned(p.k)) ||
                         (!plan.copy_v && is_unaligned(p.v)) || (!plan.copy_dout && is_unaligned(problem.dout));
        plan.modified = plan.unaligned || attention_modifies_scores(p) || is_present(p.key_starts);
        take_tile(device, plan.modified ? tile.modified : tile.plain, plan);
        return;
    }
}

// Tiles, units and blocks of keys there are, by the kernel's.
void count_units(const attile_attention_problem &p, AttentionBackwardPlan &plan) {
    plan.pairs = p.batch * p.heads_kv;
    plan.row_tiles = ceil_div(p.len_q, plan.rows);
    plan.units = p.heads_q / std::max<int64_t>(p.heads_kv, 1) * plan.row_tiles;
    plan.key_blocks = ceil_div(p.len_k, plan.keys);
}

// What a pair takes in a launch, whatever its units: copies and the sums of its keys.
int64_t pair_bytes(const attile_attention_problem &p, const AttentionBackwardPlan &plan) {
    const int64_t rows = p.heads_q / std::max<int64_t>(p.heads_kv, 1) * p.len_q;
    const int64_t copies = is_packed(p) ? 0 : (plan.copy_q + plan.copy_dout) * rows + (plan.copy_k + plan.copy_v) * p.len_k;
    return int64_t{4} * plan.depth * (copies + (plan.kernel != nullptr ? 2 * plan.key_blocks * plan.keys : 0));
}

// Cuts the work into launches of all that few pairs have, or of some of their units.
void cut_by_units(Device &device, const attile_attention_problem &p, int64_t budget, AttentionBackwardPlan &plan) {
    const bool tiled = plan.kernel != nullptr;
    plan.key_chunk = plan.key_blocks;
    const int64_t unit_q = tiled ? plan.key_blocks * plan.rows * plan.depth : 0, unit_bias = plan.bias ? plan.rows * p.len_k : 0;
    const int64_t unit_bytes = std::max<int64_t>(4 * unit_q + (plan.wide ? 8 : 4) * unit_bias, 1);
    const int64_t slots = std::max<int64_t>(1, static_cast<int64_t>(device.properties().compute_units) * plan.blocks_per_unit);
    const int64_t fill = std::max<int64_t>(1, ceil_div(kWavesWanted * slots, std::max<int64_t>(plan.key_blocks, 1)));
    const int64_t fits = budget / (pair_bytes(p, plan) + kWavesWanted * unit_bytes);
    plan.slice = is_packed(p) ? plan.pairs : std::min(plan.pairs, std::max(fill, fits));
    if (plan.slice > 0) plan.slice = ceil_div(plan.pairs, ceil_div(plan.pairs, plan.slice));
    while (plan.slice > 1 && plan.slice * std::max<int64_t>(plan.key_blocks, 1) * kMostSplits > kMaxGridX)
        plan.slice = (plan.slice + 1) / 2;
    plan.chunk = std::min(plan.units, std::max<int64_t>(1, budget / std::max<int64_t>(plan.slice * unit_bytes, 1)));
    if (plan.chunk > 0) plan.chunk = ceil_div(plan.units, ceil_div(plan.units, plan.chunk));
    plan.part_q = plan.slice * plan.chunk * unit_q;

    // Few blocks: some for the same keys, whose sums go on from launch to launch and are added up afterwards. Sums are then cut otherwise
    // in another batch.
    const int64_t blocks = plan.slice * plan.key_blocks;
    plan.split_units = std::max<int64_t>(plan.chunk, 1);
    if (!tiled || blocks == 0 || (plan.chunk != plan.units && blocks >= slots) || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0)
        return;
    // In the time of a unit: a block's ends take a quarter of one, sums of a split an eighth, or less where memory says so.
    const DeviceProperties &properties = device.properties();
    const double unit =
                     10.0 * plan.rows * plan.keys * plan.depth * std::max(properties.compute_units, 1) / (plan.share * peak_of(properties)),
                 bytes = 16.0 * static_cast<double>(blocks) * plan.keys * plan.depth;  // Both sums, written and read.
    const double sums = properties.peak_bandwidth > 0 ? std::min(0.125, bytes / (properties.peak_bandwidth * unit)) : 0.125;
    double best = -1;
    for (int64_t splits = 1; splits <= std::min(kMostSplits, plan.chunk); ++splits) {
        const int64_t each = ceil_div(plan.chunk, splits);
        const double cost =
            static_cast<double>(ceil_div(blocks * splits, slots)) * (static_cast<double>(each) + 0.25) + sums * static_cast<double>(splits);
        if (best >= 0 && cost >= best) continue;
        best = cost;
        plan.splits = ceil_div(plan.chunk, each);
        plan.split_units = each;
    }
}

// Pairs of row and key in tiles that anything is seen of: those of whole tiles, and each edge of a mask adds half a tile's length a row.
double computed_pairs(const attile_attention_problem &p, const AttentionBackwardPlan &plan) {
    const double heads = static_cast<double>(p.batch * p.heads_q), rows = static_cast<double>(std::max<int64_t>(p.len_q, 1)),
                 keys = static_cast<double>(std::max<int64_t>(p.len_k, 1));
    const double whole_rows = static_cast<double>(plan.row_tiles * plan.rows),
                 whole_keys = static_cast<double>(plan.key_blocks * plan.keys);
    const int edges = (p.window_left >= 0) + (p.window_right >= 0);
    const double seen = attention_visible_pairs(p) * (whole_rows / rows) * (whole_keys / keys);
    return std::min(seen + edges * heads * rows * std::max(plan.rows, plan.keys) / 2, heads * whole_rows * whole_keys);
}

// Seconds that the products' kernels take, as measured on an H200 and scaled by the device's peaks: what a block does is counted in steps
// of 64 x 128 x 8 multiply-adds, of which a multiprocessor makes as many as kStepRate of its peak allows, less where it has few blocks.
class ProductsTime {
  public:
    ProductsTime(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan)
        : by_(plan.products), units_(std::max(device.compute_units, 1)), per_unit_(plan.blocks_per_unit), masked_(plan.keys_first) {
        step_ = 2.0 * 64 * 128 * 8 * units_ / (kStepRate * peak_of(device));
        byte_ = device.peak_bandwidth > 0 ? 1 / (kMemoryRate * device.peak_bandwidth) : 0;
        pairs_ = static_cast<double>(plan.pairs);
        row_tiles_ = plan.units;
        key_blocks_ = plan.key_blocks;
        score_steps_ = plan.modified ? kModifiedScoreSteps : kScoreSteps;
        visible_ = computed_pairs(p, plan) / (pairs_ * row_tiles_ * plan.rows * key_blocks_ * plan.keys);
    }
    double of(int64_t slice, int64_t chunk, int64_t key_chunk) const {
        const double launches = std::ceil(pairs_ / slice) * ceil_div(row_tiles_, chunk) * ceil_div(key_blocks_, key_chunk);
        const double tiles = static_cast<double>(slice) * chunk * key_chunk, pairs = tiles * by_.rows * by_.keys;
        const double of_keys = chunk * by_.rows / 8.0, of_rows = key_chunk * by_.keys / 8.0;
        const double scores = std::max(step_ * waves(tiles * by_.score_tiles, 2.0 * by_.depth / 8 + score_steps_), byte_ * 8 * pairs);
        const double keys = std::max(step_ * waves(2.0 * by_.key_tiles * by_.col_tiles * slice * key_chunk, of_keys + kEndSteps),
                                     byte_ * 8 * by_.col_tiles * pairs);
        const double row_blocks = static_cast<double>(by_.col_tiles) * slice * chunk, slots = static_cast<double>(units_) * per_unit_;
        const double rows = std::max(step_ * waves(row_blocks, of_rows + kEndSteps), byte_ * 4 * by_.col_tiles * pairs);
        // Behind a mask they are of unequal length, which many even out.
        const double uneven =
            masked_
                ? step_ * (kUnevenKeys * (of_keys + kEndSteps) + kUnevenRows * (of_rows + kEndSteps) * std::min(1.0, slots / row_blocks))
                : 0;
        return launches * (visible_ * (scores + keys + rows) + uneven + kLaunches);
    }

  private:
    // Of the multiply-add roof and of memory's; steps that a block's ends and its exponentials take, and the ends of sums; seconds of three
    // launches.
    static constexpr double kStepRate = 0.75, kMemoryRate = 0.8, kScoreSteps = 8, kModifiedScoreSteps = 12, kEndSteps = 16,
                            kLaunches = 9e-6;
    static constexpr double kUnevenKeys = 0.2, kUnevenRows = 0.7;

    // Steps of a multiprocessor for that many blocks of `steps` each, as many at a time as fit. One alone makes half of what several make.
    double waves(double blocks, double steps) const {
        const double slots = static_cast<double>(units_) * per_unit_, whole = std::floor(blocks / slots);
        const double rest = std::ceil((blocks - whole * slots) / units_), rate = rest < 2 ? 0.5 : rest < 3 ? 0.85 : rest < 4 ? 0.97 : 1;
        return (whole * per_unit_ + rest / rate) * steps;
    }

    const simt::AttentionBackwardProducts &by_;
    double step_, byte_, pairs_, visible_, score_steps_;
    int64_t row_tiles_, key_blocks_;
    int32_t units_, per_unit_;
    bool masked_;
};

// The same of the tile kernel, as the plan has cut it.
double tile_time(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan) {
    const double blocks = static_cast<double>(plan.slice) * plan.key_blocks * plan.splits;
    const double slots = static_cast<double>(std::max(device.compute_units, 1)) * plan.blocks_per_unit;
    constexpr double kAlone = 0.83;
    const double idle = std::ceil(blocks / slots) * slots / std::max(blocks, 1.0);
    constexpr double kModifiedShare = 0.7;  // Of the plain kernel's.
    const double roof = plan.share * peak_of(device) * (plan.modified ? kModifiedShare : 1);
    // A block alone is faster than it is beside others, but the longest one has to end, too.
    const int64_t launches = plan.splits > 1 && plan.chunk > 0 ? ceil_div(plan.units, plan.chunk) : 1;
    const double longest = static_cast<double>(plan.split_units * launches * plan.rows) * plan.keys;
    return 10 * plan.depth * std::max(computed_pairs(p, plan) * idle, kAlone * longest * slots) / roof;
}

// Blocks that leave most multiprocessors idle: the smaller tiles of the kernel for modified scores make more of them, where that is
// expected to be faster. `uncut`: before it was cut by units.
void take_small_tiles(Device &device, const attile_attention_problem &p, int64_t budget, AttentionBackwardPlan uncut,
                      AttentionBackwardPlan &plan) {
    const DeviceProperties &properties = device.properties();
    if (plan.kernel == nullptr || plan.modified || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 ||
        2 * plan.slice * plan.key_blocks * plan.splits > properties.compute_units)
        return;
    for (const simt::AttentionBackwardFn kernel : simt::kAttentionBackwardPlain) {
        const simt::AttentionBackwardTileKernel tile = kernel();
        if (tile.depth != plan.depth || tile.modified.rows * tile.modified.keys >= plan.rows * plan.keys) continue;
        take_tile(device, tile.modified, uncut);
        uncut.modified = true;
        count_units(p, uncut);
        cut_by_units(device, p, budget, uncut);
        if (tile_time(properties, p, uncut) < tile_time(properties, p, plan)) plan = uncut;
        return;
    }
}

// The same plan unfused, where they can take it in less than `limit` seconds: launches of some pairs, units and blocks of keys,
// whose P and dS fit the budget. Sums go on from launch to launch in the order that one launch would add them in, so that
// the cut shows in no result. The fewer rows and keys a launch has of a pair the more pairs it has, and the more blocks make its sums; the
// more, the fewer sums are handed on.
bool cut_by_products(Device &device, const attile_attention_backward_problem &problem, double limit, AttentionBackwardPlan &plan) {
    const attile_attention_problem &p = *problem.forward;
    if (plan.kernel == nullptr || plan.unaligned || plan.bias || is_present(p.key_starts) || attention_has_sparse_mask(p) || limit <= 0)
        return false;
    const simt::AttentionBackwardProducts products = simt::attention_backward_products_of(plan.depth);
    if (products.name == nullptr) return false;
    plan.name = products.name;
    plan.products = products;
    plan.kernel = attention_softcap(p) != 0 ? products.capped_scores : plan.modified ? products.modified_scores : products.scores;
    plan.rows = products.rows;
    plan.keys = products.keys;
    plan.threads = products.threads;
    find_occupancy(device, plan);
    count_units(p, plan);
    if (plan.pairs < 1 || plan.units < 1 || plan.key_blocks < 1) return false;

    const ProductsTime time(device.properties(), p, plan);
    const int64_t budget = std::min(kMostScores, device.properties().memory_total / kPartsShare);
    const int64_t held = budget / (2 * static_cast<int64_t>(sizeof(float)) * plan.rows * plan.keys);  // Units by blocks of keys.
    const int64_t parts_budget = std::min(kMostParts, budget);
    const int64_t most_pairs = is_packed(p) ? plan.pairs : std::clamp<int64_t>(parts_budget / pair_bytes(p, plan), 1, plan.pairs);
    // Whether dq needs parts depends on its address, which a query may not know and the cut is not to depend on.
    const int64_t most_parts = parts_budget / (int64_t{4} * plan.rows * plan.depth);
    bool is_found = false;
    const auto for_parts = [](int64_t all, const auto &take) {
        for (int64_t parts = 1;; parts = std::min(all, parts + std::max<int64_t>(1, parts / 2))) {
            take(ceil_div(all, parts));
            if (parts == all) return;
        }
    };
    for_parts(plan.units, [&](int64_t chunk) {
        for_parts(plan.key_blocks, [&](int64_t key_chunk) {
            const int64_t fits = std::min({most_pairs, held / (chunk * key_chunk), most_parts / chunk});
            if (fits < 1 || (is_packed(p) && fits < plan.pairs)) return;
            const int64_t slice = ceil_div(plan.pairs, ceil_div(plan.pairs, fits));
            const double seconds = time.of(slice, chunk, key_chunk);
            if (seconds >= limit) return;
            limit = seconds;
            is_found = true;
            plan.slice = slice;
            plan.chunk = chunk;
            plan.key_chunk = key_chunk;
        });
    });
    if (!is_found) return false;
    plan.share = 10 * attention_visible_pairs(p) * plan.depth / (limit * peak_of(device.properties()));
    plan.split_units = plan.chunk;
    plan.stores_rows = has_whole_quads(problem.dq, p.head_dim);
    plan.stores_keys = has_whole_quads(problem.dk, p.head_dim) && has_whole_quads(problem.dv, p.head_dim_v);
    const bool has_parts = !plan.stores_rows || plan.key_chunk < plan.key_blocks || problem.dq.data == nullptr;
    plan.part_q = has_parts ? plan.slice * plan.chunk * plan.rows * plan.depth : 0;
    plan.scores = plan.slice * plan.chunk * plan.rows * plan.key_chunk * plan.keys;
    return true;
}

// In how many seconds unfused products would have to be done to be taken: those of the plan by tiles, but where the environment decides,
// and but for bits that are to be the same in any batch, which are made as would be best for kUsualPairs pairs. `uncut`: before it was cut.
double products_limit(Device &device, const attile_attention_backward_problem &problem, int64_t budget, const AttentionBackwardPlan &uncut,
                      const AttentionBackwardPlan &by_tiles) {
    constexpr double kAnyTime = std::numeric_limits<double>::infinity(), kNever = 0;
    constexpr int64_t kUsualPairs = 128;
    const DeviceProperties &properties = device.properties();
    const attile_attention_problem &p = *problem.forward;
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    if (properties.gradients_by == GradientsBy::kTiles || by_tiles.kernel == nullptr || by_tiles.unaligned || by_tiles.bias) return kNever;
    if (invariant && is_packed(p)) return kNever;  // Products could not take any number of sequences.
    if (properties.gradients_by == GradientsBy::kProducts) return kAnyTime;
    if (!invariant) return kGain * tile_time(properties, p, by_tiles);
    // Arrays in host memory come in chunks of as many heads as the size of the whole call allows: those must not matter either.
    attile_attention_backward_problem usual = problem;
    attile_attention_problem forward = p;
    usual.forward = &forward;
    forward.batch = kUsualPairs;
    forward.heads_q = p.heads_q / p.heads_kv;
    forward.heads_kv = 1;
    AttentionBackwardPlan tiles = uncut, products = uncut;
    count_units(forward, tiles);
    cut_by_units(device, forward, budget, tiles);
    return cut_by_products(device, usual, kGain * tile_time(properties, forward, tiles), products) ? kAnyTime : kNever;
}

}  // namespace

AttentionBackwardPlan plan_attention_backward(Device &device, const attile_attention_backward_problem &problem) {
    const attile_attention_problem &p = *problem.forward;
    AttentionBackwardPlan plan;
    if (is_present(p.block_table)) {
        plan.status = ATTILE_ERROR_UNSUPPORTED_FEATURE;
        std::snprintf(plan.text, sizeof plan.text, "gradients of paged keys and values are not defined");
        return plan;
    }
    const int64_t group = p.heads_q / std::max<int64_t>(p.heads_kv, 1);
    if (p.len_q > kAttentionMaxLength || p.len_k > kAttentionMaxLength || p.len_q * group > kAttentionMaxLength) {
        plan.status = ATTILE_ERROR_UNSUPPORTED_SHAPE;
        std::snprintf(plan.text, sizeof plan.text, "len_q %lld, len_k %lld: more than %lld rows or keys", static_cast<long long>(p.len_q),
                      static_cast<long long>(p.len_k), static_cast<long long>(kAttentionMaxLength));
        return plan;
    }
    choose_kernel(device, problem, plan);
    plan.bias = is_present(problem.dbias);
    plan.sinks = is_present(problem.dsinks);
    plan.keys_first = p.window_left >= 0 || p.window_right >= 0;
    count_units(p, plan);
    const int64_t budget = std::min(kMostParts, device.properties().memory_total / kPartsShare);
    AttentionBackwardPlan by_products = plan;
    cut_by_units(device, p, budget, plan);
    take_small_tiles(device, p, budget, by_products, plan);
    const double limit = products_limit(device, problem, budget, by_products, plan);
    if (cut_by_products(device, problem, limit, by_products)) plan = by_products;

    const bool tiled = plan.kernel != nullptr;
    const int64_t number = plan.wide ? 8 : 4;
    const int64_t copies_q = plan.copy_q + plan.copy_dout, copies_k = plan.copy_k + plan.copy_v;
    plan.row_numbers = p.batch * p.heads_q * plan.row_tiles * plan.rows;
    plan.irregular = tiled ? plan.pairs + 1 : 0;
    plan.copied_rows =
        plan.depth * (is_packed(p) ? p.heads_q * p.total_q * (is_present(p.cu_len_q) ? 1 : p.batch) : plan.slice * group * p.len_q);
    plan.copied_keys = plan.depth * (is_packed(p) ? p.heads_kv * p.total_k * (is_present(p.cu_len_k) ? 1 : p.batch) : plan.slice * p.len_k);
    const bool has_sums =
        tiled && !(plan.stores_keys && plan.chunk == plan.units && problem.dk.data != nullptr && problem.dv.data != nullptr);
    plan.sums = has_sums ? plan.splits * plan.slice * plan.key_blocks * plan.keys * plan.depth : 0;
    plan.part_bias = plan.bias ? plan.slice * plan.chunk * plan.rows * p.len_k : 0;
    if (plan.bias) {
        plan.sum_bias = 1;
        for (const int64_t extent : problem.bias_extent) plan.sum_bias *= extent;
    }
    plan.workspace = workspace_piece(2 * number * plan.row_numbers) + workspace_piece(4 * plan.irregular) +
                     copies_q * workspace_piece(4 * plan.copied_rows) + copies_k * workspace_piece(4 * plan.copied_keys) +
                     workspace_piece(4 * plan.part_q) + 2 * workspace_piece(4 * plan.scores) + 2 * workspace_piece(4 * plan.sums) +
                     workspace_piece(number * plan.part_bias) + workspace_piece(number * plan.sum_bias);
    return plan;
}

void print_plan(const AttentionBackwardPlan &plan, char *text, std::size_t capacity) {
    const long long slices = plan.slice > 0 ? ceil_div(plan.pairs, plan.slice) : 0,
                    chunks = plan.chunk > 0 ? ceil_div(plan.units, plan.chunk) : 0;
    const bool copies = plan.copy_q || plan.copy_k || plan.copy_v || plan.copy_dout;
    const long long of_keys = plan.key_chunk > 0 ? ceil_div(plan.key_blocks, plan.key_chunk) : 0;
    std::snprintf(text, capacity, "%s%s%s: %d rows x %d keys, %lld key blocks x %lld splits x %lld heads, %lld x %lld launches", plan.name,
                  plan.modified ? ", modified scores" : "", copies ? ", operands rewritten" : "", plan.rows, plan.keys,
                  static_cast<long long>(plan.key_chunk), static_cast<long long>(plan.splits), static_cast<long long>(plan.slice), slices,
                  chunks * of_keys);
}

}  // namespace attile::gpu
