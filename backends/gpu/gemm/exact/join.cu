// SPDX-License-Identifier: Apache-2.0
// From residues of sums to D. A thread puts four columns of a row together: residues times weights in limbs of 32 bits, less a multiple of
// the product of the moduli, are the sum of integers. What rounding to integers has changed is bounded; where both ends of that interval
// become the same element of D, this is it. 128 threads, no shared memory. Bound: memory, 4 bytes a modulus and element, or integer
// arithmetic.
#include "gemm/exact/decide.h"
#include "vec.h"

namespace attile::gpu::exact {
namespace {

// Four neighbours of a row, of which those with a bit in `decided` are stored, and the others listed.
ATTILE_LANE_FN void store_four(const Block &block, const Element &at, const uint64_t (&bits)[4], uint32_t decided, int count) {
    const GemmOutput &d = block.end.d;
    const int bytes = d.dtype == ATTILE_F32 ? 4 : 8;
    char *const to = at.in(d, bytes);
    if (decided == 0xf && d.col == 1 && reinterpret_cast<uintptr_t>(to) % 16 == 0) {
        if (bytes == 4) {
            store_vec(reinterpret_cast<uint32_t *>(to), Vec<uint32_t, 4>{{static_cast<uint32_t>(bits[0]), static_cast<uint32_t>(bits[1]),
                                                                          static_cast<uint32_t>(bits[2]), static_cast<uint32_t>(bits[3])}});
        } else {
            store_vec(reinterpret_cast<uint64_t *>(to), Vec<uint64_t, 2>{{bits[0], bits[1]}});
            store_vec(reinterpret_cast<uint64_t *>(to) + 2, Vec<uint64_t, 2>{{bits[2], bits[3]}});
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        const Element one = {at.entry, at.row, at.column + e};
        if (e >= count) continue;
        if ((decided >> e & 1) != 0)
            store(block.end, one, bits[e]);
        else
            list_undecided(block, one);
    }
}

// Adds residues of sums + 2^31 of four neighbours times weights.
template <int kLimbs>
ATTILE_LANE_FN void weigh(const JoinNumbers &numbers, int m, const uint32_t (&residues)[4], uint64_t (&sums)[4][kLimbs]) {
    const uint32_t(&weight)[kMostLimbs] = numbers.weight[m];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
#pragma unroll
        for (int l = 0; l < kLimbs; ++l) sums[e][l] += static_cast<uint64_t>(residues[e]) * weight[l];
    }
}
template <int kLimbs>
ATTILE_LANE_FN void weigh_all(const JoinParams &p, const int32_t *from, uint64_t (&sums)[4][kLimbs]) {
#pragma unroll 1
    for (int m = 0; m < p.numbers.moduli; ++m, from += p.plane) {
        const auto four = load_vec_const<4>(from);
        const uint32_t modulus = p.numbers.p[m], inverse = p.numbers.inverse_p[m];
        uint32_t residues[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const uint32_t sum = static_cast<uint32_t>(four[e]) + 0x80000000u;
            residues[e] = sum - multiply_high(sum, inverse) * modulus;  // Below 2 p.
        }
        weigh(p.numbers, m, residues, sums);
    }
}
template <int kLimbs>
__global__ void ATTILE_LAUNCH_BOUNDS(kJoinThreads, 4) join_residues(const JoinParams parameter) {
    const JoinParams &p = kernel_parameter(parameter);
    const Block &block = p.block;
    const int64_t quads = (block.n + 3) / 4, all = quads * block.m * block.entries;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kJoinThreads + threadIdx.x; i < all;
         i += static_cast<int64_t>(gridDim.x) * kJoinThreads) {
        const int64_t line = i / quads;
        Element at = {line / block.m, 0, (i - line * quads) * 4};
        at.row = line - at.entry * block.m;
        const int count = static_cast<int>(min(block.n - at.column, int64_t{4}));
        if (p.numbers.moduli == 0) {
            for (int e = 0; e < count; ++e, ++at.column) store(block.end, at, finish(block.end, at, 0));
            continue;
        }
        uint64_t sums[4][kLimbs] = {}, bits[4] = {};
        weigh_all(p, static_cast<const int32_t *>(p.sums) + line * p.sum_row + at.column, sums);
        const Side row(block.rows[at.entry * block.row_step + at.row]);
        const Line *const columns = block.columns + at.entry * block.column_step;
        uint32_t decided = 0;
#pragma unroll 1
        for (int e = 0; e < 4; ++e) {  // Of four the first; the others move up.
            const Element one = {at.entry, at.row, at.column + e};
            uint64_t own = 0;
            if (e < count && decide(block.end, p.numbers, one, row, Side(columns[one.column]), sums[0], own)) decided |= 1u << e;
#pragma unroll
            for (int other = 0; other < 3; ++other) {
                bits[other] = bits[other + 1];
#pragma unroll
                for (int l = 0; l < kLimbs; ++l) sums[other][l] = sums[other + 1][l];
            }
            bits[3] = own;
        }
        store_four(block, at, bits, decided, count);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kFoldThreads, 1) fold_sums(const FoldParams parameter) {
    const FoldParams &p = kernel_parameter(parameter);
    const int64_t quads = p.plane / 4, all = quads * p.moduli;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kFoldThreads + threadIdx.x; i < all;
         i += static_cast<int64_t>(gridDim.x) * kFoldThreads) {
        const uint32_t modulus = p.modulus[i / quads].p, inverse = 0xffffffffu / modulus;
        const auto sums = load_vec_const<4>(p.sums + i * 4);
        Vec<int32_t, 4> totals = {};
        if (p.is_first == 0) totals = load_vec<4>(p.totals + i * 4);
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const int32_t multiple = static_cast<int32_t>(static_cast<int64_t>(sums[e]) * inverse >> 32);
            totals[e] += sums[e] - multiple * static_cast<int32_t>(modulus);  // Below 2 p in magnitude.
        }
        store_vec(p.totals + i * 4, totals);
    }
}

}  // namespace

JoinKernel join_kernel(int limbs) {
    return limbs <= 3 ? join_residues<3> : limbs == 4 ? join_residues<4> : limbs == 5 ? join_residues<5> : join_residues<6>;
}
FoldKernel fold_kernel() { return fold_sums; }

}  // namespace attile::gpu::exact
