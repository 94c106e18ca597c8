// SPDX-License-Identifier: Apache-2.0
#include <attile/attile.h>

#include "attention_backward/mma/bias.cuh"

namespace attile::gpu::mma {
namespace {

template <class Element>
BackwardBiasKernels kernels() {
    return {reinterpret_cast<const void *>(&attention_backward_bias<Element>),
            reinterpret_cast<const void *>(&attention_backward_add_bias_parts<kWarpBiasBlocks>), bias_shared_bytes<kWarpBiasFound>(), 0.3,
            0};
}

}  // namespace

BackwardBiasKernels backward_bias_kernels(int32_t dtype) { return dtype == ATTILE_F16 ? kernels<F16>() : kernels<BF16>(); }

}  // namespace attile::gpu::mma
