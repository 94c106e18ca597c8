// SPDX-License-Identifier: Apache-2.0
// dK and dV from those of the parts of each group of query heads (attention_backward/mma/group_parts.h), or dQ from those of parts of the
// keys (attention_backward/mma/dq_parts.h), in the order of the parts. A thread has eight columns of a row. Bound: memory, 4 bytes a part
// and element; what was just written mostly lies in the L2 cache.
#pragma once

#include "attention_backward/mma/add_parts.h"
#include "early.h"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

template <class Element>
__device__ __forceinline__ void add_parts(const BackwardPartSums &a, const BackwardPartSum &x, int64_t first, int64_t step) {
    const int64_t total = a.all_rows * x.pieces;
    for (int64_t task = first; task < total; task += step) {
        const int64_t of_all = task / x.pieces, pair = of_all / a.rows;
        const int column = static_cast<int>(task - of_all * x.pieces) * kAddedColumns, row = static_cast<int>(of_all - pair * a.rows);
        const float4 *from =
            reinterpret_cast<const float4 *>(x.parts + pair * a.parts * x.part_stride + static_cast<int64_t>(row) * x.columns + column);
        float sums[kAddedColumns] = {};
#pragma unroll 4
        for (int part = 0; part < a.parts; ++part, from += x.part_stride / 4) {
            const float4 low = __ldcs(from), high = __ldcs(from + 1);
            const float more[kAddedColumns] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
            for (int i = 0; i < kAddedColumns; ++i) sums[i] += more[i];
        }
        const int64_t batch = pair / a.heads, head = pair - batch * a.heads,
                      at = batch * x.to.stride[0] + head * x.to.stride[1] + row * x.to.stride[2] + column;
        void *const to = const_cast<void *>(x.to.data);
        if (x.to.storage == AttentionStorage::kF32) {
            float4 *const wide = reinterpret_cast<float4 *>(static_cast<float *>(to) + at);
            wide[0] = make_float4(sums[0], sums[1], sums[2], sums[3]);
            wide[1] = make_float4(sums[4], sums[5], sums[6], sums[7]);
        } else {
            *reinterpret_cast<uint4 *>(static_cast<Element *>(to) + at) =
                make_uint4(narrow_pair<Element>(sums[0], sums[1]), narrow_pair<Element>(sums[2], sums[3]),
                           narrow_pair<Element>(sums[4], sums[5]), narrow_pair<Element>(sums[6], sums[7]));
        }
    }
}

template <class Element>
__global__ void __launch_bounds__(kAddPartsThreads) attention_backward_add_parts(const __grid_constant__ BackwardPartSums a) {
    await_kernel_ahead();
    const int64_t first = static_cast<int64_t>(blockIdx.x) * kAddPartsThreads + threadIdx.x,
                  step = static_cast<int64_t>(gridDim.x) * kAddPartsThreads;
    add_parts<Element>(a, a.dk, first, step);
    add_parts<Element>(a, a.dv, first, step);
}

}  // namespace attile::gpu::mma
