// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/instances.cuh"

namespace attile::gpu::simt {

AttentionBackwardTileKernel attention_backward_cols32() {
    return attention_backward_instance<Backward32Plain, Backward32Half>("attention_backward_cols32", 0.5);
}

}  // namespace attile::gpu::simt
