// SPDX-License-Identifier: Apache-2.0
// Attention forward by mma.sync for heads of more than 256 columns: o = softmax(scale q k^T) v for a tile of rows a block, keys walked from
// the last tile to the first. Four warps share 32 rows, since O of whole rows would not fit into a warp's registers: each computes the
// scores of a quarter of the tile's keys, over all of the depth, and a quarter of O's columns, over all keys. Row maxima and probabilities,
// which have 16 bits then, pass from warp to warp through shared memory. Q stays there; K and V come in panels of some columns by cp.async
// (attention/sm80/wide_panels.cuh), one barrier a panel.
//
// Tiles, budget and bound: attention/sm80/instances.cmake. Record: docs/kernels/attention-sm80.md.
#pragma once

#include "attention/mma/output.cuh"
#include "attention/mma/score.cuh"
#include "attention/mma/softmax.cuh"
#include "attention/sm80/wide_panels.cuh"
#include "attention/sm80/wide_shapes.h"

namespace attile::gpu::sm80 {

__device__ __forceinline__ void store_shared_word(uint32_t to, uint32_t word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(to), "r"(word) : "memory");
}

template <class Element, class Config>
class WideAttentionWarp {
  public:
    __device__ __forceinline__ WideAttentionWarp(const AttentionTask &task, const AttentionWorkTile &work, const AttentionSources &sources,
                                                 uint32_t exchange)
        : a_(task),
          work_(work),
          thread_(threadIdx.x),
          exchange_(exchange),
          q_(exchange + Config::kShape.exchange_bytes()),
          p_at_(q_ + Config::kShape.q_bytes() + Config::kShape.stages * Config::kShape.panel_bytes()),
          panels_(task, work, sources, q_ + Config::kShape.q_bytes()) {}

    __device__ __forceinline__ void run() {
        begin();
        load_queries<Config>(a_.p, work_, q_);
        panels_.begin();
        walk();
        store();
    }

  private:
    static constexpr int kKeys = Config::kShape.keys, kDepth = Config::kShape.depth, kPanel = Config::kShape.panel;
    static constexpr int kColumns = Config::kShape.warp_columns(), kRun = Config::kShape.warp_run(), kWarpKeys = Config::kShape.warp_keys();
    static constexpr int kRowTiles = Config::kShape.row_tiles, kGroups = Config::kShape.column_groups();
    static constexpr int kPanels = Config::kShape.columns / kPanel;  // Most of V.
    static constexpr bool kModifies = Config::kShape.modifies;
    using Depths = SharedRows<kDepth>;
    using Probabilities = SharedRows<kKeys>;
    using Softmax = RowSoftmax<Element, kWarpKeys / 2, ExactSoftmaxRange<Element>>;

    // Keeps the compiler from holding what depends on the thread from one part of the loop to another: O and P take most registers.
    __device__ __forceinline__ void renew_thread() { thread_ = renewed(thread_); }
    __device__ __forceinline__ int lane() const { return static_cast<int>(thread_ % kWarpThreads); }
    __device__ __forceinline__ int group() const { return static_cast<int>(thread_ / kWarpThreads % kGroups); }  // Of columns, and of keys.
    // Of the block's rows the warp's first; the thread has this row of a row tile, and the one eight below.
    __device__ __forceinline__ int first_row() const {
        return static_cast<int>(thread_ / (kWarpThreads * kGroups)) * Config::kShape.warp_rows();
    }
    __device__ __forceinline__ int row(int row_tile) const { return first_row() + 16 * row_tile + lane() / 4; }
    // Of the tile's keys, the thread's first.
    __device__ __forceinline__ int first_key() const { return group() * kWarpKeys + (lane() & 3) * 2; }
    // Keys that the mask shows to a row.
    __device__ __forceinline__ KeyRange seen(int of_tile) const {
        return KeyRange(a_.p, query_row(a_.p, min(work_.first_row + of_tile, work_.rows - 1)), work_.shift, work_.first_key, work_.len_k);
    }
    // From scores to units of log2.
    __device__ __forceinline__ float factor() const { return kModifies ? 1.0f : a_.p.scale_log2; }

    // Does a row of the warp see keys of the tile? Does every row see all? The same for all warps that share the rows.
    __device__ __forceinline__ bool is_seen(int tile) const {
        const KeyRange top = seen(first_row()), bottom = seen(first_row() + Config::kShape.warp_rows() - 1);
        return work_.first_row + first_row() < work_.rows && top.low < (tile + 1) * kKeys && bottom.high > tile * kKeys;
    }
    __device__ __forceinline__ bool is_full(int tile) const {
        const KeyRange top = seen(first_row()), bottom = seen(first_row() + Config::kShape.warp_rows() - 1);
        return bottom.low <= tile * kKeys && top.high >= (tile + 1) * kKeys;
    }

