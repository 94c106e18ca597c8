// SPDX-License-Identifier: Apache-2.0
// The shape of a tile of the sm_80 attention kernel. Which there are, with their budget: attention/sm80/instances.cmake.
#pragma once

namespace attile::gpu::sm80 {

struct AttentionShape {
    int depth;      // Most columns of Q and K.
    int columns;    // Most columns of V.
    int keys;       // Of a tile.
    int warps;      // Of a block.
    int row_tiles;  // Of 16 rows each, that a warp has.
    int stages;     // For tiles of K and V in shared memory.
    int blocks;     // That a multiprocessor holds by registers, at least.
    int bytes;      // Of an element.
    bool modifies;  // Scores pass through more than a mask: through all that the problem says, or through one of these alone.
    bool alibi_only, softcap_only, bias_only, allowed_only;

    constexpr bool is_fused() const { return alibi_only || softcap_only || bias_only || allowed_only; }
    constexpr bool may_have_pages() const { return modifies && !is_fused(); }
    // Of bias or mask, for a tile of keys.
    constexpr int strip_row_bytes() const { return bias_only ? keys * 2 : allowed_only ? keys : 0; }
    constexpr int strip_bytes() const { return rows() * strip_row_bytes(); }
    constexpr int stage_bytes() const { return tile_bytes() + strip_bytes(); }
    constexpr int warp_rows() const { return 16 * row_tiles; }
    constexpr int rows() const { return warps * warp_rows(); }
    constexpr int threads() const { return 32 * warps; }
    constexpr int q_bytes() const { return rows() * depth * bytes; }
    constexpr int tile_bytes() const { return keys * (depth > columns ? depth : columns) * bytes; }
    constexpr int shared_bytes() const { return kWorkBytes + q_bytes() + stages * stage_bytes(); }
    static constexpr int kWorkBytes = 256;
};

}  // namespace attile::gpu::sm80
