// SPDX-License-Identifier: Apache-2.0
// cp.async of 16, 8 or 4 bytes.
#pragma once

#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// kBytes to shared memory, of which, unless kWhole, only `bytes` are read and the rest become zero. Both addresses are multiples of kBytes.
template <int kBytes, bool kWhole>
__device__ __forceinline__ void copy_async_of(uint32_t to, const void *from, int bytes) {
    if constexpr (kBytes == 16 && kWhole)
        copy_async(to, from);
    else if constexpr (kBytes == 16)
        copy_async(to, from, bytes);
    else if constexpr (kWhole)
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "n"(kBytes)
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], %2, %3;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "n"(kBytes),
                     "r"(bytes)
                     : "memory");
}

}  // namespace attile::gpu::mma
