// SPDX-License-Identifier: Apache-2.0
// What a tile of rows is to be computed against: one thread works it out and leaves it in shared memory for the others.
#pragma once

#include "attention/block.h"
#include "attention/mma/task.h"

namespace attile::gpu::mma {

inline constexpr int kNoteRows = 64, kMostNoteGroups = 3;  // Rows whose full tiles are noted together, and how many such groups there are.

struct alignas(16) AttentionTileNote {
    int batch, head;      // The head is a pack of heads. batch < 0: there are no more tiles.
    int first_row, rows;  // Rows of a packed head are (query row, head of the pack); the tile has those from first_row on, up to `rows`.
    int first_tile, end_tile;  // Key tiles that any of the rows sees; where there are none, one of which all keys are hidden.
    int len_k, shift;          // The mask's diagonal is key = row + shift.
    int first_q, first_k;      // Packed sequences: where the entry starts in q and in k.
    int split;
    int read_first, read_end;  // Keys that any row of the entry sees. V's memory beyond may hold anything, NaN too.
    int full_first[kMostNoteGroups], full_end[kMostNoteGroups];  // Key tiles of which every row of a group sees all keys.
    int group_end[kMostNoteGroups];  // Up to there, of the tile's key tiles those that any row of a group sees, at least one.
};

// The note of tile number t.
template <int kRows, int kKeys>
__device__ __forceinline__ AttentionTileNote note_of(const AttentionTask &a, int t) {
    const AttentionParams &p = a.p;
    const int blocks = static_cast<int>(p.row_blocks.divisor), splits = static_cast<int>(p.splits.divisor);
    AttentionTileNote note;
    int entry_head, block;
    if (p.longest_first) {  // Within a chunk of heads the last rows first, which see the most keys under a causal mask.
        const int per_chunk = a.chunk * blocks, chunk = t / per_chunk, rest = t - chunk * per_chunk;
        const int heads = min(a.chunk, a.heads - chunk * a.chunk), level = rest / heads;
        entry_head = chunk * a.chunk + rest - level * heads;
        block = blocks - 1 - level;
        note.split = 0;
    } else {
        const int of_all = static_cast<int>(quotient(static_cast<uint32_t>(t), p.splits));
        note.split = t - of_all * splits;
        entry_head = static_cast<int>(quotient(static_cast<uint32_t>(of_all), p.row_blocks));
        block = of_all - entry_head * blocks;
    }
    const int heads = static_cast<int>(p.heads.divisor), pack = static_cast<int>(p.pack.divisor);
    note.batch = static_cast<int>(quotient(static_cast<uint32_t>(entry_head), p.heads));
    note.head = entry_head - note.batch * heads;
    const AttentionEntry entry(p, note.batch);
    note.first_k = static_cast<int>(entry.first_k);
    note.first_q = static_cast<int>(entry.first_q);
    // The last rows, which see the most keys, should fill their tile: under a mask the first tile has fewer, if that takes no more tiles,
    // so many fewer that tiles end with a key tile as often as before. 1.03 at 2048 rows of 64 columns.
    constexpr int kOver = kRows % kKeys % kNoteRows == 0 ? kRows % kKeys : 0;
    const int all_rows = entry.len_q * pack, rest = all_rows % kRows;
    const int fewer = kOver > 0 && p.longest_first && pack == 1 && rest > 0 && rest + kOver <= kRows ? kOver : 0;
    note.first_row = max(block * kRows - fewer, 0);
    note.rows = min((block + 1) * kRows - fewer, all_rows);
    note.len_k = entry.len_k;
    note.shift = entry.shift;
    note.first_tile = note.end_tile = 0;
    note.read_first = 0;
    note.read_end = entry.len_k;
    if (note.first_row >= note.rows) return note;
    const auto range = [&](int row) { return KeyRange(p, query_row(p, min(row, note.rows - 1)), entry.shift, entry.len_k); };
    const KeyRange top = range(note.first_row), bottom = range(note.first_row + kRows - 1);
    note.first_tile = max(top.low / kKeys, note.split * p.split_tiles);
    note.end_tile = min((bottom.high + kKeys - 1) / kKeys, (note.split + 1) * p.split_tiles);
    if (note.first_tile >= note.end_tile) {  // So that computing warps know one kind of tile.
        note.first_tile = (bottom.high + kKeys - 1) / kKeys;
        note.end_tile = note.first_tile + 1;
    }
#pragma unroll
    for (int i = 0; i < kRows / kNoteRows; ++i) {
        const KeyRange first = range(note.first_row + kNoteRows * i), last = range(note.first_row + kNoteRows * i + kNoteRows - 1);
        note.full_first[i] = (last.low + kKeys - 1) / kKeys;
        note.full_end[i] = first.high / kKeys;
        const int seen_end = note.first_row + kNoteRows * i < note.rows ? (last.high + kKeys - 1) / kKeys : 0;
        note.group_end[i] = min(max(seen_end, note.first_tile + 1), note.end_tile);
    }
    note.read_first = range(0).low;
    note.read_end = KeyRange(p, query_row(p, all_rows - 1), entry.shift, entry.len_k).high;
    return note;
}

// ALiBi's diagonal is key = row + this.
__device__ __forceinline__ int alibi_shift(const AttentionParams &p, const AttentionTileNote &note) {
    return p.alibi_bottom_right ? note.len_k - AttentionEntry(p, note.batch).len_q : 0;
}

}  // namespace attile::gpu::mma
