// SPDX-License-Identifier: Apache-2.0
// From sums in memory to D: parts are added, scales of rows and columns applied, then the operation's epilogue. Four columns a thread, 256
// threads, no shared memory. Bound: memory.
#include "gemm/block_scale_at.h"
#include "gemm/epilogue.h"
#include "gemm/narrow/kernels.h"

namespace attile::gpu::narrow {
namespace {

__global__ void ATTILE_LAUNCH_BOUNDS(kFinishThreads, 1) finish_sums(const FinishParams p) {
    const int64_t quads = (p.n + 3) / 4, all = quads * p.m * p.batches, step = static_cast<int64_t>(gridDim.x) * kFinishThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kFinishThreads + threadIdx.x; i < all; i += step) {
        const int64_t line = i / quads, entry = line / p.m, batch_x = entry / p.batch_y, batch_y = entry - batch_x * p.batch_y;
        const int64_t row = line - entry * p.m, col = (i - line * quads) * 4;
        const int64_t from = entry * p.sum_batch + row * p.sum_row + col;
        Vec<int32_t, 4> sum = load_vec_const<4>(static_cast<const int32_t *>(p.sums) + from);
        float value[4];
#pragma unroll 1
        for (int part = 1; part < p.parts; ++part) {
            const auto more = load_vec_const<4>(static_cast<const int32_t *>(p.sums) + part * p.sum_part + from);
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                if (p.is_integer != 0)
                    sum[e] += more[e];
                else
                    sum[e] = static_cast<int32_t>(
                        __float_as_uint(__uint_as_float(static_cast<uint32_t>(sum[e])) + __uint_as_float(static_cast<uint32_t>(more[e]))));
            }
        }
        if (p.d.dtype == ATTILE_I32) {
            int32_t *const d =
                static_cast<int32_t *>(p.d.data) + batch_x * p.d.batch_x + batch_y * p.d.batch_y + row * p.d.row + col * p.d.col;
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (col + e < p.n) d[e * p.d.col] = sum[e];
            continue;
        }
        const float *const a_scale = scales_of_entry(p.a_scale, batch_x, batch_y), *const b_scale =
                                                                                       scales_of_entry(p.b_scale, batch_x, batch_y);
        const float of_row = a_scale != nullptr ? scale_at(p.a_scale, a_scale, row, 0) : 1.0f;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const float of_col = b_scale != nullptr && col + e < p.n ? scale_at(p.b_scale, b_scale, col + e, 0) : 1.0f;
            const float whole = p.is_integer != 0 ? static_cast<float>(sum[e]) : __uint_as_float(static_cast<uint32_t>(sum[e]));
            value[e] = p.alpha * (p.is_swapped != 0 ? whole * of_col * of_row : whole * of_row * of_col);
        }
        GemmOrigin origin;
        origin.set(p, batch_x, batch_y, row, col, 0);
        const GemmEpilogue<float, FinishParams> epilogue(p, origin);
        if (p.vectorised != 0) {
            epilogue.store_vector(0, 0, value);
        } else {
#pragma unroll 1
            for (int e = 0; e < 4; ++e)
                if (col + e < p.n) epilogue.store(0, e, pick(e == 0, value[0], pick(e == 1, value[1], pick(e == 2, value[2], value[3]))));
        }
    }
}

}  // namespace

const void *finish_kernel() { return reinterpret_cast<const void *>(&finish_sums); }

}  // namespace attile::gpu::narrow
