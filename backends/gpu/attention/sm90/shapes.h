// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a attention kernel and the instances of them. One block a multiprocessor, by shared memory and registers.
//
//   shape      rows x keys  shared memory: Q + stages (K + V) + O + 1.75 KB  registers at launch; of a computing thread; spilled, bytes
//   Cols64     192 x 128    2 24 + 4 (16 + 16) + 24 = 200 KB + 1.75      128; 160; bf16 44, f16 256, outside of the common loop
//   Cols96     128 x 128    32 + 2 (32 + 32)   = 160 KB + 1.75           168; 232; none
//   Cols128    128 x 128    32 + 2 (32 + 32) + 32 = 192 KB + 1.75        168; 232; none
//   Few         64 x 128    16 + 2 (32 + 32)   = 144 KB + 1.75           128; 216; none
//   Cols192    128 x 128    48 + 2 (48 + 32)   = 208 KB + 1.75           168; 232; none
//   Cols256    128 x  80    64 + 2 (40 + 40)   = 224 KB + 1.75           168; 232; bf16 68
// Modified: 64 columns 128 rows and 144 KB; those of 64 to 128 columns 64 KB more, a strip of bias or `allowed` for each warp; their loops
// spill some 5 words each, that of any combination 20.
//
// A tile of rows reads K and V once: 4 rows d flops for 8 d bytes of a key and its value, 64 to 96 flops a byte of L2. The bounds are the
// tensor cores (4096 flops a cycle) and the exponentials (16 a cycle): equal at d = 64, two to one at d = 128.
// Rates: docs/performance.md; to measure again, tools/compare_peers.py --groups attention16,decode16 --burst 8.
//
// What mattered, measured in one process: that ptxas sees what is the same in all of a warp, so that rings, descriptors and loops live in
// uniform registers (8 to 12 % at d = 128, 6 to 15 % at d = 64, whose 320 spilled bytes went with it): warpgroup and tile bounds by
// warp_uniform(), __syncwarp() after the wait for a tile, no branch around a shuffle in the repair of rows, no tile without keys. A warp
// that notes tiles: 1 to 3 % at 2048 rows; a tile more in advance: up to 14 % slower under a causal mask. Idle waits: a serving thread that
// spins takes a tenth of a scheduler.
//
// Share of the tensor cores' rate by the blocks' own clocks, variants in turn in one process on an H200; (2,16,8192) full and causal, then
// (8,16,2048):
//   d = 64    58, 52, 51, 36   no turns, every group at all of a tile's keys, sums of single probabilities
//             58, 54, 51, 41   groups pass over key tiles that only others see
//             61, 58, 53, 42   sums by pairs (attention/mma/softmax.cuh)
//             63, 59, 56, 43   turns for the scores' product alone, the values' issued after it (`apart`)
//             64, 60, 56, 43   64-bit descriptors, one addition for the next instead of two moves
//   d = 128   88, 84, 78, 64   turns; without: 90, 86, 79, 65; sums by pairs: 92, 88, 80, 66
//   f16, 128  77, 75, 71, 61   every tile looked at; without maxima: 88, 84, 78, 65; without turns, sums by pairs: 92, 88, 80, 66
// The prototype has 67, 61, 61, 47 at d = 64: there ptxas happens to leave five exponentials between one and its sum, here two or three,
// and no way of writing the sums was found that it keeps apart: barriers, branches and dependencies among the sums do not stop it. What
// lost at d = 64: a turn that ends with the wait for the scores while the values' product is under way (43: the turn's end is moved behind
// the exponentials), or after the values' product (44); values before scores (60, 63 with sums by pairs). Tiles dealt out in turn, without
// a counter: level in full attention, 3 to 20 % slower under a causal mask, in either direction by turns too. What lost at d = 128: `apart`
// (81). 176 keys without turns for f16 (3 % faster full at 8192 rows, 8 % slower causal at 2048).
//
// Scores that are modified, B = 8, H = 32, S = 4096, d = 128, bf16, no mask; times the rate of a kernel whose threads read their own pairs,
// in one loop that masks every tile and looks at every maximum (219 TFLOP/s with a bias, 291 a boolean mask, 365 ALiBi, 272 softcap 30):
//   2.05, 1.64, 1.60, 1.67   strips filled a tile in advance, masks at edges alone, fewer instructions (attention/sm90/modify.cuh)
//   2.16, 1.67, 1.39, 1.67   no look at maxima where that is safe; ALiBi is better off with it
//   2.18, 1.59, 1.57, 1.78   a loop for each kind of change: uniform registers, and it stays in the instruction cache
// What lost there: no turns (2.02, 1.62, 1.38, 1.63 of the second line); bits of the mask made while products are under way (1.29, spills).
// What lost at 2048 rows: two places for Q at d = 128 (0.80, ptxas gives up uniform registers), run_on there (0.95, 0.92 causal), at d = 64
// two warpgroups (0.80, 0.87), no turns (0.96, 1.00), no turns and `apart` (0.91, 0.99); half a product and half the exponentials for a
// group whose rows see half of their last key tile (0.95 and 0.95 at d = 64, 1.00 and 0.99 at d = 128). An early start of the kernel behind
// (LaunchExtras::overlaps), the counter zeroed by a kernel, gives up to half a percent; no counter without a mask loses 1 % at d = 128.
// Level or slower: Q of the next tile fetched into L2 ahead, Q given back before the last values' product (0.98 at d = 64), trust by the
// narrow spread of a whole first tile (0.99, 0.98 at d = 128).
// What won there: both rows of a thread stored side by side, without branches on the way (1.02, 1.05 causal at d = 128; 1.015, 1.035 at
// d = 64); under a mask the short tile first (1.03 at d = 64 causal, 1.09 at 512 rows: attention/mma/note.cuh); O by shared memory and
// the copy engine (attention/sm90/stage.cuh: 1.025, 1.04 at d = 64, 1.02, 1.02 at d = 128, 1.01 to 1.02 at 8192 rows; 1.07 at 512). Where
// O goes noted with the tile instead: 1.002, 1.01 at d = 64. By the clock a tile took before these two, of 36 000 cycles at d = 128 (22 000
// causal): Q and first scores 1 100, first softmax 1 800 (2 300), last values 700, the way out 1 900 to 2 300; at d = 64 causal, of 26 000:
// 2 000, 3 000, 700, 2 000.
//
// Decoding, bf16, 32/8 heads, in steady work, us of 1 x 32768 keys, 16 x 4096, 64 x 4096 and 1 x 4096:
//   46.1, 73.0, 265, 17.5   128 rows
//   44.2, 72.3, 264, 15.2   it and what puts splits together are launched early
//   42.7, 71.1, 262, 13.4   64 rows, one computing warpgroup; without a counter to be zeroed 1.6 us less where there was one
//   41.4, 66.5, 246         L2 fetches 128 bytes at a time, not 256 (42.5, 69.7, 262 in that run; memory gives the same bytes either way)
// What lost there: 80 keys in four stages (44.0, 71.4, 263, 13.7); 80 keys in two stages, two blocks a multiprocessor (43.2, 75.1, 263,
// 13.4). Level: an evict-first hint, boxes of 16 or 64 keys, a counter, an early launch of several rounds. cuDNN takes 40.5, 66.4 and 244
// beside 41.4, 66.5 and 246, with 16 rows by mma.sync.
//
// Ideas that lost in the prototype these kernels come from, on an H200; not measured again in this form: maxima that move the reference
// whenever they grow (79 instead of 85 % of the tensor cores at d = 128; bf16 has that here where maxima are looked at, for its accuracy);
// 144 and 160 keys at short lengths; Q's fragments in registers (1.5 points); K and V multicast to two blocks of a cluster (level); a share
// of the exponentials by polynomials (always slower); run_on at d = 128 without maxima (2 points).
#pragma once

