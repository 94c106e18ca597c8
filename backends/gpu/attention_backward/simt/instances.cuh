// SPDX-License-Identifier: Apache-2.0
// What the files of instances make of the settings in attention_backward/simt/instances.cmake.
#pragma once

#include "attention_backward/simt/configs.h"
#include "attention_backward/simt/instances.h"
#include "attention_backward/simt/tile.cuh"

namespace attile::gpu::simt {

template <class C, bool kModified>
AttentionBackwardTile attention_backward_tile_of() {
    using Shape = BackwardShape<C>;
    return {&attention_backward_tile<C, kModified>, Shape::kBlockRows, Shape::kBlockKeys, Shape::kThreads};
}

template <class Instance>
AttentionBackwardTileKernel attention_backward_instance(const char *name) {
    using Plain = typename Instance::Plain;
    using Modified = typename Instance::Modified;
    static_assert(BackwardShape<Plain>::kDepth == BackwardShape<Modified>::kDepth, "one name");
    return {name, attention_backward_tile_of<Plain, false>(), attention_backward_tile_of<Modified, true>(), BackwardShape<Plain>::kDepth,
            Instance::kShare};
}

}  // namespace attile::gpu::simt
