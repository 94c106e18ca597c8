// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm80/instances.cuh"

namespace attile::gpu::sm80 {

BackwardKernels attention_backward_f16_cols64() {
    return {"attention_backward_f16_sm80_cols64",
            backward_kernel_of<F16, BackwardKeys64>(),
            backward_kernel_of<F16, BackwardRows64>(),
            {},
            backward_kernel_of<F16, BackwardKeys64Modified>(),
            backward_kernel_of<F16, BackwardRows64Modified>()};
}

}  // namespace attile::gpu::sm80
