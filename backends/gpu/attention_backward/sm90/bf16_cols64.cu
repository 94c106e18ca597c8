// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/kernel.cuh"
#include "attention_backward/sm90/table.h"

namespace attile::gpu::sm90 {

BackwardKernels attention_backward_bf16_cols64() {
    return {"attention_backward_bf16_sm90_cols64", reinterpret_cast<const void *>(&attention_backward<BF16, BackwardCols64>),
            reinterpret_cast<const void *>(&attention_backward_finish<BF16, BackwardCols64>), &BackwardCols64::kShape};
}

}  // namespace attile::gpu::sm90
