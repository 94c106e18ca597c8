// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace attile::gpu {

// The address of some kernel, to ask the runtime whether this build has code for a device.
const void *some_kernel();

}  // namespace attile::gpu
