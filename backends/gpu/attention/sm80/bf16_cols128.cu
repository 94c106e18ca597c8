// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {

AttentionKernel attention_bf16_cols128() {
    return {"attention_bf16_sm80_cols128", reinterpret_cast<const void *>(&attention_forward<BF16, AttentionCols128>),
            &AttentionCols128::kShape};
}

AttentionKernel attention_bf16_cols128_modified() {
    return {"attention_bf16_sm80_cols128_modified", reinterpret_cast<const void *>(&attention_forward<BF16, AttentionCols128Modified>),
            &AttentionCols128Modified::kShape};
}

}  // namespace attile::gpu::sm80
