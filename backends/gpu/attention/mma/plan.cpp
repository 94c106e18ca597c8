// SPDX-License-Identifier: Apache-2.0
#include "attention/mma/plan.h"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <numeric>

#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"
#include "mma/tf32x3_choice.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kInvariantSplitKeys = 16384;  // With BATCH_INVARIANT splits depend on the length alone.
constexpr int64_t kFewestSplitTiles = 2;
constexpr int64_t kMostSplits = 128;
constexpr int64_t kMostTiles = int64_t{1} << 30;
// Rows of a key head and keys that they see, up to which SIMT's kernels that stream keys are faster whatever the batch.
constexpr int64_t kFewRows = 4, kFewKeys = 128;
// Heads of a group whose one row each they are faster for where a fused tile would have a row of one head, and columns up to which.
constexpr int64_t kLeastLoneRows = 3, kMostLoneRows = 16, kLoneColumns = 128;
constexpr int64_t kPackedRows = 64;     // Of a tile; heads of a group that divide them share one of the general kernel.
constexpr int64_t kStreamedRows = 16;   // Of a key head: up to so many SIMT streams float32 keys for.
constexpr int64_t kReach = 16;          // Bytes of a copy or a store.
constexpr double kLargestScale = 8192;  // Scores of 2^10 before it are still exact to a unit of log2 after it.
// What a block does besides its key tiles, and what putting splits together takes, in key tiles.
constexpr int64_t kTileStart = 2, kCombineStart = 4;
constexpr int64_t kCombinedParts = 3400;  // Rows of one split each that are written and read in the time of a key tile, by memory's rate.
// The same of heads above kUsualDepth, in times of 64 rows and 128 keys of 576 and 512 columns, of which a multiprocessor of Hopper
// multiplies one in some nine microseconds. Estimated, not measured.
constexpr int64_t kUsualDepth = 256, kFewestDeepKeys = 128;
constexpr double kDeepTile = 64 * 128, kDeepStart = 0.3, kDeepCombine = 0.4, kDeepParts = 10000;
// Time of a tile of the general kernel, which reads a bias or mask element by element, over that of a fused one: 5 to 15 on an H100.
constexpr int64_t kGeneralCost = 6;

int64_t bytes_of(const attile_operand &x) { return (x.dtype & 0xff) / 8; }

bool is_invariant(const attile_attention_problem &p) { return (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0; }

// Do splits begin where a tile's window does? Not where a row's bits must not depend on the tile's others.
bool splits_follow(const attile_attention_problem &p) { return p.window_left >= 0 && p.window_right >= 0 && !is_invariant(p); }
// Key tiles that a tile of rows sees at most.
int64_t seen_tiles(const attile_attention_problem &p, const AttentionPlan &plan) {
    const int64_t tiles = ceil_div(p.len_k, plan.keys);
    if (!splits_follow(p)) return tiles;
    const int64_t longest = kAttentionMaxLength, rows = std::min<int64_t>(p.len_q, plan.rows / plan.pack + 1),
                  keys = rows + std::min(p.window_left, longest) + std::min(p.window_right, longest);
    return std::min(tiles, ceil_div(keys, plan.keys) + 1);
}

// Of `waves` of blocks with so many key tiles each, and of putting their splits together.
double split_cost(const AttentionPlan &plan, int64_t waves, int64_t split_tiles, int64_t splits, int64_t rows) {
    if (plan.depth > kUsualDepth) {
        const double tile = static_cast<double>(int64_t{plan.rows} * plan.keys * plan.blocks_per_unit) / kDeepTile;
        const double combine = splits > 1 ? kDeepCombine + static_cast<double>(rows * splits) / kDeepParts : 0;
        return static_cast<double>(waves) * (static_cast<double>(split_tiles) * tile + kDeepStart) + combine;
    }
    const int64_t combine = splits > 1 ? kCombineStart + splits / 8 + rows * splits / kCombinedParts : 0;
    return static_cast<double>(waves * (split_tiles + kTileStart) + combine);
}

// Splits of the keys where there are fewer row blocks than the device runs at once.
void choose_splits(const attile_attention_problem &p, int64_t units, AttentionPlan &plan) {
    const int64_t key_tiles = seen_tiles(p, plan), base = p.batch * (p.heads_q / plan.pack) * plan.row_blocks,
                  rows = p.batch * p.heads_q * p.len_q;
    plan.splits = 1;
    plan.split_tiles = key_tiles;
    if (is_invariant(p)) {
        plan.split_tiles = kInvariantSplitKeys / plan.keys;
        plan.splits = static_cast<int32_t>(ceil_div(key_tiles, plan.split_tiles));
        return;
    }
    const int64_t fewest = plan.depth > kUsualDepth ? std::max<int64_t>(kFewestDeepKeys / plan.keys, 1) : kFewestSplitTiles;
    double best = -1;
    for (int64_t splits = 1; splits <= std::min(kMostSplits, key_tiles); ++splits) {  // More than tiles would be cut as those are.
        const int64_t split_tiles = std::max(ceil_div(key_tiles, splits), fewest), count = ceil_div(key_tiles, split_tiles);
        const double cost = split_cost(plan, ceil_div(base * count, units), split_tiles, count, rows);
        // Partial results of rows that fill the device anyway would only be traffic.
        if (count > 1 && base > 2 * units) break;
        if (best < 0 || cost < best) {
            best = cost;
            plan.split_tiles = split_tiles;
            plan.splits = static_cast<int32_t>(count);
        }
    }
}

}  // namespace

