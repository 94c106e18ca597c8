// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {

AttentionKernel attention_f16_cols64() {
    return {"attention_f16_sm80_cols64", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols64>),
            &AttentionCols64::kShape};
}

AttentionKernel attention_f16_cols64_modified() {
    return {"attention_f16_sm80_cols64_modified", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols64Modified>),
            &AttentionCols64Modified::kShape};
}

}  // namespace attile::gpu::sm80
