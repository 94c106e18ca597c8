// SPDX-License-Identifier: Apache-2.0
// The tiles that the sm_80 kernels of attention's gradients exist in. On capability 8.6 and 8.9 a block has at most 99 KB of shared memory.
//
//   shape              kept x streamed   shared memory: kept + 2 x streamed + exchange + lse, delta   blocks by registers
//   Keys64             128 keys x 64 rows    32 + 2 x 16       + 1    =  65 KB                         2
//   Rows64             128 rows x 64 keys    32 + 2 x 16       + 1    =  65 KB                         2
//   Keys128             64 keys x 64 rows    32 + 2 x 32 + 16  + 1    = 113 KB, just two blocks on 9.0 2
//   Keys128Small        64 keys x 32 rows    32 + 2 x 16 +  8  + 0.5  =  72.5 KB                       2
//   Rows128            128 rows x 32 keys    64 + 2 x 16       + 1    =  97 KB                         2
//   Keys256             64 keys x 64 rows    64 + 2 x 64 + 16  + 1    = 209 KB, 9.0 and 10.0           1
//   Rows256            128 rows x 32 keys   128 + 2 x 32 +  8  + 1    = 201 KB, likewise               1
// Modified ones take what the plain do or, at 128 columns of keys, what Small does. Registers: 235 to 255.
// Bound: shared memory. Record: docs/kernels/attention-backward-sm80.md.
#pragma once

namespace attile::gpu::sm80 {

// A block keeps `groups` times 32 rows of two operands in shared memory, K and V or Q and dO, and lets tiles of the other two stream by.
struct BackwardShape {
    int depth;      // Most columns of a head.
    int groups;     // Of warps: a group has 32 of the kept rows.
    int splits;     // Warps of a group: each makes scores of its part of a streamed tile, and sums of its part of the columns.
    int part;       // Streamed rows whose scores a warp makes at a time.
    int parts;      // Of a tile, one after the other.
    int blocks;     // That a multiprocessor holds by registers, at least.
    bool modifies;  // Scores pass through more than a mask.
    bool of_keys;   // Keys are kept, for dK and dV; else query rows, for dQ.

    constexpr int rows() const { return 32 * groups; }
    constexpr int tile() const { return part * parts * splits; }
    constexpr int columns() const { return depth / splits; }
    constexpr int threads() const { return 32 * groups * splits; }
    constexpr int kept_bytes() const { return rows() * depth * 2; }  // Of one operand.
    constexpr int tile_bytes() const { return tile() * depth * 2; }  // Likewise.
    constexpr int number_bytes() const { return 8 * (of_keys ? tile() : rows()); }
    constexpr int place_bytes() const { return 2 * tile_bytes() + (of_keys ? number_bytes() : 0); }
    constexpr int exchange_bytes() const { return splits > 1 ? rows() * tile() * (of_keys ? 4 : 2) : 0; }
    constexpr int shared_bytes() const { return 2 * kept_bytes() + 2 * place_bytes() + exchange_bytes() + (of_keys ? 0 : number_bytes()); }
};

//  depth, groups, splits, part, parts, blocks, modifies, of_keys
struct BackwardKeys64 {
    static constexpr BackwardShape kShape = {64, 4, 1, 32, 2, 2, false, true};
};
struct BackwardKeys64Modified {
    static constexpr BackwardShape kShape = {64, 4, 1, 16, 4, 2, true, true};
};
struct BackwardRows64 {
    static constexpr BackwardShape kShape = {64, 4, 1, 64, 1, 2, false, false};
};
struct BackwardRows64Modified {
    static constexpr BackwardShape kShape = {64, 4, 1, 32, 2, 2, true, false};
};
struct BackwardKeys128 {
    static constexpr BackwardShape kShape = {128, 2, 2, 32, 1, 2, false, true};
};
struct BackwardKeys128Small {
    static constexpr BackwardShape kShape = {128, 2, 2, 16, 1, 2, false, true};
};
struct BackwardKeys128Modified {
    static constexpr BackwardShape kShape = {128, 2, 2, 16, 1, 2, true, true};
};
struct BackwardRows128 {
    static constexpr BackwardShape kShape = {128, 4, 1, 32, 1, 2, false, false};
};
struct BackwardRows128Modified {
    static constexpr BackwardShape kShape = {128, 4, 1, 16, 2, 2, true, false};
};
struct BackwardKeys256 {
    static constexpr BackwardShape kShape = {256, 2, 4, 16, 1, 1, false, true};
};
struct BackwardKeys256Modified {
    static constexpr BackwardShape kShape = {256, 2, 4, 16, 1, 1, true, true};
};
struct BackwardRows256 {
    static constexpr BackwardShape kShape = {256, 4, 2, 16, 1, 1, false, false};
};
struct BackwardRows256Modified {
    static constexpr BackwardShape kShape = {256, 4, 2, 16, 1, 1, true, false};
};

}  // namespace attile::gpu::sm80
