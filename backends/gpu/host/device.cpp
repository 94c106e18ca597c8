// SPDX-License-Identifier: Apache-2.0
// What a device answers to a launch that it cannot make.
#include "device.h"

#include "host/status.h"

namespace attile::gpu {

int32_t Device::launch_with(const LaunchExtras &, const void *, Dim3, Dim3, std::size_t, void **, Stream) {
    return fail(ATTILE_ERROR_INTERNAL, "this device launches no clusters, and no kernels that overlap with others");
}

int32_t Device::make_tensor_map(const void *, int32_t, const TensorMapShape &, TensorMap *) {
    return fail(ATTILE_ERROR_INTERNAL, "this device makes no tensor maps");
}

}  // namespace attile::gpu
