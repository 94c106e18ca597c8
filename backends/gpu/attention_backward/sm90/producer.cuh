// SPDX-License-Identifier: Apache-2.0
// The producer warps of the kernel of attention's gradients: one schedules tiles and loads by TMA, three add parts of dQ to the sums in
// memory.
#pragma once

#include "attention_backward/sm90/shown.cuh"

namespace attile::gpu::sm90 {

// The loads of one thread. K and V have one stage: the next tile's are loaded while this one's sums are stored.
template <class Shared>
class BackwardLoads {
    static constexpr BackwardShape kShape = Shared::kShape;
    static constexpr int kPanelRow = kBackwardPanel * 2, kKeys = kShape.keys, kRows = kShape.rows;

  public:
    __device__ __forceinline__ BackwardLoads(const BackwardArguments &arguments, const Shared &shared) : a_(arguments), shared_(shared) {}

    // Of a tile that has steps.
    __device__ __forceinline__ void load_keys(const BackwardSite &site) {
        barrier_wait_idle(shared_.keys_empty(), (tiles_ & 1) ^ 1);
        ++tiles_;
        barrier_arrive_expect(shared_.keys_full(), 2 * kShape.keys_bytes());
        load(&a_.map_k, shared_.k, shared_.keys_full(), kKeys, first_key(site), head_of_keys(a_.p, site.head) * a_.k_head,
             site.entry.batch * a_.k_batch);
    }
    // The next step; its first one brings V. tell(step) is called before its Q is on its way, when the rows of two steps before are read.
    template <class Tell>
    __device__ __forceinline__ void load_rows(const BackwardSite &site, int head, int tile, bool is_first, const Tell &tell) {
        const uint32_t stage = steps_ % 2;
        const int batch = site.entry.batch, row = static_cast<int>(site.entry.first_q) + tile * kRows;
        barrier_wait(shared_.rows_empty(stage), (steps_ / 2 & 1) ^ 1);
        tell(steps_);
        ++steps_;
        barrier_arrive_expect(shared_.q_full(stage), kShape.rows_bytes() + kShape.number_bytes());
        load(&a_.map_q, shared_.q(stage), shared_.q_full(stage), kRows, row, head * a_.q_head, batch * a_.q_batch);
        const BackwardRow<float> *const numbers = static_cast<const BackwardRow<float> *>(a_.p.rows) +
                                                  (static_cast<int64_t>(batch) * a_.p.forward.heads.divisor + head) * a_.p.rows_allotted +
                                                  tile * kRows;
        bulk_load(shared_.numbers(stage), numbers, kShape.number_bytes(), shared_.q_full(stage));
        if (is_first)
            load(&a_.map_v, shared_.v(), shared_.keys_full(), kKeys, first_key(site), head_of_keys(a_.p, site.head) * a_.v_head,
                 batch * a_.v_batch);
        barrier_arrive_expect(shared_.dout_full(stage), kShape.rows_bytes());
        load(&a_.map_dout, shared_.dout(stage), shared_.dout_full(stage), kRows, row, head * a_.dout_head, batch * a_.dout_batch);
    }

  private:
    static __device__ __forceinline__ int first_key(const BackwardSite &site) { return static_cast<int>(site.entry.first_k) + site.first; }
    __device__ __forceinline__ void load(const TensorMap *map, uint32_t to, uint32_t full, int rows, int row, int of_head,
                                         int of_batch) const {
#pragma unroll
        for (int j = 0; j < kShape.panels(); ++j)
            tensor_load_4d(to + j * rows * kPanelRow, map, full, kBackwardPanel * j, row, of_head, of_batch);
    }

    const BackwardArguments &a_;
    const Shared &shared_;
    uint32_t tiles_ = 0, steps_ = 0;
};

template <class Shared>
__device__ __forceinline__ void load_backward(const BackwardArguments &a, const Shared &shared) {
    BackwardLoads<Shared> loads(a, shared);
    for (uint32_t scheduled = 0;; ++scheduled) {
        barrier_wait_idle(shared.work_empty(scheduled % 2), (scheduled / 2 & 1) ^ 1);
        // A tile is drawn while the one before is still in use. Gangs take a fixed order: with a counter a block could hold two tiles of a
        // gang.
        const int index = static_cast<int>(a.gang > 1 ? blockIdx.x + scheduled * gridDim.x : atomicAdd(a.counter, 1u));
        const bool is_end = index >= a.tiles;
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared.work(scheduled % 2)), "r"(is_end ? -1 : index) : "memory");
        barrier_arrive(shared.work_full(scheduled % 2));
        if (is_end) return;
        const BackwardWalk walk(a, Shared::kShape.keys, index);
        const int count = walk.steps();
        if (count == 0) continue;
        loads.load_keys(walk.site);
        int head = walk.start_head(), tile = walk.start_tile();
        for (int i = 0; i < count; ++i, walk.advance(head, tile)) loads.load_rows(walk.site, head, tile, i == 0, [](uint32_t) {});
    }
}