    // Adds the products of a panel's columns to scores, of 64 at a time: tensor cores cut off what float32 does not hold of a sum, after
    // each 16, and one sum of all columns of a wide head would lose too much.
    __device__ __forceinline__ void multiply_scores(int panel, uint32_t keys) {
        renew_thread();
        const int depth = panel * kPanel;
        const uint32_t q = q_ + Depths::at(first_row() + (lane() & 15), lane() >> 4) + depth * 2;
        const uint32_t k = keys + HalfPanelRows::at(group() * kWarpKeys + (lane() & 7) + (lane() >> 4) * 8, lane() >> 3 & 1);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            if (half > 0 && depth + Config::kShape.half >= a_.p.head_dim) break;
            float sums[kRowTiles][kWarpKeys / 2] = {};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                uint32_t queries[kRowTiles][4];
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) load_matrices(queries[t], Depths::step(q, 8 * half + 2 * i) + t * 16 * Depths::kBytes);
#pragma unroll
                for (int j = 0; j < kWarpKeys / 16; ++j) {
                    uint32_t b[4];
                    load_matrices(b, HalfPanelRows::step(k, 2 * i) + half * Config::kShape.half_bytes() + j * 16 * HalfPanelRows::kBytes);
#pragma unroll
                    for (int t = 0; t < kRowTiles; ++t) {
                        multiply<Element>(sums[t] + 8 * j, queries[t], b[0], b[1]);
                        multiply<Element>(sums[t] + 8 * j + 4, queries[t], b[2], b[3]);
                    }
                }
            }
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
#pragma unroll
                for (int x = 0; x < kWarpKeys / 2; ++x) s_[t][x] += sums[t][x];
        }
    }
    __device__ __forceinline__ void load_probabilities() {
        const uint32_t p = p_at_ + Probabilities::at(first_row() + (lane() & 15), lane() >> 4);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int i = 0; i < kKeys / 16; ++i) {
                uint32_t pairs[4];
                load_matrices(pairs, Probabilities::step(p, 2 * i) + t * 16 * Probabilities::kBytes);
#pragma unroll
                for (int j = 0; j < 4; ++j) p_[t][4 * i + j] = pairs[j];
            }
        }
    }
    __device__ __forceinline__ void forget_probabilities() {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (uint32_t &x : p_[t]) x = 0;
        }
    }
    // The warp's columns of a panel of V.
    __device__ __forceinline__ void multiply_values(int panel, uint32_t values) {
        renew_thread();
        const uint32_t v =
            values + group() / 2 * Config::kShape.half_bytes() + HalfPanelRows::at(lane() & 15, group() % 2 * (kRun / 8) + (lane() >> 4));
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i) {
#pragma unroll
            for (int j = 0; j < kRun / 16; ++j) {
                uint32_t b[4];
                load_matrices_turned(b, HalfPanelRows::step(v, 2 * j) + i * 16 * HalfPanelRows::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    float *const o = o_[t] + panel * (kRun / 2) + 8 * j;
                    multiply<Element>(o, p_[t] + 4 * i, b[0], b[1]);
                    multiply<Element>(o + 4, p_[t] + 4 * i, b[2], b[3]);
                }
            }
        }
    }

    // Hides scores of keys that the thread's rows do not see.
    __device__ __forceinline__ void mask(int tile) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const KeyRange range = seen(row(t) + 8 * r);
                const int first = tile * kKeys + first_key(), below = range.low - first, from = range.high - first;
#pragma unroll
                for (int j = 0; j < kWarpKeys / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (8 * j + e >= from || 8 * j + e < below) s_[t][4 * j + 2 * r + e] = -INFINITY;
                }
            }
        }
    }

    // Where the warps of a group of rows have a number each of row lane / 4 + 8 r of a row tile.
    __device__ __forceinline__ uint32_t exchange_row(int t, int r) const {
        return exchange_ + static_cast<uint32_t>((row(t) + 8 * r) * (kGroups * 4));
    }
    __device__ __forceinline__ void give(const float (&mine)[kRowTiles][2]) const {
        if ((lane() & 3) != 0) return;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) store_shared_word(exchange_row(t, r) + group() * 4, __float_as_uint(mine[t][r]));
        }
    }
    // Folded in the same order by all of them.
    template <class Fold>
    __device__ __forceinline__ void take(float (&all)[kRowTiles][2], const Fold &fold) const {
        static_assert(kGroups == 4, "16 bytes a row");
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                uint32_t x[4];
                load_shared(x, exchange_row(t, r));
                all[t][r] = fold(fold(__uint_as_float(x[0]), __uint_as_float(x[1])), fold(__uint_as_float(x[2]), __uint_as_float(x[3])));
            }
        }
    }

    __device__ __forceinline__ void give_row_max(int tile) {
        renew_thread();
        float row_max[kRowTiles][2];
        if constexpr (kModifies) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
                modify_scores<Element>(a_.p, work_, work_.first_row + row(t), tile * kKeys + first_key(), s_[t]);
        }
        if (!is_full(tile)) mask(tile);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) Softmax::find_row_max(s_[t], row_max[t]);
        give(row_max);
    }
    __device__ __forceinline__ void give_probabilities() {
        renew_thread();
        float row_max[kRowTiles][2];
        const float c = factor();
        take(row_max, [](float x, float y) { return fmaxf(x, y); });
        bool is_passed = false;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) is_passed = is_passed || rows_[t].is_passed(row_max[t], c, false);
        if (__any_sync(~0u, is_passed)) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
                rows_[t].move_reference(row_max[t], c, false);
