// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/table.h"
#include "attention_backward/sm90/wide.cuh"

namespace attile::gpu::sm90 {

BackwardKernels attention_backward_bf16_cols256() {
    return {"attention_backward_bf16_sm90_cols256", reinterpret_cast<const void *>(&attention_backward_wide<BF16, BackwardCols256>),
            nullptr, &BackwardCols256::kShape};
}

}  // namespace attile::gpu::sm90
