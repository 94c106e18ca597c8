// SPDX-License-Identifier: Apache-2.0
// Which pairs of a tile of query rows and a block of keys are visited, told the same way from either side, and where their parts lie.
#pragma once

#include "attention/block.h"
#include "attention_backward/params.h"

namespace attile::gpu {

// Numbers [first, end).
struct Span {
    int first, end;
    ATTILE_LANE_FN bool has(int i) const { return i >= first && i < end; }
};

// Tiles of rows that see any key of the block that begins at first_key.
ATTILE_LANE_FN Span row_tiles_of(const AttentionBackwardParams &p, const AttentionEntry &entry, int first_key) {
    const int last_key = min(first_key + p.block_keys, entry.len_k) - 1;
    const int first = max(first_key - entry.shift - p.forward.window_right, 0);
    const int end = min(last_key - entry.shift + p.forward.window_left + 1, entry.len_q);
    if (last_key < first_key || first >= end) return {0, 0};
    return {first / p.block_rows, (end + p.block_rows - 1) / p.block_rows};
}

// Blocks of keys that any row of the tile that begins at first_row sees.
ATTILE_LANE_FN Span key_blocks_of(const AttentionBackwardParams &p, const AttentionEntry &entry, int first_row) {
    const int last_row = min(first_row + p.block_rows, entry.len_q) - 1;
    const int first = max(first_row + entry.shift - p.forward.window_left, 0);
    const int end = min(last_row + entry.shift + p.forward.window_right + 1, entry.len_k);
    if (last_row < first_row || first >= end) return {0, 0};
    return {first / p.block_keys, (end + p.block_keys - 1) / p.block_keys};
}

// Are the pairs of a tile of rows and a block of keys worked on? Not where the block mask hides all of them, unless a gradient of each
// score is asked for.
ATTILE_LANE_FN bool tile_is_made(const AttentionBackwardParams &p, const AttentionEntry &entry, int head, int first_row, int key_block) {
    if (!p.forward.block_mask.data || p.part_bias) return true;
    return block_mask_shows(p.forward, entry.batch, head, 1, first_row, min(first_row + p.block_rows, entry.len_q) - 1,
                            key_block * p.block_keys, min((key_block + 1) * p.block_keys, entry.len_k) - 1);
}

// The head of K and V that a head of dk and dv is of.
ATTILE_LANE_FN int head_of_keys(const AttentionBackwardParams &p, int head_kv) {
    return static_cast<int>(quotient(static_cast<uint32_t>(head_kv), p.group_parts));
}

// Does a pair of the launch hold NaN or infinity?
ATTILE_LANE_FN bool is_irregular(const AttentionBackwardParams &p, int pair) { return p.irregular[p.first_pair + pair] != 0; }

// The first row of a unit's tile.
ATTILE_LANE_FN int unit_row(const AttentionBackwardParams &p, int unit) {
    return static_cast<int>(remainder(static_cast<uint32_t>(unit), p.row_tiles)) * p.block_rows;
}

// Its query head.
ATTILE_LANE_FN int unit_head(const AttentionBackwardParams &p, int head_kv, int unit) {
    return head_kv * static_cast<int>(p.forward.group.divisor) + static_cast<int>(quotient(static_cast<uint32_t>(unit), p.row_tiles));
}

// What a block of the tile kernel works on.
struct BackwardPlace {
    int pair;  // Of the launch.
    int batch, head_kv, key_block, split;

