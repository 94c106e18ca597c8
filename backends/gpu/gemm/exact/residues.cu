// SPDX-License-Identifier: Apache-2.0
// Residues of the integers that rows of A and columns of B become, in planes for products of int8. A block takes tiles of 16 lines by 128
// of depth through 19 KB of shared memory (f64): it reads along the axis that is contiguous, and writes along the depth, four residues a
// thread at a time. An integer is 8 or 12 digits of int8, so that its residue by one modulus is two or three DP4A and a reduction. 256
// threads. Bound: integer arithmetic, about 8 operations a residue.
#include "eight_bits.h"
#include "gemm/exact/digits.h"
#include "gemm/exact/tile.h"

namespace attile::gpu::exact {
namespace {

template <class T, int kWords>
__global__ void ATTILE_LAUNCH_BOUNDS(kResidueThreads, 3) make_residues(const ResidueParams parameter) {
    const ResidueParams &p = kernel_parameter(parameter);
    __shared__ T tile[kResidueLines][kResidueDepth + 2];
    __shared__ LinesOfTile<T> lines;
    constexpr int kQuads = kResidueDepth / 4;
    const int thread = static_cast<int>(threadIdx.x);
    const uint32_t tiles = tiles_of(p);
    for (uint32_t number = blockIdx.x; number < tiles; number += gridDim.x) {
        const Tile at_tile(p, number);
        const ResidueSide &side = at_tile.side;
        const Numbers &of = side.numbers;
        const int64_t first = at_tile.first, first_depth = at_tile.first_depth, all = lines_of(of);
        if (thread < kResidueLines) lines.begin(thread, at_tile);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kResidueLines * kResidueDepth / kResidueThreads; ++i) {
            const int at = thread + i * kResidueThreads;
            const int l = of.along_outer != 0 ? at % kResidueLines : at / kResidueDepth;
            const int k = of.along_outer != 0 ? at / kResidueLines : at % kResidueDepth;
            T value = 0;
            if (lines.starts[l] != nullptr && first_depth + k < p.depth) value = lines.starts[l][k * of.depth];
            tile[l][k] = value;
        }
        __syncthreads();
#pragma unroll 1
        for (int at = thread; at < kResidueLines * kQuads; at += kResidueThreads) {
            const int l = at / kQuads, k = at % kQuads * 4;
            uint32_t digits[4][kWords] = {};
            if (lines.scales[l] != lines.kAllZeros) {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (digits_of<false>(tile[l][k + e], lines.scales[l], digits[e])) lines.add_rounded(l, k + e);
            }
            if (first + l >= all || first_depth + k >= p.row) continue;
            int8_t *to = side.to + (first + l) * p.row + first_depth + k;
#pragma unroll 2
            for (int i = 0; i < p.moduli; ++i, to += side.plane) {
                const ResidueModulus &modulus = p.modulus[i];
                uint32_t four = 0;
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    int32_t sum = static_cast<int32_t>(modulus.start);
#pragma unroll
                    for (int w = 0; w < kWords; ++w) sum = dot_of_four(digits[e][w], modulus.weights[w], sum);
                    const uint32_t positive = static_cast<uint32_t>(sum);
                    const uint32_t rest = positive - multiply_high(positive, modulus.inverse) * modulus.p - modulus.p / 2;
                    four |= (rest & 0xffu) << 8 * e;
                }
                *reinterpret_cast<uint32_t *>(to) = four;
            }
        }
        __syncthreads();
        if (thread < kResidueLines) lines.keep_rounded(thread, at_tile, p.first + first_depth);
    }
}

}  // namespace

ResidueKernel residue_kernel(bool f64, bool wide) {
    if (f64) return wide ? make_residues<double, 3> : make_residues<double, 2>;
    return wide ? make_residues<float, 3> : make_residues<float, 2>;
}

}  // namespace attile::gpu::exact
