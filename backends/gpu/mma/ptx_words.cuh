// SPDX-License-Identifier: Apache-2.0
// Words to and from shared memory by its own addresses (mma/ptx.cuh has what is longer).
#pragma once

#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// A word to shared memory, as copy_async() copies four.
__device__ __forceinline__ void copy_word_async(uint32_t to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
__device__ __forceinline__ void store_shared_word(uint32_t to, uint32_t from) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(from) : "memory");
}
__device__ __forceinline__ float load_shared_float(uint32_t from) {
    float to;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(to) : "r"(from) : "memory");
    return to;
}
// The transpose of an 8x8 matrix of 16-bit elements, of which lane 4 i + j has elements 2 j and the next of row i.
__device__ __forceinline__ uint32_t transposed(uint32_t pair) {
    uint32_t to;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(to) : "r"(pair));
    return to;
}

// Word i of lane j of four becomes word j of lane i.
__device__ __forceinline__ void transpose_quad(uint32_t (&words)[4], int lane) {
#pragma unroll
    for (int step = 1; step < 4; step *= 2) {
        const bool is_upper = (lane & step) != 0;
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if ((i & step) != 0) continue;
            const uint32_t other = __shfl_xor_sync(~0u, is_upper ? words[i] : words[i + step], step);
            (is_upper ? words[i] : words[i + step]) = other;
        }
    }
}

// sums = a b, of uint8, 16 rows by 8 columns, a depth of 32, or of 16 for few bytes. sums as multiply() has them. a holds of rows lane / 4
// and the one eight below four numbers from depth 4 (lane % 4) on, then, of a depth of 32, the same 16 further; b of column lane / 4
// likewise.
__device__ __forceinline__ void multiply_bytes(int32_t (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %10, %10, %10};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(0));
}
__device__ __forceinline__ void multiply_few_bytes(int32_t (&sums)[4], uint32_t a0, uint32_t a1, uint32_t b) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %7, %7, %7};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a0), "r"(a1), "r"(b), "r"(0));
}

// word & mask ^ change, which the compiler makes two instructions of.
__device__ __forceinline__ uint32_t masked_changed(uint32_t word, uint32_t mask, uint32_t change) {
    uint32_t to;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(to) : "r"(word), "r"(mask), "r"(change));
    return to;
}

}  // namespace attile::gpu::mma
