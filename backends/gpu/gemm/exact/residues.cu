// SPDX-License-Identifier: Apache-2.0
// Residues of the integers that rows of A and columns of B become, in planes for products of int8. A block takes tiles of 16 lines by 128
// of depth through 16.6 KB of shared memory (f64): it reads along the axis that is contiguous, and writes along the depth, four residues a
// thread at a time. An integer is 8 or 12 digits of int8, so that its residue by one modulus is two or three DP4A and a reduction. 256
// threads. Bound: integer arithmetic, about 8 operations a residue.
#include "eight_bits.h"
#include "gemm/exact/lines.h"
#include "gemm/exact/numbers.h"

namespace attile::gpu::exact {
namespace {

// The integer nearest to x 2^scale, ties away from zero, as digits of int8, the lowest first. Is it another number?
template <int kWords, class T>
ATTILE_LANE_FN bool digits_of(T x, int scale, uint32_t (&digits)[kWords]) {
    const Number number(x);
    const int shift = number.exponent + scale;
    uint64_t low = 0, high = 0;
    bool is_rounded = false;
    if (shift >= 64) {
        high = number.significand << (shift - 64);
    } else if (shift > 0) {
        low = number.significand << shift;
        high = number.significand >> (64 - shift);
    } else if (shift == 0) {
        low = number.significand;
    } else if (shift > -64) {
        low = (number.significand + (uint64_t{1} << (-shift - 1))) >> -shift;
        is_rounded = low << -shift != number.significand;
    } else {
        is_rounded = number.significand != 0;
    }
    if (number.is_negative) {
        low = ~low + 1;
        high = ~high + (low == 0 ? 1 : 0);
    }
    // With 128 added to each byte, none borrows from the next.
    constexpr uint64_t kHalves = 0x8080808080808080u;
    low += kHalves;
    high += kHalves + (low < kHalves ? 1 : 0);
    low ^= kHalves;
    digits[0] = static_cast<uint32_t>(low);
    digits[1] = static_cast<uint32_t>(low >> 32);
    if constexpr (kWords > 2) digits[2] = static_cast<uint32_t>(high ^ kHalves);
    return is_rounded;
}

template <class T, int kWords>
__global__ void ATTILE_LAUNCH_BOUNDS(kResidueThreads, 3) make_residues(const ResidueParams parameter) {
    const ResidueParams &p = kernel_parameter(parameter);
    __shared__ T tile[kResidueLines][kResidueDepth + 2];
    __shared__ uint32_t counts[kResidueLines];
    __shared__ const T *starts[kResidueLines];  // Null beyond the last line.
    __shared__ int32_t scales[kResidueLines];   // kAllZeros: no number counts.
    constexpr int kAllZeros = 1 << 30, kQuads = kResidueDepth / 4;
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t across = (p.row + kResidueDepth - 1) / kResidueDepth;
    const int64_t groups_a = (lines_of(p.a.numbers) + kResidueLines - 1) / kResidueLines;
    const int64_t groups = groups_a + (lines_of(p.b.numbers) + kResidueLines - 1) / kResidueLines;
    for (int64_t block = blockIdx.x; block < groups * across; block += gridDim.x) {
        const int64_t group = block / across, first_depth = (block - group * across) * kResidueDepth;
        const ResidueSide &side = group < groups_a ? p.a : p.b;
        const Numbers &of = side.numbers;
        const int64_t first = (group < groups_a ? group : group - groups_a) * kResidueLines, all = lines_of(of);
        if (thread < kResidueLines) {
            counts[thread] = 0;
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
            uint32_t digits[4][kWords] = {}, rounded = 0;
            if (scales[l] != kAllZeros) {
#pragma unroll
                for (int e = 0; e < 4; ++e) rounded += digits_of(tile[l][k + e], scales[l], digits[e]) ? 1 : 0;
            }
            if (rounded != 0) atomicAdd(&counts[l], rounded);
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
        if (thread < kResidueLines && side.counts != 0 && counts[thread] != 0) {
            const LineOf line(of, first + thread);
            atomicAdd(&side.lines[line.line + line.entry * side.line_step].rounded, counts[thread]);
        }
    }
}

}  // namespace

ResidueKernel residue_kernel(bool f64, bool wide) {
    if (f64) return wide ? make_residues<double, 3> : make_residues<double, 2>;
    return wide ? make_residues<float, 3> : make_residues<float, 2>;
}

}  // namespace attile::gpu::exact
