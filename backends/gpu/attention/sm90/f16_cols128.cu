// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/kernel.cuh"
#include "attention/sm90/table.h"

namespace attile::sm90 {

AttentionKernel attention_f16_cols128() {
    return {"attention_f16_sm90_cols128", reinterpret_cast<const void *>(&attention_forward<simt::F16, AttentionCols128>),
            &AttentionCols128::kShape};
}

}  // namespace attile::sm90
