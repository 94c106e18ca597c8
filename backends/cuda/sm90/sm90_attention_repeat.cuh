// SPDX-License-Identifier: Apache-2.0
// A warp's scores once more: 16 rows by a tile of keys, from Q and K in shared memory by mma.sync, for the rare step without maxima whose
// scores had to be looked at after all when they were gone. Unlike wgmma, a warp can do this alone. The sums are the same up to the order
// of summation.
#pragma once

#include <type_traits>

#include "sm90_attention_arguments.h"
#include "sm90_ptx.cuh"

namespace attile::sm90 {

__device__ __forceinline__ void load_matrices(uint32_t (&to)[4], uint32_t from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// `queries`: the warp's first row; `keys`: the tile's first. Both lie in panels of 128-byte rows, swizzled.
template <class Element, class Config>
__device__ __forceinline__ void repeat_scores(float (&s)[Config::kShape.keys / 2], uint32_t queries, uint32_t keys) {
    static_assert(std::is_same_v<Element, simt::BF16>, "f16 has no steps without maxima");
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads;
#pragma unroll
    for (int i = 0; i < Config::kShape.keys / 2; ++i) s[i] = 0;
    const uint32_t query_row = queries + (lane & 15) * 128, key_row = keys + ((lane & 7) + (lane >> 4) * 8) * 128;
#pragma unroll 1
    for (int i = 0; i < Config::kShape.depth / 16; ++i) {
        const int panel = i / 4, chunk = i % 4 * 2;
        uint32_t x[4], y[4];
        load_matrices(x, query_row + panel * Config::kShape.rows() * 128 + (((chunk + (lane >> 4)) ^ (lane & 7)) << 4));
#pragma unroll
        for (int j = 0; j < Config::kShape.keys / 16; ++j) {
            load_matrices(y, key_row + panel * Config::kShape.keys * 128 + j * 2048 + (((chunk + ((lane >> 3) & 1)) ^ (lane & 7)) << 4));
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                float *const f = s + 8 * j + 4 * h;
                asm volatile(
                    "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                    : "+f"(f[0]), "+f"(f[1]), "+f"(f[2]), "+f"(f[3])
                    : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[2 * h]), "r"(y[2 * h + 1]));
            }
        }
    }
}

}  // namespace attile::sm90
