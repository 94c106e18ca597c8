// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm80/instances.cuh"

namespace attile::gpu::sm80 {

BackwardKernels attention_backward_bf16_cols256() {
    return {"attention_backward_bf16_sm80_cols256",
            backward_kernel_of<BF16, BackwardKeys256>(),
            backward_kernel_of<BF16, BackwardRows256>(),
            {},
            backward_kernel_of<BF16, BackwardKeys256Modified>(),
            backward_kernel_of<BF16, BackwardRows256Modified>()};
}

}  // namespace attile::gpu::sm80
