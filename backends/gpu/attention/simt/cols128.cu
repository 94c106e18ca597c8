// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionTileKernel attention_cols80() { return attention_tile_instance<Attention80>("attention_cols80", 0.55); }
AttentionTileKernel attention_cols96() { return attention_tile_instance<Attention96>("attention_cols96", 0.58); }
AttentionTileKernel attention_cols112() { return attention_tile_instance<Attention112>("attention_cols112", 0.6); }
AttentionTileKernel attention_cols128() { return attention_tile_instance<Attention128>("attention_cols128", 0.63); }

}  // namespace attile::gpu::simt
