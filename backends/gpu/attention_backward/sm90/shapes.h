// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a kernels of attention's gradients and their instances. One block a multiprocessor.
//
//   shape      keys x rows   shared memory: K, V + 2 (Q, dO, dS, dQ, lse and delta), KB   registers of a consumer thread; spilled
//   Cols64     128 x 128     32 + 2 (32 + 32 + 32 + 1)   = 226                            240; none
//   Cols128    128 x  64     64 + 2 (32 + 16 + 32 + 0.5) = 225                            240; words that all threads have in common
//   Cols256     64 x  64     64 + 2 (64 + 16, P + 0.5)   = 225                            240; none
//
// At launch 168 registers. Bound: a step of 64 rows at 128 columns takes 2560 cycles of the tensor cores and 2800 of shared memory.
// Record: docs/kernels/attention-backward-sm90.md.
#pragma once

#include "attention_backward/sm90/arguments.h"

namespace attile::gpu::sm90 {

//  depth, keys, rows, late_sums, registers of producer and consumer threads
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
