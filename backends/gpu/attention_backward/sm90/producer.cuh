// SPDX-License-Identifier: Apache-2.0
// The producer warps of the kernel of attention's gradients: one schedules tiles and loads by TMA, three add parts of dQ to the sums in
// memory.
#pragma once

#include "attention_backward/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// K and V have one stage: the next tile's are loaded while this one's sums are stored.
template <class Shared>
__device__ __forceinline__ void load_backward(const BackwardArguments &a, const Shared &shared) {
    constexpr BackwardShape kShape = Shared::kShape;
    constexpr int kPanelRow = kBackwardPanel * 2, kKeys = kShape.keys, kRows = kShape.rows;
    uint32_t scheduled = 0, tiles = 0, steps = 0;
    for (;;) {
        barrier_wait_idle(shared.work_empty(scheduled % 2), (scheduled / 2 & 1) ^ 1);
        // A tile is drawn while the one before is still in use. Gangs take a fixed order: with a counter a block could hold two tiles of a
        // gang.
        const int index = static_cast<int>(a.gang > 1 ? blockIdx.x + scheduled * gridDim.x : atomicAdd(a.counter, 1u));
        const bool is_end = index >= a.tiles;
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared.work(scheduled % 2)), "r"(is_end ? -1 : index) : "memory");
        barrier_arrive(shared.work_full(scheduled % 2));
        ++scheduled;
        if (is_end) return;
        const BackwardWalk walk(a, kShape.keys, index);
        const AttentionEntry &entry = walk.site.entry;
        const int count = walk.steps();
        if (count == 0) continue;
        const int batch = entry.batch, first_q = static_cast<int>(entry.first_q),
                  first_k = static_cast<int>(entry.first_k) + walk.site.first;
        const auto load = [&](const TensorMap *map, uint32_t to, uint32_t full, int rows, int row, int of_head, int of_batch) {
#pragma unroll
            for (int j = 0; j < kShape.panels(); ++j)
                tensor_load_4d(to + j * rows * kPanelRow, map, full, kBackwardPanel * j, row, of_head, of_batch);
        };
        barrier_wait_idle(shared.keys_empty(), (tiles & 1) ^ 1);
        ++tiles;
        barrier_arrive_expect(shared.keys_full(), 2 * kShape.keys_bytes());
        load(&a.map_k, shared.k, shared.keys_full(), kKeys, first_k, head_of_keys(a.p, walk.site.head) * a.k_head, batch * a.k_batch);
        int head = walk.start_head(), tile = walk.start_tile();
        for (int i = 0; i < count; ++i, walk.advance(head, tile)) {
            const uint32_t stage = steps % 2;
            barrier_wait(shared.rows_empty(stage), (steps / 2 & 1) ^ 1);
            ++steps;
            barrier_arrive_expect(shared.q_full(stage), kShape.rows_bytes() + kShape.number_bytes());
            load(&a.map_q, shared.q(stage), shared.q_full(stage), kRows, first_q + tile * kRows, head * a.q_head, batch * a.q_batch);
            const BackwardRow<float> *const numbers = static_cast<const BackwardRow<float> *>(a.p.rows) +
                                                      (static_cast<int64_t>(batch) * a.p.forward.heads.divisor + head) * a.p.rows_allotted +
                                                      tile * kRows;
            bulk_load(shared.numbers(stage), numbers, kShape.number_bytes(), shared.q_full(stage));
            if (i == 0)
                load(&a.map_v, shared.v(), shared.keys_full(), kKeys, first_k, head_of_keys(a.p, walk.site.head) * a.v_head,
                     batch * a.v_batch);
            barrier_arrive_expect(shared.dout_full(stage), kShape.rows_bytes());
            load(&a.map_dout, shared.dout(stage), shared.dout_full(stage), kRows, first_q + tile * kRows, head * a.dout_head,
                 batch * a.dout_batch);
        }
    }
}

// Where a step's part of dQ goes, and how many parts are added before it.
struct BackwardSum {
    int place;
    uint32_t order;

    __device__ __forceinline__ BackwardSum(const BackwardArguments &a, const BackwardWalk &walk, int row_tiles, int step) {
        int head, tile;
        walk.at(step, head, tile);
        const uint32_t of_all = static_cast<uint32_t>(walk.dq_order(a, head, tile));
        order = of_all / a.chains;
        const int64_t of_tiles = walk.head_of_launch(a, head) * row_tiles + tile;
        place = static_cast<int>((of_all - order * a.chains) * a.places + of_tiles);
    }
};

// Adds a tile's parts of dQ to the sums in memory, in the order of the keys or of the gang. That is also the order in which blocks take
// tiles, so a block only waits for one that is running. The first part of a chain is stored, not added. Warps alternate: what a step takes
// besides its way to memory, above all to tell other blocks that it is there, is as long as the step. For the same reason each lane finds
// out about a step of its own, and one lane does them all.
template <class Config>
__device__ __forceinline__ void add_sums(const BackwardArguments &a, const BackwardShared<Config> &shared, int adder) {
    constexpr BackwardShape kShape = Config::kShape;
    const int lane = lane_index();
    uint32_t scheduled = 0, steps = 0;
    for (;;) {
        barrier_wait_idle(shared.work_full(scheduled % 2), scheduled / 2 & 1);
        int index;
        asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared.work(scheduled % 2)) : "memory");
        index = warp_uniform(index);
        __syncwarp();
        if (lane == 0) barrier_arrive(shared.work_empty(scheduled % 2));
        ++scheduled;
        if (index < 0) return;
        const BackwardWalk walk(a, kShape.keys, index);
        const int count = warp_uniform(walk.steps()), row_tiles = a.p.rows_allotted / kShape.rows;
        for (int from = (adder + kAdders - static_cast<int>(steps % kAdders)) % kAdders; from < count; from += kAdders * kWarpThreads) {
            const BackwardSum own(a, walk, row_tiles, min(from + lane * kAdders, count - 1));
            for (int of_lane = 0; of_lane < kWarpThreads && from + of_lane * kAdders < count; ++of_lane) {
                const int place = __shfl_sync(~0u, own.place, of_lane);
                const uint32_t order = __shfl_sync(~0u, own.order, of_lane), step = steps + from + of_lane * kAdders, stage = step % 2;
                if (lane != 0) continue;
                uint32_t *const done = a.dq_semaphores + place;
                float *const to = a.sums + static_cast<int64_t>(place) * (kShape.rows * kShape.depth);
                barrier_wait(shared.sums_full(adder), step / kAdders & 1);
                if (order == 0) {
                    bulk_store(to, shared.sums(stage), kShape.sums_bytes());
                } else {
                    while (load_acquire(done) != order) __nanosleep(32);
                    async_proxy_fence_global();
                    bulk_add(to, shared.sums(stage), kShape.sums_bytes());
                }
                tensor_store_commit();
                tensor_store_wait_read<0>();
                barrier_arrive(shared.sums_empty(stage));
                bulk_wait<0>();
                async_proxy_fence_global();
                store_release(done, order + 1);
            }
            __syncwarp();
        }
        steps += static_cast<uint32_t>(count);
    }
}

}  // namespace attile::gpu::sm90
