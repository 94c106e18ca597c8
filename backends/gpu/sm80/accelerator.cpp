// SPDX-License-Identifier: Apache-2.0
// Which operation goes to which file: each says what it takes, and why it declines the rest.
#include "sm80/accelerator.h"

#include "attention/sm80/plan.h"
#include "attention/sm80/table.h"
#include "attention_backward/sm80/plan.h"
#include "gemm/sm80/plan.h"

namespace attile::gpu::sm80 {

const void *some_kernel() { return attention_bf16_cols64().kernel; }

int32_t Sm80Accelerator::query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    taken = false;
    return takes_gemm16_ || problem.a.dtype == ATTILE_F32 ? gemm_query(device, problem, support, taken, declined) : ATTILE_OK;
}

int32_t Sm80Accelerator::run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream) {
    return gemm_run(device, problem, workspace, stream);
}

int32_t Sm80Accelerator::query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    return attention_query(device, problem, support, taken, declined);
}

int32_t Sm80Accelerator::run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream) {
    return attention_run(device, problem, workspace, stream);
}

int32_t Sm80Accelerator::query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    return attention_backward_query(device, problem, support, taken, declined);
}

int32_t Sm80Accelerator::run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) {
    return attention_backward_run(device, problem, workspace, stream);
}

}  // namespace attile::gpu::sm80
