// SPDX-License-Identifier: Apache-2.0
// Short names for instances of the backward tile kernel, for the tables of attention_backward_cols<n>.cu.
#pragma once

#include "attention_backward/simt/configs.h"
#include "attention_backward/simt/kernels.h"
#include "attention_backward/simt/tile.cuh"

namespace attile::gpu::simt {

template <class C, bool kModified>
AttentionBackwardTile attention_backward_tile_of() {
    using Shape = BackwardShape<C>;
    return {&attention_backward_tile<C, kModified>, Shape::kBlockRows, Shape::kBlockKeys, Shape::kThreads};
}

// Modified: the configuration where scores are modified.
template <class C, class Modified>
AttentionBackwardTileKernel attention_backward_instance(const char *name, double share) {
    static_assert(BackwardShape<C>::kDepth == BackwardShape<Modified>::kDepth, "one name");
    return {name, attention_backward_tile_of<C, false>(), attention_backward_tile_of<Modified, true>(), BackwardShape<C>::kDepth, share};
}

}  // namespace attile::gpu::simt
