// SPDX-License-Identifier: Apache-2.0
// Attention forward by mma.sync, for capability 8.0 and later: o = softmax(scale q k^T) v for a tile of rows a block, 16 or 32 of them a
// warp, keys walked from the last tile to the first. Tiles of K and V pass through pipeline stages in shared memory, which cp.async
// fills (attention/sm80/load.cuh). One barrier a tile says that it has come, and that the one before is no longer used. Scores,
// probabilities and O stay in registers; the softmax is attention/mma/softmax.cuh's, with exact maxima.
//
// Tiles, budget and bound: attention/sm80/instances.cmake. Record: docs/kernels/attention-sm80.md.
#pragma once

#include "attention/mma/cap.cuh"
#include "attention/mma/output.cuh"
#include "attention/mma/score.cuh"
#include "attention/mma/softmax.cuh"
#include "attention/sm80/fused.cuh"
#include "attention/sm80/load.cuh"
#include "attention/sm80/shapes.h"
#include "attention/sm80/tf32x3.cuh"

namespace attile::gpu::sm80 {

inline constexpr int kAttentionSharedLimit = 99 * 1024;

template <class Element, class Config>
class AttentionWarp {
  public:
    __device__ __forceinline__ AttentionWarp(const AttentionTask &task, const AttentionWorkTile &work, const AttentionSources &sources,
                                             uint32_t queries)
        : a_(task), work_(work), sources_(sources), q_(queries), stages_(queries + Config::kShape.q_bytes()) {}

    __device__ __forceinline__ void run() {
        begin();
        if (work_.first_tile < work_.end_tile) {
            load_queries<Config>(a_.p, work_, q_);
#pragma unroll
            for (int i = 0; i < kStages - 1; ++i) load_item(i);
            find_range();
            walk();
        }
        store();
    }

  private:
    static constexpr int kKeys = Config::kShape.keys, kDepth = Config::kShape.depth, kColumns = Config::kShape.columns;
    static constexpr int kRowTiles = Config::kShape.row_tiles, kStages = Config::kShape.stages;
    static constexpr bool kModifies = Config::kShape.modifies, kIsTf32x3 = std::is_same_v<Element, float>;
    using Rows = WarpRows<Config>;
    using Change = FusedChange<Element, Config>;
    using Tf32x3 = AttentionTf32x3<Config>;
    using Softmax = RowSoftmax<Element, kKeys / 2, ExactSoftmaxRange<Element>>;

    static __device__ __forceinline__ int lane() { return Rows::lane(); }
    static __device__ __forceinline__ int warp_row() { return Rows::first(); }
    __device__ __forceinline__ int row_of(int row_tile) const { return Rows::row(work_.first_row, row_tile); }
    __device__ __forceinline__ KeyRange range(int row) const { return Rows::seen(a_.p, work_, row); }
    // From scores to units of log2.
    __device__ __forceinline__ float factor() const {
        if constexpr (Config::kShape.bias_only) return kLog2EHigh;
        return (kModifies && !Config::kShape.allowed_only) || kIsTf32x3 ? 1.0f : a_.p.scale_log2;
    }

    // Where a strip of bias or mask lies: a mask's beside K, for bits are made of it before V is there; a bias's beside V, for it is
    // used when V is there, and the next tile takes K's stage by then.
    static constexpr bool kStripBesideK = Config::kShape.allowed_only;
    template <bool kIsK>
    __device__ __forceinline__ void load_tile(uint32_t to, int tile) const {
        load_keys<Config, kIsK ? kDepth : kColumns, kIsK>(a_.p, work_, sources_, to, tile);
        if constexpr (Config::kShape.strip_bytes() > 0 && kIsK == kStripBesideK)
            load_strip<Config>(a_.p, work_, sources_, to + Config::kShape.tile_bytes(), tile);
    }
    // Items are K of the last tile, V of it, K of the one before, and so on; each takes the next stage.
    __device__ __forceinline__ void load_item(int item) const {
        const int tile = work_.end_tile - 1 - item / 2;
        if (tile >= work_.first_tile) {
            if (item % 2 == 0)
                load_tile<true>(stage(item), tile);
            else
                load_tile<false>(stage(item), tile);
        }
        copy_commit();  // Empty groups too: their count says which item has come.
    }
    // The item has come, and no warp uses the one before any more: its stage is filled with the next item that has none yet.
    template <int kParity>
    __device__ __forceinline__ void next_item(int item) const {
        copy_wait<kStages - 2>();
        __syncthreads();
        constexpr int kAhead = kStages - 1;
        const int ahead = item + kAhead, tile = work_.end_tile - 1 - (ahead >> 1);
        if (tile >= work_.first_tile) load_tile<(kParity + kAhead) % 2 == 0>(stage(ahead), tile);
        copy_commit();
    }
    __device__ __forceinline__ uint32_t stage(int item) const {
        return stages_ + static_cast<uint32_t>(item) % kStages * Config::kShape.stage_bytes();
    }

