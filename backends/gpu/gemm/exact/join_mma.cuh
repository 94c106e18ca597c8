// SPDX-License-Identifier: Apache-2.0
// join.cu for residues that are bytes: what they are in limbs is a product of matrices of uint8, elements by moduli by bytes of weights,
// which tensor cores make. A warp takes 64 elements at a time, four neighbours a quad: a lane loads four moduli of two quads, four lanes
// exchange what they have of 16 bits of sums, and each then has one element of either half whole. 256 threads, no shared memory. Bound:
// integer arithmetic, some 300 operations an element.
#pragma once

#include "gemm/exact/decide.h"
#include "mma/ptx_words.cuh"
#include "numeric.h"

namespace attile::gpu::exact {

// Byte j of word e becomes byte e of word j.
ATTILE_LANE_FN void transpose_bytes(uint32_t (&words)[4]) {
    const uint32_t low[2] = {__byte_perm(words[0], words[1], 0x5140), __byte_perm(words[2], words[3], 0x5140)};
    const uint32_t high[2] = {__byte_perm(words[0], words[1], 0x7362), __byte_perm(words[2], words[3], 0x7362)};
    words[0] = __byte_perm(low[0], low[1], 0x5410);
    words[1] = __byte_perm(low[0], low[1], 0x7632);
    words[2] = __byte_perm(high[0], high[1], 0x5410);
    words[3] = __byte_perm(high[0], high[1], 0x7632);
}

template <int kLimbs>
__global__ void ATTILE_LAUNCH_BOUNDS(kJoinPiecesThreads, 4) join_pieces(const JoinPiecesParams p) {
    constexpr int kTiles = (kLimbs * 4 + 7) / 8;
    const Block &block = p.block;
    const int lane = lane_index(), quad = lane / 4, of_quad = lane % 4;
    // Bytes of weights, of four moduli each, of those from 16 on as well.
    uint32_t weights[kTiles][2];
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            const int byte = 8 * t + quad;
            weights[t][half] = 0;
            if (half * 16 + of_quad * 4 >= p.numbers.moduli || byte >= 4 * kMostLimbs) continue;
#pragma unroll
            for (int m = 0; m < 4; ++m)
                weights[t][half] |= (p.numbers.weight[half * 16 + of_quad * 4 + m][byte / 4] >> byte % 4 * 8 & 0xffu) << 8 * m;
        }
    }
    const uint32_t warps = gridDim.x * (kJoinPiecesThreads / kLanes);
    for (uint32_t unit = blockIdx.x * (kJoinPiecesThreads / kLanes) + lane_group_index();
         unit < (p.pieces + kJoinPiecesOfWarp - 1) / kJoinPiecesOfWarp; unit += warps) {
        // Of the first or the next 16 moduli, of the first or the next eight quads: four moduli of a quad, then of each of its elements.
        uint32_t rows[2][2][4];
#pragma unroll
        for (int h = 0; h < 2; ++h) {
            const uint32_t piece = unit * kJoinPiecesOfWarp + h * 2 + quad / 4;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const uint8_t *from = p.residues + (half * 16 + of_quad * 4) * p.plane + int64_t{piece} * kResidueRow + quad % 4 * 4;
#pragma unroll
                for (int m = 0; m < 4; ++m, from += p.plane) {
                    const bool is_there = piece < p.pieces && half * 16 + of_quad * 4 + m < p.numbers.moduli;
                    rows[half][h][m] = is_there ? *reinterpret_cast<const uint32_t *>(from) : 0;
                }
            }
        }
#pragma unroll
        for (int half = 0; half < 2; ++half) {
#pragma unroll
            for (int h = 0; h < 2; ++h) transpose_bytes(rows[half][h]);
        }
        uint32_t parts[2][kTiles][4];  // Of 16 bits with carries: of each of four elements, then four of one.
#pragma unroll
        for (int t = 0; t < kTiles; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int32_t sums[4];
                const uint32_t a[4] = {rows[0][0][e], rows[0][1][e], rows[1][0][e], rows[1][1][e]};
                mma::multiply_bytes(sums, a, weights[t][0], weights[t][1]);
                parts[0][t][e] = static_cast<uint32_t>(sums[0]) + (static_cast<uint32_t>(sums[1]) << 8);
                parts[1][t][e] = static_cast<uint32_t>(sums[2]) + (static_cast<uint32_t>(sums[3]) << 8);
            }
            mma::transpose_quad(parts[0][t], lane);
            mma::transpose_quad(parts[1][t], lane);
        }
#pragma unroll 1
        for (int h = 0; h < 2; ++h) {
            const uint32_t piece = unit * kJoinPiecesOfWarp + h * 2 + quad / 4, line = quotient(piece, p.of_row);
            const uint32_t entry = quotient(line, p.of_entry);
            const Element at = {entry, line - entry * p.of_entry.divisor,
                                int64_t{piece - line * p.of_row.divisor} * kResidueRow + quad % 4 * 4 + of_quad};
            if (piece < p.pieces && at.column < block.n) {
                uint64_t sums[kLimbs];
#pragma unroll
                for (int l = 0; l < kLimbs; ++l)
                    sums[l] = parts[0][l / 2][l % 2 * 2] + (static_cast<uint64_t>(parts[0][l / 2][l % 2 * 2 + 1]) << 16);
                const Side row(block.rows[at.entry * block.row_step + at.row]);
                const Side column(block.columns[at.entry * block.column_step + at.column]);
                uint64_t bits;
                if (decide(block.end, p.numbers, at, row, column, sums, bits))
                    store(block.end, at, bits);
                else
                    list_undecided(block, at);
            }
#pragma unroll
            for (int t = 0; t < kTiles; ++t) {
#pragma unroll
                for (int i = 0; i < 4; ++i) parts[0][t][i] = parts[1][t][i];
            }
        }
    }
}

}  // namespace attile::gpu::exact
