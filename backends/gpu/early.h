// SPDX-License-Identifier: Apache-2.0
// Kernels that are launched early (Device::launch_early), so that they are there when the kernel ahead of them in the stream ends.
#pragma once

#include "compiler.h"

namespace attile::gpu {

// Returns when the kernel ahead has ended and its writes are seen. The kernel behind does not start before this one's last block ends.
ATTILE_LANE_FN void await_kernel_ahead_alone() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets the kernel behind start, whose blocks take the places of blocks of this one that are done; then returns when the one ahead has ended
// and its writes are seen. It comes before any access to global memory, or a third kernel could overtake the first.
ATTILE_LANE_FN void await_kernel_ahead() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents; griddepcontrol.wait;" ::: "memory");
#endif
}

}  // namespace attile::gpu
