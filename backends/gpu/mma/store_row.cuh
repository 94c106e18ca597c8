// SPDX-License-Identifier: Apache-2.0
// Stores a row of sums, which products leave in four lanes, from registers: 16 bytes a lane, without shared memory.
#pragma once

#include "lane.h"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Adds 0 times x to `sum`, for both halves: NaN where x is infinite or NaN.
template <class Element>
__device__ __forceinline__ uint32_t add_product_with_zero(uint32_t x, uint32_t sum) {
    uint32_t y;
    if constexpr (std::is_same_v<Element, F16>)
        asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(0), "r"(sum));
    else
        asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(y) : "r"(x), "r"(0), "r"(sum));
    return y;
}
// One row's share of the sums in this thread: columns 8 j + 2 (lane % 4) and the next are o[4 j] and o[4 j + 1]. Returns whether all of
// it came out finite.
template <class Element, int kColumns>
__device__ __forceinline__ bool store_row(Element *row, int columns, bool is_there, const float *o, float factor) {
    const int quarter = lane_index() & 3;
    uint32_t zeros = 0;
    static_assert(kColumns % 32 == 0, "four 8-column blocks at a time");
#pragma unroll
    for (int g = 0; g < kColumns / 32; ++g) {
        // The four lanes of a row exchange their shares of four blocks, so that each has one block of 16 bytes.
        uint32_t x[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) x[j] = narrow_pair<Element>(o[16 * g + 4 * j] * factor, o[16 * g + 4 * j + 1] * factor);
#pragma unroll
        for (int j = 0; j < 4; ++j) zeros = add_product_with_zero<Element>(x[j], zeros);
        uint32_t y0 = quarter & 1 ? x[0] : x[1], y1 = quarter & 1 ? x[2] : x[3];
        y0 = __shfl_xor_sync(~0u, y0, 1);
        y1 = __shfl_xor_sync(~0u, y1, 1);
        if (quarter & 1) {
            x[0] = y0;
            x[2] = y1;
        } else {
            x[1] = y0;
            x[3] = y1;
        }
        y0 = quarter & 2 ? x[0] : x[2];
        y1 = quarter & 2 ? x[1] : x[3];
        y0 = __shfl_xor_sync(~0u, y0, 2);
        y1 = __shfl_xor_sync(~0u, y1, 2);
        if (quarter & 2) {
            x[0] = y0;
            x[1] = y1;
        } else {
            x[2] = y0;
            x[3] = y1;
        }
        const int column = 32 * g + 8 * quarter;
        if (is_there && column < columns) *reinterpret_cast<uint4 *>(row + column) = make_uint4(x[0], x[1], x[2], x[3]);
    }
    return (zeros & 0x7fff7fffu) == 0;
}
template <int kColumns>
__device__ __forceinline__ void store_row_f32(float *row, int columns, bool is_there, const float *o, float factor) {
    const int first = 2 * (lane_index() & 3);
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j) {
        if (is_there && 8 * j < columns)
            *reinterpret_cast<float2 *>(row + 8 * j + first) = make_float2(o[4 * j] * factor, o[4 * j + 1] * factor);
    }
}
// The same where columns 32 g + 8 (lane % 4) + i and, four further, are o[16 g + 4 i] and o[16 g + 4 i + 1]. `columns`: a multiple of 4.
template <int kColumns>
__device__ __forceinline__ void store_row_by_fours(float *row, int columns, bool is_there, const float *o, float factor) {
#pragma unroll
    for (int g = 0; g < kColumns / 32; ++g) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int column = 32 * g + 8 * (lane_index() & 3) + 4 * half;
            const float *const x = o + 16 * g + half;
            if (is_there && column < columns)
                *reinterpret_cast<float4 *>(row + column) = make_float4(x[0] * factor, x[4] * factor, x[8] * factor, x[12] * factor);
        }
    }
}

}  // namespace attile::gpu::mma
