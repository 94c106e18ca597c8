// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionBackwardTileKernel attention_backward_cols256() {
    return attention_backward_instance<Backward256Plain, Backward256Plain>("attention_backward_cols256", 0.43);
}

}  // namespace attile::gpu::simt
