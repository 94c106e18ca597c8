// SPDX-License-Identifier: Apache-2.0
#include <attile/attile.h>

#include "attention_backward/mma/add_parts.cuh"

namespace attile::gpu::mma {

const void *backward_add_parts(int32_t dtype) {
    return dtype == ATTILE_F16 ? reinterpret_cast<const void *>(&attention_backward_add_parts<F16>)
                               : reinterpret_cast<const void *>(&attention_backward_add_parts<BF16>);
}

}  // namespace attile::gpu::mma
