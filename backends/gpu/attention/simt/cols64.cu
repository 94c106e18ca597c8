// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionTileKernel attention_cols40() { return attention_tile_instance<Attention40, Spared<Attention40>>("attention_cols40", 0.6); }
AttentionTileKernel attention_cols48() { return attention_tile_instance<Attention48, Spared<Attention48>>("attention_cols48", 0.62); }
AttentionTileKernel attention_cols64_dense() { return attention_tile_instance_plain<Attention64Dense>("attention_cols64_dense", 0.74); }
AttentionTileKernel attention_cols64() {
    AttentionTileKernel kernel = attention_tile_instance<Attention64, Spared<Attention64>>("attention_cols64", 0.69);
    kernel.single = attention_single64();
    return kernel;
}

}  // namespace attile::gpu::simt
