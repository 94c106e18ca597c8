// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionBackwardTileKernel attention_backward_cols64() {
    return attention_backward_instance<Backward64Plain, Backward64Half>("attention_backward_cols64", 0.5);
}

}  // namespace attile::gpu::simt