#include "attention/sm90/arguments.h"

namespace attile::gpu::sm90 {

//  depth, columns, keys, warpgroups, stages, ping_pong, apart, run_on, prediction, modifies, registers of loading and computing warps
struct AttentionCols64 {
    static constexpr AttentionShape kShape = {64, 64, 128, 3, 4, true, true, true, true, false, 32, 160};
};
struct AttentionCols64Modified {  // Three warpgroups would leave too few registers for the addresses of bias and the like.
    static constexpr AttentionShape kShape = {64, 64, 128, 2, 4, true, false, false, false, true, 40, 232};
};
struct AttentionCols96 {
    static constexpr AttentionShape kShape = {96, 96, 128, 2, 2, true, false, false, true, false, 40, 232};
};
struct AttentionCols96Modified {
    static constexpr AttentionShape kShape = {96, 96, 128, 2, 2, true, false, false, false, true, 40, 232};
};
struct AttentionCols128 {
    static constexpr AttentionShape kShape = {128, 128, 128, 2, 2, false, false, false, true, false, 40, 232};
};
struct AttentionCols128Few {  // Rows that one warpgroup holds, as in decoding: another would only take time from it.
    static constexpr AttentionShape kShape = {128, 128, 128, 1, 2, false, false, false, true, false, 40, 216};
};
struct AttentionCols128Modified {
    static constexpr AttentionShape kShape = {128, 128, 128, 2, 2, true, false, false, false, true, 40, 232};
};
struct AttentionCols192 {
    static constexpr AttentionShape kShape = {192, 128, 128, 2, 2, true, false, false, true, false, 40, 232};
};
struct AttentionCols192Modified {
    static constexpr AttentionShape kShape = {192, 128, 128, 2, 2, true, false, false, false, true, 40, 232};
};
struct AttentionCols256 {
    static constexpr AttentionShape kShape = {256, 256, 80, 2, 2, true, false, false, true, false, 40, 232};
};
struct AttentionCols256Modified {
    static constexpr AttentionShape kShape = {256, 256, 80, 2, 2, true, false, false, false, true, 40, 232};
};

}  // namespace attile::gpu::sm90
