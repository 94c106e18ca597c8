// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm80/instances.cuh"

namespace attile::gpu::sm80 {

BackwardKernels attention_backward_f16_cols128() {
    return {"attention_backward_f16_sm80_cols128",
            backward_kernel_of<F16, BackwardKeys128>(),
            backward_kernel_of<F16, BackwardRows128>(),
            backward_kernel_of<F16, BackwardKeys128Small>(),
            backward_kernel_of<F16, BackwardKeys128Modified>(),
            backward_kernel_of<F16, BackwardRows128Modified>()};
}

}  // namespace attile::gpu::sm80
