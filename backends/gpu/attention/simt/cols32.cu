// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionTileKernel attention_cols32() { return attention_tile_instance<Attention32, Attention32Modified>("attention_cols32", 0.66); }
AttentionTileKernel attention_cols32_short() {
    return attention_tile_instance<Attention32Short, Attention32Modified>("attention_cols32_short", 0.63);
}

}  // namespace attile::gpu::simt