    // Key tiles of which a row of the warp sees keys, and of which every row sees all.
    __device__ __forceinline__ void find_range() {
        const int first_row = work_.first_row + warp_row();
        const KeyRange top = range(first_row), bottom = range(first_row + Config::kShape.warp_rows() - 1);
        seen_first_ = top.low / kKeys;
        seen_end_ = first_row < work_.rows ? (bottom.high + kKeys - 1) / kKeys : 0;
        full_first_ = (bottom.low + kKeys - 1) / kKeys;
        full_end_ = top.high / kKeys;
    }

    __device__ __forceinline__ void multiply_scores(uint32_t keys) {
        if constexpr (kIsTf32x3) {
            Tf32x3::scores(s_, q_, warp_row(), keys, a_.p.head_dim);
            // Scaled here and not in the exponent: if reference and score were rounded separately, huge scores would show it.
            if constexpr (!kModifies) {
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
                    for (float &x : s_[t]) x *= a_.p.scale_log2;
                }
            }
            Tf32x3::repair_scores(s_, q_, warp_row(), keys, a_.p.head_dim, kModifies ? 1.0f : a_.p.scale_log2);
        } else {
            multiply_scores16(keys);
        }
    }
    __device__ __forceinline__ void multiply_values(uint32_t values) {
        if constexpr (kIsTf32x3)
            Tf32x3::values(o_, s_, values, a_.p.head_dim_v);
        else
            multiply_values16(values);
    }
    __device__ __forceinline__ void multiply_scores16(uint32_t keys) {
        const int of_eight = lane() & 7, eighth = lane() >> 3;
        const uint32_t q = q_ + SharedRows<kDepth>::at(warp_row() + (lane() & 15), lane() >> 4);
        const uint32_t k = keys + SharedRows<kDepth>::at(of_eight + (eighth >> 1) * 8, eighth & 1);
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (float &x : s_[t]) x = 0;
        }
#pragma unroll
        for (int i = 0; i < kDepth / 16; ++i) {
            uint32_t queries[kRowTiles][4];
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t)
                load_matrices(queries[t], SharedRows<kDepth>::step(q, 2 * i) + t * 16 * SharedRows<kDepth>::kBytes);
#pragma unroll
            for (int j = 0; j < kKeys / 16; ++j) {
                uint32_t b[4];
                load_matrices(b, SharedRows<kDepth>::step(k, 2 * i) + j * 16 * SharedRows<kDepth>::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    multiply<Element>(s_[t] + 8 * j, queries[t], b[0], b[1]);
                    multiply<Element>(s_[t] + 8 * j + 4, queries[t], b[2], b[3]);
                }
            }
        }
    }
    __device__ __forceinline__ void multiply_values16(uint32_t values) {
        const uint32_t v = values + SharedRows<kColumns>::at(lane() & 15, lane() >> 4);
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i) {
#pragma unroll
            for (int j = 0; j < kColumns / 16; ++j) {
                uint32_t b[4];
                load_matrices_turned(b, SharedRows<kColumns>::step(v, 2 * j) + i * 16 * SharedRows<kColumns>::kBytes);
#pragma unroll
                for (int t = 0; t < kRowTiles; ++t) {
                    multiply<Element>(o_[t] + 8 * j, p_[t] + 4 * i, b[0], b[1]);
                    multiply<Element>(o_[t] + 8 * j + 4, p_[t] + 4 * i, b[2], b[3]);
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
                const KeyRange seen = range(row_of(t) + 8 * r);
                const int first = tile * kKeys + (lane() & 3) * 2, below = seen.low - first, from = seen.high - first;
#pragma unroll
                for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (8 * j + e >= from || 8 * j + e < below) s_[t][4 * j + 2 * r + e] = -INFINITY;
                }
            }
        }
    }
    // Scores are in units of log2 divided by c. What is far from 0 or NaN is rare, but for rows that the bias hides; it is looked for
    // before the mask hides keys.
    __device__ __forceinline__ void find_row_max_beside_bias(int tile, uint32_t strip, float (&row_max)[kRowTiles][2], float &c) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) Softmax::find_row_max_or_nan(s_[t], row_max[t]);
        bool is_far = false;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) is_far = is_far || is_far_row(row_max[t]);
        if (__any_sync(~0u, is_far) && Change::has_far_scores(strip, row_max)) {
            Change::mend_far_scores(a_.p, work_, tile, strip, c, s_);
            c = 1;
        } else {
            if (tile >= full_first_ && tile < full_end_) return;
            mask(tile);
        }
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) Softmax::find_row_max(s_[t], row_max[t]);
    }
    // From scores to P, which in float32 stays where they were.
    __device__ __forceinline__ void softmax(int tile, [[maybe_unused]] uint32_t strip) {
        if constexpr (Config::kShape.softcap_only) {
            const bool may_look = tile >= full_first_ && tile < full_end_ && !a_.exact_only;
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) cap_scores(a_.p.softcap_log2, a_.p.scale_log2, may_look, {0, 0}, s_[t], [] {});
        } else if constexpr (Config::kShape.alibi_only) {
            softmax_beside_alibi(tile);
            return;
        } else if constexpr (Config::kShape.bias_only) {
            Change::add_bias(static_cast<float>(a_.p.scale), strip, s_);
        } else if constexpr (Config::kShape.allowed_only) {
            change_.hide_disallowed(s_);
        } else if constexpr (kModifies) {
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) modify_scores<Element>(a_.p, work_, row_of(t), tile * kKeys + (lane() & 3) * 2, s_[t]);
        }
        float row_max[kRowTiles][2], c = factor();
        if constexpr (Config::kShape.bias_only) {
            find_row_max_beside_bias(tile, strip, row_max, c);
        } else {
            if (tile < full_first_ || tile >= full_end_) mask(tile);
#pragma unroll
            for (int t = 0; t < kRowTiles; ++t) Softmax::find_row_max(s_[t], row_max[t]);
        }
        move_references(row_max, c, [] {});
        make_probabilities(c);
    }
    // What all of a row's scores have in common is in its reference for as long as this takes.
    __device__ __forceinline__ void softmax_beside_alibi(int tile) {
        const typename Change::AlibiTile alibi(sources_, tile);
        const float c = alibi.is_product() ? a_.p.scale_log2 : 1.0f;
        if (!alibi.is_product()) alibi.lower_scores(a_.p.scale_log2, s_);
        if (tile < full_first_ || tile >= full_end_) mask(tile);
        float row_max[kRowTiles][2], reference[2 * kRowTiles];
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) Softmax::find_row_max(s_[t], row_max[t]);
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) {
            float &x = rows_[i / 2].reference[i % 2];
            reference[i] = x;
            if (alibi.is_product()) x = alibi.raise_reference(i, x);
        }
        move_references(row_max, c, [&] {
#pragma unroll
            for (int i = 0; i < 2 * kRowTiles; ++i) {
                const float x = rows_[i / 2].reference[i % 2];
                if (rows_[i / 2].factor[i % 2] != 1) reference[i] = alibi.is_product() ? alibi.lower_reference(i, x) : x;
            }
        });
        make_probabilities(c);
