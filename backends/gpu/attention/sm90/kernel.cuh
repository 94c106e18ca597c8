// SPDX-License-Identifier: Apache-2.0
// Attention forward on Hopper's tensor cores: o = softmax(scale q k^T) v for a tile of 64 rows a consumer warpgroup, keys walked from the
// last to the first. Persistent blocks, one a multiprocessor, take tiles from a counter. The first warpgroup is the producer: one of its
// threads is the tile scheduler, one of another warp, or of pages and masks of blocks all of it, loads Q, K and V by TMA into pipeline
// stages. The other warpgroups are consumers: S = Q K^T of the next key tile is issued together with O += P V of the current one. While the
// tensor cores work on the latter, the softmax of the former is computed in registers, where P stays (attention/mma/softmax.cuh,
// attention/sm90/product.cuh).
//
// Tiles, budget and bound: attention/sm90/instances.cmake. Record: docs/kernels/attention-sm90.md.
#pragma once

#include "attention/sm90/consumer.cuh"
#include "attention/sm90/producer.cuh"

namespace attile::gpu::sm90 {

// Launch bounds give each thread its share of a multiprocessor's registers. With one consumer warpgroup half of them are enough for the
// consumer, grown, and the producer, shrunk, together.
template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), Config::kShape.warpgroups > 1 ? 1 : 2)
    attention_forward(const __grid_constant__ AttentionArguments a) {
    static_assert(Config::kShape.shared_bytes() <= kAttentionSharedLimit, "shared memory of a block");
    static_assert(
        !Config::kShape.sparse || (ATTILE_MASK_BLOCK % Config::kShape.rows() == 0 && ATTILE_MASK_BLOCK % Config::kShape.keys == 0),
        "a work tile's rows, and a tile's keys, are of one block");
    static_assert(Config::kShape.stages >= 2 && Config::kShape.stages <= kMostStages, "barriers");
    extern __shared__ __align__(16) unsigned char memory[];
    const AttentionShared<Config> shared(memory);
    if (threadIdx.x == 0) {
        shared.init();
        tensor_map_prefetch(&a.map_q);
        tensor_map_prefetch(&a.map_k);
        tensor_map_prefetch(&a.map_v);
        if constexpr (Config::kShape.loads_strips()) tensor_map_prefetch(&a.map_scores);
    }
    clear_other_rows<Config>(a, shared);
    if constexpr (Config::kShape.alibi_only) write_key_distances<Element, Config::kShape.keys>(shared.distances);
    __syncthreads();
    await_kernel_ahead();
    const int warpgroup = warp_uniform(static_cast<int>(threadIdx.x) / kWarpgroupThreads);
    if (warpgroup == 0) {
        registers_shrink<Config::kShape.producer_registers>();
        if (threadIdx.x < (Config::kShape.producer_is_warp() ? kWarpThreads : 1)) load_tiles<Config>(a, shared);
        if (threadIdx.x == kWarpThreads) schedule_tiles<Config>(a, shared);
    } else {
        registers_grow<Config::kShape.consumer_registers>();
        AttentionWarpgroup<Element, Config>(a, shared, warpgroup - 1).run();
    }
}

}  // namespace attile::gpu::sm90
