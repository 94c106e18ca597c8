// SPDX-License-Identifier: Apache-2.0
// The end of exact sums that are stored modulo a number, a byte each. A thread has pairs of neighbours, eight columns apart; four lanes
// exchange what they have of 64 columns of a row, so that each stores 16 bytes of it.
#pragma once

#include "gemm/sm90/arguments.h"
#include "gemm/sm90/fuse.cuh"
#include "mma/ptx_words.cuh"
#include "numeric.h"

namespace attile::gpu::sm90 {

// All consumer threads call it. row and col: the tile's first.
template <int kColumns>
__device__ __forceinline__ void store_residues(const GemmArguments &p, const int32_t (&sums)[kColumns / 2], uint32_t batch_x,
                                               uint32_t batch_y, int64_t row, int64_t col) {
    const int thread = static_cast<int>(threadIdx.x) - kWarpgroupThreads, lane = thread % kWarpThreads;
    const uint32_t modulus = p.moduli.largest[quotient(batch_x * p.batch_y.divisor + batch_y, p.moduli.entries)] + 1u;
    const uint32_t inverse = 0xffffffffu / modulus;
    const auto residue = [&](int32_t sum) {
        const uint32_t positive = static_cast<uint32_t>(sum) ^ 0x80000000u;
        const uint32_t rest = positive - __umulhi(positive, inverse) * modulus;  // Below two moduli.
        return min(rest, rest - modulus);
    };
    const int64_t mine = row + thread / kWarpThreads * 16 + lane / 4, first = col + lane % 4 * kResidueRow;
    uint8_t *const to = static_cast<uint8_t *>(p.d.data) + batch_x * p.d.batch_x + batch_y * p.d.batch_y + mine * p.d.row + first;
    const int columns = static_cast<int>(min(p.n - first, int64_t{kColumns}));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int i = 0; i < kColumns / 64; ++i) {
            uint32_t words[4];
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const int32_t *const of = sums + 32 * i + 8 * w + 2 * half;
                const uint32_t low = __byte_perm(residue(of[0]), residue(of[1]), 0x0040);
                words[w] = __byte_perm(low, __byte_perm(residue(of[4]), residue(of[5]), 0x0040), 0x5410);
            }
            mma::transpose_quad(words, lane);
            if (mine + 8 * half >= p.m || 64 * i >= columns) continue;
            store_four(to + 8 * half * p.d.row + 64 * i,
                       {__byte_perm(words[0], words[1], 0x5410), __byte_perm(words[2], words[3], 0x5410),
                        __byte_perm(words[0], words[1], 0x7632), __byte_perm(words[2], words[3], 0x7632)});
        }
    }
}

}  // namespace attile::gpu::sm90
