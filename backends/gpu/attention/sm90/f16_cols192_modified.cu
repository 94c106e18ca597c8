// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/kernel.cuh"
#include "attention/sm90/table.h"

namespace attile::gpu::sm90 {

AttentionKernel attention_f16_cols192_modified() {
    return {"attention_f16_sm90_cols192_modified", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols192Modified>),
            &AttentionCols192Modified::kShape};
}

}  // namespace attile::gpu::sm90
