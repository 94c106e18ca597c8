// SPDX-License-Identifier: Apache-2.0
// From residues of sums to D. A thread puts four columns of a row together: residues times weights in limbs of 32 bits, less a multiple of
// the product of the moduli, are the sum of integers. What rounding to integers has changed is bounded; where both ends of that interval
// become the same element of D, this is it. 128 threads, no shared memory. Bound: memory, 4 bytes a modulus and element, or integer
// arithmetic.
#include "gemm/exact/end.h"
#include "vec.h"

namespace attile::gpu::exact {
namespace {

// A sum of residues times weights in limbs with carries, as an integer in two's complement. Residues are those of a number larger by 2^31.
template <int kLimbs>
ATTILE_LANE_FN void reduce(const JoinNumbers &numbers, const uint64_t (&sums)[kLimbs], uint32_t (&limbs)[kLimbs]) {
    uint64_t carry = 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        carry += sums[l];
        limbs[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
    // The integer is less than 0.42 of the product, so that rounding finds the multiple.
    const float top = (static_cast<float>(static_cast<uint32_t>(carry)) * 0x1p32f + static_cast<float>(limbs[kLimbs - 1])) +
                      static_cast<float>(limbs[kLimbs - 2]) * 0x1p-32f;
    const uint32_t multiple = static_cast<uint32_t>(top * numbers.inverse + 0.5f);
    uint64_t taken = uint64_t{1} << 31, borrow = 0;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        taken += static_cast<uint64_t>(multiple) * numbers.product[l];
        const uint64_t rest = limbs[l] - (taken & 0xffffffffu) - borrow;
        limbs[l] = static_cast<uint32_t>(rest);
        borrow = rest >> 63;
        taken >>= 32;
    }
}

// Adds an integer of at least `size`, or takes it away.
template <int kLimbs>
ATTILE_LANE_FN void move(uint32_t (&limbs)[kLimbs], float size, bool up) {
    const int exponent = static_cast<int>(__float_as_uint(size) >> 23) - 127 - 23;  // Of the last bit.
    const uint64_t above = ((__float_as_uint(size) & 0x7fffffu) | 0x800000u) + 1u;
    const uint64_t part = exponent >= 0 ? above << (exponent & 31) : (exponent > -32 ? above >> -exponent : 0) + 1;
    const int first = exponent >= 0 ? exponent >> 5 : 0;
    const uint32_t flip = up ? 0 : ~0u;
    uint64_t carry = up ? 0 : 1;
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        const uint32_t add = l == first ? static_cast<uint32_t>(part) : l == first + 1 ? static_cast<uint32_t>(part >> 32) : 0;
        carry += static_cast<uint64_t>(limbs[l]) + (add ^ flip);
        limbs[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
}

// Times 2^exponent, rounded once.
template <int kLimbs>
ATTILE_LANE_FN double round_limbs(const uint32_t (&limbs)[kLimbs], int exponent) {
    const bool is_negative = limbs[kLimbs - 1] >> 31 != 0;
    const uint32_t flip = is_negative ? ~0u : 0;
    uint64_t carry = is_negative ? 1 : 0;
    uint32_t size[kLimbs];
#pragma unroll
    for (int l = 0; l < kLimbs; ++l) {
        carry += limbs[l] ^ flip;
        size[l] = static_cast<uint32_t>(carry);
        carry >>= 32;
    }
    exponent += 32 * (kLimbs - 2);
#pragma unroll
    for (int i = 0; i + 1 < kLimbs; ++i) {
        const bool is_zero = size[kLimbs - 1] == 0;
#pragma unroll
        for (int l = kLimbs - 1; l > 0; --l) size[l] = is_zero ? size[l - 1] : size[l];
        size[0] = is_zero ? 0 : size[0];
        exponent -= is_zero ? 32 : 0;
    }
    if (size[kLimbs - 1] == 0) return 0;
    const int shift = leading_zeros(size[kLimbs - 1]);
    const uint64_t top = static_cast<uint64_t>(size[kLimbs - 1]) << 32 | size[kLimbs - 2];
    const uint64_t next = static_cast<uint64_t>(size[kLimbs - 3]) << shift;
    bool has_more = static_cast<uint32_t>(next) != 0;
#pragma unroll
    for (int l = 0; l < kLimbs - 3; ++l) has_more = has_more || size[l] != 0;
    return rounded(is_negative, top << shift | next >> 32, has_more, exponent - shift);
}

// The 2-norm of what rounding to integers has changed of a line, at most but for its own rounding.
ATTILE_LANE_FN float change_of(const Line &line) { return 0.5f * sqrtf(static_cast<float>(line.rounded)); }

template <int kLimbs>
ATTILE_LANE_FN void decide(const JoinParams &p, const Element &at, const uint64_t (&sums)[kLimbs]) {
    const Block &block = p.block;
    const Line row = block.rows[at.entry * block.row_step + at.row], column = block.columns[at.entry * block.column_step + at.column];
    bool is_decided = (row.is_special | column.is_special) == 0;
    uint64_t bits = 0;
    if (is_decided) {
        uint32_t limbs[kLimbs];
        reduce(p.numbers, sums, limbs);
        const float error = (change_of(row) * column.size + row.size * change_of(column)) * (1 + 0x1p-18f);
        const int scale = -row.scale - column.scale;
        double low = 0, high = 0;
        if (!(error > 0)) {
            low = high = round_limbs(limbs, scale);
        } else {
#pragma unroll 1
            for (int i = 0; i < 2; ++i) {
                uint32_t moved[kLimbs];
#pragma unroll
                for (int l = 0; l < kLimbs; ++l) moved[l] = limbs[l];
                move(moved, error, i != 0);
                low = high;
                high = round_limbs(moved, scale);
            }
        }
        bits = finish(block.end, at, rounded_product(block.end.alpha, low));
        // All that follows the sum is monotone in it.
        if (bits_of(low) != bits_of(high))
            is_decided = bits == finish(block.end, at, rounded_product(block.end.alpha, high)) && !is_nan_of(block.end, bits);
    }
    if (is_decided)
        store(block.end, at, bits);
    else
        block.undecided[atomicAdd(block.undecided_count, 1u)] = static_cast<uint32_t>((at.entry * block.m + at.row) * block.n + at.column);
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
        if (p.numbers.moduli == 0) {
            for (int e = 0; e < 4 && at.column < block.n; ++e, ++at.column) store(block.end, at, finish(block.end, at, 0));
            continue;
        }
        uint64_t sums[4][kLimbs] = {};
        const int32_t *from = p.sums + line * p.sum_row + at.column;
#pragma unroll 1
        for (int m = 0; m < p.numbers.moduli; ++m, from += p.plane) {
            const auto four = load_vec_const<4>(from);
            const uint32_t modulus = p.numbers.p[m], inverse = p.numbers.inverse_p[m];
            const uint32_t(&weight)[kMostLimbs] = p.numbers.weight[m];
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const uint32_t sum = static_cast<uint32_t>(four[e]) + 0x80000000u;
                const uint32_t residue = sum - multiply_high(sum, inverse) * modulus;  // Below 2 p.
#pragma unroll
                for (int l = 0; l < kLimbs; ++l) sums[e][l] += static_cast<uint64_t>(residue) * weight[l];
            }
        }
#pragma unroll 1
        for (int e = 0; e < 4 && at.column < block.n; ++e, ++at.column) {
            decide(p, at, sums[0]);
#pragma unroll
            for (int other = 0; other < 3; ++other)
#pragma unroll
                for (int l = 0; l < kLimbs; ++l) sums[other][l] = sums[other + 1][l];
        }
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
