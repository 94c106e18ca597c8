// SPDX-License-Identifier: Apache-2.0
// Prepares the kernels of attention's gradients: for each query row its lse and delta = sum over d of dO O; for each batch entry and key
// head whether q, k, v or dO hold NaN or infinity, which products with zeros would spread. It does what the SIMT kernel
// attention_backward_prepare does, for 16-bit rows at multiples of 16 bytes. Bound: memory, 16 bytes a lane and load.
#pragma once

#include "attention/block.h"
#include "attention_backward/mma/task.h"
#include "attention_backward/tiles.h"
#include "early.h"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Does a pair of numbers hold NaN or infinity? A carry out of the exponent tells.
template <class Element>
__device__ __forceinline__ uint32_t irregular_bits(uint32_t pair) {
    constexpr uint32_t kOne = std::is_same_v<Element, F16> ? 0x04000400u : 0x00800080u;
    return ((pair & 0x7fff7fffu) + kOne) & 0x80008000u;
}
template <class Element>
__device__ __forceinline__ uint32_t irregular_bits(const uint4 &x) {
    return irregular_bits<Element>(x.x) | irregular_bits<Element>(x.y) | irregular_bits<Element>(x.z) | irregular_bits<Element>(x.w);
}

// A block takes kBackwardPrepareRows rows or keys of one head, kLanes lanes a row, 8 columns each. kChecks: operands are checked. Otherwise
// the kernels that multiply them check their results (an lse or delta that is NaN or infinite makes every gradient of a score NaN); blocks
// are of rows alone then, and set the later kernels' counters and marks to zero.
template <class Element, int kLanes, bool kChecks>
__global__ void __launch_bounds__(kBackwardPrepareThreads) attention_backward_prepare(const __grid_constant__ BackwardTask a) {
    await_kernel_ahead();
    constexpr int kAtOnce = kBackwardPrepareThreads / kLanes;
    const AttentionBackwardParams &p = a.p;
    const AttentionParams &f = p.forward;
    const int heads = static_cast<int>(f.heads.divisor), heads_kv = static_cast<int>(p.heads_kv.divisor);
    const int row_blocks = p.rows_allotted / kBackwardPrepareRows, of_rows = p.batch * heads * row_blocks,
              index = static_cast<int>(blockIdx.x);
    const bool takes_rows = index < of_rows;
    const int blocks = takes_rows ? row_blocks : (f.len_k + kBackwardPrepareRows - 1) / kBackwardPrepareRows;
    const int entry_head = (takes_rows ? index : index - of_rows) / blocks, block = (takes_rows ? index : index - of_rows) % blocks;
    const int batch = entry_head / (takes_rows ? heads : heads_kv), head = entry_head % (takes_rows ? heads : heads_kv);
    const int read_head = takes_rows ? head : head_of_keys(p, head);
    const AttentionEntry entry(f, batch);
    const int lane = static_cast<int>(threadIdx.x) % kLanes, first = block * kBackwardPrepareRows + static_cast<int>(threadIdx.x) / kLanes;
    const auto load = [&](const AttentionOperand &x, int64_t of_all, int columns) {
        const uint4 *const from = reinterpret_cast<const uint4 *>(static_cast<const Element *>(x.data) + batch * x.stride[0] +
                                                                  read_head * x.stride[1] + of_all * x.stride[2] + 8 * lane);
        return 8 * lane < columns ? __ldg(from) : uint4{};
    };
    if constexpr (!kChecks) {
        for (int i = index * kBackwardPrepareThreads + static_cast<int>(threadIdx.x); i < a.words;
             i += static_cast<int>(gridDim.x) * kBackwardPrepareThreads)
            p.irregular[i - 1] = 0;
    }
    uint32_t irregular = 0;
    if (takes_rows) {
        BackwardRow<float> *const rows = static_cast<BackwardRow<float> *>(p.rows) + static_cast<int64_t>(entry_head) * p.rows_allotted;
#pragma unroll
        for (int i = 0; i < kBackwardPrepareRows; i += kAtOnce) {
            const int row = first + i;
            const bool is_there = row < entry.len_q;
            const int64_t at = entry.first_q + row;
            float delta = 0, lse = -INFINITY, of_lse = 0;
            if (is_there) {
                const uint4 dout = load(p.dout, at, f.head_dim_v);
                const uint32_t *const left = reinterpret_cast<const uint32_t *>(&dout);
                if constexpr (kChecks) irregular |= irregular_bits<Element>(dout) | irregular_bits<Element>(load(f.q, at, f.head_dim));
                float2 o[4] = {};
                if (f.o.storage == AttentionStorage::kF32) {
                    const float *const from =
                        static_cast<const float *>(f.o.data) + batch * f.o.stride[0] + head * f.o.stride[1] + at * f.o.stride[2] + 8 * lane;
                    if (8 * lane < f.head_dim_v) {
                        const float4 low = *reinterpret_cast<const float4 *>(from), high = *reinterpret_cast<const float4 *>(from + 4);
                        o[0] = make_float2(low.x, low.y);
                        o[1] = make_float2(low.z, low.w);
                        o[2] = make_float2(high.x, high.y);
                        o[3] = make_float2(high.z, high.w);
                    }
                } else {
                    const uint4 right = load(f.o, at, f.head_dim_v);
#pragma unroll
                    for (int e = 0; e < 4; ++e) o[e] = widen_pair<Element>(reinterpret_cast<const uint32_t *>(&right)[e]);
                }
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float2 x = widen_pair<Element>(left[e]);
                    delta = fmaf(x.x, o[e].x, fmaf(x.y, o[e].y, delta));
                }
                lse = static_cast<const float *>(f.lse.data)[batch * f.lse.stride[0] + head * f.lse.stride[1] + at * f.lse.stride[2]];
                const AttentionOperand &x = p.dlse;
                if (x.data) of_lse = static_cast<const float *>(x.data)[batch * x.stride[0] + head * x.stride[1] + at * x.stride[2]];
            }
#pragma unroll
            for (int step = 1; step < kLanes; step *= 2) delta += __shfl_xor_sync(~0u, delta, step);
            delta -= of_lse;
            // Rows that see no key take no part, and neither do those past the last.
            const bool counts = lse != -INFINITY;
            if constexpr (kChecks) irregular |= counts && !(fabsf(delta) < INFINITY && lse == lse);
            if (lane == 0) rows[row] = {counts ? lse : INFINITY, counts ? delta : 0.0f};
        }
    } else if constexpr (kChecks) {
#pragma unroll
        for (int i = 0; i < kBackwardPrepareRows; i += kAtOnce) {
            const int key = first + i;
            if (key >= entry.len_k) break;
            irregular |= irregular_bits<Element>(load(f.k, entry.first_k + key, f.head_dim)) |
                         irregular_bits<Element>(load(f.v, entry.first_k + key, f.head_dim_v));
        }
    }
    if constexpr (!kChecks) return;
    const int head_kv = takes_rows ? static_cast<int>(quotient(static_cast<uint32_t>(head), f.group)) : head;
    if (irregular != 0) p.irregular[batch * heads_kv + head_kv] = p.irregular[-1] = 1;  // Every thread that finds one writes the same.
}

}  // namespace attile::gpu::mma
