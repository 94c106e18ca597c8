// SPDX-License-Identifier: Apache-2.0
#include "attention/sm80/kernel.cuh"
#include "attention/sm80/table.h"

namespace attile::gpu::sm80 {

AttentionKernel attention_f32_cols64() {
    return {"attention_f32_sm80_split_tf32_cols64", reinterpret_cast<const void *>(&attention_forward<float, AttentionTf32x3Cols64>),
            &AttentionTf32x3Cols64::kShape};
}

AttentionKernel attention_f32_cols64_modified() {
    return {"attention_f32_sm80_split_tf32_cols64_modified",
            reinterpret_cast<const void *>(&attention_forward<float, AttentionTf32x3Cols64Modified>),
            &AttentionTf32x3Cols64Modified::kShape};
}

}  // namespace attile::gpu::sm80
