// SPDX-License-Identifier: Apache-2.0
// Attention's gradients on Hopper's tensor cores. A block keeps K and V of 128 keys in
// shared memory, 64 of them a consumer warpgroup's, and sums dK and dV of them in registers, while tiles of Q and dO of all query heads of
// the group stream by: S^T = K Q^T, P^T = exp(scale S^T - lse), dP^T = V dO^T and dS^T = P^T (dP^T - delta). All are transposed: so P^T and
// dS^T leave their products in the layout of a left operand, which the products of dV and dK want. dS goes to shared memory besides, for
// dQ = dS K, of which each warpgroup makes 64 rows or 64 columns. TMA adds dQ's parts in memory, in float32 and in a fixed order, to one
// sum or to several, so that results do not differ from run to run; another kernel adds the sums up and narrows them.
//
// Persistent blocks, one a multiprocessor, take tiles from a counter, or in a fixed order where they go in gangs. Four warps are producers:
// one schedules tiles and loads, three add dQ (attention_backward/sm90/producer.cuh). Tiles, budget and bound:
// attention_backward/sm90/instances.cmake. Record: docs/kernels/attention-backward-sm90.md.
#pragma once

#include "attention_backward/sm90/consumer.cuh"
#include "attention_backward/sm90/producer.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(BackwardShape::threads(), 1) attention_backward(const __grid_constant__ BackwardArguments a) {
    static_assert(Config::kShape.shared_bytes() <= kBackwardSharedLimit, "shared memory of a block");
    extern __shared__ __align__(1024) unsigned char memory[];
    const BackwardShared<Config> shared(memory);
    if (threadIdx.x == 0) {
        shared.init();
        tensor_map_prefetch(&a.map_q);
        tensor_map_prefetch(&a.map_dout);
        tensor_map_prefetch(&a.map_k);
        tensor_map_prefetch(&a.map_v);
    }
    await_kernel_ahead_alone();
    __syncthreads();
    const int warpgroup = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
    if (warpgroup == 0) {
        registers_shrink<Config::kShape.producer_registers>();
        const int warp = warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads);
        if constexpr (Config::kShape.sparse) {
            if (warp == 0) load_shown(a, shared);
        } else {
            if (threadIdx.x == 0) load_backward(a, shared);
        }
        if (warp > 0) add_sums<Config>(a, shared, warp - 1);
    } else {
        registers_grow<Config::kShape.consumer_registers>();
        BackwardWarpgroup<Element, Config>(a, shared, warpgroup - 1).run();
    }
}

// dQ from its sums: a block has a tile of rows, a thread the values that it had as a consumer's result.
template <class Element, class Config>
__global__ void __launch_bounds__(BackwardShape::finish_threads()) attention_backward_finish(const __grid_constant__ BackwardArguments a) {
    await_kernel_ahead();
    constexpr BackwardShape kShape = Config::kShape;
    constexpr bool kPartOfRows = kShape.halves_rows();
    constexpr int kPartColumns = kShape.part_columns(), kPartSums = kPartColumns / 2;
    const AttentionParams &f = a.p.forward;
    const int row_tiles = a.p.rows_allotted / kShape.rows, of_launch = static_cast<int>(blockIdx.x) / row_tiles,
              tile = static_cast<int>(blockIdx.x) - of_launch * row_tiles,
              head = static_cast<int>(a.p.first_pair * f.group.divisor) + of_launch, batch = head / static_cast<int>(f.heads.divisor);
    const BackwardSite site = {head - batch * static_cast<int>(f.heads.divisor), 0, AttentionEntry(f, batch)};
    float sums[kPartSums] = {};
    const int group = static_cast<int>(threadIdx.x) / kWarpgroupThreads, thread = static_cast<int>(threadIdx.x) % kWarpgroupThreads;
    int64_t place = blockIdx.x;
#pragma unroll 1
    for (int chain = 0; chain < a.chains; ++chain, place += a.places) {
        if (a.dq_semaphores[place] == 0) break;  // No more blocks of keys are seen by the tile's rows.
        const float4 *const from = reinterpret_cast<const float4 *>(a.sums + place * (kShape.rows * kShape.depth)) +
                                   group * (kPartSums / 4 * kWarpgroupThreads) + thread;
#pragma unroll
        for (int i = 0; i < kPartSums / 4; ++i) {
            const float4 x = __ldcs(from + i * kWarpgroupThreads);
            sums[4 * i] += x.x;
            sums[4 * i + 1] += x.y;
            sums[4 * i + 2] += x.z;
            sums[4 * i + 3] += x.w;
        }
    }
    if (!is_finite(sums)) mark_irregular(a.p, batch, static_cast<int>(quotient(static_cast<uint32_t>(site.head), f.group)));
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int row = tile * kShape.rows + (kPartOfRows ? 64 * group : 0) + thread / kWarpThreads * 16 + lane_index() / 4 + 8 * r;
        store_gradient_row<Element, kPartColumns>(a.p.dq, site, site.entry.first_q + row, row < site.entry.len_q, f.head_dim,
                                                  kPartOfRows ? 0 : kPartColumns * group, sums + 2 * r, a.p.scale);
    }
}

}  // namespace attile::gpu::sm90
