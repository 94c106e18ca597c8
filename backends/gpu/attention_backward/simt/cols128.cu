// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionBackwardTileKernel attention_backward_cols128() {
    return attention_backward_instance<Backward128Plain, Backward128Modified>("attention_backward_cols128", 0.5);
}

}  // namespace attile::gpu::simt
