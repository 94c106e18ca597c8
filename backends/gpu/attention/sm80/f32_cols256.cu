// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {

AttentionKernel attention_f32_cols256() {
    return {"attention_f32_sm80_split_tf32_cols256", reinterpret_cast<const void *>(&attention_forward<float, AttentionTf32x3Cols256>),
            &AttentionTf32x3Cols256::kShape};
}

AttentionKernel attention_f32_cols256_modified() {
    return {"attention_f32_sm80_split_tf32_cols256_modified",
            reinterpret_cast<const void *>(&attention_forward<float, AttentionTf32x3Cols256Modified>),
            &AttentionTf32x3Cols256Modified::kShape};
}

}  // namespace attile::gpu::sm80
