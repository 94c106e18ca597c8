// SPDX-License-Identifier: Apache-2.0
// The kernels of a bias's gradient whose products are Hopper's (attention_backward/sm90/bias.cuh), as the host sees them.
#pragma once

#include "attention_backward/mma/bias.h"

namespace attile::gpu::sm90 {

mma::BackwardBiasKernels hopper_bias_kernels(int32_t dtype);

}  // namespace attile::gpu::sm90
