// SPDX-License-Identifier: Apache-2.0
// Residues of the integers that rows of A and columns of B become, in planes for products of int8. A block takes tiles of 16 lines by 128
// of depth through 19 KB of shared memory (f64): it reads along the axis that is contiguous, and writes along the depth, four residues a
// thread at a time. An integer is 8 or 12 digits of int8, so that its residue by one modulus is two or three DP4A and a reduction. 256
// threads. Bound: integer arithmetic, about 8 operations a residue.
#include "eight_bits.h"
#include "gemm/exact/digits.h"
#include "gemm/exact/rounded.h"
#include "numeric.h"

namespace attile::gpu::exact {
namespace {

template <class T, int kWords>
__global__ void ATTILE_LAUNCH_BOUNDS(kResidueThreads, 3) make_residues(const ResidueParams parameter) {
    const ResidueParams &p = kernel_parameter(parameter);
    __shared__ T tile[kResidueLines][kResidueDepth + 2];
    __shared__ RoundedOfTile rounded;
    __shared__ const T *starts[kResidueLines];  // Null beyond the last line.
    __shared__ int32_t scales[kResidueLines];   // kAllZeros: no number counts.
    constexpr int kAllZeros = 1 << 30, kQuads = kResidueDepth / 4;
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t groups_a = (lines_of(p.a.numbers) + kResidueLines - 1) / kResidueLines;
    const auto groups = static_cast<uint32_t>(groups_a + (lines_of(p.b.numbers) + kResidueLines - 1) / kResidueLines);
    for (uint32_t block = blockIdx.x; block < groups * p.across.divisor; block += gridDim.x) {
        const uint32_t group = quotient(block, p.across);
        const int64_t first_depth = int64_t{block - group * p.across.divisor} * kResidueDepth;
        const ResidueSide &side = group < groups_a ? p.a : p.b;
        const Numbers &of = side.numbers;
        const int64_t first = (group < groups_a ? group : group - groups_a) * kResidueLines, all = lines_of(of);
        if (thread < kResidueLines) {
            rounded.counts[thread] = 0;
            const LineOf line(of, min(first + thread, all - 1));
            const Line &known = side.lines[line.line + line.entry * side.line_step];
            starts[thread] = first + thread < all ? line.in<T>(of) + first_depth * of.depth : nullptr;
            scales[thread] = known.is_special != 0 ? kAllZeros : known.scale;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kResidueLines * kResidueDepth / kResidueThreads; ++i) {
            const int at = thread + i * kResidueThreads;
            const int l = of.along_outer != 0 ? at % kResidueLines : at / kResidueDepth;
            const int k = of.along_outer != 0 ? at / kResidueLines : at % kResidueDepth;
            T value = 0;
            if (starts[l] != nullptr && first_depth + k < p.depth) value = starts[l][k * of.depth];
            tile[l][k] = value;
        }
        __syncthreads();
#pragma unroll 1
        for (int at = thread; at < kResidueLines * kQuads; at += kResidueThreads) {
            const int l = at / kQuads, k = at % kQuads * 4;
            uint32_t digits[4][kWords] = {};
            if (scales[l] != kAllZeros) {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (digits_of<false>(tile[l][k + e], scales[l], digits[e])) rounded.add(l, k + e);
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
        if (thread < kResidueLines) rounded.keep(thread, side, LineOf(of, first + thread), p.first + first_depth);
    }
}

}  // namespace

ResidueKernel residue_kernel(bool f64, bool wide) {
    if (f64) return wide ? make_residues<double, 3> : make_residues<double, 2>;
    return wide ? make_residues<float, 3> : make_residues<float, 2>;
}

}  // namespace attile::gpu::exact
