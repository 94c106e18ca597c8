// SPDX-License-Identifier: Apache-2.0
// A work tile: which rows a tile has and which keys they see. One thread works it out and leaves it in shared memory for the others.
#pragma once

#include "attention/block.h"
#include "attention/mma/task.h"

namespace attile::gpu::mma {

inline constexpr int kWorkRows = 64,
                     kMostWorkGroups = 3;  // Rows of a group, whose full key tiles are found together, and the most groups of a tile.

struct alignas(16) AttentionWorkTile {
    int batch, head;      // The head is a pack of heads. batch < 0: there are no more tiles.
    int first_row, rows;  // Rows of a packed head are (query row, head of the pack); the tile has those from first_row on, up to `rows`.
    int first_tile, end_tile;  // Key tiles that any of the rows sees; where there are none, one of which all keys are hidden.
    int len_k, shift;          // The diagonal of the mask and of ALiBi is key = row + shift.
    int first_key;             // Keys before it are padding.
    int first_q, first_k;      // Packed sequences: where the entry starts in q and in k.
    int split;
    int read_first, read_end;  // Keys that any row of the entry sees. V's memory beyond may hold anything, NaN too.
    int full_first[kMostWorkGroups], full_end[kMostWorkGroups];  // Key tiles of which every row of a group sees all keys.
    int group_end[kMostWorkGroups];  // Up to there, of the tile's key tiles those that any row of a group sees, at least one.
};

// Work tile number t.
template <int kRows, int kKeys>
__device__ __forceinline__ AttentionWorkTile work_tile_of(const AttentionTask &a, int t) {
    const AttentionParams &p = a.p;
    const int blocks = static_cast<int>(p.row_blocks.divisor), splits = static_cast<int>(p.splits.divisor);
    AttentionWorkTile work;
    int entry_head, block;
    if (p.longest_first) {  // Within a chunk of heads the last rows first, which see the most keys under a causal mask.
        const int per_chunk = a.chunk * blocks, chunk = t / per_chunk, rest = t - chunk * per_chunk;
        const int heads = min(a.chunk, a.heads - chunk * a.chunk), level = rest / heads;
        entry_head = chunk * a.chunk + rest - level * heads;
        block = blocks - 1 - level;
        work.split = 0;
    } else {
        const int of_all = static_cast<int>(quotient(static_cast<uint32_t>(t), p.splits));
        work.split = t - of_all * splits;
        entry_head = static_cast<int>(quotient(static_cast<uint32_t>(of_all), p.row_blocks));
        block = of_all - entry_head * blocks;
    }
    const int heads = static_cast<int>(p.heads.divisor), pack = static_cast<int>(p.pack.divisor);
    work.batch = static_cast<int>(quotient(static_cast<uint32_t>(entry_head), p.heads));
    work.head = entry_head - work.batch * heads;
    const AttentionEntry entry(p, work.batch);
    work.first_k = static_cast<int>(entry.first_k);
    work.first_q = static_cast<int>(entry.first_q);
    // The last rows, which see the most keys, should fill their tile. So under a mask the first tile has fewer rows, if that takes no more
    // tiles: so many fewer that tiles still end at the end of a key tile as often as before.
    constexpr int kOver = kRows % kKeys % kWorkRows == 0 ? kRows % kKeys : 0;
    const int all_rows = entry.len_q * pack, rest = all_rows % kRows;
    const int fewer = kOver > 0 && p.longest_first && pack == 1 && rest > 0 && rest + kOver <= kRows ? kOver : 0;
    work.first_row = max(block * kRows - fewer, 0);
    work.rows = min((block + 1) * kRows - fewer, all_rows);
    work.len_k = entry.len_k;
    work.shift = entry.shift;
    work.first_key = entry.first_key;
    work.first_tile = work.end_tile = 0;
    work.read_first = 0;
    work.read_end = entry.len_k;
    if (work.first_row >= work.rows) return work;
    const auto range = [&](int row) { return KeyRange(p, query_row(p, min(row, work.rows - 1)), entry); };
    const KeyRange top = range(work.first_row), bottom = range(work.first_row + kRows - 1);
    const int seen = top.low / kKeys, split = (a.splits_follow ? seen : 0) + work.split * p.split_tiles;
    work.first_tile = max(seen, split);
    work.end_tile = min((bottom.high + kKeys - 1) / kKeys, split + p.split_tiles);
    if (work.first_tile >= work.end_tile) {                           // So that consumers need to know one kind of tile only.
        work.first_tile = (max(bottom.high, 0) + kKeys - 1) / kKeys;  // There are tables of pages that are read there.
        work.end_tile = work.first_tile + 1;
    }
#pragma unroll
    for (int i = 0; i < kRows / kWorkRows; ++i) {
        const KeyRange first = range(work.first_row + kWorkRows * i), last = range(work.first_row + kWorkRows * i + kWorkRows - 1);
        work.full_first[i] = (last.low + kKeys - 1) / kKeys;
        work.full_end[i] = first.high / kKeys;
        const int seen_end = work.first_row + kWorkRows * i < work.rows ? (last.high + kKeys - 1) / kKeys : 0;
        work.group_end[i] = min(max(seen_end, work.first_tile + 1), work.end_tile);
    }
    work.read_first = range(0).low;
    work.read_end = KeyRange(p, query_row(p, all_rows - 1), entry).high;
    return work;
}

}  // namespace attile::gpu::mma
