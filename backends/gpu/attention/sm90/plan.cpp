// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/plan.h"

#include <algorithm>
#include <iterator>
#include <numeric>

#include "attention/mma/copies.h"
#include "attention/run.h"
#include "attention/sm90/instances.h"
#include "attention/sm90/launch.h"
#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu::sm90 {
namespace {

constexpr int64_t kNarrow = 64;  // Columns.
// Time of a key tile under 128 rows over that under 192, at 64 columns.
constexpr double kShortTile = 0.83;

// Of the tensor cores' peak, or for few rows of the memory's, as measured on an H200 where there is much to do.
double share_of(const attile_attention_problem &p, const AttentionTile &tile, bool modifies, bool is_few) {
    if (is_few) return 0.8;
    if (modifies) return tile.depth <= 64 ? 0.3 : 0.42;
    return tile.depth <= 64 ? 0.55 : p.window_left >= 0 || p.window_right >= 0 ? 0.7 : 0.74;
}

// What the producer loads beside K and V.
const attile_operand &strips_of(const attile_attention_problem &p) { return is_present(p.bias) ? p.bias : p.allowed; }

// TMA's elements have two bytes.
int64_t keys_of_element(const attile_operand &x, const attile_attention_problem &p) { return x.dtype == p.q.dtype ? 1 : 2; }

// Kernels of one kind, of tiles and of so few rows that one warpgroup holds them.
struct TilesAndFew {
    const AttentionFn *tiles = nullptr, *few = nullptr;
    std::size_t tile_count = 0, few_count = 0;
};
template <std::size_t kTiles, std::size_t kFew>
TilesAndFew both(const AttentionFn (&tiles)[kTiles], const AttentionFn (&few)[kFew]) {
    return {tiles, few, kTiles, kFew};
}

// Kernels for the problem's one change of scores; none if there is more than one, or TMA does not reach a bias or mask, which kernels of
// any change read themselves.
TilesAndFew fused_kernels(const attile_attention_problem &p, bool padded) {
    const bool has_bias = is_present(p.bias), has_mask = is_present(p.allowed), has_alibi = is_present(p.alibi_slopes),
               has_softcap = attention_softcap(p) != 0;
    if (has_bias + has_mask + has_alibi + has_softcap != 1 || is_present(p.block_table) || !(p.scale > 0)) return {};
    if (has_bias || has_mask) {
        const attile_operand &x = strips_of(p);
        if (x.stride[3] != 1 || unreachable(x, 1, p.len_q, has_bias ? 2 : 1) != nullptr) return {};
        if (has_bias ? p.bias.dtype != p.q.dtype : p.len_k % 2 != 0 && !padded) return {};
    }
    const bool is_f16 = p.q.dtype == ATTILE_F16;
    if (has_bias) return is_f16 ? both(kAttentionBiasF16, kAttentionFewBiasF16) : both(kAttentionBiasBF16, kAttentionFewBiasBF16);
    if (has_mask)
        return is_f16 ? both(kAttentionAllowedF16, kAttentionFewAllowedF16) : both(kAttentionAllowedBF16, kAttentionFewAllowedBF16);
    if (has_alibi) return is_f16 ? both(kAttentionAlibiF16, kAttentionFewAlibiF16) : both(kAttentionAlibiBF16, kAttentionFewAlibiBF16);
    return is_f16 ? both(kAttentionSoftcapF16, kAttentionFewSoftcapF16) : both(kAttentionSoftcapBF16, kAttentionFewSoftcapBF16);
}

// Kernels that change no score.
TilesAndFew unchanging_kernels(bool is_f16, bool sparse, bool paged) {
    if (sparse && paged)
        return is_f16 ? both(kAttentionSparsePagedF16, kAttentionFewSparsePagedF16)
                      : both(kAttentionSparsePagedBF16, kAttentionFewSparsePagedBF16);
    if (sparse) return is_f16 ? both(kAttentionSparseF16, kAttentionFewSparseF16) : both(kAttentionSparseBF16, kAttentionFewSparseBF16);
    if (paged) return is_f16 ? both(kAttentionPagedF16, kAttentionFewPagedF16) : both(kAttentionPagedBF16, kAttentionFewPagedBF16);
    return is_f16 ? both(kAttentionPlainF16, kAttentionFewPlainF16) : both(kAttentionPlainBF16, kAttentionFewPlainBF16);
}

// Takes tiles of fewer rows for a problem that is cut, if they are expected to take less time.
void prefer_short(Device &device, const attile_attention_problem &p, AttentionTile &tile, AttentionChoice &choice) {
    const AttentionTile shorter = p.q.dtype == ATTILE_F16
                                      ? narrowest_tile(kAttentionShortPlainF16, std::size(kAttentionShortPlainF16), p)
                                      : narrowest_tile(kAttentionShortPlainBF16, std::size(kAttentionShortPlainBF16), p);
    if (shorter.kernel == nullptr) return;
    const AttentionChoice cut = attention_cut(device, p, shorter, Packing::kAll);
    if (!cut.taken || kShortTile * attention_cost(device, p, cut.plan) >= attention_cost(device, p, choice.plan)) return;
    tile = shorter;
    choice = cut;
}

}  // namespace

