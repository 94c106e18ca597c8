// SPDX-License-Identifier: Apache-2.0
// Attention inside the backend: what the planner and the kernels of each target agree on.
//
// The kernels work on the transpose: query rows are the lanes of vectors, keys the rows of a tile, so that the softmax of a row never
// leaves its lane. A panel is one micro-kernel's width of query rows.
#ifndef ATTILE_CPU_ATTENTION_H
#define ATTILE_CPU_ATTENTION_H

#include <attile/attile_backend.h>

#include <cstdint>

#include "state.h"

namespace attile::cpu {

// Rows and keys of one batch entry or packed sequence, lengths clamped to what there is.
struct AttentionEntry {
    int64_t b;
    int64_t q_start, len_q;
    int64_t k_start, len_k;
    int64_t shift;        // the mask's diagonal is j = i + shift
    int64_t alibi_shift;  // ALiBi's likewise
    int64_t first_key;    // those before it are padding
};
AttentionEntry attention_entry(const attile_attention_problem &p, int64_t b);

// Keys that row i may see are begin <= j < end, whatever else hides some of them.
struct KeyRange {
    int64_t begin, end;
};
KeyRange visible_keys(const attile_attention_problem &p, const AttentionEntry &entry, int64_t i);

// Pairs of row and key that the mask leaves, were every entry of full length.
double visible_pairs(const attile_attention_problem &p);
// Bytes of q, k, v, o, lse, each once.
double attention_bytes(const attile_attention_problem &p);

// The page of key j, or -1 if there is none.
int64_t page_of(const attile_attention_problem &p, int64_t b, int64_t j);

// Keys that a tile of scores takes.
inline constexpr int64_t kBlockKeys = 120;
// And one that goes by tiles of bfloat16: groups of 32.
inline constexpr int64_t kTileKeys = 384;
// Sums over very many keys, beside a large weight many small ones would each be rounded away, and the more the longer one chain of sums is.
// So weights, and values by their weights, are summed in runs before they join those of their block; blocks of a span one after the
// other; and spans join a total that keeps what it rounds off. All are counted from key 0 (docs/kernels/cpu.md).
inline constexpr int64_t kWeightRun = 24, kPanelRun = 40;
inline constexpr int64_t kSpanKeys = 16 * kBlockKeys;
// Up to a span of keys a run of values is a block, since runs cost 1 to 2 %. With BATCH_INVARIANT there is one way for all lengths.
inline bool sums_in_runs(const attile_attention_problem &p) {
    return p.len_k > kSpanKeys || (p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
}
// The most panels of a task whose bias is that of other heads, too: as many as keys are packed for.
inline constexpr int64_t kPanelsOfBias = 8;
// Keys of a part of a decode row; parts are merged in order, so that any number of threads may share them.
inline constexpr int64_t kDecodeKeys = 1024;
// Rows (of one key head) up to which attention is bound by reading keys.
inline constexpr int64_t kDecodeRows = 8;

// Numbers that lie behind the head_dim_v sums of a row.
inline constexpr int64_t kDecodeNumbers = 3;

// Rows of heads that share a key head. Row r is row r / heads of head head0 + r % heads.
struct AttentionRows {
    AttentionEntry entry;
    int64_t kv_head, head0, heads;
    int64_t begin, end;
};

struct AttentionPlan {
    int64_t heads_packed = 1;  // query heads whose rows are mixed in a panel
    int64_t panels = 1;        // panels a task takes at most
    int64_t panel_rows = 0;
    int64_t row_blocks = 0;             // tasks of the longest entry and one head
    int64_t groups = 0;                 // heads_q / heads_packed
    int64_t decode_rows = kDecodeRows;  // rows (of one key head) up to which an entry takes the decode kernel
    bool decode = false;                // every entry takes it
    bool pairs = false;                 // panels multiply bfloat16 in pairs
    bool tiles = false;                 // or by tiles
    bool split_keys = false;            // decode: parts of a row's keys are tasks of their own
    int64_t parts = 1;
    int threads = 1;
    int64_t scratch_bytes = 0;  // of a thread
    int64_t result_bytes = 0;   // decode: sums, maxima and weights of the rows
    int64_t parts_bytes = 0;    // decode, keys split: results of the parts
    int64_t workspace_bytes = 0;
};
AttentionPlan attention_plan(const State &state, const attile_attention_problem &p);

template <class T>
struct AttentionKernels {
    int panel_rows;
    int tile_rows;
    int64_t (*scratch_bytes)(const attile_attention_problem &p, int64_t panels, bool by_tiles);
    // Whole attention of some rows.
    void (*forward)(const attile_attention_problem &p, const AttentionRows &rows, char *scratch);
    int64_t (*decode_scratch_bytes)(const attile_attention_problem &p);
    // Few rows and the keys of one part: per row head_dim_v sums, then its maximum, its sum of weights and what that has rounded off.
    void (*decode_part)(const attile_attention_problem &p, const AttentionRows &rows, int64_t part, T *result, char *scratch);
    // The first result takes in the second, rows x (head_dim_v + kDecodeNumbers) each.
    void (*decode_fold)(int64_t rows, int64_t head_dim_v, T *into, T *from);
    // Writes o and lse.
    void (*decode_finish)(const attile_attention_problem &p, const AttentionRows &rows, T *result);
    // As forward, of bfloat16 whose products go in pairs: targets that have_pairs. NULL: none.
    void (*forward_of_pairs)(const attile_attention_problem &p, const AttentionRows &rows, char *scratch);
    // And by tiles: Target::kAmxBf16. NULL: none.
    void (*forward_of_tiles)(const attile_attention_problem &p, const AttentionRows &rows, char *scratch);
};

template <class T>
const AttentionKernels<T> &attention_kernels(Target target);

template <class T>
inline T *operand_at(const attile_operand &x, int64_t i0, int64_t i1, int64_t i2 = 0, int64_t i3 = 0) {
    return static_cast<T *>(x.data) + i0 * x.stride[0] + i1 * x.stride[1] + i2 * x.stride[2] + i3 * x.stride[3];
}
inline int64_t offset_of(const attile_operand &x, int64_t i0, int64_t i1, int64_t i2 = 0, int64_t i3 = 0) {
    return i0 * x.stride[0] + i1 * x.stride[1] + i2 * x.stride[2] + i3 * x.stride[3];
}

// block_mask and tree_mask, of row i of head h. Neither is read where no keys are.
inline bool has_sparse_mask(const attile_attention_problem &p) { return p.block_mask.data != nullptr || p.tree_mask.data != nullptr; }
inline bool shows_block(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t i, int64_t j) {
    return *operand_at<const uint8_t>(p.block_mask, entry.b, h, i / ATTILE_MASK_BLOCK, j / ATTILE_MASK_BLOCK) != 0;
}
// Whether the block mask shows some of the keys from .. to.
inline bool shows_some_block(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t i, int64_t from,
                             int64_t to) {
    if (p.block_mask.data == nullptr) return true;
    for (int64_t j = from / ATTILE_MASK_BLOCK * ATTILE_MASK_BLOCK; j < to; j += ATTILE_MASK_BLOCK) {
        if (shows_block(p, entry, h, i, j)) return true;
    }
    return false;
}
// Calls hide(begin, end) for runs of the keys from .. from + count that they hide, counted from the first.
template <class Hide>
void hide_sparse(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t i, int64_t from, int64_t count,
                 const Hide &hide) {
    const int64_t to = from + count;
    for (int64_t j = from; p.block_mask.data != nullptr && j < to;) {
        const int64_t end = least(to, (j / ATTILE_MASK_BLOCK + 1) * ATTILE_MASK_BLOCK);
        if (!shows_block(p, entry, h, i, j)) hide(j - from, end - from);
        j = end;
    }
    const int64_t tree = entry.len_k - p.tree_keys;
    // Keys that fill up a tile past the last have no column.
    for (int64_t j = most(from, tree); p.tree_mask.data != nullptr && j < least(to, entry.len_k); ++j) {
        if (*operand_at<const uint8_t>(p.tree_mask, entry.b, h, i, j - tree) == 0) hide(j - from, j - from + 1);
    }
}

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ATTENTION_H
