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

// word & mask ^ change, which the compiler makes two instructions of.
__device__ __forceinline__ uint32_t masked_changed(uint32_t word, uint32_t mask, uint32_t change) {
    uint32_t to;
    asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(to) : "r"(word), "r"(mask), "r"(change));
    return to;
}

}  // namespace attile::gpu::mma
