// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/bias.h"

#include <attile/attile.h>

#include "attention_backward/sm90/bias.cuh"

namespace attile::gpu::sm90 {
namespace {

template <class Element>
mma::BackwardBiasKernels kernels() {
    return {reinterpret_cast<const void *>(&attention_backward_bias<Element>),
            reinterpret_cast<const void *>(&mma::attention_backward_add_bias_parts<mma::kGroupBiasBlocks>),
            mma::bias_shared_bytes<mma::kGroupBiasFound>(), 0.5, 1.4e-6};
}

}  // namespace

mma::BackwardBiasKernels hopper_bias_kernels(int32_t dtype) { return dtype == ATTILE_F16 ? kernels<F16>() : kernels<BF16>(); }

}  // namespace attile::gpu::sm90
