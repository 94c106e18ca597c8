// SPDX-License-Identifier: Apache-2.0
// Which rows of which batch entry a block works on, and which keys they see.
#pragma once

#include <attile/attile_backend.h>

#include <type_traits>

#include "attention/params.h"
#include "lane.h"
#include "numeric.h"

namespace attile::gpu {

// The thread's number, afresh in configurations that have few registers left.
template <class C>
ATTILE_LANE_FN unsigned thread_of() {
    return C::kFewRegisters || kSparesRegisters ? fresh_thread() : threadIdx.x;
}

// An element of Q as scores take it, in units of log2: rounded once from the exact product. Both parts of the scale have its sign and none
// is zero, so that infinity stays what it is.
ATTILE_LANE_FN float scaled_query(const AttentionParams &p, float q) { return fused_multiply_add(q, p.query_scale, q * p.query_scale_low); }

// What instances of the tile kernel can do, the fewer the faster: code that a kernel merely might run costs it registers and instruction
// cache.
enum class AttentionKind {
    kPlain,     // Every row sees all keys, which are whole tiles of equally long entries.
    kMasked,    // Mask, window, lengths.
    kModified,  // Also softcap, bias, ALiBi, `allowed`, left padding, pages that are not there, and K and V at any address.
    // Masked, and one of what modifies scores: a float bias or bytes of `allowed` in quads along keys, ALiBi, softcap, a bias of 16 bits in
    // quads.
    kBiased,
    kAllowed,
    kAlibi,
    kSoftcapped,
    kBiasedHalf
};
constexpr bool modifies_scores(AttentionKind kind) { return kind != AttentionKind::kPlain && kind != AttentionKind::kMasked; }
// May scores be far from 0 (numeric.h)?
constexpr bool is_single(AttentionKind kind) { return modifies_scores(kind) && kind != AttentionKind::kModified; }
constexpr bool is_biased(AttentionKind kind) { return kind == AttentionKind::kBiased || kind == AttentionKind::kBiasedHalf; }
constexpr bool has_bias(AttentionKind kind) { return is_biased(kind) || kind == AttentionKind::kModified; }
template <AttentionKind kKind>
using AttentionKindTag = std::integral_constant<AttentionKind, kKind>;

// A batch entry with its lengths clamped to what there is: lengths are data that nobody could check beforehand.
struct AttentionEntry {
    int batch;
    int len_q, len_k;
    int64_t first_q, first_k;  // Packed sequences: where it starts in q and k.
    int shift;                 // The diagonal of the mask and of ALiBi is key = row + shift.
    int first_key;             // Those before it are padding.

    ATTILE_LANE_FN AttentionEntry(const AttentionParams &p, int batch_index)
        : AttentionEntry(p, batch_index, AttentionKindTag<AttentionKind::kModified>()) {}
    template <AttentionKind kKind>
    ATTILE_LANE_FN AttentionEntry(const AttentionParams &p, int batch_index, AttentionKindTag<kKind>)
        : batch(batch_index), len_q(p.len_q), len_k(p.len_k), first_q(0), first_k(0), first_key(0) {
        if (p.cu_len_q) clamp_range(p.cu_len_q, p.cu_len_q_stride, p.total_q, first_q, len_q);
        if (p.cu_len_k) clamp_range(p.cu_len_k, p.cu_len_k_stride, p.total_k, first_k, len_k);
        if (p.key_lengths) len_k = min(max(same_in_block(p.key_lengths[batch * p.key_lengths_stride]), 0), len_k);
        shift = p.bottom_right ? len_k - len_q : 0;
        if (p.causal_offset) shift = clamped_offset(same_in_block(p.causal_offset[batch * p.causal_offset_stride]));
        if constexpr (kKind == AttentionKind::kModified)
            if (p.key_starts) first_key = min(max(same_in_block(p.key_starts[batch * p.key_starts_stride]), 0), len_k);
    }
    ATTILE_LANE_FN AttentionEntry(const AttentionParams &p, int batch_index, AttentionKindTag<AttentionKind::kPlain>)
        : batch(batch_index), len_q(p.len_q), len_k(p.len_k), first_q(0), first_k(0), shift(0), first_key(0) {}
    static ATTILE_LANE_FN int clamped_offset(int offset) {
        return min(max(offset, -ATTILE_CAUSAL_OFFSET_LIMIT), ATTILE_CAUSAL_OFFSET_LIMIT);
    }

