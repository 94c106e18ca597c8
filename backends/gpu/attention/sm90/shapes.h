// SPDX-License-Identifier: Apache-2.0
// The tiles of the sm_90a attention kernel and its instances. One block a multiprocessor, by shared memory and registers.
//
//   shape      rows x keys  shared memory: Q + stages (K + V) + O + 1.75 KB  registers at launch; of a consumer thread; spilled, bytes
//   Cols64     192 x 128    2 24 + 4 (16 + 16) + 24 = 200 KB + 1.75      128; 160; bf16 44, f16 256, outside of the common loop
//   Cols96     128 x 128    32 + 2 (32 + 32)   = 160 KB + 1.75           168; 232; none
//   Cols128    128 x 128    32 + 2 (32 + 32) + 32 = 192 KB + 1.75        168; 232; none
//   Few         64 x 128    16 + 2 (32 + 32)   = 144 KB + 1.75           128; 216; none
//   Cols192    128 x 128    48 + 2 (48 + 32)   = 208 KB + 1.75           168; 232; none
//   Cols256    128 x  80    64 + 2 (40 + 40)   = 224 KB + 1.75           168; 232; bf16 68
// Modified: 128 rows at 64 columns; 64 KB more for strips of bias or mask at 64 to 128 columns; 5 to 20 words spilled.
//
// Bound: the tensor cores, 4096 FLOP a cycle, and the exponentials, 16 a cycle. They take equally long at d = 64; at 128 the tensor cores
// take twice as long. Record: docs/kernels/attention-sm90.md.
#pragma once

#include "attention/sm90/arguments.h"

namespace attile::gpu::sm90 {

//  depth, columns, keys, warpgroups, stages, ping_pong, apart, run_on, prediction, modifies, registers of producer and consumer threads
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
struct AttentionCols128Few {  // For rows that one warpgroup holds, as in decoding: another would only take its issue slots.
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