AttentionChoice attention_declined(const char *format, ...) {
    AttentionChoice choice;
    va_list list;
    va_start(list, format);
    std::vsnprintf(choice.declined.text, sizeof choice.declined.text, format, list);
    va_end(list);
    return choice;
}

bool attention_modifies(const attile_attention_problem &p) {
    return attention_modifies_scores(p) || is_present(p.block_table) || !(p.scale > 0);
}

Declined attention_scale_refused(const attile_attention_problem &p) {
    if (!(std::fabs(p.scale) > kLargestScale)) return {};
    return attention_declined("scale is %g, above %g", p.scale, kLargestScale).declined;
}

Declined attention_unreached(const char *name, const attile_operand &x, int64_t columns) {
    const auto is_reached = [](int64_t bytes) { return bytes % kReach == 0; };
    const int64_t bytes = bytes_of(x), *const stride = x.stride;
    Declined declined;
    if (stride[3] != 1 && columns > 1)
        std::snprintf(declined.text, sizeof declined.text, "%s is not contiguous along the head's columns", name);
    else if (!is_reached(static_cast<int64_t>(reinterpret_cast<uintptr_t>(x.data) % kReach)) || !is_reached(stride[0] * bytes) ||
             !is_reached(stride[1] * bytes) || !is_reached(stride[2] * bytes))
        std::snprintf(declined.text, sizeof declined.text, "%s is not aligned to 16 bytes, or a stride is not a multiple of 16 bytes",
                      name);
    return declined;
}

AttentionChoice attention_examine(const attile_attention_problem &p, bool takes_f32) {
    if (p.q.dtype != ATTILE_F16 && p.q.dtype != ATTILE_BF16 && !(takes_f32 && p.q.dtype == ATTILE_F32)) return {};
    if (attention_has_several_types(p)) return {};
    if (p.batch < 1 || p.heads_q < 1 || p.len_q < 1 || p.len_k < 1 || p.total_q < 1 || p.total_k < 1 || p.head_dim < 1 || p.head_dim_v < 1)
        return {};
    const int64_t stored = p.q.dtype == ATTILE_F32 ? 4 : 8;  // Columns at once.
    if (p.head_dim_v % stored != 0)
        return attention_declined("head_dim_v is %lld, not a multiple of %lld", static_cast<long long>(p.head_dim_v),
                                  static_cast<long long>(stored));
    const int64_t longest = kAttentionMaxLength;
    if (is_present(p.block_table) && (p.pages < 1 || p.pages > longest)) return {};
    if (p.len_q * (p.heads_q / p.heads_kv) > longest || p.len_k > longest || p.total_q > longest || p.total_k > longest) return {};
    struct Named {
        const char *name;
        const attile_operand &operand;
        int64_t columns;
    };
    for (const Named &x :
         {Named{"q", p.q, p.head_dim}, Named{"k", p.k, p.head_dim}, Named{"v", p.v, p.head_dim_v}, Named{"o", p.o, p.head_dim_v}}) {
        const Declined declined = attention_unreached(x.name, x.operand, x.columns);
        if (declined.text[0] != '\0') return attention_declined("%s", declined.text);
    }
    if (const Declined refused = attention_scale_refused(p); refused.text[0] != '\0') return attention_declined("%s", refused.text);
    AttentionChoice choice;
    choice.taken = true;
    return choice;
}

