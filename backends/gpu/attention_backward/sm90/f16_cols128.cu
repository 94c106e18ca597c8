// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/sm90/kernel.cuh"
#include "attention_backward/sm90/table.h"

namespace attile::gpu::sm90 {

BackwardKernels attention_backward_f16_cols128() {
    return {"attention_backward_f16_sm90_cols128", reinterpret_cast<const void *>(&attention_backward<F16, BackwardCols128>),
            reinterpret_cast<const void *>(&attention_backward_finish<F16, BackwardCols128>), &BackwardCols128::kShape};
}

}  // namespace attile::gpu::sm90