Sm90AttentionChoice choose_attention(Device &device, const attile_attention_problem &p, bool padded) {
    Sm90AttentionChoice choice = {attention_examine(p)};
    if (!choice.taken) return choice;
    const auto decline = [](const AttentionChoice &why) { return Sm90AttentionChoice{why}; };
    const TilesAndFew fused = fused_kernels(p, padded);
    if (const Declined refused = attention_few_refused(p, fused.few_count > 0); refused.text[0] != '\0')
        return decline(attention_declined("%s", refused.text));
    const bool paged = is_present(p.block_table), is_f16 = p.q.dtype == ATTILE_F16;
    const bool modifies = attention_changes_scores(p) || !(p.scale > 0), sparse = attention_has_sparse_mask(p);
    if (sparse && modifies) return decline(attention_declined("a mask of blocks or of a tree stands beside another change of scores"));
    const int64_t keys = paged ? p.page_size : p.total_k;
    struct Named {
        const char *name;
        const attile_operand &operand;
        int64_t heads, rows;
    };
    for (const Named &x : {Named{"q", p.q, p.heads_q, p.total_q}, Named{"k", p.k, 1, keys}, Named{"v", p.v, 1, keys}}) {
        if (const char *why = unreachable(x.operand, x.heads, x.rows, 2)) return decline(attention_declined("%s %s", x.name, why));
    }
    if (paged && p.pages > 1 && (p.k.stride[0] == 0 || p.v.stride[0] == 0))
        return decline(attention_declined("K or V is broadcast along its pages"));
    const TilesAndFew kernels = modifies ? fused : unchanging_kernels(is_f16, sparse, paged);
    AttentionTile tile = narrowest_tile(kernels.tiles, kernels.tile_count, p);
    choice.has_strips = modifies && tile.kernel != nullptr && (is_present(p.bias) || is_present(p.allowed));
    if (modifies && tile.kernel == nullptr)
        tile = is_f16 ? narrowest_tile(kAttentionModifiedF16, std::size(kAttentionModifiedF16), p)
                      : narrowest_tile(kAttentionModifiedBF16, std::size(kAttentionModifiedBF16), p);
    if (sparse && tile.kernel == nullptr)
        return decline(attention_declined("such masks have no kernel for the head dimension, or for its pages"));
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    bool is_few = false;
    if (!invariant) {
        const AttentionTile few = narrowest_tile(kernels.few, kernels.few_count, p);
        // Pages beside masks of blocks have no kernels for 64 columns.
        const bool has_width = std::max(p.head_dim, p.head_dim_v) > kNarrow || few.depth <= kNarrow;
        is_few = few.kernel != nullptr && has_width && p.len_q * (p.heads_q / p.heads_kv) <= few.rows;
        if (is_few) tile = few;
    }
    if (paged && tile.kernel != nullptr) {
        choice.page_rows = static_cast<int32_t>(std::gcd(p.page_size, int64_t{tile.keys}));
        // Rows of the swizzle come in groups of eight.
        if (choice.page_rows % 8 != 0)
            return decline(attention_declined("page_size is %lld, not a multiple of 8", static_cast<long long>(p.page_size)));
    }
    const bool packs = !is_present(p.block_mask) || p.block_mask.stride[1] == 0;
    static_cast<AttentionChoice &>(choice) = attention_cut(device, p, tile, packs ? Packing::kAll : Packing::kNone);
    if (!modifies && !invariant && !is_few && !sparse && !paged && choice.taken) prefer_short(device, p, tile, choice);
    if (!choice.taken) return choice;
    choice.plan.share = share_of(p, tile, modifies, is_few);
    // Tiles of few rows are alike where lengths and windows do not tell them apart: dealt out in order they need no counter zeroed first.
    const bool is_even = is_few && p.window_left < 0 && p.window_right < 0 && !is_present(p.key_lengths) && !is_present(p.key_starts) &&
                         !is_present(p.cu_len_q) && !is_present(p.cu_len_k);
    choose_grid(device, is_even, choice);
    return choice;
}

