// SPDX-License-Identifier: Apache-2.0
// What an accelerator does with an operation it does not know, and a device with a launch it cannot make.
#include "host/accelerator.h"

#include "host/status.h"

namespace attile::gpu {

int32_t Accelerator::query(Device &, const attile_gemm_problem &, attile_support &, bool &taken, Declined &) {
    taken = false;
    return ATTILE_OK;
}

int32_t Accelerator::query(Device &, const attile_attention_problem &, attile_support &, bool &taken, Declined &) {
    taken = false;
    return ATTILE_OK;
}

int32_t Accelerator::query(Device &, const attile_attention_backward_problem &, attile_support &, bool &taken, Declined &) {
    taken = false;
    return ATTILE_OK;
}

int32_t Accelerator::run(Device &, const attile_gemm_problem &, Workspace &, Stream) {
    return fail(ATTILE_ERROR_INTERNAL, "gemm: run on an accelerator that declines it");
}

int32_t Accelerator::run(Device &, const attile_attention_problem &, Workspace &, Stream) {
    return fail(ATTILE_ERROR_INTERNAL, "attention: run on an accelerator that declines it");
}

int32_t Accelerator::run(Device &, const attile_attention_backward_problem &, Workspace &, Stream) {
    return fail(ATTILE_ERROR_INTERNAL, "attention_backward: run on an accelerator that declines it");
}

int32_t Device::launch_with(const LaunchExtras &, const void *, Dim3, Dim3, std::size_t, void **, Stream) {
    return fail(ATTILE_ERROR_INTERNAL, "this device launches no clusters, and no kernels that overlap with others");
}

int32_t Device::make_tensor_map(const void *, int32_t, const TensorMapShape &, TensorMap *) {
    return fail(ATTILE_ERROR_INTERNAL, "this device makes no tensor maps");
}

}  // namespace attile::gpu