  private:
    ATTILE_LANE_FN void clamp_range(const int32_t *starts, int64_t stride, int64_t total, int64_t &first, int &len) const {
        int64_t end = same_in_block(starts[(batch + 1) * stride]);
        first = same_in_block(starts[batch * stride]);
        first = first < 0 ? 0 : first > total ? total : first;
        end = end < first ? first : end > total ? total : end;
        len = end - first < len ? static_cast<int>(end - first) : len;
    }
};

// An entry of this thread's own: the threads of a block work on several here, while AttentionEntry takes its lengths as the block's.
ATTILE_LANE_FN AttentionEntry entry_of_thread(const AttentionParams &p, int64_t batch) {
    AttentionEntry entry(p, static_cast<int>(batch), AttentionKindTag<AttentionKind::kPlain>());
    const auto clamp = [batch](const int32_t *starts, int64_t stride, int64_t total, int64_t &first, int &len) {
        const int64_t begin = starts[batch * stride], end = starts[(batch + 1) * stride];
        first = begin < 0 ? 0 : begin > total ? total : begin;
        const int64_t there = (end < first ? first : end > total ? total : end) - first;
        len = there < len ? static_cast<int>(there) : len;
    };
    if (p.cu_len_q) clamp(p.cu_len_q, p.cu_len_q_stride, p.total_q, entry.first_q, entry.len_q);
    if (p.cu_len_k) clamp(p.cu_len_k, p.cu_len_k_stride, p.total_k, entry.first_k, entry.len_k);
    if (p.key_lengths) entry.len_k = min(max(p.key_lengths[batch * p.key_lengths_stride], 0), entry.len_k);
    entry.shift = p.bottom_right ? entry.len_k - entry.len_q : 0;
    if (p.causal_offset) entry.shift = AttentionEntry::clamped_offset(p.causal_offset[batch * p.causal_offset_stride]);
    if (p.key_starts) entry.first_key = min(max(p.key_starts[batch * p.key_starts_stride], 0), entry.len_k);
    return entry;
}

// Where a key's row is: K's and V's first axis, and the row along the third. False: the page does not exist.
ATTILE_LANE_FN bool locate_key(const AttentionParams &p, const AttentionEntry &entry, int key, int64_t &outer, int64_t &row) {
    outer = entry.batch;
    row = entry.first_k + key;
    if (!p.block_table) return true;
    outer = p.block_table[entry.batch * p.block_table_stride[0] + quotient(key, p.page_size) * p.block_table_stride[1]];
    row = remainder(key, p.page_size);
    return outer >= 0 && outer < p.pages;
}

// Keys [low, high) that a row sees as far as mask and lengths say.
struct KeyRange {
    int low, high;
    ATTILE_LANE_FN KeyRange(const AttentionParams &p, int row, int shift, int first_key, int len_k)
        : low(max(row + shift - p.window_left, first_key)), high(min(row + shift + p.window_right + 1, len_k)) {}
    ATTILE_LANE_FN KeyRange(const AttentionParams &p, int row, const AttentionEntry &entry)
        : KeyRange(p, row, entry.shift, entry.first_key, entry.len_k) {}
    ATTILE_LANE_FN bool has(int key) const { return key >= low && key < high; }
};

ATTILE_LANE_FN bool mask_shows(const AttentionMask &x, int64_t batch, int64_t head, int64_t row, int64_t column) {
    return x.data[batch * x.stride[0] + head * x.stride[1] + row * x.stride[2] + column * x.stride[3]] != 0;
}
ATTILE_LANE_FN bool has_sparse_mask(const AttentionParams &p) { return p.block_mask.data != nullptr || p.tree_mask.data != nullptr; }

// Of a key that there is.
ATTILE_LANE_FN bool tree_mask_shows(const AttentionParams &p, const AttentionEntry &entry, int head, int row, int key) {
    const int column = key - (entry.len_k - p.tree_keys);
    return !p.tree_mask.data || column < 0 || mask_shows(p.tree_mask, entry.batch, head, row, column);
}

// Do the masks of blocks and of trees show a pair, of a row that there is? They say nothing of keys past the last.
ATTILE_LANE_FN bool sparse_mask_shows(const AttentionParams &p, const AttentionEntry &entry, int head, int row, int key) {
    if (key >= entry.len_k) return true;
    if (p.block_mask.data && !mask_shows(p.block_mask, entry.batch, head, row / ATTILE_MASK_BLOCK, key / ATTILE_MASK_BLOCK)) return false;
    return tree_mask_shows(p, entry, head, row, key);
}

// Does the block mask show any of the rows and keys, from the first to the last, of these heads? All of them are there.
ATTILE_LANE_FN bool block_mask_shows(const AttentionParams &p, int batch, int head, int heads, int first_row, int last_row, int first_key,
                                     int last_key) {
    if (!p.block_mask.data) return true;
    const int all = p.block_mask.stride[1] == 0 ? 1 : heads;
    for (int h = head; h < head + all; ++h)
        for (int i = first_row / ATTILE_MASK_BLOCK; i <= last_row / ATTILE_MASK_BLOCK; ++i)
            for (int j = first_key / ATTILE_MASK_BLOCK; j <= last_key / ATTILE_MASK_BLOCK; ++j)
                if (mask_shows(p.block_mask, batch, h, i, j)) return true;
    return false;
}

// Row r of a problem whose rows are (query row, head of the group), the heads innermost.
ATTILE_LANE_FN int query_row(const AttentionParams &p, int packed_row) {
    return static_cast<int>(quotient(static_cast<uint32_t>(packed_row), p.pack));
}
ATTILE_LANE_FN int query_head(const AttentionParams &p, int head, int packed_row) {
    return head * static_cast<int>(p.pack.divisor) + static_cast<int>(remainder(static_cast<uint32_t>(packed_row), p.pack));
}

// What the linear block number means.
struct AttentionPlace {
    int batch, head, row_block, split;
    bool is_part;  // One of several splits.

