// SPDX-License-Identifier: Apache-2.0
// What the attention kernels are launched with: the normalised problem, narrowed to what a kernel reads, and how the plan cut it.
#pragma once

#include <cstdint>

#include "divider.h"

namespace attile::gpu {

// Rows and keys of a batch entry are counted in 32 bits; the sum of a row, a shift and a window must fit too.
inline constexpr int64_t kAttentionMaxLength = int64_t{1} << 29;
// A window that hides nothing: wider than a row, rounded up to a tile, and a shift together.
inline constexpr int64_t kAttentionOpenWindow = (int64_t{1} << 30) - (int64_t{1} << 20);

enum class AttentionStorage : int32_t { kF32, kF16, kBF16, kF64, kU8, kI8, kE4M3, kE5M2, kI4, kU4 };
// Numbers that may have scales; of keys and values those of 4 bits, two a byte along a row.
constexpr bool is_quantised(AttentionStorage storage) { return storage >= AttentionStorage::kI8; }
constexpr bool has_four_bits(AttentionStorage storage) { return storage >= AttentionStorage::kI4; }

struct AttentionOperand {
    const void *data;
    int64_t stride[4];  // In elements; axes as in attile_attention_problem.
    AttentionStorage storage;
    int32_t vector;     // Rows are contiguous, whole runs of four elements, of 8 and 4 bits eight; each starts at a multiple of them.
    int32_t row_bytes;  // stride[2] in bytes, where that fits.
};

// A mask of bytes, of which 0 hides.
struct AttentionMask {
    const uint8_t *data;  // Null where there is none.
    int64_t stride[4];
};

// The factors of Q, K or V of 8 bits or fewer, of which `group` neighbours along a row share one.
struct AttentionScales {
    const float *data;  // Null: all are 1.
    int32_t by_key;     // They differ from key to key, or from page to page.
    int32_t row_bytes;  // stride[2] in bytes, where that fits.
    int64_t stride[4];  // Axes as of the numbers, the last one in groups.
    Divider group;
};

struct AttentionParams {
    AttentionOperand q, k, v, o, lse;
    AttentionOperand bias, allowed, alibi_slopes, sinks;  // data is null where absent
    AttentionScales q_scale, k_scale, v_scale;
    const int32_t *key_lengths, *key_starts, *causal_offset, *cu_len_q, *cu_len_k, *block_table;
    int64_t key_lengths_stride, key_starts_stride, causal_offset_stride, cu_len_q_stride, cu_len_k_stride, block_table_stride[2];
    AttentionMask block_mask, tree_mask;
    int32_t tree_keys;
    int64_t total_q, total_k, pages;
    Divider page_size;
    int32_t len_q, len_k, head_dim, head_dim_v;
    Divider group;                      // Query heads that share a key head.
    Divider pack;                       // Query heads taken as rows of one problem: 1 or `group`.
    Divider heads;                      // heads_q / pack
    int32_t window_left, window_right;  // Clamped to kAttentionOpenWindow.
    int32_t bottom_right;               // Corner of the diagonal; where there is no mask, of ALiBi's.
    float scale_log2;                   // scale * log2(e)
    // The same for Q, cut off towards zero, and what that left out: a wrong scale would shift every score alike.
    float query_scale, query_scale_low;
    float softcap_log2;  // softcap * log2(e); 0: none
    double scale, softcap;
    int32_t modifiers;  // Scores pass through more than a mask, or a page may be missing.

    // The cut.
    Divider row_blocks, splits;
    int32_t split_tiles;  // Key tiles of a split.
    // Blocks from this one on take a split of keys each, those before it all keys; so many row blocks are split, in the tile kernel all
    // their first splits together. Where there are both, those are the rows of what would be a grid's last, unfilled wave.
    uint32_t whole_blocks;
    Divider split_blocks;
    // All heads' row blocks together, the last rows first, which a causal mask shows most keys; or the first rows first, where the last
    // block has few: the light ones then fill the end.
    int32_t longest_first, shortest_last;
    uint32_t first_head;  // First (batch entry, head) of this launch, batch * heads + head.
    Divider head_count;   // How many.
    int32_t depth;        // head_dim rounded up to whole chunks of depth.
    // Partial results of a split: [split][batch * heads_q + head][row][head_dim_v], log-sum-exp alike; null: the output is written. Where
    // only the last rows are split, they begin with first_part, as far after these addresses as if all rows before it were there.
    float *part_o, *part_lse;
    int64_t part_batch;  // Batch entries of the partial results.
    int64_t part_rows;   // Rows of a split, those of all heads.
    uint32_t first_part;
    // Where there is a bias, or null: then part_lse is the row's reference alone, and this its sum of probabilities relative to it. Beside
    // a bias as large as float goes (numeric.h) the logarithm of a sum would not show.
    float *part_sum;
};

}  // namespace attile::gpu
