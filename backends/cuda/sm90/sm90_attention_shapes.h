// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a attention kernel and the instances of them. One block a multiprocessor, by shared memory and registers.
//
//   shape      rows x keys  shared memory: Q + stages (K + V) + 1.75 KB   registers at launch; of a computing thread; spilled, bytes
//   Cols64     192 x 128    2 24 + 4 (16 + 16) = 176 KB + 1.75           128; 160; bf16 4
//   Cols96     128 x 128    32 + 2 (32 + 32)   = 160 KB + 1.75           168; 232; none
//   Cols128    128 x 128    32 + 2 (32 + 32)   = 160 KB + 1.75           168; 232; none
//   Cols192    128 x 128    48 + 2 (48 + 32)   = 208 KB + 1.75           168; 232; none
//   Cols256    128 x  80    64 + 2 (40 + 40)   = 224 KB + 1.75           168; 232; bf16 48
//
// A tile of rows reads K and V once: 4 rows d flops for 8 d bytes of a key and its value, 64 to 96 flops a byte of L2. The bounds are the
// tensor cores (4096 flops a cycle) and the exponentials (16 a cycle): equal at d = 64, two to one at d = 128.
// Rates: docs/performance.md; to measure again, tools/compare_peers.py --groups attention16,decode16 --burst 8.
//
// What mattered, measured in one process: that ptxas sees what is the same in all of a warp, so that rings, descriptors and loops live in
// uniform registers (8 to 12 % at d = 128, 6 to 15 % at d = 64, whose 320 spilled bytes went with it): warpgroup and tile bounds by
// warp_uniform(), __syncwarp() after the wait for a tile, no branch around a shuffle in the repair of rows, no tile without keys. A warp
// that notes tiles: 1 to 3 % at 2048 rows; a tile more in advance: up to 14 % slower under a causal mask. Idle waits: a serving thread that
// spins takes a tenth of a scheduler. What lost: operands' descriptors from one base (spills at d = 64, 2 to 5 %); 176 keys without turns
// for f16 at d = 128 (3 % faster full at 8192 rows, 8 % slower causal at 2048).
//
// Ideas that lost in the prototype these kernels come from, on an H200; not measured again in this form: maxima that move the reference
// whenever they grow (79 instead of 85 % of the tensor cores at d = 128; bf16 has that here where maxima are looked at, for its accuracy);
// 144 and 160 keys at short lengths; Q's fragments in registers (1.5 points); K and V multicast to two blocks of a cluster (level); a share
// of the exponentials by polynomials (always slower); run_on at d = 128 without maxima (2 points).
#pragma once

#include "sm90_attention_arguments.h"

namespace attile::sm90 {

//  depth, columns, keys, warpgroups, stages, ping_pong, run_on, prediction, modifies, registers of loading and computing warps
struct AttentionCols64 {
    static constexpr AttentionShape kShape = {64, 64, 128, 3, 4, false, true, true, false, 32, 160};
};
struct AttentionCols64Modified {  // Three warpgroups would leave too few registers for the addresses of bias and the like.
    static constexpr AttentionShape kShape = {64, 64, 128, 2, 4, true, false, false, true, 40, 232};
};
struct AttentionCols96 {
    static constexpr AttentionShape kShape = {96, 96, 128, 2, 2, true, false, true, false, 40, 232};
};
struct AttentionCols96Modified {
    static constexpr AttentionShape kShape = {96, 96, 128, 2, 2, true, false, false, true, 40, 232};
};
struct AttentionCols128 {
    static constexpr AttentionShape kShape = {128, 128, 128, 2, 2, true, false, true, false, 40, 232};
};
struct AttentionCols128Modified {
    static constexpr AttentionShape kShape = {128, 128, 128, 2, 2, true, false, false, true, 40, 232};
};
struct AttentionCols192 {
    static constexpr AttentionShape kShape = {192, 128, 128, 2, 2, true, false, true, false, 40, 232};
};
struct AttentionCols192Modified {
    static constexpr AttentionShape kShape = {192, 128, 128, 2, 2, true, false, false, true, 40, 232};
};
struct AttentionCols256 {
    static constexpr AttentionShape kShape = {256, 256, 80, 2, 2, true, false, true, false, 40, 232};
};
struct AttentionCols256Modified {
    static constexpr AttentionShape kShape = {256, 256, 80, 2, 2, true, false, false, true, 40, 232};
};

}  // namespace attile::sm90
