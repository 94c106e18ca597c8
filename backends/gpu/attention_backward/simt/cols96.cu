// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionBackwardTileKernel attention_backward_cols96() {
    return attention_backward_instance<Backward96Plain, Backward96Modified>("attention_backward_cols96", 0.5);
}

}  // namespace attile::gpu::simt
