// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/split_kernel.cuh"
#include "attention/sm90/split_table.h"

namespace attile::gpu::sm90 {

AttentionSplitKernel attention_f32_cols128() {
    return {"attention_f32_sm90_split_tf32_cols128", reinterpret_cast<const void *>(&attention_split_forward<AttentionSplit128>),
            &AttentionSplit128::kShape};
}

}  // namespace attile::gpu::sm90
