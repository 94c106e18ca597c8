// SPDX-License-Identifier: Apache-2.0
// Statistics of rows of A and columns of B, from which the scales of their integers follow. A block takes a part of the depth of 32 lines
// by 256 threads, eight for each line, eight numbers a thread at a time: for the exponents first, then for the squares, over the largest
// exponent that the thread has met. 5.8 KB of shared memory. Bound: memory.
#include "gemm/exact/lines.h"
#include "gemm/exact/numbers.h"

namespace attile::gpu::exact {
namespace {

constexpr int kLinesAtATime = kMeasureLines, kThreadsOfLine = kMeasureThreads / kMeasureLines, kAtOnce = 8;
constexpr int kNone = -(1 << 20);  // Below all exponents; its negative is above them.

// Squares over 4^from become squares over 4^to, which is not less.
ATTILE_LANE_FN double rescaled(double squares, int from, int to) { return TimesPower(2 * max(from - to, -1000))(squares); }

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kMeasureThreads, 4) measure_lines(const MeasureParams p) {
    __shared__ int32_t found[3][kLinesAtATime][kThreadsOfLine + 1];
    __shared__ double sums[kLinesAtATime][kThreadsOfLine + 1];
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t groups_a = (lines_of(p.a) + kLinesAtATime - 1) / kLinesAtATime;
    const int64_t groups = groups_a + (lines_of(p.b) + kLinesAtATime - 1) / kLinesAtATime;
    for (int64_t block = blockIdx.x; block < groups * p.parts; block += gridDim.x) {
        const int64_t group = block / p.parts, part = block - group * p.parts;
        const bool is_a = group < groups_a;
        const Numbers &of = is_a ? p.a : p.b;
        const int own = of.along_outer != 0 ? thread % kLinesAtATime : thread / kThreadsOfLine;
        const int place = of.along_outer != 0 ? thread / kLinesAtATime : thread % kThreadsOfLine;
        const int64_t number = (is_a ? group : group - groups_a) * kLinesAtATime + own, all = lines_of(of);
        const LineOf line(of, min(number, all - 1));
        const T *const from = line.in<T>(of);
        const int64_t first = part * p.part_depth + place, end = min(p.k, (part + 1) * p.part_depth);

        int largest = kNone, last = -kNone, special = 0;
        double squares = 0;
        for (int64_t k = first; k < end; k += kAtOnce * kThreadsOfLine) {
            T x[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) x[i] = k + i * kThreadsOfLine < end ? from[(k + i * kThreadsOfLine) * of.depth] : T(0);
            const int before = largest;
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const Number one(x[i]);
                if (one.is_special) {
                    special = 1;
                    x[i] = 0;
                }
                if (one.is_special || one.significand == 0) continue;
                largest = max(largest, one.exponent + 63 - leading_zeros(one.significand));
                last = min(last, one.exponent + trailing_zeros(one.significand));
            }
            if (largest == kNone) continue;
            if (before != kNone && before != largest) squares = rescaled(squares, before, largest);
            const TimesPower scaled(-largest);  // No square overflows.
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                const double over = scaled(static_cast<double>(x[i]));
                squares += over * over;
            }
        }
        __syncthreads();  // The last lines have been written.
        found[0][own][place] = largest;
        found[1][own][place] = last;
        found[2][own][place] = special;
        __syncthreads();
        const int met = largest;
#pragma unroll
        for (int i = 0; i < kThreadsOfLine; ++i) {
            largest = max(largest, found[0][own][i]);
            last = min(last, found[1][own][i]);
            special |= found[2][own][i];
        }
        squares = special != 0 || met == kNone ? 0 : rescaled(squares, met, largest);
        sums[own][place] = squares;
        __syncthreads();
        if (place == 0 && number < all) {
#pragma unroll
            for (int i = 1; i < kThreadsOfLine; ++i) squares += sums[own][i];
            PartOfLine &to = p.to[((is_a ? 0 : lines_of(p.a)) + number) * p.parts + part];
            to = {squares, largest, last, special, 0};
        }
    }
}

// A thread for each line.
__global__ void ATTILE_LAUNCH_BOUNDS(kScaleThreads, 1) scale_lines(const ScaleParams p) {
    const int64_t number = static_cast<int64_t>(blockIdx.x) * kScaleThreads + threadIdx.x;
    if (number >= p.lines) return;
    const PartOfLine *const parts = p.from + number * p.parts;
    Line line = {};
    line.exponent = kNone;
    line.last = -kNone;
    for (int i = 0; i < p.parts; ++i) {
        line.exponent = max(line.exponent, parts[i].exponent);
        line.last = min(line.last, parts[i].last);
        line.is_special |= parts[i].is_special;
    }
    if (line.exponent != kNone && line.is_special == 0) {
        constexpr double kAbove = 1 + 0x1p-20;  // More than all roundings here, and of the sums of squares.
        double squares = 0;
        for (int i = 0; i < p.parts; ++i)
            if (parts[i].exponent != kNone) squares += ldexp(parts[i].squares, 2 * (parts[i].exponent - line.exponent));
        const double bits = line.exponent + log2(squares) / 2, needed = bits - line.last + 1e-6;
        const bool is_exact = needed <= p.most_bits;
        line.scale = is_exact ? -line.last : static_cast<int>(floor(p.most_bits - bits - 1e-6));
        const double error = is_exact ? 0 : 0.5 * sqrt(static_cast<double>(p.k)) * kAbove;
        line.size = static_cast<float>((ldexp(sqrt(squares), line.exponent + line.scale) * kAbove + error) * kAbove);
    }
    p.to[number] = line;
}

}  // namespace

MeasureKernel measure_kernel(bool f64) { return f64 ? measure_lines<double> : measure_lines<float>; }
ScaleKernel scale_kernel() { return scale_lines; }

}  // namespace attile::gpu::exact
