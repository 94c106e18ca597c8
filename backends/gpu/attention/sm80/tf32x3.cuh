// SPDX-License-Identifier: Apache-2.0
// The two products of attention in float32 by tf32x3 (mma/tf32x3.cuh). Operands are in shared memory as float32 and are split in registers.
// The tensor cores sum kSteps steps of depth before the result is added to the running sums.
//
// Q K^T: a row of 16 bytes is four numbers of a fragment, so the matrix loads of 16-bit elements (ldmatrix) can be used. P V: the depth is
// keys, whose order in a step is free as long as P and V agree: a thread's P of keys 2 i and 2 i + 1 is what it has as scores. So is the
// order of V's columns: eight columns of a product are every fourth of 32, so that a thread loads four products' share by 16 bytes.
#pragma once

#include "attention/sm80/shapes.h"
#include "mma/shared_rows.cuh"
#include "mma/tf32x3.cuh"

namespace attile::gpu::sm80 {

using namespace mma;

template <class Config>
struct AttentionTf32x3 {
    static constexpr int kKeys = Config::kShape.keys, kDepth = Config::kShape.depth, kColumns = Config::kShape.columns;
    static constexpr int kRowTiles = Config::kShape.row_tiles;
    static constexpr int kSteps = 1;
    using DepthRows = SharedRows<2 * kDepth>;
    using ColumnRows = SharedRows<2 * kColumns>;
    using Scores = float (&)[kRowTiles][kKeys / 2];
    using Outputs = float (&)[kRowTiles][kColumns / 2];

    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }

