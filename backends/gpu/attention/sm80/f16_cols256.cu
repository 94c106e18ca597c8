// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {

AttentionKernel attention_f16_cols256() {
    return {"attention_f16_sm80_cols256", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols256>),
            &AttentionCols256::kShape};
}

AttentionKernel attention_f16_cols256_modified() {
    return {"attention_f16_sm80_cols256_modified", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols256Modified>),
            &AttentionCols256Modified::kShape};
}

}  // namespace attile::gpu::sm80