    // in_tiles: as the tile kernel counts, where a row's splits may lie far apart, and only the last row blocks have some.
    ATTILE_LANE_FN AttentionPlace(const AttentionParams &p, uint32_t index, bool in_tiles = false)
        : split(0), is_part(index >= p.whole_blocks) {
        uint32_t entry = p.first_head;
        if (p.longest_first || p.shortest_last) {
            const uint32_t rest = quotient(index, p.head_count);
            entry += remainder(index, p.head_count);
            split = static_cast<int>(remainder(rest, p.splits));
            row_block = static_cast<int>(quotient(rest, p.splits));
            if (p.longest_first) row_block = static_cast<int>(p.row_blocks.divisor) - 1 - row_block;
        } else if (in_tiles) {
            split = is_part ? static_cast<int>(quotient(index - p.whole_blocks, p.split_blocks)) : 0;
            index -= split * p.split_blocks.divisor;
            row_block = static_cast<int>(remainder(index, p.row_blocks));
            entry += quotient(index, p.row_blocks);
        } else {
            const uint32_t rest = quotient(index, p.row_blocks);
            row_block = static_cast<int>(remainder(index, p.row_blocks));
            split = static_cast<int>(remainder(rest, p.splits));
            entry += quotient(rest, p.splits);
        }
        batch = static_cast<int>(quotient(entry, p.heads));
        head = static_cast<int>(remainder(entry, p.heads));
    }
    // The tiles of keys that it takes, as far as there are so many.
    ATTILE_LANE_FN int first_tile(const AttentionParams &p) const { return split * p.split_tiles; }
    ATTILE_LANE_FN int end_tile(const AttentionParams &p) const {
        return is_part ? (split + 1) * p.split_tiles : static_cast<int>(kAttentionMaxLength);
    }
};

// All that a block knows of its place. It is made anew where it is needed, rather than kept in registers over the loop.
struct AttentionBlock {
    AttentionPlace place;
    AttentionEntry entry;
    int rows;       // Of this batch entry and head, those of packed heads counted singly.
    int first_row;  // Of this block.

    template <AttentionKind kKind = AttentionKind::kModified>
    ATTILE_LANE_FN AttentionBlock(const AttentionParams &p, int block_rows, AttentionKindTag<kKind> kind = {})
        : place(p, fresh(blockIdx.x), true),
          entry(p, place.batch, kind),
          rows(kKind == AttentionKind::kPlain ? entry.len_q : entry.len_q * static_cast<int>(p.pack.divisor)),
          first_row(place.row_block * block_rows) {}
    ATTILE_LANE_FN KeyRange range(const AttentionParams &p, int packed_row) const {
        return KeyRange(p, query_row(p, min(packed_row, rows - 1)), entry);
    }
};

// Tiles of keys that a block walks, in up to three phases: some rows miss keys at the window's left end, all rows see all keys, some rows
// miss keys at the diagonal or at the end of the keys.
struct TilePhases {
    int first, end;            // Tiles that any row sees keys of.
    int full_first, full_end;  // Tiles that every row sees all keys of.

    ATTILE_LANE_FN TilePhases(const AttentionParams &p, const AttentionBlock &block, int block_rows, int block_keys) {
        const KeyRange top = block.range(p, block.first_row), bottom = block.range(p, block.first_row + block_rows - 1);
        const int window = top.low / block_keys;  // Splits begin where the rows' window does.
        first = window + block.place.first_tile(p);
        end = min((bottom.high + block_keys - 1) / block_keys, window + block.place.end_tile(p));
        full_first = (bottom.low + block_keys - 1) / block_keys;
        full_end = top.high / block_keys;
    }
    ATTILE_LANE_FN bool is_full(int tile) const { return tile >= full_first && tile < full_end; }
    ATTILE_LANE_FN int phase_end(int tile) const {
        return tile < full_first && full_first < full_end ? min(full_first, end) : is_full(tile) ? min(full_end, end) : end;
    }
};

}  // namespace attile::gpu
