// SPDX-License-Identifier: Apache-2.0
// Which operation goes to which file: each says what it takes, and why it declines the rest.
#include "sm90/accelerator.h"

#include "attention/sm90/plan.h"
#include "attention/sm90/tf32x3_plan.h"
#include "attention_backward/sm90/plan.h"
#include "gemm/sm90/run.h"

namespace attile::gpu::sm90 {

int32_t Sm90Accelerator::query(Device &device, const attile_gemm_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    return gemm_query(device, problem, support, taken, declined);
}

int32_t Sm90Accelerator::run(Device &device, const attile_gemm_problem &problem, Workspace &workspace, Stream stream) {
    return gemm_run(device, problem, workspace, stream);
}

int32_t Sm90Accelerator::query(Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    return problem.q.dtype == ATTILE_F32 ? attention_tf32x3_query(device, problem, support, taken, declined)
                                         : attention_query(device, problem, support, taken, declined);
}

int32_t Sm90Accelerator::run(Device &device, const attile_attention_problem &problem, Workspace &workspace, Stream stream) {
    return problem.q.dtype == ATTILE_F32 ? attention_tf32x3_run(device, problem, workspace, stream)
                                         : attention_run(device, problem, workspace, stream);
}

int32_t Sm90Accelerator::query(Device &device, const attile_attention_backward_problem &problem, attile_support &support, bool &taken,
                               Declined &declined) {
    return attention_backward_query(device, problem, support, taken, declined);
}

int32_t Sm90Accelerator::run(Device &device, const attile_attention_backward_problem &problem, Workspace &workspace, Stream stream) {
    return attention_backward_run(device, problem, workspace, stream);
}

}  // namespace attile::gpu::sm90