#pragma unroll
        for (int i = 0; i < 2 * kRowTiles; ++i) rows_[i / 2].reference[i % 2] = reference[i];
    }
    // Calls moved() if any did.
    template <class Moved>
    __device__ __forceinline__ void move_references(const float (&row_max)[kRowTiles][2], float c, const Moved &moved) {
        bool is_passed = false;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) is_passed = is_passed || rows_[t].is_passed(row_max[t], c, false);
        if (!__any_sync(~0u, is_passed)) return;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            rows_[t].move_reference(row_max[t], c, false);
#pragma unroll
            for (int j = 0; j < kColumns / 2; ++j) o_[t][j] *= rows_[t].factor[j >> 1 & 1];
        }
        moved();
    }
    __device__ __forceinline__ void make_probabilities(float c) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            rows_[t].exact_exponentials(s_[t], c);
            if constexpr (!kIsTf32x3) {
#pragma unroll
                for (int i = 0; i < kKeys / 4; ++i) p_[t][i] = narrow_pair<Element>(s_[t][2 * i], s_[t][2 * i + 1]);
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
        int item = 0;
#pragma unroll 1
        for (int tile = work_.end_tile - 1; tile >= work_.first_tile; --tile) {
            const bool is_seen = tile >= seen_first_ && tile < seen_end_;
            next_item<0>(item);
            if (is_seen) {
                multiply_scores(stage(item));
                if constexpr (Config::kShape.alibi_only) typename Change::AlibiTile(sources_, tile).multiply(s_);
                if constexpr (Config::kShape.allowed_only) change_.make_bits(stage(item) + Config::kShape.tile_bytes());
            }
            ++item;
            next_item<1>(item);
            if (is_seen) {
                softmax(tile, stage(item) + Config::kShape.tile_bytes());
                multiply_values(stage(item));
            }
            ++item;
        }
    }
    __device__ __forceinline__ void store() const {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            float total[2];
            rows_[t].total(total);
            store_rows<Element, kColumns, kKeys, kModifies>(a_.p, work_, row_of(t), o_[t], rows_[t].reference, total, rows_[t].rounding);
        }
    }

    const AttentionTask &a_;
    const AttentionWorkTile &work_;
    const AttentionSources &sources_;
    const uint32_t q_, stages_;
    int seen_first_, seen_end_, full_first_, full_end_;
    Softmax rows_[kRowTiles];
    float s_[kRowTiles][kKeys / 2], o_[kRowTiles][kColumns / 2];
    uint32_t p_[kRowTiles][kKeys / 4];
    Change change_;
};

