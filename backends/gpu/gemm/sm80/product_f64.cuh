// SPDX-License-Identifier: Apache-2.0
// Products of float64 by tensor cores, and the accesses to shared memory of both kinds of sums.
#pragma once

#include "mma/ptx.cuh"

namespace attile::gpu::sm80 {

// sums += a b, 16 rows by 8 columns by 8 of depth, in fused multiply-adds. sums[0] and [1] are columns 2 (lane % 4) and the next of row
// lane / 4, [2] and [3] of the row eight below. a[0] and a[1] hold depths 2 (lane % 4) and the next of these two rows, b of column lane /
// 4: the instruction takes other depths of a lane, but any order of them will do that A and B share.
__device__ __forceinline__ void multiply_f64(double *sums, const double (&a)[2][2], const double (&b)[2]) {
#if __CUDA_ARCH__ >= 900
    asm("mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+d"(sums[0]), "+d"(sums[1]), "+d"(sums[2]), "+d"(sums[3])
        : "d"(a[0][0]), "d"(a[1][0]), "d"(a[0][1]), "d"(a[1][1]), "d"(b[0]), "d"(b[1]));
#else
#pragma unroll
    for (int depth = 0; depth < 2; ++depth) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
            asm("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0, %1}, {%2}, {%3}, {%0, %1};"
                : "+d"(sums[2 * half]), "+d"(sums[2 * half + 1])
                : "d"(a[half][depth]), "d"(b[depth]));
    }
#endif
}

__device__ __forceinline__ double load_shared_f64(uint32_t from) {
    double value;
    asm volatile("ld.shared.f64 %0, [%1];" : "=d"(value) : "r"(from) : "memory");
    return value;
}
__device__ __forceinline__ void load_shared_pair_f64(double (&to)[2], uint32_t from) {
    asm volatile("ld.shared.v2.f64 {%0, %1}, [%2];" : "=d"(to[0]), "=d"(to[1]) : "r"(from) : "memory");
}

__device__ __forceinline__ void store_shared_pair(uint32_t to, float first, float second) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};" ::"r"(to), "f"(first), "f"(second) : "memory");
}
__device__ __forceinline__ void store_shared_pair(uint32_t to, double first, double second) {
    asm volatile("st.shared.v2.f64 [%0], {%1, %2};" ::"r"(to), "d"(first), "d"(second) : "memory");
}

// One sum, or those of 16 bytes.
__device__ __forceinline__ void load_shared_sums(float (&to)[1], uint32_t from) {
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(to[0]) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_shared_sums(float (&to)[4], uint32_t from) {
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(to[0]), "=f"(to[1]), "=f"(to[2]), "=f"(to[3]) : "r"(from) : "memory");
}
__device__ __forceinline__ void load_shared_sums(double (&to)[1], uint32_t from) { to[0] = load_shared_f64(from); }
__device__ __forceinline__ void load_shared_sums(double (&to)[2], uint32_t from) { load_shared_pair_f64(to, from); }

}  // namespace attile::gpu::sm80