bool attention_values_in_keys(const attile_attention_problem &p) {
    return p.k.data == p.v.data && p.head_dim_v <= p.head_dim && std::equal(p.k.stride, p.k.stride + 3, p.v.stride);
}

Declined attention_few_refused(const attile_attention_problem &p, bool has_few) {
    // Where results are invariant SIMT takes tiles.
    if (p.q.dtype == ATTILE_F32 || is_invariant(p) || is_present(p.block_table) || p.heads_kv < 1 || attention_has_sparse_mask(p))
        return {};
    const int64_t group = p.heads_q / p.heads_kv;
    if (!has_few && p.len_q == 1 && (is_present(p.bias) || is_present(p.allowed)) && group >= kLeastLoneRows && group <= kMostLoneRows &&
        std::gcd(group, kPackedRows) < kGeneralCost && std::max(p.head_dim, p.head_dim_v) <= kLoneColumns)
        return attention_declined("one row of each head with a bias or mask is streamed faster").declined;
    if (p.len_q * group > kFewRows) return {};
    const int64_t left = std::min(p.window_left, kAttentionMaxLength), right = std::min(p.window_right, kAttentionMaxLength);
    const int64_t seen = left >= 0 && right >= 0 ? p.len_q + left + right : p.len_k;
    if (std::min(seen, p.len_k) > kFewKeys) return {};
    return attention_declined("so few rows and keys are streamed faster").declined;
}

Declined attention_sparse_refused(const attile_attention_problem &p) {
    if (!attention_has_sparse_mask(p)) return {};
    return attention_declined("it does not pass over what a mask of blocks hides, nor knows masks of trees").declined;
}

Declined attention_tf32x3_refused(const Device &device, const attile_attention_problem &p) {
    if (const Declined refused = attention_sparse_refused(p); refused.text[0] != '\0') return refused;
    if (const char *const why = why_no_tf32x3(device.properties().capability, p.launch.flags))
        return attention_declined("%s", why).declined;
    if (!is_invariant(p) && p.heads_kv > 0 && p.len_q * (p.heads_q / p.heads_kv) <= kStreamedRows)
        return attention_declined("so few rows wait for memory, not for arithmetic").declined;
    return {};
}

AttentionChoice attention_cut(Device &device, const attile_attention_problem &p, const AttentionTile &tile, Packing packing) {
    if (tile.kernel == nullptr)
        return attention_declined("head_dim %lld or head_dim_v %lld is above 256", static_cast<long long>(p.head_dim),
                                  static_cast<long long>(p.head_dim_v));
    AttentionChoice choice;
    AttentionPlan &plan = choice.plan;
    plan.path = AttentionPath::kTile;
    plan.name = tile.name;
    plan.kernel = tile.kernel;
    plan.rows = tile.rows;
    plan.keys = tile.keys;
    plan.depth = tile.depth;
    plan.threads = tile.threads;
    plan.shared = static_cast<std::size_t>(tile.shared);
    plan.modifiers = attention_modifies(p);
    if (device.occupancy(plan.kernel, plan.threads, plan.shared, &plan.blocks_per_unit) != ATTILE_OK || plan.blocks_per_unit < 1)
        return attention_declined("the device does not take the kernel's %lld bytes of shared memory", static_cast<long long>(tile.shared));
    const int64_t group = p.heads_q / p.heads_kv, rows = plan.rows;
    const int64_t together = packing == Packing::kAll && p.len_q * group <= rows ? group : std::gcd(group, rows);
    const bool packs =
        packing != Packing::kNone && !is_invariant(p) && ceil_div(p.len_q * together, plan.rows) < together * ceil_div(p.len_q, plan.rows);
    plan.pack = packs ? static_cast<int32_t>(together) : 1;
    plan.rows_per_head = p.len_q * plan.pack;
    plan.row_blocks = ceil_div(plan.rows_per_head, plan.rows);
    choose_splits(p, static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * plan.blocks_per_unit, plan);
    plan.longest_first = (p.window_left >= 0 || p.window_right >= 0) && plan.splits == 1;
    plan.slice = p.batch * (p.heads_q / plan.pack);
    plan.slices = 1;
    choice.tiles = plan.slice * plan.row_blocks * plan.splits;
    if (choice.tiles > kMostTiles) return {};
    if (plan.splits > 1) {
        plan.part_rows = plan.splits * p.batch * p.heads_q * p.len_q;
        plan.workspace += workspace_piece(plan.part_rows * p.head_dim_v * 4) + workspace_piece(plan.part_rows * 4) +
                          workspace_piece(attention_part_sums(p, plan) * 4);
    }
    choice.taken = true;
    return choice;
}

