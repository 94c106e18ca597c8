// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionTileKernel attention_cols192() { return attention_tile_instance<Attention192>("attention_cols192", 0.55); }
AttentionTileKernel attention_cols256() {
    return attention_tile_instance<Attention256, Attention256, Attention256Plain>("attention_cols256", 0.58);
}

}  // namespace attile::gpu::simt
