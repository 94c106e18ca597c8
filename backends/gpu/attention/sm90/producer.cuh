// SPDX-License-Identifier: Apache-2.0
// The attention kernel's producer warpgroup: one thread is the tile scheduler, one, or of pages and masks of blocks a warp, loads Q, K and
// V by TMA.
#pragma once

#include <type_traits>

#include "attention/mma/shown_tiles.cuh"
#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// Loads a tile of K or V. A paged one comes in runs of keys, each from one page; a missing page reads as zero.
template <class Config, int kPanels>
__device__ __forceinline__ void load_keys(const AttentionArguments &a, const AttentionWorkTile &work, const TensorMap *map, uint32_t to,
                                          uint32_t full, int tile, int first_k, int head, int batch) {
    constexpr int kKeys = Config::kShape.keys, kPanelRow = kAttentionPanel * 2;
    if (Config::kShape.modifies && !Config::kShape.is_fused() && a.page_rows > 0) {
        // Some pages are looked up before the first is needed: one after the other took several times what a tile's products take.
        constexpr int kLookedUp = 4;
        const int page_size = static_cast<int>(a.p.page_size.divisor), pages = static_cast<int>(a.p.pages), first = tile * kKeys;
        int entry = static_cast<int>(quotient(static_cast<uint32_t>(first), a.p.page_size)), slot = first - entry * page_size;
        const int32_t *const table = a.p.block_table + work.batch * a.p.block_table_stride[0];
        for (int row = 0; row < kKeys; row += kLookedUp * a.page_rows) {
            int page[kLookedUp], at = slot;
#pragma unroll
            for (int i = 0; i < kLookedUp; ++i) {
                page[i] = first + row + i * a.page_rows < a.p.len_k ? table[entry * a.p.block_table_stride[1]] : -1;
                at += a.page_rows;
                if (at == page_size) {
                    at = 0;
                    ++entry;
                }
            }
#pragma unroll
            for (int i = 0; i < kLookedUp; ++i) {
                const int into = row + i * a.page_rows;
                if (into >= kKeys) break;
                const int held = page[i] < 0 || page[i] > pages ? pages : page[i];
#pragma unroll
                for (int j = 0; j < kPanels; ++j)
                    tensor_load_4d(to + (j * kKeys + into) * kPanelRow, map, full, kAttentionPanel * j, slot, head, held);
                slot += a.page_rows;
                if (slot == page_size) slot = 0;
            }
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < kPanels; ++j)
        tensor_load_4d(to + j * kKeys * kPanelRow, map, full, kAttentionPanel * j, first_k + tile * kKeys, head, batch);
}

// A tile of V of 8 bits, transposed: keys are its columns, two an element.
template <class Config>
__device__ __forceinline__ void load_transposed(const AttentionArguments &a, uint32_t to, uint32_t full, int tile, int head, int batch) {
    constexpr int kPanelBytes = Config::kShape.columns * kAttentionPanel * 2, kElements = Config::kShape.keys / 2;
#pragma unroll
    for (int j = 0; j < AttentionShape::panels(kElements); ++j)
        tensor_load_4d(to + j * kPanelBytes, &a.map_v, full, tile * kElements + kAttentionPanel * j, 0, head, batch);
}

// The same by a whole warp, of pages alone: a lane looks up and loads a run of keys. Returns a bit for each eight of the entry's keys whose
// page is missing.
template <class Config, int kPanels>
__device__ __forceinline__ uint32_t load_pages(const AttentionArguments &a, const AttentionWorkTile &work, const TensorMap *map,
                                               uint32_t to, uint32_t full, int tile, int head) {
    constexpr int kKeys = Config::kShape.keys, kPanelRow = kAttentionPanel * 2;
    static_assert(kKeys <= 8 * kWarpThreads, "pages come in multiples of eight keys");
    const int into = lane_index() * a.page_rows, key = tile * kKeys + into, pages = static_cast<int>(a.p.pages);
    uint32_t missing = 0;
    if (into < kKeys) {
        const int entry = static_cast<int>(quotient(static_cast<uint32_t>(key), a.p.page_size)),
                  slot = key - entry * static_cast<int>(a.p.page_size.divisor);
        const int page = key < a.p.len_k ? a.p.block_table[work.batch * a.p.block_table_stride[0] + entry * a.p.block_table_stride[1]] : -1;
        const int held = page < 0 || page > pages ? pages : page;
        if (held == pages && key < work.len_k) missing = ((1u << a.page_rows / 8) - 1) << into / 8;
#pragma unroll
        for (int j = 0; j < kPanels; ++j)
            tensor_load_4d(to + (j * kKeys + into) * kPanelRow, map, full, kAttentionPanel * j, slot, head, held);
    }
    return __reduce_or_sync(~0u, missing);
}

// Loads what is added to a tile's scores, or hides some: rows of 128 bytes, of all the tile's whole packs. Of a mask of 64 keys those hold
// the next tile's as well.
template <class Config>
__device__ __forceinline__ void load_strip(const AttentionArguments &a, const AttentionWorkTile &work, uint32_t to, uint32_t full,
                                           int tile) {
    constexpr int kKeys = Config::kShape.keys, kKeysOfElement = Config::kShape.bias_only ? 1 : 2, kElements = kKeys / kKeysOfElement;
    const int first_row = static_cast<int>(quotient(static_cast<uint32_t>(work.first_row), a.p.pack));
#pragma unroll
    for (int j = 0; j < AttentionShape::panels(kElements); ++j)
        tensor_load_5d(to + j * Config::kShape.rows() * kAttentionPanel * 2, &a.map_scores, full, tile * kElements + j * kAttentionPanel, 0,
                       first_row, work.head * a.scores_head, work.batch * a.scores_batch);
}

// Key tiles of a work tile that are yet to be loaded when the next one is drawn.
constexpr int kDrawsBefore = 3;

// The tile scheduler: draws the next tile and works out what it needs, while the producer thread loads the last of the tile before, no
// sooner: another block may be free for the tile earlier.
template <class Config>
__device__ __forceinline__ void schedule_tiles(const AttentionArguments &a, const AttentionShared<Config> &shared) {
    Ring<kWorkStages<Config>> work_ring;
    int t = static_cast<int>(blockIdx.x);
    uint32_t drawn = 0;
    bool is_first = true;
    for (;; ++drawn) {
        if (!is_first) barrier_wait_idle(shared.draw(), (drawn & 1) ^ 1);
        barrier_wait_idle(shared.work_empty(work_ring.stage), work_ring.parity ^ 1);
        AttentionWorkTile work;
        do {
            if (!is_first)
                t = a.counter != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(a.counter, 1) : t + static_cast<int>(gridDim.x);
            is_first = false;
            work = {};
            work.batch = -1;
            if (t < a.tiles) work = work_tile_of<Config::kShape.rows(), Config::kShape.keys>(a, t);
        } while (work.batch >= 0 && work.first_row >= work.rows);  // Of a sequence shorter than the longest.
        shared.work_tiles[work_ring.stage] = work;
        barrier_arrive(shared.work_full(work_ring.stage));
        work_ring.advance();
        if (work.batch < 0) return;
    }
}

// Rows of a tile that TMA brings: whole packs of heads.
template <class Config>
__device__ __forceinline__ int packed_rows(const AttentionArguments &a) {
    constexpr int kRows = Config::kShape.rows();
    return kRows - static_cast<int>(remainder(static_cast<uint32_t>(kRows), a.p.pack));
}
// The tile's other rows become zero: what they hold must not decide, by a vote of warps, how rows beside them are computed. All of a
// block's threads call it.
template <class Config>
__device__ __forceinline__ void clear_other_rows(const AttentionArguments &a, const AttentionShared<Config> &shared) {
    if (packed_rows<Config>(a) == Config::kShape.rows()) return;
    const auto clear = [](uint32_t from, int bytes) {
        const uint32_t zeros[4] = {};
        for (int i = static_cast<int>(threadIdx.x) * 16; i < bytes; i += Config::kShape.threads() * 16) store_shared(from + i, zeros);
    };
    clear(shared.q, Config::kShape.q_stages() * Config::kShape.q_bytes());
    if constexpr (Config::kShape.loads_strips()) clear(shared.strips, kAttentionStripStages * Config::kShape.fused_strip_bytes());
    async_proxy_fence();
}

// The producer thread, or of pages or masks of blocks its whole warp, of which one lane arrives at barriers. It loads in the order of use:
// K of the first key tile, Q, K of the next, V of the first, and so on; each key tile's strip of bias or mask after its K and before other
// V.
template <class Config>
__device__ __forceinline__ void load_tiles(const AttentionArguments &a, const AttentionShared<Config> &shared) {
    constexpr bool kPaged = Config::kShape.paged, kIsWarp = Config::kShape.producer_is_warp();
    constexpr int kRows = Config::kShape.rows(), kKeys = Config::kShape.keys, kPanelRow = kAttentionPanel * 2,
                  kPanelsOfK = AttentionShape::panels(Config::kShape.depth), kPanelsOfV = AttentionShape::panels(Config::kShape.columns);
    const bool leads = !kIsWarp || lane_index() == 0;
    [[maybe_unused]] std::conditional_t<Config::kShape.sparse, ShownTiles<kKeys>, int> shown;
    Ring<kWorkStages<Config>> work_ring;
    Ring<Config::kShape.q_stages()> queries;
    Ring<Config::kShape.stages> k_ring, v_ring;
    Ring<kAttentionStripStages> strip_ring;
    const int q_rows = packed_rows<Config>(a);
    [[maybe_unused]] const int strip_rows = a.scores_pack.divisor > 1 ? kRows : q_rows;
    const auto load_next_strip = [&](const AttentionWorkTile &work, int tile) {
        barrier_wait(shared.strip_empty(strip_ring.stage), strip_ring.parity ^ 1);
        const uint32_t full = shared.strip_full(strip_ring.stage);
        barrier_arrive_expect(full, strip_rows * (Config::kShape.fused_strip_bytes() / kRows));
        load_strip<Config>(a, work, shared.strips + strip_ring.stage * Config::kShape.fused_strip_bytes(), full, tile);
        strip_ring.advance();
    };
    const int pack = static_cast<int>(a.p.pack.divisor), group = static_cast<int>(a.p.group.divisor);
    for (;;) {
        barrier_wait_idle(shared.work_full(work_ring.stage), work_ring.parity);
        const AttentionWorkTile work = shared.work_tiles[work_ring.stage];
        if constexpr (kIsWarp) __syncwarp();
        if (leads) barrier_arrive(shared.work_empty(work_ring.stage));
        work_ring.advance();
        if (work.batch < 0) return;

        const int kv_head = work.head * pack / group;
        const int k_head = kv_head * a.k_head, k_batch = a.p.cu_len_k != nullptr ? 0 : work.batch * a.k_batch;
        const int v_head = kv_head * a.v_head, v_batch = a.p.cu_len_k != nullptr ? 0 : work.batch * a.v_batch;
        int key_tile = work.end_tile - 1, value_tile = -1;
        if constexpr (Config::kShape.sparse) {
            shown.begin(a.p, work);
            key_tile = first_shown(a.p, work, shown);
        }
        bool has_drawn = false;
        for (bool is_first = true;; is_first = false) {
            if (!has_drawn && key_tile < work.first_tile + kDrawsBefore) {
                if (leads) barrier_arrive(shared.draw());
                has_drawn = true;
            }
            if (key_tile >= 0) {
                barrier_wait(shared.k_empty(k_ring.stage), k_ring.parity ^ 1);
                const uint32_t full = shared.k_full(k_ring.stage), to = shared.k + k_ring.stage * Config::kShape.k_bytes();
                if constexpr (kPaged) {  // The word of missing keys comes with the barrier's arrival.
                    const uint32_t missing = load_pages<Config, kPanelsOfK>(a, work, &a.map_k, to, full, key_tile, k_head);
                    if (leads) {
                        shared.set_missing_keys(k_ring.stage, missing);
                        barrier_arrive_expect(full, Config::kShape.k_bytes());
                    }
                } else {
                    if (leads) {
                        barrier_arrive_expect(full, Config::kShape.k_bytes());
                        load_keys<Config, kPanelsOfK>(a, work, &a.map_k, to, full, key_tile, work.first_k, k_head, k_batch);
                    }
                }
                k_ring.advance();
            }
            if (is_first) {
                barrier_wait(shared.q_empty(queries.stage), queries.parity ^ 1);
                const uint32_t full = shared.q_full(queries.stage);
                if (leads) {
                    barrier_arrive_expect(full, q_rows * (Config::kShape.q_bytes() / kRows));
                    const int batch = a.p.cu_len_q != nullptr ? 0 : work.batch * a.q_batch;
#pragma unroll
                    for (int j = 0; j < kPanelsOfK; ++j)
                        tensor_load_5d(shared.q + queries.stage * Config::kShape.q_bytes() + j * kRows * kPanelRow, &a.map_q, full,
                                       kAttentionPanel * j, 0, work.first_q + work.first_row / pack, work.head, batch);
                }
                queries.advance();
                if constexpr (Config::kShape.loads_strips()) load_next_strip(work, key_tile);
            } else {
                if constexpr (Config::kShape.loads_strips())
                    if (key_tile >= 0) load_next_strip(work, key_tile);
                barrier_wait(shared.v_empty(v_ring.stage), v_ring.parity ^ 1);
                const uint32_t full = shared.v_full(v_ring.stage), to = shared.v + v_ring.stage * Config::kShape.v_bytes();
                if (leads) barrier_arrive_expect(full, Config::kShape.v_bytes());
                if constexpr (kPaged)
                    load_pages<Config, kPanelsOfV>(a, work, &a.map_v, to, full, value_tile, v_head);
                else if (Config::kShape.bytes)
                    load_transposed<Config>(a, to, full, value_tile, v_head, v_batch);
                else if (leads)
                    load_keys<Config, kPanelsOfV>(a, work, &a.map_v, to, full, value_tile, work.first_k, v_head, v_batch);
                v_ring.advance();
            }
            value_tile = key_tile;
            if (value_tile < 0) break;
            if constexpr (Config::kShape.sparse)
                key_tile = shown.before(a.p, key_tile);
            else
                key_tile = key_tile > work.first_tile ? key_tile - 1 : -1;
        }
    }
}

}  // namespace attile::gpu::sm90
