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

// The same, after what it is launched with has been brought to the constant cache, which each launch finds cold.
template <class Params>
ATTILE_LANE_FN void await_kernel_ahead([[maybe_unused]] const Params &p) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    constexpr int kLineWords = 16;
    const int *const words = reinterpret_cast<const int *>(&p);
    int all = 0;
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(p) / 4); i += kLineWords) all ^= words[i];
    if (all == 0x2b992ddf) asm volatile("nanosleep.u32 0;");  // So that they are not left out; nothing hangs on it.
#endif
    await_kernel_ahead();
}

}  // namespace attile::gpu
