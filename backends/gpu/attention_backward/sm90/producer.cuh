// SPDX-License-Identifier: Apache-2.0
// The serving threads of the kernel of attention's gradients: one takes tiles and loads what they need, two add parts of dQ to the sums in
// memory.
#pragma once

#include "attention_backward/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// K and V of a block have one place: the next block's are loaded while the sums of this one's are stored.
template <class Shared>
__device__ __forceinline__ void load_backward(const BackwardArguments &a, const Shared &shared) {
    constexpr BackwardShape kShape = Shared::kShape;
    constexpr int kPanelRow = kBackwardPanel * 2, kKeys = kShape.keys, kRows = kShape.rows;
    uint32_t notes = 0, tiles = 0, steps = 0;
    for (;;) {
        barrier_wait_idle(shared.note_empty(notes % 2), (notes / 2 & 1) ^ 1);
        // A tile is taken while the one before is worked on: a block would hold two of a gang if they were not dealt out beforehand.
        const int index = static_cast<int>(a.gang > 1 ? blockIdx.x + notes * gridDim.x : atomicAdd(a.counter, 1u));
        const bool is_end = index >= a.tiles;
        asm volatile("st.shared.s32 [%0], %1;" ::"r"(shared.note(notes % 2)), "r"(is_end ? -1 : index) : "memory");
        barrier_arrive(shared.note_full(notes % 2));
        ++notes;
        if (is_end) return;
        const BackwardWalk walk(a, kShape.keys, index);
        const AttentionEntry &entry = walk.site.entry;
        const int count = walk.steps();
        if (count == 0) continue;
        const int batch = entry.batch, first_q = static_cast<int>(entry.first_q),
                  first_k = static_cast<int>(entry.first_k) + walk.site.first;
        const auto load = [&](const CUtensorMap *map, uint32_t to, uint32_t full, int rows, int row, int of_head, int of_batch) {
#pragma unroll
            for (int j = 0; j < kShape.panels(); ++j)
                tensor_load_4d(to + j * rows * kPanelRow, map, full, kBackwardPanel * j, row, of_head, of_batch);
        };
        barrier_wait_idle(shared.keys_empty(), (tiles & 1) ^ 1);
        ++tiles;
        barrier_arrive_expect(shared.keys_full(), 2 * kShape.keys_bytes());
        load(&a.map_k, shared.k, shared.keys_full(), kKeys, first_k, walk.site.head * a.k_head, batch * a.k_batch);
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
            if (i == 0) load(&a.map_v, shared.v(), shared.keys_full(), kKeys, first_k, walk.site.head * a.v_head, batch * a.v_batch);
            barrier_arrive_expect(shared.dout_full(stage), kShape.rows_bytes());
            load(&a.map_dout, shared.dout(stage), shared.dout_full(stage), kRows, first_q + tile * kRows, head * a.dout_head,
                 batch * a.dout_batch);
        }
    }
}

// Sums get one part after the other, in the order of the keys, which is the order in which blocks take tiles, or in a gang's: so whoever
// waits for his turn waits for a block that is at work. The first part is stored, not added. Two threads take turns, each with a stage of
// its own, since the copy engine's being done with one part is waited for.
template <class Config>
__device__ __forceinline__ void add_sums(const BackwardArguments &a, const BackwardShared<Config> &shared, uint32_t stage) {
    constexpr BackwardShape kShape = Config::kShape;
    uint32_t notes = 0, steps = 0;
    for (;;) {
        barrier_wait_idle(shared.note_full(notes % 2), notes / 2 & 1);
        int index;
        asm volatile("ld.shared.s32 %0, [%1];" : "=r"(index) : "r"(shared.note(notes % 2)) : "memory");
        barrier_arrive(shared.note_empty(notes % 2));
        ++notes;
        if (index < 0) return;
        const BackwardWalk walk(a, kShape.keys, index);
        const int count = walk.steps(), row_tiles = a.p.rows_allotted / kShape.rows;
        int head = walk.start_head(), tile = walk.start_tile();
        for (int i = 0; i < count; ++i, ++steps, walk.advance(head, tile)) {
            if (steps % 2 != stage) continue;
            const int64_t place = walk.head_of_launch(a, head) * row_tiles + tile;
            const uint32_t turn = static_cast<uint32_t>(walk.turn(a, head, tile));
            barrier_wait(shared.sums_full(stage), steps / 2 & 1);
            uint32_t *const done = a.turns + place;
            float *const to = a.sums + place * (kShape.rows * kShape.depth);
            if (turn == 0) {
                bulk_store(to, shared.sums(stage), kShape.sums_bytes());
            } else {
                while (load_acquire(done) != turn) __nanosleep(32);
                async_proxy_fence_all();
                bulk_add(to, shared.sums(stage), kShape.sums_bytes());
            }
            tensor_store_commit();
            tensor_store_wait_read<0>();
            barrier_arrive(shared.sums_empty(stage));
            bulk_wait<0>();
            async_proxy_fence_all();
            store_release(done, turn + 1);
        }
    }
}

}  // namespace attile::gpu::sm90
