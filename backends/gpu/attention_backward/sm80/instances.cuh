// SPDX-License-Identifier: Apache-2.0
// Short names for instances of the kernels of attention's gradients.
#pragma once

#include "attention_backward/sm80/kernel.cuh"
#include "attention_backward/sm80/table.h"

namespace attile::gpu::sm80 {

template <class Element, class Config>
BackwardKernel backward_kernel_of() {
    static_assert(kBackwardAllottedRows % Config::kShape.rows() == 0 && kBackwardAllottedRows % Config::kShape.tile() == 0,
                  "rows are allotted for every tile");
    return {reinterpret_cast<const void *>(&attention_backward<Element, Config>), &Config::kShape};
}

}  // namespace attile::gpu::sm80