double attention_cost(Device &device, const attile_attention_problem &p, const AttentionPlan &plan) {
    const int64_t units = static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * plan.blocks_per_unit;
    return split_cost(plan, ceil_div(plan.slice * plan.row_blocks * plan.splits, units), plan.split_tiles, plan.splits,
                      p.batch * p.heads_q * p.len_q);
}

AttentionChoice attention_cut_fused(Device &device, const attile_attention_problem &p, const AttentionTile &fused,
                                    const AttentionTile &general) {
    const AttentionChoice choice = attention_cut(device, p, fused, Packing::kNone);
    if (!choice.taken || p.heads_q == p.heads_kv) return choice;
    AttentionChoice packed = attention_cut(device, p, general);
    const auto tiles = [](const AttentionPlan &plan) { return plan.slice * plan.row_blocks; };
    return packed.taken && packed.plan.pack > 1 && kGeneralCost * tiles(packed.plan) <= tiles(choice.plan) ? packed : choice;
}

int32_t attention_task(const attile_attention_problem &p, const AttentionChoice &choice, int64_t l2_bytes, Workspace &workspace,
                       AttentionTask &task) {
    const AttentionPlan &plan = choice.plan;
    task.p = attention_params(p, plan);
    task.tiles = static_cast<int32_t>(choice.tiles);
    task.heads = static_cast<int32_t>(plan.slice);
    const int64_t head_bytes = std::max<int64_t>(bytes_of(p.k) * p.len_k * (p.head_dim + p.head_dim_v), 1);
    task.chunk = static_cast<int32_t>(std::clamp<int64_t>(l2_bytes / head_bytes * (p.heads_q / p.heads_kv / plan.pack), 1, plan.slice));
    task.values_in_keys = attention_values_in_keys(p);
    // A float output would show the rounding of the largest probability, where it is not 1. Of 16 bits it may where that is permitted.
    const bool is_of_16_bits = p.q.dtype == ATTILE_F16 || p.q.dtype == ATTILE_BF16;
    const bool may_show = p.o.dtype != ATTILE_F32 || (is_of_16_bits && (p.launch.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0);
    task.splits_follow = splits_follow(p);
    task.exact_only = is_invariant(p) || !may_show;
    if (plan.splits == 1) return ATTILE_OK;
    task.p.part_o = workspace.take<float>(plan.part_rows * p.head_dim_v);
    task.p.part_lse = workspace.take<float>(plan.part_rows);
    const int64_t sums = attention_part_sums(p, plan);
    if (sums > 0) task.p.part_sum = workspace.take<float>(sums);
    if (task.p.part_o == nullptr || task.p.part_lse == nullptr || (sums > 0 && task.p.part_sum == nullptr))
        return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
    return ATTILE_OK;
}

int32_t TiledAttention::describe(Device &device, attile_support &support) const {
    attention_report(device, *problem, choice.plan, support);
    return ATTILE_OK;
}

int32_t TiledAttention::launch(Device &device, Workspace &workspace, Stream stream) const {
    const attile_attention_problem &p = *problem;
    const AttentionPlan &plan = choice.plan;
    AttentionTask task = {};
    int32_t status = attention_task(p, choice, device.properties().l2_bytes * 5 / 8, workspace, task);
    if (status != ATTILE_OK) return status;
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(choice.tiles);
    block.x = static_cast<uint32_t>(plan.threads);
    void *arguments[] = {&task};
    status = device.launch(plan.kernel, grid, block, plan.shared, arguments, stream);
    if (status != ATTILE_OK || plan.splits == 1) return status;
    return attention_combine(device, task.p, p, stream);
}

Planned<attile_attention_problem> attention_planned(const attile_attention_problem &problem, const AttentionChoice &choice) {
    if (!choice.taken) return Planned<attile_attention_problem>(choice.declined);
    return Planned<attile_attention_problem>(TiledAttention{&problem, choice}, choice.plan.workspace);
}

}  // namespace attile::gpu::mma
