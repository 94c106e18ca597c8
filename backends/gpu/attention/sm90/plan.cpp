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

// The kernel whose tile of rows goes through the problem's one change of scores; none if there is more than one, or TMA does not reach
// a bias or mask, which kernels of any change read themselves.
AttentionTile fused_tile(const attile_attention_problem &p, bool padded) {
    const bool has_bias = is_present(p.bias), has_mask = is_present(p.allowed), has_alibi = is_present(p.alibi_slopes),
               has_softcap = attention_softcap(p) != 0;
    if (has_bias + has_mask + has_alibi + has_softcap != 1 || is_present(p.block_table) || !(p.scale > 0)) return {};
    if (has_bias || has_mask) {
        const attile_operand &x = strips_of(p);
        if (x.stride[3] != 1 || unreachable(x, 1, p.len_q, has_bias ? 2 : 1) != nullptr) return {};
        if (has_bias ? p.bias.dtype != p.q.dtype : p.len_k % 2 != 0 && !padded) return {};
    }
    const bool is_f16 = p.q.dtype == ATTILE_F16;
    const AttentionFn *const kernels = has_bias    ? is_f16 ? kAttentionBiasF16 : kAttentionBiasBF16
                                       : has_mask  ? is_f16 ? kAttentionAllowedF16 : kAttentionAllowedBF16
                                       : has_alibi ? is_f16 ? kAttentionAlibiF16 : kAttentionAlibiBF16
                                       : is_f16    ? kAttentionSoftcapF16
                                                   : kAttentionSoftcapBF16;
    static_assert(std::size(kAttentionBiasBF16) == std::size(kAttentionSoftcapBF16));
    return narrowest_tile(kernels, std::size(kAttentionBiasBF16), p);
}

// Kernels that change no score, of tiles and of so few rows that one warpgroup holds them.
struct Unchanging {
    const AttentionFn *tiles, *few;
    std::size_t tile_count, few_count;
};
template <std::size_t kTiles, std::size_t kFew>
Unchanging unchanging(const AttentionFn (&tiles)[kTiles], const AttentionFn (&few)[kFew]) {
    return {tiles, few, kTiles, kFew};
}
Unchanging unchanging_kernels(bool is_f16, bool sparse, bool paged) {
    if (sparse && paged)
        return is_f16 ? unchanging(kAttentionSparsePagedF16, kAttentionFewSparsePagedF16)
                      : unchanging(kAttentionSparsePagedBF16, kAttentionFewSparsePagedBF16);
    if (sparse)
        return is_f16 ? unchanging(kAttentionSparseF16, kAttentionFewSparseF16) : unchanging(kAttentionSparseBF16, kAttentionFewSparseBF16);
    if (paged)
        return is_f16 ? unchanging(kAttentionPagedF16, kAttentionFewPagedF16) : unchanging(kAttentionPagedBF16, kAttentionFewPagedBF16);
    return is_f16 ? unchanging(kAttentionPlainF16, kAttentionFewPlainF16) : unchanging(kAttentionPlainBF16, kAttentionFewPlainBF16);
}

// Takes tiles of fewer rows for a problem that is cut, if they are expected to take less time.
void prefer_short(Device &device, const attile_attention_problem &p, AttentionTile &tile, AttentionChoice &choice) {
    const AttentionTile shorter = p.q.dtype == ATTILE_F16
                                      ? narrowest_tile(kAttentionShortPlainF16, std::size(kAttentionShortPlainF16), p)
                                      : narrowest_tile(kAttentionShortPlainBF16, std::size(kAttentionShortPlainBF16), p);
    if (shorter.kernel == nullptr) return;
    const AttentionChoice cut = attention_cut(device, p, shorter);
    if (!cut.taken || kShortTile * attention_cost(device, p, cut.plan) >= attention_cost(device, p, choice.plan)) return;
    tile = shorter;
    choice = cut;
}

}  // namespace

Sm90AttentionChoice choose_attention(Device &device, const attile_attention_problem &p, bool padded) {
    Sm90AttentionChoice choice = {attention_examine(p)};
    if (!choice.taken) return choice;
    const auto decline = [](const AttentionChoice &why) { return Sm90AttentionChoice{why}; };
    if (const Declined refused = attention_few_refused(p); refused.text[0] != '\0') return decline(attention_declined("%s", refused.text));
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
    const AttentionFn *const modified = is_f16 ? kAttentionModifiedF16 : kAttentionModifiedBF16;
    AttentionTile tile = modifies ? fused_tile(p, padded) : AttentionTile();
    choice.has_strips = tile.kernel != nullptr && (is_present(p.bias) || is_present(p.allowed));
    const Unchanging unchanging = unchanging_kernels(is_f16, sparse, paged);
    if (!modifies)
        tile = narrowest_tile(unchanging.tiles, unchanging.tile_count, p);
    else if (tile.kernel == nullptr)
        tile = narrowest_tile(modified, std::size(kAttentionModifiedBF16), p);
    if (sparse && tile.kernel == nullptr)
        return decline(attention_declined("such masks have no kernel for the head dimension, or for its pages"));
    const bool invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const bool is_plain = !modifies && !invariant;
    bool is_few = false;
    if (is_plain) {
        const AttentionTile few = narrowest_tile(unchanging.few, unchanging.few_count, p);
        // Pages and masks of blocks have no kernel of few rows for 64 columns.
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
    static_cast<AttentionChoice &>(choice) =
        choice.has_strips ? attention_cut_fused(device, p, tile, narrowest_tile(modified, std::size(kAttentionModifiedBF16), p))
                          : attention_cut(device, p, tile, !is_present(p.block_mask) || p.block_mask.stride[1] == 0);
    if (is_plain && !is_few && !sparse && !paged && choice.taken) prefer_short(device, p, tile, choice);
    choice.has_strips = choice.has_strips && choice.plan.kernel == tile.kernel;
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
        shape.axes = 4;
        const int64_t extent[] = {ceil_div(p.len_k, of_element), p.len_q, x.stride[1] == 0 ? 1 : p.heads_q, x.stride[0] == 0 ? 1 : p.batch};
        const int64_t stride[] = {1, x.stride[2] / of_element, x.stride[1] / of_element, x.stride[0] / of_element};
        const int32_t box[] = {kAttentionPanel, plan.rows, 1, 1};
        std::copy(extent, extent + 4, shape.extent);
        std::copy(stride, stride + 4, shape.stride);
        std::copy(box, box + 4, shape.box);
        a.scores_head = extent[2] > 1;
        a.scores_batch = extent[3] > 1;
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