    ATTILE_LANE_FN BackwardPlace(const AttentionBackwardParams &p, uint32_t index) {
        uint32_t rest;
        if (p.keys_first) {
            pair = static_cast<int>(remainder(index, p.pairs));
            rest = quotient(index, p.pairs);
            split = static_cast<int>(remainder(rest, p.splits));
            key_block = static_cast<int>(quotient(rest, p.splits));
        } else {
            key_block = static_cast<int>(remainder(index, p.key_blocks));
            rest = quotient(index, p.key_blocks);
            split = static_cast<int>(remainder(rest, p.splits));
            pair = static_cast<int>(quotient(rest, p.splits));
        }
        batch = static_cast<int>(quotient(p.first_pair + pair, p.heads_kv));
        head_kv = static_cast<int>(remainder(p.first_pair + pair, p.heads_kv));
    }
    ATTILE_LANE_FN BackwardPlace(const AttentionBackwardParams &p, int pair_of_launch, int block_of_keys)
        : pair(pair_of_launch),
          batch(static_cast<int>(quotient(p.first_pair + pair, p.heads_kv))),
          head_kv(static_cast<int>(remainder(p.first_pair + pair, p.heads_kv))),
          key_block(block_of_keys),
          split(0) {}
};

// What a block of the tile kernel needs again and again; found once and kept in shared memory, since its sums leave no registers.
struct BackwardBlock {
    const float *query, *dout;  // The batch entry's first row in head 0.
    const float *key, *value;   // Its first key in the block's head.
    int pair, batch, head_kv, key_block, split;
    int len_q, len_k, shift;
    int first_tile, end_tile;  // Of rows that see any of the keys.
    int first_unit, end_unit;

    ATTILE_LANE_FN void fill(const AttentionBackwardParams &p, const BackwardPlace &place, const AttentionEntry &entry) {
        const AttentionParams &f = p.forward;
        const auto row = [&](const AttentionOperand &x, int head, int64_t first) {
            return static_cast<const float *>(x.data) + place.batch * x.stride[0] + head * x.stride[1] + first * x.stride[2];
        };
        query = row(f.q, 0, entry.first_q);
        dout = row(p.dout, 0, entry.first_q);
        key = row(f.k, place.head_kv, entry.first_k);
        value = row(f.v, place.head_kv, entry.first_k);
        pair = place.pair;
        batch = place.batch;
        head_kv = place.head_kv;
        key_block = place.key_block;
        split = place.split;
        len_q = entry.len_q;
        len_k = entry.len_k;
        shift = entry.shift;
        const Span tiles = row_tiles_of(p, entry, key_block * p.block_keys);
        first_tile = tiles.first;
        end_tile = tiles.end;
        first_unit = p.first_unit + split * p.split_units;
        end_unit = tiles.first < tiles.end ? min(first_unit + p.split_units, p.end_unit) : 0;
    }
    // The next unit after `unit` that sees any of the keys, or the first after -1; -1: there is none.
    ATTILE_LANE_FN int next_unit(const AttentionBackwardParams &p, int unit) const {
        unit = unit < 0 ? first_unit : unit + 1;
        const int tile = static_cast<int>(remainder(static_cast<uint32_t>(unit), p.row_tiles));
        if (tile < first_tile) unit += first_tile - tile;
        if (tile >= end_tile) unit += static_cast<int>(p.row_tiles.divisor) - tile + first_tile;
        return unit < end_unit ? unit : -1;
    }
    // The same of those whose tiles are made.
    ATTILE_LANE_FN int next_made_unit(const AttentionBackwardParams &p, int unit) const {
        do {
            unit = next_unit(p, unit);
        } while (unit >= 0 && p.forward.block_mask.data &&
                 !tile_is_made(p, AttentionEntry(p.forward, batch), unit_head(p, head_kv, unit), unit_row(p, unit), key_block));
        return unit;
    }
};

ATTILE_LANE_FN int64_t part_of_unit(const AttentionBackwardParams &p, int pair, int unit) {
    return static_cast<int64_t>(pair) * (p.end_unit - p.first_unit) + (unit - p.first_unit);
}

// Where the part that a block of keys has in dq of a unit begins (of one part, what all of them have).
ATTILE_LANE_FN int64_t part_q_at(const AttentionBackwardParams &p, int pair, int key_block, int unit) {
    const int64_t part = (static_cast<int64_t>(pair) * p.parts_q + key_block) * (p.end_unit - p.first_unit);
    return (part + unit - p.first_unit) * p.block_rows * p.depth;
}

// Where the sums of a key begin.
ATTILE_LANE_FN int64_t sum_at(const AttentionBackwardParams &p, int split, int pair, int key) {
    const int64_t keys = static_cast<int64_t>(p.key_blocks.divisor) * p.block_keys;
    return ((static_cast<int64_t>(split) * p.pairs.divisor + pair) * keys + key) * p.depth;
}

}  // namespace attile::gpu