template <class Element, class Config>
__global__ void ATTILE_LAUNCH_BOUNDS(Config::kShape.threads(), Config::kShape.blocks)
    attention_forward(const __grid_constant__ AttentionTask a) {
    static_assert(Config::kShape.shared_bytes() <= kAttentionSharedLimit, "shared memory of a block");
    static_assert(sizeof(AttentionWorkTile) + sizeof(AttentionSources) <= AttentionShape::kWorkBytes, "the work tile's place");
    static_assert(Config::kShape.bytes == sizeof(Element), "the element's size");
    static_assert(Config::kShape.stages >= 2, "one tile in use and one being loaded");
    extern __shared__ __align__(1024) unsigned char memory[];
    AttentionWorkTile &work = *reinterpret_cast<AttentionWorkTile *>(memory);
    AttentionSources &sources = *reinterpret_cast<AttentionSources *>(memory + sizeof(AttentionWorkTile));
    if (threadIdx.x == 0) {
        work = work_tile_of<Config::kShape.rows(), Config::kShape.keys>(a, static_cast<int>(blockIdx.x));
        find_sources<Config::kShape.bytes>(a.p, work, sources);
        if constexpr (Config::kShape.is_fused()) FusedChange<Element, Config>::describe(a.p, work, sources);
    }
    __syncthreads();
    if (work.first_row >= work.rows) return;  // Of a sequence shorter than the longest.
    AttentionWarp<Element, Config>(a, work, sources, shared_address(memory) + AttentionShape::kWorkBytes).run();
}

}  // namespace attile::gpu::sm80
