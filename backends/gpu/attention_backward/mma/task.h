// SPDX-License-Identifier: Apache-2.0
// The arguments of a kernel of attention's gradients: the problem in the operation's words, and which tiles its blocks take.
#pragma once

#include <cstdint>

#include "attention_backward/params.h"

namespace attile::gpu::mma {

inline constexpr int32_t kBackwardPrepareThreads = 256;
inline constexpr int32_t kBackwardPrepareRows = 32;  // Of a block.
inline constexpr int32_t kBackwardAllottedRows =
    128;  // The array of rows' lse and delta is a multiple of so many rows long, which is a multiple of every tile.

inline constexpr int kModifierRecord = 32;  // Bytes of shared memory of a warp: BackwardModifiers.

// Gradients of scores between the two kernels: 16-bit fragments of 16 keys x 16 rows, 512 bytes, as the first kernel's products take
// them: [pair of the launch][query head of the group][rows / 16][keys / 16][lane]. Those of blocks without a visible pair are
// not written.
struct BackwardTask {
    AttentionBackwardParams p;             // block_rows and block_keys as this kernel cuts; rows_allotted is a multiple of every tile.
    int32_t heads;                         // (Batch entry, head) pairs: key heads where keys are kept, else query heads.
    int32_t blocks;                        // Of a pair; some may be empty.
    void *gradients;                       // Null: they are computed anew.
    int32_t row_fragments, key_fragments;  // Of a head.
    int32_t chunk;                         // Of pairs as many as are walked together, so that what streams stays in the L2 cache.
    int32_t exact_only;                    // Results must not depend on other rows of a tile: softcap by one formula.
    int32_t words;                         // How many words from irregular[-1] on the first kernel sets to zero; 0: they are zero already.
};

}  // namespace attile::gpu::mma