    // s = Q K^T: of the warp's rows of Q, from row `first_row` on, and a tile of K.
    static __device__ __forceinline__ void scores(Scores s, uint32_t queries, int first_row, uint32_t keys, int head_dim) {
        // The four matrices of K that one ldmatrix loads. With one step: eight keys by four of depth, the next four of depth, then both for
        // the next eight keys. Otherwise: eight keys by four times four of depth.
        constexpr int kKeysAtOnce = 16 / kSteps;
        const int of_eight = lane() & 7, eighth = lane() >> 3;
        uint32_t q = queries + DepthRows::at(first_row + (lane() & 15), lane() >> 4);
        uint32_t k = keys + (kSteps == 1 ? DepthRows::at(of_eight + (eighth >> 1) * 8, eighth & 1) : DepthRows::at(of_eight, eighth));
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (float &x : s[t]) x = 0;
        }
        // 128 bytes of depth at a time: within them the swizzle is a constant.
#pragma unroll 1
        for (int depth = 0; depth < head_dim; depth += 32) {
#pragma unroll
            for (int chunk = 0; chunk < 8; chunk += 2 * kSteps) {
                Tf32x3Rows<kSteps> a[kRowTiles];
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
                    for (int i = 0; i < kSteps; ++i) {
                        uint32_t x[4];
                        load_matrices(x, DepthRows::step(q, chunk + 2 * i) + t * 16 * DepthRows::kBytes);
                        tf32x3_parts(x, a[t].high[i], a[t].low[i]);
                    }
                }
#pragma unroll
                for (int j = 0; j < kKeys; j += kKeysAtOnce) {
                    uint32_t x[4];
                    load_matrices(x, DepthRows::step(k, chunk) + j * DepthRows::kBytes);
#pragma unroll
                    for (int n = 0; n < kKeysAtOnce / 8; ++n) {
                        Tf32x3Columns<kSteps> b;
#pragma unroll
                        for (int i = 0; i < 2 * kSteps; ++i) tf32x3_parts(x[2 * n + i], b.high[i / 2][i % 2], b.low[i / 2][i % 2]);
                        float *sums[kRowTiles];
#pragma unroll
                        for (int t = 0; t < kRowTiles; ++t) sums[t] = s[t] + (j + 8 * n) / 2;
                        multiply_tf32x3<kRowTiles, kSteps>(sums, a, b);
                    }
                }
            }
            q += 128;
            k += 128;
        }
    }

    // o += P V. p as the scores lie; o: columns 32 g + 8 (lane % 4) + i and, four further, are o[16 g + 4 i] and o[16 g + 4 i + 1] of row
    // lane / 4, the next two of the row eight below.
    static __device__ __forceinline__ void values(Outputs o, const float (&p)[kRowTiles][kKeys / 2], uint32_t values, int head_dim_v) {
        const int quarter = lane() & 3, eighth = lane() >> 2;
        const uint32_t even = values + ColumnRows::at(2 * quarter, eighth), odd = values + ColumnRows::at(2 * quarter + 1, eighth);
#pragma unroll
        for (int part = 0; part < kKeys / (8 * kSteps); ++part) {
            Tf32x3Rows<kSteps> a[kRowTiles];
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
                for (int i = 0; i < kSteps; ++i) {
                    const float *const x = p[t] + 4 * (kSteps * part + i);
                    const uint32_t fragment[4] = {__float_as_uint(x[0]), __float_as_uint(x[2]), __float_as_uint(x[1]),
                                                  __float_as_uint(x[3])};
                    tf32x3_parts(fragment, a[t].high[i], a[t].low[i]);
                }
            }
#pragma unroll
            for (int g = 0; g < kColumns / 32; ++g) {
                if (32 * g >= head_dim_v) break;
                uint32_t x[kSteps][2][4];
#pragma unroll
                for (int i = 0; i < kSteps; ++i) {
                    const int at = (kSteps * part + i) * 8 * ColumnRows::kBytes + 128 * g;
                    load_shared(x[i][0], even + at);
                    load_shared(x[i][1], odd + at);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    Tf32x3Columns<kSteps> b;
#pragma unroll
                    for (int i = 0; i < kSteps; ++i) {
#pragma unroll
                        for (int r = 0; r < 2; ++r) tf32x3_parts(x[i][r][e], b.high[i][r], b.low[i][r]);
                    }
                    float *sums[kRowTiles];
#pragma unroll
                    for (int t = 0; t < kRowTiles; ++t) sums[t] = o[t] + 16 * g + 4 * e;
                    multiply_tf32x3<kRowTiles, kSteps>(sums, a, b);
                }
            }
        }
    }

    // Computes scores that are not finite again by ordinary arithmetic, `factor` included.
    static __device__ __forceinline__ void repair_scores(Scores s, uint32_t queries, int first_row, uint32_t keys, int head_dim,
                                                         float factor) {
        bool is_whole = true;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) is_whole = is_whole && !has_no_numbers(s[t]);
        if (__all_sync(~0u, is_whole)) return;
        constexpr int kCount = kKeys / 2;
        const int row = first_row + (lane() >> 2), key = 2 * (lane() & 3);
#pragma unroll 1
        for (int i = 0; i < kRowTiles * kCount; ++i) {
            float x = 0;
#pragma unroll
            for (int j = 0; j < kRowTiles * kCount; ++j) x = i == j ? s[j / kCount][j % kCount] : x;
            if (is_number(x)) continue;
            const int of_tile = i % kCount;
            x = 0;
#pragma unroll 1
            for (int chunk = 0; 4 * chunk < head_dim; ++chunk) {
                uint32_t a[4], b[4];
                load_shared(a, queries + DepthRows::at(row + i / kCount * 16 + (of_tile & 2) * 4, chunk));
                load_shared(b, keys + DepthRows::at(key + of_tile / 4 * 8 + (of_tile & 1), chunk));
#pragma unroll
                for (int d = 0; d < 4; ++d) x = __builtin_fmaf(__uint_as_float(a[d]) * factor, __uint_as_float(b[d]), x);
            }
#pragma unroll
            for (int j = 0; j < kRowTiles * kCount; ++j) s[j / kCount][j % kCount] = i == j ? x : s[j / kCount][j % kCount];
        }
    }
};

}  // namespace attile::gpu::sm80
