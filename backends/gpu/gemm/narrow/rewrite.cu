// SPDX-License-Identifier: Apache-2.0
// A or B of any type and strides as dense rows along the depth, scaled or not, for products that read such rows. A block takes tiles of 32
// rows by 64 of depth through 8320 bytes of shared memory: it reads along the axis that is contiguous, and writes along the depth. 256
// threads. Bound: memory, or the loads of single elements.
#include "eight_bits.h"
#include "gemm/block_scale_at.h"
#include "gemm/narrow/kernels.h"
#include "vec.h"

#include <attile/attile.h>

namespace attile::gpu::narrow {
namespace {

// Element `at`, in elements from the first; of numbers of 4 bits two lie in a byte, the first in its low half.
ATTILE_LANE_FN float read_number(const void *data, int64_t at, int32_t dtype) {
    switch (dtype) {
        case ATTILE_F32:
            return static_cast<const float *>(data)[at];
        case ATTILE_F16:
            return to_compute(static_cast<const F16 *>(data)[at]);
        case ATTILE_BF16:
            return to_compute(static_cast<const BF16 *>(data)[at]);
        case ATTILE_I8:
            return to_compute(static_cast<const I8 *>(data)[at]);
        case ATTILE_F8_E4M3:
            return to_compute(static_cast<const E4M3 *>(data)[at]);
        case ATTILE_F8_E5M2:
            return to_compute(static_cast<const E5M2 *>(data)[at]);
        default: {
            const int half = static_cast<const uint8_t *>(data)[at >> 1] >> (at & 1) * 4 & 15;
            return static_cast<float>(dtype == ATTILE_I4 && half > 7 ? half - 16 : half);
        }
    }
}

template <class T>
ATTILE_LANE_FN void write_four(void *to, int64_t at, const float (&value)[4]) {
    Vec<T, 4> four;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (std::is_same<T, I8>::value)
            four[i].value = static_cast<int8_t>(value[i]);
        else
            four[i] = from_compute<T>(value[i]);
    }
    store_vec(static_cast<T *>(to) + at, four);
}

// The bits of a float32's significand that part 0, 1 or 2 has: cut off, not rounded, so that no part overflows. Infinity and NaN are in
// the last matrix alone: beside a part that is 0 infinity would become NaN.
ATTILE_LANE_FN float part_of(float value, int part, bool is_last) {
    const auto upper = [](float x) { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); };
    if (!(fabsf(value) < INFINITY)) return is_last ? value : 0.0f;
#pragma unroll 1
    for (; part > 0; --part) value -= upper(value);
    return upper(value);
}
ATTILE_LANE_FN void write_parts(const RewriteParams &p, int64_t to, const float (&value)[4]) {
#pragma unroll 1
    for (int i = 0; i < p.parts; ++i) {
        float part[4];
#pragma unroll
        for (int e = 0; e < 4; ++e) part[e] = part_of(value[e], p.part[i], i + 1 == p.parts);
        write_four<BF16>(p.to, to + i * p.row, part);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kRewriteThreads, 1) rewrite_rows(const RewriteParams p) {
    __shared__ float tile[kRewriteRows][kRewriteDepth + 1];
    const int64_t across = (p.row + kRewriteDepth - 1) / kRewriteDepth, down = (p.outer + kRewriteRows - 1) / kRewriteRows;
    const int64_t all = across * down * p.count_x * p.count_y;
    const bool along_outer = p.from_outer == 1 && p.from_depth != 1;
    for (int64_t t = blockIdx.x; t < all; t += gridDim.x) {
        const int64_t line = t / across, entry = line / down, x = entry / p.count_y, y = entry - x * p.count_y;
        const int64_t first_depth = (t - line * across) * kRewriteDepth, first_row = (line - entry * down) * kRewriteRows;
        const float *const scale = scales_of_entry(p.scale, x, y), *const zero = scales_of_entry(p.zero, x, y);
        const int64_t from = x * p.from_batch_x + y * p.from_batch_y;
        __syncthreads();  // The last tile has been written.
#pragma unroll
        for (int i = 0; i < kRewriteRows * kRewriteDepth / kRewriteThreads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kRewriteThreads;
            const int r = along_outer ? at % kRewriteRows : at / kRewriteDepth, c = along_outer ? at / kRewriteRows : at % kRewriteDepth;
            const int64_t row = first_row + r, depth = first_depth + c;
            float value = 0;
            if (row < p.outer && depth < p.depth) {
                value = read_number(p.from, from + row * p.from_outer + depth * p.from_depth, p.from_dtype);
                if (zero != nullptr) value -= scale_at(p.zero, zero, row, depth);
                if (scale != nullptr) value *= scale_at(p.scale, scale, row, depth);
            }
            tile[r][c] = value;
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kRewriteRows * kRewriteDepth / 4 / kRewriteThreads; ++i) {
            const int at = static_cast<int>(threadIdx.x) + i * kRewriteThreads;
            const int r = at / (kRewriteDepth / 4), c = at % (kRewriteDepth / 4) * 4;
            if (first_row + r >= p.outer || first_depth + c >= p.row) continue;
            const float value[4] = {tile[r][c], tile[r][c + 1], tile[r][c + 2], tile[r][c + 3]};
            const int64_t to = (entry * p.outer + first_row + r) * p.row * p.parts + first_depth + c;
            if (p.parts > 1) {
                write_parts(p, to, value);
            } else if (p.to_dtype == ATTILE_F32)
                write_four<float>(p.to, to, value);
            else if (p.to_dtype == ATTILE_F16)
                write_four<F16>(p.to, to, value);
            else if (p.to_dtype == ATTILE_BF16)
                write_four<BF16>(p.to, to, value);
            else
                write_four<I8>(p.to, to, value);
        }
    }
}

}  // namespace

const void *rewrite_kernel() { return reinterpret_cast<const void *>(&rewrite_rows); }

}  // namespace attile::gpu::narrow
