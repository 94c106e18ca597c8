// SPDX-License-Identifier: Apache-2.0
// residues.cu by tensor cores: residues are a product of matrices of uint8, moduli by digits of integers, and a reduction. A block takes
// tiles of 16 lines by 128 of depth; each thread makes digits of eight numbers, 16 bytes each, in 36 KB of shared memory, from which a warp
// multiplies 32 numbers of a line at a time. A lane then has eight neighbours of each of its moduli, and stores them at once. 256 threads.
// Bound: integer arithmetic, about 5 operations a residue.
#pragma once

#include "gemm/exact/digits.h"
#include "gemm/exact/tile.h"
#include "mma/ptx_words.cuh"

namespace attile::gpu::exact {

constexpr int kWarps = kResidueThreads / kLanes, kLinesOfWarp = kResidueLines / kWarps, kRun = 8, kAtOnce = 4 * kRun,
              kParts = kResidueDepth / kAtOnce;                            // Of a line.
constexpr int kNumbers = kResidueLines * kResidueDepth / kResidueThreads;  // Of a thread.
constexpr int kLineWords = 4 * kResidueDepth + 4;                          // Lines begin at other banks.

// Where a line has a number's digits: of those that a warp reads together each lies in other banks.
ATTILE_LANE_FN int place_of(int k) { return k ^ (k / kRun % 4) << 1; }

// Four weights of digits of uint8; the last four are of a digit that is 1. What is made so is congruent to the integer, and more by half a
// modulus.
template <int kWords>
ATTILE_LANE_FN uint32_t weights_of(const ResidueModulus &of, int word) {
    const auto weight = [&](int digit) {
        const int32_t value = static_cast<int8_t>(of.weights[digit / 4] >> digit % 4 * 8);
        return static_cast<uint32_t>(value < 0 ? value + static_cast<int32_t>(of.p) : value);
    };
    if (word == 3) return (of.p + of.p / 2 - weight(4 * kWords - 1) * 128 % of.p) % of.p;
    uint32_t four = 0;
    for (int i = 0; word < kWords && i < 4; ++i) four |= weight(4 * word + i) << 8 * i;
    return four;
}

template <class T, int kWords>
__global__ void ATTILE_LAUNCH_BOUNDS(kResidueThreads, 4) make_residues_mma(const ResidueParams p) {
    __shared__ uint4 digits_of_tile[kResidueLines * kLineWords / 4];
    __shared__ uint4 moduli[kMostModuli];  // p, its inverse, its half in each byte.
    __shared__ LinesOfTile<T> lines;
    uint32_t *const words = reinterpret_cast<uint32_t *>(digits_of_tile);
    const int thread = static_cast<int>(threadIdx.x), lane = lane_index(), quad = lane / 4, of_quad = lane % 4;
    if (thread < kMostModuli) moduli[thread] = {p.modulus[thread].p, p.modulus[thread].inverse, p.modulus[thread].p / 2 * 0x01010101u, 0};
    // Rows of the products: moduli `quad`, the one eight further and the one sixteen further. Those beyond the last are of no digits.
    uint32_t weights[3];
#pragma unroll
    for (int i = 0; i < 3; ++i) weights[i] = quad + 8 * i < p.moduli ? weights_of<kWords>(p.modulus[quad + 8 * i], of_quad) : 0;
    int columns_at[kRun / 2];  // Of the products, from a part's first number on.
#pragma unroll
    for (int n = 0; n < kRun / 2; ++n) columns_at[n] = place_of(quad / 2 * kRun + n * 2 + quad % 2) * 4;
    const uint32_t tiles = tiles_of(p);
    for (uint32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile tile(p, number);
        const ResidueSide &side = tile.side;
        const Numbers &of = side.numbers;
        const int64_t first = tile.first, first_depth = tile.first_depth, all = lines_of(of);
        const int left = static_cast<int>(min(p.depth - first_depth, int64_t{kResidueDepth}));
        if (thread < kResidueLines) lines.begin(thread, tile);
        __syncthreads();
        // A thread's numbers are of one line or of one depth.
        const bool along_outer = of.along_outer != 0;
        const int line = along_outer ? thread % kResidueLines : thread / kResidueDepth,
                  next_line = along_outer ? 0 : kResidueThreads / kResidueDepth;
        const int place = along_outer ? thread / kResidueLines : thread % kResidueDepth,
                  next_place = along_outer ? kResidueThreads / kResidueLines : 0;
        T numbers[kNumbers];
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) {
            const T *const from = lines.starts[line + i * next_line];
            const int k = place + i * next_place;
            numbers[i] = from != nullptr && k < left ? from[k * of.depth] : T(0);
        }
#pragma unroll
        for (int i = 0; i < kNumbers; ++i) {
            const int l = line + i * next_line, k = place + i * next_place;
            uint32_t digits[kWords] = {};
            if (digits_of<true>(lines.scales[l] != lines.kAllZeros ? numbers[i] : T(0), lines.scales[l], digits)) lines.add_rounded(l, k);
            uint4 four = {digits[0], digits[1], 0, 1};
            if constexpr (kWords > 2) four.z = digits[2];
            digits_of_tile[l * (kLineWords / 4) + place_of(k)] = four;
        }
        __syncthreads();
        if (thread < kResidueLines) lines.keep_rounded(thread, tile, p.first + first_depth);
#pragma unroll 1
        for (int part = 0; part < kLinesOfWarp * kParts; ++part) {
            const int l = lane_group_index() * kLinesOfWarp + part / kParts, from = part % kParts * kAtOnce;
            const int64_t depth = first_depth + from + of_quad * kRun;  // Of the lane's first number.
            int8_t *const to = side.to + quad * side.plane + (first + l) * p.row + depth;
            const bool is_there = first + l < all && depth < p.row;  // Rows are multiples of 32.
            const uint32_t *const digits = words + l * kLineWords + from * 4 + of_quad;
            uint32_t columns[kRun / 2];
#pragma unroll
            for (int n = 0; n < kRun / 2; ++n) columns[n] = digits[columns_at[n]];
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                if (16 * i >= p.moduli) break;
                int32_t sums[kRun / 2][4];
#pragma unroll
                for (int n = 0; n < kRun / 2; ++n) mma::multiply_few_bytes(sums[n], weights[2 * i], i == 0 ? weights[1] : 0u, columns[n]);
#pragma unroll
                for (int half = 0; half < 2 - i; ++half) {
                    const uint4 modulus = moduli[16 * i + 8 * half + quad];
                    uint32_t bytes[kRun / 4];
#pragma unroll
                    for (int w = 0; w < kRun / 4; ++w) {
                        uint32_t rest[4];
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            const uint32_t sum = static_cast<uint32_t>(sums[2 * w + e / 2][2 * half + e % 2]);
                            rest[e] = sum - multiply_high(sum, modulus.y) * modulus.x;
                        }
                        const uint32_t low = __byte_perm(rest[0], rest[1], 0x0040), high = __byte_perm(rest[2], rest[3], 0x0040);
                        // Each byte less half a modulus: what it borrows does not go on.
                        const uint32_t four = __byte_perm(low, high, 0x5410);
                        bytes[w] = ((four | 0x80808080u) - modulus.z) ^ (~four & 0x80808080u);
                    }
                    if (is_there && 16 * i + 8 * half + quad < p.moduli)
                        *reinterpret_cast<uint2 *>(to + (16 * i + 8 * half) * side.plane) = {bytes[0], bytes[1]};
                }
            }
        }
        __syncthreads();
    }
}

}  // namespace attile::gpu::exact