// The same under a mask of blocks, by all lanes of a warp, which look for the steps that there are.
template <class Shared>
__device__ __forceinline__ void load_shown(const BackwardArguments &a, const Shared &shared) {
    const int lane = lane_index();
    BackwardLoads<Shared> loads(a, shared);
    for (uint32_t scheduled = 0;; ++scheduled) {
        int index = 0;
        if (lane == 0) {
            barrier_wait_idle(shared.work_empty(scheduled % 2), (scheduled / 2 & 1) ^ 1);
            index = static_cast<int>(min(atomicAdd(a.counter, 1u), static_cast<uint32_t>(a.tiles)));
        }
        index = __shfl_sync(~0u, index, 0);
        const bool is_end = index >= a.tiles;
        const BackwardWalk walk(a, Shared::kShape.keys, is_end ? 0 : index);
        BackwardShownTiles<Shared> shown(a, walk);
        const int count = is_end ? 0 : shown.count();
        if (lane == 0) {
            asm volatile("st.shared.v2.s32 [%0], {%1, %2};" ::"r"(shared.work(scheduled % 2)), "r"(is_end ? -1 : index), "r"(count)
                         : "memory");
            barrier_arrive(shared.work_full(scheduled % 2));
            if (count > 0) loads.load_keys(walk.site);
        }
        __syncwarp();
        if (is_end) return;
        for (int i = 0; i < count; ++i) {
            const BackwardStep step = shown.next(i + 1 == count);
            if (lane == 0)
                loads.load_rows(walk.site, step.head, step.tile, i == 0, [&](uint32_t number) { step.write(shared.told(number)); });
            __syncwarp();
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

// By one lane: adds the part of dQ in the stage of a step to the sum at `place`, if its semaphore has come to `order`, which then goes on
// to `next`. The first part is stored, not added.
template <class Config>
__device__ __forceinline__ void add_part(const BackwardArguments &a, const BackwardShared<Config> &shared, int adder, uint32_t step,
                                         int place, bool is_first, uint32_t order, uint32_t next) {
    constexpr BackwardShape kShape = Config::kShape;
    const uint32_t stage = step % 2;
    uint32_t *const done = a.dq_semaphores + place;
    float *const to = a.sums + static_cast<int64_t>(place) * (kShape.rows * kShape.depth);
    if (is_first) {
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
    store_release(done, next);
}

// Adds a tile's parts of dQ to the sums in memory, in the order of the keys or of the gang. That is also the order in which blocks take
// tiles, so a block only waits for one that is running. Warps alternate: what a step takes besides its way to memory, above all to tell
// other blocks that it is there, is as long as the step. For the same reason each lane finds out about a step of its own, and one lane does
// them all.
template <class Config>
__device__ __forceinline__ void add_sums(const BackwardArguments &a, const BackwardShared<Config> &shared, int adder) {
    constexpr BackwardShape kShape = Config::kShape;
    const int lane = lane_index();
    uint32_t scheduled = 0, steps = 0;
    for (;;) {
        barrier_wait_idle(shared.work_full(scheduled % 2), scheduled / 2 & 1);
        int index, count = 0;
        if constexpr (kShape.sparse) {
            asm volatile("ld.shared.v2.s32 {%0, %1}, [%2];" : "=r"(index), "=r"(count) : "r"(shared.work(scheduled % 2)) : "memory");
        } else {
            asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared.work(scheduled % 2)) : "memory");
        }
        index = warp_uniform(index);
        __syncwarp();
        if (lane == 0) barrier_arrive(shared.work_empty(scheduled % 2));
        ++scheduled;
        if (index < 0) return;
        const BackwardWalk walk(a, kShape.keys, index);
        count = warp_uniform(kShape.sparse ? count : walk.steps());
        const int row_tiles = a.p.rows_allotted / kShape.rows, begin = (adder + kAdders - static_cast<int>(steps % kAdders)) % kAdders;
        if constexpr (kShape.sparse) {
            for (int i = begin; i < count && lane == 0; i += kAdders) {
                const uint32_t number = steps + static_cast<uint32_t>(i);
                barrier_wait(shared.sums_full(adder), number / kAdders & 1);
                const BackwardStep step = BackwardStep::read(shared.told(number));
                const int place = static_cast<int>(walk.head_of_launch(a, step.head) * row_tiles + step.tile);
                add_part(a, shared, adder, number, place, (step.flags & BackwardStep::kFirstOfTile) != 0, step.own_order(walk, kShape.keys),
                         step.next);
            }
            __syncwarp();
        } else {
            for (int from = begin; from < count; from += kAdders * kWarpThreads) {
                const BackwardSum own(a, walk, row_tiles, min(from + lane * kAdders, count - 1));
                for (int of_lane = 0; of_lane < kWarpThreads && from + of_lane * kAdders < count; ++of_lane) {
                    const int place = __shfl_sync(~0u, own.place, of_lane);
                    const uint32_t order = __shfl_sync(~0u, own.order, of_lane), step = steps + from + of_lane * kAdders;
                    if (lane != 0) continue;
                    barrier_wait(shared.sums_full(adder), step / kAdders & 1);
                    add_part(a, shared, adder, step, place, order == 0, order, order + 1);
                }
                __syncwarp();
            }
        }
        steps += static_cast<uint32_t>(count);
    }
}

}  // namespace attile::gpu::sm90
