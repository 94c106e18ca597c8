// SPDX-License-Identifier: Apache-2.0
// The tiles that the sm_80 attention kernel exists in. Shared memory of a block is at most 99 KB, what capability 8.6 and 8.9 have.
#pragma once

namespace attile::sm80 {

struct AttentionShape {
    int depth;      // Most columns of Q and K.
    int columns;    // Most columns of V.
    int keys;       // Of a tile.
    int warps;      // Of a block.
    int row_tiles;  // Of 16 rows each, that a warp has.
    int places;     // For tiles of K and V in shared memory.
    int blocks;     // That a multiprocessor holds by registers, at least.
    bool modifies;  // Scores pass through more than a mask.

    constexpr int warp_rows() const { return 16 * row_tiles; }
    constexpr int rows() const { return warps * warp_rows(); }
    constexpr int threads() const { return 32 * warps; }
    constexpr int q_bytes() const { return rows() * depth * 2; }
    constexpr int tile_bytes() const { return keys * (depth > columns ? depth : columns) * 2; }
    constexpr int shared_bytes() const { return kNoteBytes + q_bytes() + places * tile_bytes(); }
    static constexpr int kNoteBytes = 256;
};

//  depth, columns, keys, warps, row_tiles, places, blocks, modifies
struct AttentionCols64 {
    static constexpr AttentionShape kShape = {64, 64, 128, 4, 2, 3, 2, false};
};
struct AttentionCols64Modified {
    static constexpr AttentionShape kShape = {64, 64, 64, 4, 2, 4, 2, true};
};
struct AttentionCols128 {
    static constexpr AttentionShape kShape = {128, 128, 64, 4, 2, 2, 2, false};
};
struct AttentionCols128Modified {
    static constexpr AttentionShape kShape = {128, 128, 32, 4, 2, 4, 2, true};
};
struct AttentionCols256 {
    static constexpr AttentionShape kShape = {256, 256, 64, 4, 1, 2, 2, false};
};
struct AttentionCols256Modified {
    static constexpr AttentionShape kShape = {256, 256, 32, 4, 1, 4, 2, true};
};

}  // namespace attile::sm80
