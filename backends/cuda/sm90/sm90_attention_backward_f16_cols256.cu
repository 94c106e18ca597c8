// SPDX-License-Identifier: Apache-2.0
#include "sm90_attention_backward_table.h"
#include "sm90_attention_backward_wide.cuh"

namespace attile::sm90 {

BackwardKernels attention_backward_f16_cols256() {
    return {"attention_backward_f16_sm90_cols256", reinterpret_cast<const void *>(&attention_backward_wide<simt::F16, BackwardCols256>),
            nullptr, &BackwardCols256::kShape};
}

}  // namespace attile::sm90
