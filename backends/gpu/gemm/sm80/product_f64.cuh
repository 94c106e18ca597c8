// SPDX-License-Identifier: Apache-2.0
// Products of float64 by tensor cores and their way to D, and the accesses to shared memory of both kinds of sums.
#pragma once

#include "gemm/params.h"
#include "mma/ptx.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

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

// A warp's operands of float64, of a stage.
template <class Config>
struct F64Fragments {
    static constexpr int kRowTiles = Config::kWarpRows / 16, kColumnTiles = Config::kWarpColumns / 8;
    static_assert(Config::kDepth == 8, "one product a stage");
    double a[kRowTiles][2][2], b[kColumnTiles][2];

    __device__ __forceinline__ void fetch(uint32_t stage, int row, int col) {
#pragma unroll
        for (int i = 0; i < kRowTiles; ++i) {
#pragma unroll
            for (int half = 0; half < 2; ++half) Config::PanelA::fragment_f64(a[i][half], stage, row + 16 * i + 8 * half);
        }
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) Config::PanelB::fragment_f64(b[j], stage + Config::PanelA::kBytes, col + 8 * j);
    }
    __device__ __forceinline__ void multiply(double (&sums)[kRowTiles][Config::kWarpColumns / 2]) const {
#pragma unroll
        for (int j = 0; j < kColumnTiles; ++j) {
#pragma unroll
            for (int i = 0; i < kRowTiles; ++i) multiply_f64(sums[i] + 4 * j, a[i], b[j]);
        }
    }
};

// All steps of a block, operands read one step ahead. `advance` moves `stage` on to the next, `load` fills the stage before with what comes
// later.
template <class Config, class Sums, class Advance, class Load>
__device__ __forceinline__ void multiply_f64_ahead(Sums &sums, const uint32_t &stage, int row, int col, int steps, const Advance &advance,
                                                   const Load &load) {
    F64Fragments<Config> fragments[2];
    copy_wait<Config::kStages - 1>();
    __syncthreads();
    fragments[0].fetch(stage, row, col);
#pragma unroll 1
    for (int step = 0; step < steps; step += 2) {  // Behind an odd number comes a stage of zeros.
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            advance();
            copy_wait<Config::kStages - 2>();
            __syncthreads();  // The next stage has come for all, and this one has been read: it is filled anew.
            fragments[1 - half].fetch(stage, row, col);
            load();
            fragments[half].multiply(sums);
        }
    }
}

// Does nothing but scaling lie between the sums and D, whose rows are made of aligned pairs?
__device__ __forceinline__ bool is_in_whole_pairs(const GemmParams &p) {
    return p.vectorised != 0 && p.c.data == nullptr && p.bias.data == nullptr;
}
// Then they go there straight from the registers.
template <class Config>
__device__ __forceinline__ void store_pairs(const GemmParams &p, double *d,
                                            const double (&sums)[Config::kWarpRows / 16][Config::kWarpColumns / 2], int row, int col,
                                            int rows, int cols) {
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
    col += lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < Config::kWarpRows / 16; ++i) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int d_row = row + 16 * i + 8 * half + lane / 4;
            double *const to = d + d_row * p.d.row + col;
#pragma unroll
            for (int j = 0; j < Config::kWarpColumns / 8; ++j) {
                const double *const pair = sums[i] + 4 * j + 2 * half;
                if (d_row < rows && col + 8 * j < cols)
                    *reinterpret_cast<double2 *>(to + 8 * j) = make_double2(p.alpha * pair[0], p.alpha * pair[1]);
            }
        }
    }
}

}  // namespace attile::gpu::sm80
