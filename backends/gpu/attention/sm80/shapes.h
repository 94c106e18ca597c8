// SPDX-License-Identifier: Apache-2.0
// The tiles that the sm_80 attention kernel exists in. Shared memory of a block is at most 99 KB, what capability 8.6 and 8.9 have.
//
//   shape             rows x keys  shared memory: work tile + Q + K and V    registers, compiled for 8.0; 9.0 (CUDA 13.0)
//   Cols64            128 x 128    0.25 + 16 + 3 x 16     = 64.25 KB         255; 254
//   Cols64Modified    128 x  64    0.25 + 16 + 4 x  8     = 48.25 KB         214; 232
//   Cols128           128 x  64    0.25 + 32 + 2 x 16     = 64.25 KB         254; 255
//   Cols128Modified   128 x  32    0.25 + 32 + 4 x  8     = 64.25 KB         235; 254
//   Cols256            64 x  64    0.25 + 32 + 2 x 32     = 96.25 KB         250; 254
//   Cols256Modified    64 x  32    0.25 + 32 + 4 x 16     = 96.25 KB         240; 244
//   Tf32x3Cols64      128 x  64    0.25 + 32 + 3 x 16     = 80.25 KB         255; 255
//   Tf32x3Cols128     128 x  32    0.25 + 64 + 2 x 16     = 96.25 KB         255; 255
//   Tf32x3Cols256      64 x  16    0.25 + 64 + 2 x 16     = 96.25 KB         243; 244
// Two blocks a multiprocessor, by registers. Bound: shared memory, for the fragments of K and V. Record: docs/kernels/attention-sm80.md.
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
    bool modifies;  // Scores pass through more than a mask.

    constexpr int warp_rows() const { return 16 * row_tiles; }
    constexpr int rows() const { return warps * warp_rows(); }
    constexpr int threads() const { return 32 * warps; }
    constexpr int q_bytes() const { return rows() * depth * bytes; }
    constexpr int tile_bytes() const { return keys * (depth > columns ? depth : columns) * bytes; }
    constexpr int shared_bytes() const { return kWorkBytes + q_bytes() + stages * tile_bytes(); }
    static constexpr int kWorkBytes = 256;
};

//  depth, columns, keys, warps, row_tiles, stages, blocks, bytes, modifies
struct AttentionCols64 {
    static constexpr AttentionShape kShape = {64, 64, 128, 4, 2, 3, 2, 2, false};
};
struct AttentionCols64Modified {
    static constexpr AttentionShape kShape = {64, 64, 64, 4, 2, 4, 2, 2, true};
};
struct AttentionCols128 {
    static constexpr AttentionShape kShape = {128, 128, 64, 4, 2, 2, 2, 2, false};
};
struct AttentionCols128Modified {
    static constexpr AttentionShape kShape = {128, 128, 32, 4, 2, 4, 2, 2, true};
};
struct AttentionCols256 {
    static constexpr AttentionShape kShape = {256, 256, 64, 4, 1, 2, 2, 2, false};
};
struct AttentionCols256Modified {
    static constexpr AttentionShape kShape = {256, 256, 32, 4, 1, 4, 2, 2, true};
};
// Of float32.
struct AttentionTf32x3Cols64 {
    static constexpr AttentionShape kShape = {64, 64, 64, 4, 2, 3, 2, 4, false};
};
struct AttentionTf32x3Cols64Modified {
    static constexpr AttentionShape kShape = {64, 64, 64, 4, 2, 3, 2, 4, true};
};
struct AttentionTf32x3Cols128 {
    static constexpr AttentionShape kShape = {128, 128, 32, 4, 2, 2, 2, 4, false};
};
struct AttentionTf32x3Cols128Modified {
    static constexpr AttentionShape kShape = {128, 128, 32, 4, 2, 2, 2, 4, true};
};
struct AttentionTf32x3Cols256 {
    static constexpr AttentionShape kShape = {256, 256, 16, 4, 1, 2, 2, 4, false};
};
struct AttentionTf32x3Cols256Modified {
    static constexpr AttentionShape kShape = {256, 256, 16, 4, 1, 2, 2, 4, true};
};

}  // namespace attile::gpu::sm80
