// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "attention/mma/copies.h"
#include "attention/sm80/instances.h"
#include "attention/sm80/tf32x3_instances.h"
#include "attention/sm80/wide_instances.h"
#include "host/sizes.h"

namespace attile::gpu::sm80 {
namespace {

using namespace mma;

constexpr int64_t kNarrow = 256;  // Columns of which a warp has whole rows.
constexpr int64_t kMostDepth = AttentionWideCols51232x64::kShape.depth, kMostColumns = AttentionWideCols51232x64::kShape.columns;
constexpr int64_t kFewRows = 32;  // Of tiles for wide heads, where a key head has no more.
constexpr std::size_t kTiles = std::size(kAttentionPlainBF16);
static_assert(std::size(kAttentionModifiedBF16) == kTiles && std::size(kAttentionTf32x3PlainF32) == kTiles &&
              std::size(kAttentionTf32x3ModifiedF32) == kTiles);

const AttentionFn *kernels_of(int32_t dtype, bool modified) {
    switch (dtype) {
        case ATTILE_BF16:
            return modified ? kAttentionModifiedBF16 : kAttentionPlainBF16;
        case ATTILE_F16:
            return modified ? kAttentionModifiedF16 : kAttentionPlainF16;
        default:
            return modified ? kAttentionTf32x3ModifiedF32 : kAttentionTf32x3PlainF32;
    }
}

// The kernel for the problem's one change of scores; none if there is more than one, or 16-byte copies do not reach a bias or mask.
AttentionTile fused_tile(const attile_attention_problem &p, bool padded) {
    const bool has_bias = is_present(p.bias), has_mask = is_present(p.allowed), has_alibi = is_present(p.alibi_slopes),
               has_softcap = attention_softcap(p) != 0, is_f16 = p.q.dtype == ATTILE_F16;
    if (has_bias + has_mask + has_alibi + has_softcap != 1 || is_present(p.block_table) || !(p.scale > 0) || p.q.dtype == ATTILE_F32)
        return {};
    if (has_bias && (p.bias.dtype != p.q.dtype || attention_unreached("bias", p.bias, p.len_k).text[0] != '\0')) return {};
    if (has_mask && ((p.len_k % 2 != 0 && !padded) || attention_unreached("allowed", p.allowed, p.len_k).text[0] != '\0')) return {};
    const AttentionFn *const kernels = has_bias    ? is_f16 ? kAttentionBiasF16 : kAttentionBiasBF16
                                       : has_mask  ? is_f16 ? kAttentionAllowedF16 : kAttentionAllowedBF16
                                       : has_alibi ? is_f16 ? kAttentionAlibiF16 : kAttentionAlibiBF16
                                       : is_f16    ? kAttentionSoftcapF16
                                                   : kAttentionSoftcapBF16;
    static_assert(std::size(kAttentionAlibiBF16) == std::size(kAttentionBiasBF16));
    return narrowest_tile(kernels, std::size(kAttentionAlibiBF16), p);
}

// The first tile that the device has shared memory for; where all rows of a key head find room in few, of those with few.
template <std::size_t kCount>
AttentionTile first_tile(const Device &device, const AttentionWideFn (&kernels)[kCount], bool few) {
    for (const AttentionWideFn &kernel : kernels) {
        const AttentionTile tile = attention_tile(kernel());
        if (tile.shared <= device.properties().shared_opt_in && (!few || tile.rows <= kFewRows)) return tile;
    }
    return {};
}

// Heads that are too wide for a warp to have whole rows of O.
AttentionChoice choose_wide(Device &device, const attile_attention_problem &p) {
    const bool is_f16 = p.q.dtype == ATTILE_F16, invariant = (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    const bool few = !invariant && p.len_q * (p.heads_q / p.heads_kv) <= kFewRows;
    AttentionTile tile;
    if (!attention_modifies(p))
        tile = is_f16 ? first_tile(device, kAttentionWidePlainF16, few) : first_tile(device, kAttentionWidePlainBF16, few);
    if (tile.kernel == nullptr)
        tile = is_f16 ? first_tile(device, kAttentionWideModifiedF16, few) : first_tile(device, kAttentionWideModifiedBF16, few);
    return attention_cut(device, p, tile);
}

AttentionChoice choose_attention(Device &device, const attile_attention_problem &p, bool padded) {
    if (p.q.dtype == ATTILE_F32) {
        const Declined refused = attention_tf32x3_refused(device, p);
        if (refused.text[0] != '\0') return attention_declined("%s", refused.text);
    }
    const bool is_wide = p.q.dtype != ATTILE_F32 && std::max(p.head_dim, p.head_dim_v) > kNarrow;
    if (is_wide && (p.head_dim > kMostDepth || p.head_dim_v > kMostColumns))
        return attention_declined("head_dim %lld is above %lld or head_dim_v %lld above %lld", static_cast<long long>(p.head_dim),
                                  static_cast<long long>(kMostDepth), static_cast<long long>(p.head_dim_v),
                                  static_cast<long long>(kMostColumns));
    const AttentionChoice choice = attention_examine(p, true);
    if (!choice.taken) return choice;
    if (const Declined refused = attention_sparse_refused(p); refused.text[0] != '\0') return attention_declined("%s", refused.text);
    if (is_wide) return choose_wide(device, p);
    if (const Declined refused = attention_few_refused(p, false); refused.text[0] != '\0') return attention_declined("%s", refused.text);
    const AttentionTile general = narrowest_tile(kernels_of(p.q.dtype, attention_modifies(p)), kTiles, p), fused = fused_tile(p, padded);
    // Of kernels for one change all rows of a tile are one head's, but for softcap's.
    AttentionChoice cut = fused.kernel == nullptr     ? attention_cut(device, p, general)
                          : attention_softcap(p) != 0 ? attention_cut(device, p, fused)
                                                      : attention_cut_fused(device, p, fused, general);
    // Known of Hopper alone, whose tensor cores do twice as much by instructions of their own: of their peak, or for few rows of the
    // memory's.
    if (p.q.dtype != ATTILE_F32 && !attention_modifies(p) && device.properties().capability == 90)
        cut.plan.share = p.len_q * (p.heads_q / p.heads_kv) <= 16 ? 0.65 : 0.34;
    return cut;
}

}  // namespace

Planned<attile_attention_problem> plan_attention(Device &device, const attile_attention_problem &problem) {
    return attention_with_copies<TiledAttention>(device, problem, MaskKernels::kNone, choose_attention);
}

}  // namespace attile::gpu::sm80