#pragma unroll
                for (int j = 0; j < kColumns / 2; ++j) o_[t][j] *= rows_[t].factor[j >> 1 & 1];
            }
        }
        const int chunk = group() * (kWarpKeys / 8);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            rows_[t].exact_exponentials(s_[t], c);
#pragma unroll
            for (int j = 0; j < kWarpKeys / 8; ++j) {
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    const uint32_t to = p_at_ + Probabilities::at(row(t) + 8 * r, chunk + j) + (lane() & 3) * 4;
                    store_shared_word(to, narrow_pair<Element>(s_[t][4 * j + 2 * r], s_[t][4 * j + 2 * r + 1]));
                }
            }
        }
    }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            rows_[t].begin();
#pragma unroll
            for (float &x : o_[t]) x = 0;
        }
    }
    __device__ __forceinline__ void walk() {
        const int k_panels = panels_.k_panels(), v_panels = panels_.v_panels();
#pragma unroll 1
        for (int tile = work_.end_tile - 1; tile >= work_.first_tile; --tile) {
            renew_thread();
            const bool sees = is_seen(tile);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
                for (float &x : s_[t]) x = 0;
            }
#pragma unroll 1
            for (int panel = 0; panel < k_panels; ++panel) {
                panels_.step(panel, [&](uint32_t keys) {
                    if (sees) multiply_scores(panel, keys);
                });
            }
            if (sees) give_row_max(tile);
            __syncthreads();
            if (sees) give_probabilities();
#pragma unroll
            for (int panel = 0; panel < kPanels; ++panel) {
                if (panel >= v_panels) break;
                panels_.step(panel, [&](uint32_t values) {
                    // Otherwise the compiler would keep the tile before's in registers, for a path that is never taken.
                    if (panel == 0 && !sees) forget_probabilities();
                    if (!sees) return;
                    if (panel == 0) load_probabilities();
                    multiply_values(panel, values);
                });
            }
        }
    }
    __device__ __forceinline__ void store() {
        renew_thread();
        float total[kRowTiles][2];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) rows_[t].total(total[t]);
        give(total);
        __syncthreads();
        take(total, [](float x, float y) { return x + y; });
        const int first_column = warp_uniform(group() * kRun);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t)
            store_rows<Element, kColumns, kKeys, kModifies, true, false, ColumnRuns<kRun, kPanel>>(
                a_.p, work_, work_.first_row + row(t), o_[t], rows_[t].reference, total[t], rows_[t].rounding, 1, first_column);
    }

    const AttentionTask &a_;
    const AttentionWorkTile &work_;
    uint32_t thread_;
    const uint32_t exchange_, q_, p_at_;
    WidePanels<Config> panels_;
    Softmax rows_[kRowTiles];
    float s_[kRowTiles][kWarpKeys / 2], o_[kRowTiles][kColumns / 2];
    uint32_t p_[kRowTiles][kKeys / 4];
};

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), 1) attention_wide_forward(const __grid_constant__ AttentionTask a) {
    static_assert(sizeof(AttentionWorkTile) + sizeof(AttentionSources) <= AttentionWideShape::kWorkBytes, "the work tile's place");
    static_assert(Config::kShape.bytes == sizeof(Element), "the element's size");
    static_assert(Config::kShape.stages >= 3 && Config::kShape.warp_keys() % 16 == 0 && Config::kShape.warp_run() % 16 == 0);
    extern __shared__ __align__(1024) unsigned char memory[];
    AttentionWorkTile &work = *reinterpret_cast<AttentionWorkTile *>(memory);
    AttentionSources &sources = *reinterpret_cast<AttentionSources *>(memory + sizeof(AttentionWorkTile));
    if (threadIdx.x == 0) {
        work = work_tile_of<Config::kShape.rows(), Config::kShape.keys>(a, static_cast<int>(blockIdx.x));
        find_sources<Config::kShape.bytes>(a.p, work, sources);
    }
    __syncthreads();
    if (work.first_row >= work.rows) return;  // Of a sequence shorter than the longest.
    WideAttentionWarp<Element, Config>(a, work, sources, shared_address(memory) + AttentionWideShape::kWorkBytes).run();
}

}  // namespace attile::gpu::sm80
