// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/kernel.cuh"
#include "attention/sm90/table.h"

namespace attile::gpu::sm90 {

AttentionKernel attention_f16_cols128_few() {
    return {"attention_f16_sm90_cols128_few", reinterpret_cast<const void *>(&attention_forward<F16, AttentionCols128Few>),
            &AttentionCols128Few::kShape};
}

}  // namespace attile::gpu::sm90
