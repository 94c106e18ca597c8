// SPDX-License-Identifier: Apache-2.0
// The attention kernel's two serving threads: one takes tiles and notes what they need, one keeps the rings full.
#pragma once

#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// A tile of K or V. Paged, it comes in runs of keys, each from a page; what a missing page should hold reads as zero.
template <class Config, int kPanels>
__device__ __forceinline__ void load_keys(const AttentionArguments &a, const AttentionTileNote &note, const CUtensorMap *map, uint32_t to,
                                          uint32_t full, int tile, int first_k, int head, int batch) {
    constexpr int kKeys = Config::kShape.keys, kPanelRow = kAttentionPanel * 2;
    if (Config::kShape.modifies && a.page_rows > 0) {
        const int page_size = static_cast<int>(a.p.page_size.divisor), pages = static_cast<int>(a.p.pages);
        const int32_t *const table = a.p.block_table + note.batch * a.p.block_table_stride[0];
        for (int row = 0; row < kKeys; row += a.page_rows) {
            const int key = tile * kKeys + row;
            int page = key < a.p.len_k ? table[key / page_size * a.p.block_table_stride[1]] : -1;
            if (page < 0 || page > pages) page = pages;
#pragma unroll
            for (int j = 0; j < kPanels; ++j)
                tensor_load_4d(to + (j * kKeys + row) * kPanelRow, map, full, kAttentionPanel * j, key % page_size, head, page);
        }
        return;
    }
#pragma unroll
    for (int j = 0; j < kPanels; ++j)
        tensor_load_4d(to + j * kKeys * kPanelRow, map, full, kAttentionPanel * j, first_k + tile * kKeys, head, batch);
}

// The thread that takes tiles and notes what they need, while the loading thread is busy with the tile before. It takes one when there is a
// place for its note, no earlier: another block may be free for it sooner. A tile more in advance cost up to 14 % under a causal mask.
template <class Config>
__device__ __forceinline__ void note_tiles(const AttentionArguments &a, const AttentionShared<Config> &shared) {
    Ring<kNotes<Config>> places;
    int t = static_cast<int>(blockIdx.x);
    bool is_first = true;
    for (;;) {
        barrier_wait_idle(shared.note_empty(places.place), places.parity ^ 1);
        AttentionTileNote note;
        do {
            if (!is_first)
                t = a.counter != nullptr ? static_cast<int>(gridDim.x) + atomicAdd(a.counter, 1) : t + static_cast<int>(gridDim.x);
            is_first = false;
            note = {};
            note.batch = -1;
            if (t < a.tiles) note = note_of<Config::kShape.rows(), Config::kShape.keys>(a, t);
        } while (note.batch >= 0 && note.first_row >= note.rows);  // Of a sequence shorter than the longest.
        shared.notes[places.place] = note;
        barrier_arrive(shared.note_full(places.place));
        places.advance();
        if (note.batch < 0) return;
    }
}

// The loading thread. In the order in which they will be wanted: K of the first tile, Q, K of the next, V of the first, and so on.
template <class Config>
__device__ __forceinline__ void load_tiles(const AttentionArguments &a, const AttentionShared<Config> &shared) {
    constexpr int kRows = Config::kShape.rows(), kKeys = Config::kShape.keys, kPanelRow = kAttentionPanel * 2;
    Ring<kNotes<Config>> notes;
    Ring<Config::kShape.q_places()> queries;
    Ring<Config::kShape.stages> k_ring, v_ring;
    const int pack = static_cast<int>(a.p.pack.divisor), group = static_cast<int>(a.p.group.divisor);
    for (;;) {
        barrier_wait_idle(shared.note_full(notes.place), notes.parity);
        const AttentionTileNote note = shared.notes[notes.place];
        barrier_arrive(shared.note_empty(notes.place));
        notes.advance();
        if (note.batch < 0) return;

        const int kv_head = note.head * pack / group;
        const int k_head = kv_head * a.k_head, k_batch = a.p.cu_len_k != nullptr ? 0 : note.batch * a.k_batch;
        const int v_head = kv_head * a.v_head, v_batch = a.p.cu_len_k != nullptr ? 0 : note.batch * a.v_batch;
        const int count = note.end_tile - note.first_tile;
        for (int i = 0; i <= count; ++i) {
            if (i < count) {
                barrier_wait(shared.k_empty(k_ring.place), k_ring.parity ^ 1);
                const uint32_t full = shared.k_full(k_ring.place);
                barrier_arrive_expect(full, Config::kShape.k_bytes());
                load_keys<Config, AttentionShape::panels(Config::kShape.depth)>(a, note, &a.map_k,
                                                                                shared.k + k_ring.place * Config::kShape.k_bytes(), full,
                                                                                note.end_tile - 1 - i, note.first_k, k_head, k_batch);
                k_ring.advance();
            }
            if (i == 0) {
                barrier_wait(shared.q_empty(queries.place), queries.parity ^ 1);
                const uint32_t full = shared.q_full(queries.place);
                barrier_arrive_expect(full, Config::kShape.q_bytes());
                const int batch = a.p.cu_len_q != nullptr ? 0 : note.batch * a.q_batch;
#pragma unroll
                for (int j = 0; j < AttentionShape::panels(Config::kShape.depth); ++j)
                    tensor_load_5d(shared.q + queries.place * Config::kShape.q_bytes() + j * kRows * kPanelRow, &a.map_q, full,
                                   kAttentionPanel * j, 0, note.first_q + note.first_row / pack, note.head, batch);
                queries.advance();
            } else {
                barrier_wait(shared.v_empty(v_ring.place), v_ring.parity ^ 1);
                const uint32_t full = shared.v_full(v_ring.place);
                barrier_arrive_expect(full, Config::kShape.v_bytes());
                load_keys<Config, AttentionShape::panels(Config::kShape.columns)>(a, note, &a.map_v,
                                                                                  shared.v + v_ring.place * Config::kShape.v_bytes(), full,
                                                                                  note.end_tile - i, note.first_k, v_head, v_batch);
                v_ring.advance();
            }
        }
    }
}

}  // namespace attile::gpu::sm90
