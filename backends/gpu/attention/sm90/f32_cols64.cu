// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/tf32x3_kernel.cuh"
#include "attention/sm90/tf32x3_table.h"

namespace attile::gpu::sm90 {

AttentionTf32x3Kernel attention_f32_cols64() {
    return {"attention_f32_sm90_split_tf32_cols64", reinterpret_cast<const void *>(&attention_tf32x3_forward<AttentionTf32x3Cols64>),
            &AttentionTf32x3Cols64::kShape};
}

}  // namespace attile::gpu::sm90
