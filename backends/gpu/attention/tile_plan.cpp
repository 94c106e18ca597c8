// SPDX-License-Identifier: Apache-2.0
#include "attention/tile_plan.h"

#include <algorithm>

#include "attention/run.h"
#include "attention/seconds.h"
#include "host/sizes.h"

namespace attile::gpu {
namespace {

constexpr int64_t kInvariantSplitKeys = 16384;  // With BATCH_INVARIANT splits depend on the length alone.
constexpr double kPartBytesPerSecond = 1.5e12;
// Where only the rows of the last wave are split: what a block's two ends take, in tiles; the share of the bandwidth that the way of
// partial results to memory and back gets; the gain from which on it is done, and that where scores are modified: parts meet a bias in
// another order than whole rows do, which took 2 to 3 % more of 2048 rows of 64 columns where 3 % less were expected, and 5 to 7 %
// less of 4096 rows of 128, as expected. Where all rows are split, only parts of fewer than kFewTiles tiles count their ends.
constexpr int64_t kMostTailSplits = 24, kFewTiles = 4;
constexpr double kPartTiles = 0.5, kPartShare = 0.25, kTailGain = 0.99, kModifiedTailGain = 0.95;

// Does every row see all keys, and are they whole tiles?
bool sees_whole_tiles(const attile_attention_problem &p, int64_t tile_keys) {
    return p.window_left < 0 && p.window_right < 0 && p.len_k % tile_keys == 0 && !is_present(p.key_lengths) && !is_present(p.cu_len_q) &&
           !is_present(p.key_starts) && !is_present(p.cu_len_k) && !is_present(p.block_table);
}

// The kernel of a problem whose scores one thing modifies and nothing else asks for the modified kind; null if there is none.
const void *single_kernel(const attile_attention_problem &p, const AttentionPlan &plan, const simt::AttentionSingleKernels &kernels) {
    if (plan.pack != 1 || is_present(p.block_table) || is_present(p.key_starts) || attention_has_sparse_mask(p) ||
        (!plan.convert && (!is_aligned_16(p.k) || !is_aligned_16(p.v))))
        return nullptr;
    if (is_present(p.bias) + is_present(p.allowed) + is_present(p.alibi_slopes) + (attention_softcap(p) != 0) != 1) return nullptr;
    if (is_present(p.alibi_slopes)) return kernels.alibi;
    if (attention_softcap(p) != 0) return kernels.softcapped;
    const attile_operand &x = is_present(p.bias) ? p.bias : p.allowed;
    if (attention_operand(x, p.len_k).vector == 0 || !has_short_stride(x)) return nullptr;
    if (!is_present(p.bias)) return kernels.allowed;
    if (p.bias.dtype == ATTILE_F32) return kernels.biased;
    return p.bias.dtype == ATTILE_F16 || p.bias.dtype == ATTILE_BF16 ? kernels.biased_half : nullptr;
}

}  // namespace

double visible_share(const attile_attention_problem &p) {
    const double pairs = static_cast<double>(p.batch * p.heads_q) * static_cast<double>(p.len_q) * static_cast<double>(p.len_k);
    return pairs > 0 ? attention_visible_pairs(p) / pairs : 0;
}
int64_t seen_tiles(const attile_attention_problem &p, int64_t rows, int64_t pack, int64_t keys) {
    if (p.window_right < 0) return ceil_div(p.len_k, keys);
    const int64_t right = std::min(p.window_right, kAttentionMaxLength), left = std::min(p.window_left, kAttentionMaxLength);
    const bool reaches_all = p.bottom_right != 0 || is_present(p.causal_offset);
    const int64_t most = ceil_div(reaches_all ? p.len_k : std::min(p.len_k, p.len_q + right), keys);
    return left < 0 ? most : std::min(most, ceil_div(left + right + ceil_div(rows - 1, pack) + 1, keys) + 1);
}

double split_seconds(const attile_attention_problem &p, int32_t splits) {
    if (splits == 1) return 0;
    return kSplitLaunchSeconds + 8.0 * static_cast<double>(p.batch * p.heads_q * p.len_q * p.head_dim_v) * splits / kPartBytesPerSecond;
}

void plan_tile(Device &device, const attile_attention_problem &p, const simt::AttentionTileKernel &kernel, bool invariant,
               const AttentionPlan &start, AttentionPlan &best) {
    const int64_t group = p.heads_q / p.heads_kv;
    AttentionPlan plan = start;
    plan.path = AttentionPath::kTile;
    plan.name = kernel.name;
    plan.shared = 0;
    plan.share = kernel.share;
    plan.depth = static_cast<int32_t>(ceil_div(std::max<int64_t>(p.head_dim, 1), kernel.depth_step) * kernel.depth_step);
    // The kernel reads whole chunks of K's columns; rewritten rows are padded with zeros.
    if (plan.depth != p.head_dim) plan.convert = true;
    // The masked kernel takes heads of a group as rows only where no window tells rows apart; the modified one always does.
    const bool windowed = p.window_left >= 0 || p.window_right >= 0;
    const auto packed_blocks = [&](const simt::AttentionTile &tile) { return ceil_div(p.len_q * group, tile.rows); };
    const auto single_blocks = [&](const simt::AttentionTile &tile) { return group * ceil_div(p.len_q, tile.rows); };
    if (windowed && !invariant && 2 * packed_blocks(kernel.plain) <= single_blocks(kernel.plain)) plan.modifiers = true;
    const bool packs = !invariant && packed_blocks(kernel.plain) < single_blocks(kernel.plain);
    const bool sees_all = !plan.modifiers && !packs && sees_whole_tiles(p, kernel.plain.keys);
    const simt::AttentionTile &tile = plan.modifiers ? kernel.modified : sees_all ? kernel.plain : kernel.masked;
    if (tile.kernel == nullptr) return;
    plan.kernel = tile.kernel;
    plan.rows = tile.rows;
    plan.keys = tile.keys;
    plan.threads = tile.threads;
    // Heads of a group are rows of one problem where that leaves fewer rows of padding.
    plan.pack = (plan.modifiers || !windowed) && packs ? static_cast<int32_t>(group) : 1;
    plan.rows_per_head = p.len_q * plan.pack;
    plan.row_blocks = ceil_div(plan.rows_per_head, tile.rows);
    const int64_t tiles = ceil_div(p.len_k, tile.keys);
    const double visible = visible_share(p);
    // As many rows, keys and threads as the modified kernel. It moves references by all rows of a tile.
    const void *const single = plan.modifiers && !invariant ? single_kernel(p, plan, kernel.single) : nullptr;
    if (single != nullptr) plan.kernel = single;
    plan.longest_first = windowed;
    const int64_t few = plan.rows_per_head % tile.rows;
    plan.shortest_last = !windowed && few != 0 && 2 * few <= tile.rows;
    if (device.occupancy(plan.kernel, plan.threads, 0, &plan.blocks_per_unit) != ATTILE_OK || plan.blocks_per_unit < 1)
        plan.blocks_per_unit = 1;

    const double heads = static_cast<double>(p.batch * p.heads_q / plan.pack);
    const double tile_work = static_cast<double>(tile.rows) * tile.keys * static_cast<double>(plan.depth + kernel.cols);
    const double work = tile_work * static_cast<double>(tiles) * visible;
    const int64_t seen = seen_tiles(p, tile.rows, plan.pack, tile.keys);
    plan.cost = -1;
    const int64_t most = std::min<int64_t>(kMostAttentionSplits, std::max<int64_t>(1, seen));
    AttentionPlan candidate = plan;
    if (invariant) {
        plan.split_tiles = kInvariantSplitKeys / tile.keys;
        plan.splits = static_cast<int32_t>(std::max<int64_t>(ceil_div(tiles, plan.split_tiles), 1));
        best = plan;
        return;
    }
    for (int64_t splits = 1; splits <= most; splits += splits < 8 ? 1 : splits < 32 ? 4 : 16) {
        candidate.split_tiles = std::max<int64_t>(ceil_div(seen, splits), 1);
        candidate.splits = static_cast<int32_t>(std::max<int64_t>(ceil_div(seen, candidate.split_tiles), 1));
        const double blocks = heads * static_cast<double>(plan.row_blocks * candidate.splits);
        // A block's two ends show where it has few tiles.
        const double ends = candidate.splits > 1 && candidate.split_tiles < kFewTiles ? kPartTiles * tile_work : 0;
        const double equal = work / candidate.splits + ends, longest = static_cast<double>(candidate.split_tiles) * tile_work + ends;
        candidate.cost = wave_seconds(device.properties(), blocks, equal, windowed ? longest : equal, plan.blocks_per_unit, kernel.share) +
                         split_seconds(p, candidate.splits);
        if (candidate.splits > 1 && candidate.longest_first) candidate.cost *= 1.05;  // Rows of unequal length have such splits.
        if (plan.cost < 0 || candidate.cost < plan.cost * 0.97) plan = candidate;
    }
    // Or the row blocks of whole waves take all keys, and those of the last one, which they do not fill, splits of them.
    const int64_t row_blocks = p.batch * p.heads_q / plan.pack * plan.row_blocks, rows = p.batch * p.heads_q * p.len_q;
    const int64_t slots = static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * plan.blocks_per_unit;
    const int64_t rest = row_blocks % slots, whole = row_blocks - rest;
    const bool in_order = !plan.longest_first && !plan.shortest_last && plan.pack == 1 && !plan.convert && !is_present(p.cu_len_q) &&
                          !is_present(p.cu_len_k) && rows < kMaxGridX / 2;
    if (in_order && whole != 0 && rest != 0) {
        candidate.whole_blocks = whole;
        candidate.first_part = whole / plan.row_blocks * p.len_q + whole % plan.row_blocks * tile.rows;
        const double bandwidth = device.properties().peak_bandwidth > 0 ? device.properties().peak_bandwidth : kPartBytesPerSecond;
        const double part_seconds = 8.0 * static_cast<double>((rows - candidate.first_part) * p.head_dim_v) / (kPartShare * bandwidth);
        const double whole_seconds =
            wave_seconds(device.properties(), static_cast<double>(whole), work, plan.blocks_per_unit, kernel.share);
        const double gain = plan.modifiers ? kModifiedTailGain : kTailGain;
        for (int64_t splits = 2; splits <= std::min(std::max<int64_t>(1, tiles / kFewTiles), kMostTailSplits); ++splits) {
            candidate.split_tiles = ceil_div(tiles, splits);
            candidate.splits = static_cast<int32_t>(ceil_div(tiles, candidate.split_tiles));
            const double part_work = work * (static_cast<double>(candidate.split_tiles) + kPartTiles) / static_cast<double>(tiles);
            candidate.cost = whole_seconds + kSplitLaunchSeconds + part_seconds * candidate.splits +
                             wave_seconds(device.properties(), static_cast<double>(rest * candidate.splits), part_work,
                                          plan.blocks_per_unit, kernel.share);
            if (candidate.cost < (plan.whole_blocks != 0 ? 1.0 : gain) * plan.cost) plan = candidate;
        }
    }
    if (best.path == AttentionPath::kNothing || plan.cost < best.cost) best = plan;
}

}  // namespace attile::gpu