namespace {

int32_t launch_attention(Device &device, const attile_attention_problem &p, const Sm90AttentionChoice &choice, Workspace &workspace,
                         Stream stream) {
    AttentionArguments a = {};
    int32_t status = attention_task(p, choice, kL2Bytes, workspace, a);
    if (status != ATTILE_OK) return status;
    const AttentionPlan &plan = choice.plan;
    const bool paged = is_present(p.block_table);
    status = map_queries(device, p, plan, a);
    const auto map_keys = [&](const attile_operand &x, int64_t columns, int32_t &head_moves, int32_t &batch_moves, TensorMap *map) {
        if (status != ATTILE_OK) return;
        const int64_t entries = is_present(p.cu_len_k) || x.stride[0] == 0 ? 1 : p.batch, heads = x.stride[1] == 0 ? 1 : p.heads_kv;
        const KeyBox box = {columns, paged ? p.page_size : p.total_k, heads, paged ? p.pages : entries,
                            paged ? choice.page_rows : plan.keys};
        status = map_key_boxes(device, x, box, head_moves, batch_moves, map);
    };
    map_keys(p.k, p.head_dim, a.k_head, a.k_batch, &a.map_k);
    map_keys(p.v, p.head_dim_v, a.v_head, a.v_batch, &a.map_v);
    if (status == ATTILE_OK && p.o.dtype == p.q.dtype) status = map_output(device, p, plan, a);
    if (status != ATTILE_OK) return status;
    if (choice.has_strips) {
        const attile_operand &x = strips_of(p);
        const int64_t of_element = keys_of_element(x, p);
        TensorMapShape shape;
        shape.axes = 5;
        // Heads of a pack that share it have one row of the strip.
        const int32_t pack = x.stride[1] == 0 ? 1 : plan.pack;
        const int64_t of_heads = x.stride[1] / of_element;
        const int64_t extent[] = {ceil_div(p.len_k, of_element), pack, p.len_q, x.stride[1] == 0 ? 1 : p.heads_q / pack,
                                  x.stride[0] == 0 ? 1 : p.batch};
        const int64_t stride[] = {1, of_heads, x.stride[2] / of_element, of_heads * pack, x.stride[0] / of_element};
        const int32_t box[] = {kAttentionPanel, pack, plan.rows / pack, 1, 1};
        std::copy(extent, extent + 5, shape.extent);
        std::copy(stride, stride + 5, shape.stride);
        std::copy(box, box + 5, shape.box);
        a.scores_head = extent[3] > 1;
        a.scores_batch = extent[4] > 1;
        a.scores_pack = Divider(plan.pack / pack);
        status = device.make_tensor_map(x.data, p.q.dtype, shape, &a.map_scores);
        if (status != ATTILE_OK) return status;
    }
    a.page_rows = choice.page_rows;
    return launch_tiles(device, p, choice, a, workspace, stream);
}

struct HopperAttention {
    const attile_attention_problem *problem;
    Sm90AttentionChoice choice;

    int32_t describe(Device &device, attile_support &support) const {
        attention_report(device, *problem, choice.plan, support);
        return ATTILE_OK;
    }
    void move_to(const attile_attention_problem &to) { problem = &to; }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const {
        return launch_attention(device, *problem, choice, workspace, stream);
    }
};

}  // namespace

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem) {
    return attention_with_copies<HopperAttention>(device, problem, MaskKernels::kOfBlocksAndTrees, choose_attention);
}

}  // namespace attile::gpu::sm90
