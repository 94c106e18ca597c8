// SPDX-License-Identifier: Apache-2.0
// Instructions of compute capability 8.0 and later that CUDA C++ has no name for, or only in headers that are slow to compile: cp.async,
// ldmatrix, mma.sync. Addresses of shared memory are 32-bit, in the block's own
// window. Toolkits from 11.8 on compile it.
#pragma once

#include <cstdint>
#include <type_traits>

#include "numeric.h"

namespace attile::gpu::mma {

inline constexpr int kWarpThreads = 32;

__device__ __forceinline__ uint32_t shared_address(const void *pointer) { return static_cast<uint32_t>(__cvta_generic_to_shared(pointer)); }

// A value that is the same in all of the warp, in a form that the compiler recognises: loops and addresses that depend on it live in
// uniform registers, from which descriptors are made.
template <class T>
__device__ __forceinline__ T warp_uniform(T value) {
    return __shfl_sync(~0u, value, 0);
}

// Keeps the compiler from computing all addresses that depend on this one ahead of a loop, which would cost a register each.
__device__ __forceinline__ uint32_t renewed(uint32_t value) {
    asm volatile("" : "+r"(value));
    return value;
}

// Two numbers narrowed to one register, the first in the low half.
template <class Element>
__device__ __forceinline__ uint32_t narrow_pair(float low, float high) {
    uint32_t pair;
    if constexpr (std::is_same_v<Element, F16>)
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    else
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

// And widened again.
template <class Element>
__device__ __forceinline__ float2 widen_pair(uint32_t pair) {
    if constexpr (std::is_same_v<Element, F16>) {
        float2 wide;
        asm("{.reg .f16 a, b; mov.b32 {a, b}, %2; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}" : "=f"(wide.x), "=f"(wide.y) : "r"(pair));
        return wide;
    } else {
        return make_float2(__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u));
    }
}

// 16 bytes to shared memory, of which only `bytes` are read and the rest become zero. Both addresses are multiples of 16; with no bytes
// `from` may be anything.
__device__ __forceinline__ void copy_async(uint32_t to, const void *from, int bytes) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_async(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(to), "l"(__cvta_generic_to_global(from)) : "memory");
}
// For what a multiprocessor will copy again soon: through its L1 cache.
__device__ __forceinline__ void copy_async_cached(uint32_t to, const void *from, int bytes) {
    asm volatile("cp.async.ca.shared.global.L2::128B [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}
__device__ __forceinline__ void copy_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most kPending of this thread's groups of copies are in flight.
template <int kPending>
__device__ __forceinline__ void copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

// 16 bytes of shared memory, at a multiple of 16.
__device__ __forceinline__ void load_shared(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3]) : "r"(from) : "memory");
}

__device__ __forceinline__ void store_shared(uint32_t to, const uint32_t (&from)[4]) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]) : "memory");
}

// Four 8x8 matrices of 16-bit elements from shared memory; lane 8 i + j gives the address of row j of matrix i. A lane gets elements
// 2 (lane % 4) and the next of row lane / 4 of each; _turned: of each one's transpose.
__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
__device__ __forceinline__ void load_matrices_turned(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// sums += a b, 16 rows by 8 columns by 16 of depth. sums[0] and [1] are columns 2 (lane % 4) and the next of row lane / 4, [2] and [3] of
// the row eight below; a holds for the same rows, alternating, depths 2 (lane % 4) and the next, then those eight further; b0 and b1 hold
// depths likewise for column lane / 4.
template <class Element>
__device__ __forceinline__ void multiply(float *sums, const uint32_t *a, uint32_t b0, uint32_t b1) {
    if constexpr (std::is_same_v<Element, F16>)
        asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    else
        asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// The same with a depth of 8: a has one register for each row, b one.
template <class Element>
__device__ __forceinline__ void multiply_half(float *sums, uint32_t a0, uint32_t a1, uint32_t b) {
    if constexpr (std::is_same_v<Element, F16>)
        asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a0), "r"(a1), "r"(b));
    else
        asm("mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
            : "r"(a0), "r"(a1), "r"(b));
}

}  // namespace attile::gpu::mma
