// SPDX-License-Identifier: Apache-2.0
// The arguments of every attention kernel for tensor cores: the problem in the operation's words, and which tiles blocks take.
#pragma once

#include <cstdint>

#include "attention/params.h"

namespace attile::gpu::mma {

struct AttentionTask {
    AttentionParams p;
    int32_t tiles;           // Row blocks times splits times heads times batch entries, some of which may be empty.
    int32_t heads;           // (Batch entry, pack of heads) pairs.
    int32_t chunk;           // Of these as many as are walked together, so that their K and V stay in the L2 cache.
    int32_t values_in_keys;  // V's rows are the first columns of K's: in memory they are the same.
    int32_t splits_follow;   // Splits begin where the window of a tile's rows does; else at the first key.
    int32_t exact_only;      // A row's bits must not depend on others, and no probability may be far from 1: no slack.
};

}  // namespace attile::gpu::mma
