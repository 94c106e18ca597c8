// SPDX-License-Identifier: Apache-2.0
// A cluster barrier in two steps, with other work between them, and stores to the shared memory of another block.
#pragma once

#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// As cluster_meet(): nothing is handed over but barriers made known by barrier_init_fence().
__device__ __forceinline__ void cluster_arrive() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }
__device__ __forceinline__ void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// Stores 16 bytes to the same address in another block, whose mbarrier counts them once they are there.
__device__ __forceinline__ void cluster_store_four(uint32_t to, uint32_t barrier, uint32_t block, const float (&x)[4]) {
    asm volatile(
        "{ .reg .b32 remote, counts; mapa.shared::cluster.u32 remote, %0, %2; mapa.shared::cluster.u32 counts, %1, %2;\n"
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [remote], {%3, %4, %5, %6}, [counts]; }" ::"r"(to),
        "r"(barrier), "r"(block), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
        : "memory");
}

}  // namespace attile::gpu::sm90
