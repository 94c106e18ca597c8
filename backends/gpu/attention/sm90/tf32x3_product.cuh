// SPDX-License-Identifier: Apache-2.0
// A warpgroup's product of float32 by tf32x3 (mma/tf32x3.cuh): 64 rows by 64 columns. a comes from registers, as the
// fragments of mma.sync's 16 by 8 for each warp; b from shared memory, contiguous along the depth, high parts before low ones. Thread t of
// warp w gets sums of rows 16 w + t / 4 and that + 8: sums[4 j] and the next are columns 8 j + 2 (t % 4) and the next of the first row,
// sums[4 j + 2] and the next those of the second.
#pragma once

#include "mma/tf32x3.cuh"
#include "sm90/ptx.cuh"
#include "sm90/wgmma.cuh"

namespace attile::gpu::sm90 {

__device__ __forceinline__ void multiply_piece_step(float (&sums)[32], const uint32_t (&a)[4], uint64_t b, int keeps) {
    asm volatile(
        "{ .reg .pred p; setp.ne.b32 p, %37, 0; wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 "
        "{" ATTILE_WGMMA_SUMS_32
        "}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1; }"
        : ATTILE_WGMMA_BIND_32(0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(keeps));
}

// Pins the fragments before products are issued: computing one of them between two products would make the second wait for the first.
template <int kSteps>
__device__ __forceinline__ void keep_in_registers(Tf32x3Rows<kSteps> &a) {
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a.high[s][i]), "+r"(a.low[s][i])::"memory");
    }
}

// Issues sums = a b for kSteps steps of eight of depth, the small terms first; product_wait() ends it.
template <int kSteps>
__device__ __forceinline__ void multiply_piece(float (&sums)[32], Tf32x3Rows<kSteps> &a, uint32_t piece, int low_bytes) {
    constexpr int kStep = 32 >> 4;  // Eight of depth, in units of a descriptor's address.
    const uint64_t high = product_operand(piece, 16), low = high + static_cast<uint64_t>(low_bytes >> 4);
    keep_in_registers(sums);
    keep_in_registers(a);
    product_fence();
#pragma unroll
    for (int s = 0; s < kSteps; ++s) multiply_piece_step(sums, a.low[s], high + s * kStep, s > 0);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) multiply_piece_step(sums, a.high[s], low + s * kStep, 1);
#pragma unroll
    for (int s = 0; s < kSteps; ++s) multiply_piece_step(sums, a.high[s], high + s * kStep, 1);
    product_commit();
}

}  // namespace attile::gpu::sm90
