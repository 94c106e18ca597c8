// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a kernels of attention's gradients and the instances of them. One block a multiprocessor.
//
//   shape      keys x rows   shared memory: K, V + 2 (Q, dO, dS, dQ, numbers), KB   registers of a computing thread; spilled
//   Cols64     128 x 128     32 + 2 (32 + 32 + 32 + 1)   = 226                      240; none
//   Cols128    128 x  64     64 + 2 (32 + 16 + 32 + 0.5) = 225                      240; words that all threads have in common
//   Cols256     64 x  64     64 + 2 (64 + 16, P + 0.5)   = 225                      240; none
//
// At launch 168 registers. What the serving threads spill, up to 310 bytes, goes unnoticed. A step of 64 rows at 128 columns is 2560
// cycles of the tensor cores and 2800 of shared memory, which products with both operands there (scores, dP, dQ) keep as busy as the
// tensor cores: those are busy 61 % of the time by ncu.
//
// Measured in one process on an H200, bf16, B = 8, H = 16, S = 2048 and B = 2, S = 8192, full and causal; TFLOP/s of five products:
//   32 heads at a time instead of 8, so that 4 blocks of a head run, not 16, and each waits for the sums of the one before at the start
//     alone: d = 64 causal 240 -> 302. The fixed order then costs nothing: 380 without it against 385. 128 heads: 274, beyond the L2 cache.
//   two places for dQ and two threads that add: with one, the order cost 14 % at d = 128.
//   dQ a step late, so that the warpgroups need not go in step: d = 64 413 -> 435 and 432 -> 485, d = 128 487 -> 504 and 450 -> 448.
//   dQ issued along with gradients instead of after them: d = 64 455 -> 476 and 449 -> 481; too few registers at d = 128.
//   gradients in two halves: frees the registers for that at d = 64; d = 128 463 -> 468 and 511 -> 518.
//   what holds NaN found from the sums, not by looking at q, k and v beforehand: 0.05 ms of 1.43 at d = 128.
//   few pairs, of which more than four blocks run: gangs, which begin with different rows (BackwardWalk), and four launches instead of
//     six, two of them brought up early; us a call, eight in a row: (B, H, S, d) = (1, 16, 1024, 128) 91 -> 72, causal, where there are
//     no gangs, 69 -> 64; (1, 16, 2048, 128) 205 -> 191, (1, 8, 4096, 64) 222 -> 181, (1, 4, 1024, 64) 57 -> 40.
//   every kernel brought up early, the ones of the products not bringing up what is behind them before they end (where they do, the sums'
//     last kernel costs 2 to 5 us), 32 rows a block of the first kernel instead of 128, 8 blocks a multiprocessor of the last, which mostly
//     finds nothing, instead of 16: (1, 16, 1024, 128) 70 -> 63, causal 63 -> 53; (1, 16, 2048, 128) 190 -> 184, causal 136 -> 128, (1, 4,
//     1024, 64) 40 -> 37, (32, 16, 512, 128) 484 -> 477, causal 409 -> 404; longer ones gain as many us.
// What lost or gave nothing: gradients from narrowed probabilities (fewer registers, no faster, and past conformance's tolerance); the
// warpgroups' starts half a step apart; products in flight across the loop's end (ptxas then serializes all: C7514, as it does for want of
// registers: C7512); dQ added from registers (red.v4), which spares shared memory 64 of 370 KB a step and leaves no steps to wait for a
// turn in: 518 -> 507 at d = 128, S = 2048, 531 -> 524 at 8192, d = 64 481 -> 473 and 510 -> 486 (short problems gained, 72 -> 69 us), with
// blocks that begin one or two steps after the one before no better. Not tried: 80 rows at d = 128, clusters.
// 256 columns: dQ by the mma.sync kernel takes 0.50 of 1.46 ms with what looks at the operands, B = 2, H = 8, S = 4096.
#pragma once

#include "attention_backward/sm90/arguments.h"

namespace attile::gpu::sm90 {

//  depth, keys, rows, late_sums, registers of serving and computing warps
struct BackwardCols64 {
    static constexpr BackwardShape kShape = {64, 128, 128, false, 24, 240};
};
struct BackwardCols128 {
    static constexpr BackwardShape kShape = {128, 128, 64, true, 24, 240};
};
struct BackwardCols256 {
    static constexpr BackwardShape kShape = {256, 64, 64, false, 24, 240};
};

}  // namespace attile::gpu::sm90
