// SPDX-License-Identifier: Apache-2.0
// The shape of a tile of the sm_80 attention kernel for wide heads. Which there are, with their budget: attention/sm80/instances.cmake.
#pragma once

namespace attile::gpu::sm80 {

// Warps stand in groups of rows and, of each, groups of columns: those of a group of rows share its scores out by keys, and its O by
// columns.
struct AttentionWideShape {
    int depth;       // Most columns of Q and K.
    int columns;     // Most columns of V.
    int keys;        // Of a tile.
    int row_groups;  // Of the block, 32 rows each.
    int stages;      // For panels in shared memory.
    bool modifies;   // Scores pass through more than a mask.

    static constexpr int bytes = 2;  // Of an element.
    static constexpr int row_tiles = 2;
    static constexpr int panel = 128, half = 64;  // Columns of a tile of K or V that are loaded together; of which a half is 128 bytes.
    static constexpr int column_groups() { return 4; }
    constexpr bool may_have_pages() const { return modifies; }
    static constexpr int warp_rows() { return 16 * row_tiles; }
    constexpr int rows() const { return row_groups * warp_rows(); }
    constexpr int threads() const { return 32 * row_groups * column_groups(); }
    constexpr int warp_keys() const { return keys / column_groups(); }
    constexpr int warp_columns() const { return columns / column_groups(); }
    static constexpr int warp_run() { return panel / column_groups(); }  // Columns of a panel that a warp has of O.
    // Can V's panels stay where K's came to, if V is K's first columns? Then there is a stage for each of V's, and half a panel of K more
    // lies where probabilities come to.
    constexpr bool may_share() const { return stages * panel >= columns; }
    constexpr int q_bytes() const { return rows() * depth * bytes; }
    constexpr int half_bytes() const { return keys * half * bytes; }
    constexpr int panel_bytes() const { return 2 * half_bytes(); }
    constexpr int p_bytes() const {
        const int of_p = rows() * keys * bytes;
        return may_share() && half_bytes() > of_p ? half_bytes() : of_p;
    }
    constexpr int exchange_bytes() const { return rows() * column_groups() * 4; }
    constexpr int shared_bytes() const { return kWorkBytes + exchange_bytes() + q_bytes() + stages * panel_bytes() + p_bytes(); }
    static constexpr int kWorkBytes = 256;
};

}  // namespace attile::gpu::sm80
