// SPDX-License-Identifier: Apache-2.0
// A consumer warpgroup of the attention kernel: 64 rows of each tile, keys from the last tile to the first.
#pragma once

#include <type_traits>

#include "attention/mma/output.cuh"
#include "attention/mma/shown_tiles.cuh"
#include "attention/sm90/product.cuh"
#include "attention/sm90/product_bytes.cuh"
#include "attention/sm90/scores.cuh"
#include "attention/sm90/stage.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
class AttentionWarpgroup : AttentionScores<Element, Config> {
    using Scores = AttentionScores<Element, Config>;
    using Rings = AttentionRings<Config>;
    using Rings::q_operand, Rings::k_operand, Rings::v_operand, Rings::v_address;
    using Rings::release, Rings::ping_pong_wait, Rings::ping_pong_pass, Rings::ping_pong_skip;
    using Rings::wait_q, Rings::wait_k, Rings::wait_v, Rings::release_q, Rings::release_k, Rings::release_v;
    using Scores::a_, Scores::work_, Scores::first_tile_, Scores::end_tile_, Scores::full_first_, Scores::full_end_, Scores::modifiers_;
    using Scores::find_missing, Scores::hide_missing, Scores::range, Scores::row_of, Scores::mask, Scores::is_full, Scores::factor,
        Scores::look, Scores::look_at_modified;
    using Scores::group_, Scores::lane_, Scores::shared_;
    using Scores::kPanelRow, Scores::kKeys, Scores::kUnlooked, Scores::kPasses, Scores::kIsFused, Scores::kModifiesAny;
    using Scores::kTrust, Scores::kUnknown;
    using Scores::look_at_fused, Scores::begin_change, Scores::prepare_change, Scores::first_softmax, Scores::repeat_warp;
    using Scores::rows_, Scores::trust_, Scores::s_;

  public:
    __device__ __forceinline__ AttentionWarpgroup(const AttentionArguments &arguments, const AttentionShared<Config> &shared, int group)
        : Scores(arguments, shared, group) {}

    __device__ __forceinline__ void run() {
        compute();
        if (Config::kShape.stages_o() && lane_ == 0) tensor_store_wait_read<0>();
    }

  private:
    __device__ __forceinline__ void compute() {
        // The first warpgroup begins.
        if (Config::kShape.ping_pong && group_ == Config::kShape.warpgroups - 1) ping_pong_pass();
        if constexpr (Config::kShape.run_on) {
            if (!next_tile()) return;
            begin_tile();
            for (;;) {
                walk();
                const AttentionWorkTile *const last = work_;
                if (!next_tile()) {
                    finish_tile(last);
                    return;
                }
                const int hidden = hidden_tiles();
                if (hidden > static_cast<int>(Rings::kStages) -
                                 2) {  // A warpgroup without rows: V of the tiles that it skips needs the last one's stage.
                    finish_tile(last);
                    ping_pong_skip(1);
                    begin_tile();
                    continue;
                }
                // The first scores of this tile with the last values of that one.
                pass_hidden_keys(hidden);
                wait_q();
                issue_products();
                release_k();
                begin_change();
                prepare_change(end_tile_ - 1);
                const float reference[2] = {rows_.reference[0], rows_.reference[1]}, rounding[2] = {rows_.rounding[0], rows_.rounding[1]};
                float total[2];
                rows_.total(total);
                first_softmax();
                product_wait<0>();
                keep_in_registers(o_);
                release_v();
                pass_hidden_values(hidden);
                store(*last, reference, total, rounding);
                release_work(last);
                begin_output();
                finish_softmax(end_tile_ - 1);
            }
        } else {
            while (next_tile()) {
                begin_tile();
                walk();
                finish_tile(work_);
            }
        }
    }

    // The next tile, if there is one.
    __device__ __forceinline__ bool next_tile() {
        barrier_wait(shared_.work_full(work_ring_.stage), work_ring_.parity);
        work_ = shared_.work_tiles + work_ring_.stage;
        work_ring_.advance();
        if (warp_uniform(work_->batch) < 0) return false;
        first_tile_ = warp_uniform(work_->first_tile);
        end_tile_ = warp_uniform(kPasses ? work_->group_end[group_] : work_->end_tile);
        full_first_ = warp_uniform(work_->full_first[group_]);
        full_end_ = warp_uniform(work_->full_end[group_]);
        if constexpr (Config::kShape.sparse) begin_sparse();
        __syncwarp();  // Otherwise ptxas takes the warp for divergent after the wait, and no value for uniform.
        return true;
    }
    // Tiles to the last one that is shown, of which those that the tree reaches are not full.
    __device__ __forceinline__ void begin_sparse() {
        shown_.begin(a_.p, *work_);
        const int last = shown_.before(a_.p, end_tile_);
        this->shows_nothing_ = last < 0;
        if (last >= 0) end_tile_ = last + 1;
        if (a_.p.tree_mask.data != nullptr) full_end_ = min(full_end_, max(work_->len_k - a_.p.tree_keys, 0) / kKeys);
        if (last < 0) full_end_ = full_first_;
#pragma unroll
        for (int r = 0; r < 2; ++r) this->last_hidden_[r] = this->hidden_by_tree(end_tile_ - 1, r);
    }
    __device__ __forceinline__ void release_work(const AttentionWorkTile *work) const {
        __syncwarp();
        release(shared_.work_empty(static_cast<int>(work - shared_.work_tiles)));
    }
    // How many key tiles at the end only other warpgroups' rows see. Their stages are waited for before they are released: otherwise
    // arrivals of two phases would mix.
    __device__ __forceinline__ int hidden_tiles() const { return kPasses ? warp_uniform(work_->end_tile) - end_tile_ : 0; }
    __device__ __forceinline__ void pass_hidden_keys(int count) {
        ping_pong_skip(count);
#pragma unroll 1
        for (int i = 0; i < count; ++i) {
            wait_k();
            release_k();
        }
    }
    __device__ __forceinline__ void pass_hidden_values(int count) {
#pragma unroll 1
        for (int i = 0; i < count; ++i) {
            wait_v();
            release_v();
        }
    }

    __device__ __forceinline__ void multiply_scores(uint64_t q, uint64_t k) {
        keep_in_registers(s_);
        product_fence();
#pragma unroll
        for (int i = 0; i < (Config::kShape.depth + 15) / 16; ++i) {
            const uint64_t q_step = q + i / 4 * (Config::kShape.rows() * kPanelRow / 16) + i % 4 * 2,
                           k_step = k + i / 4 * (kKeys * kPanelRow / 16) + i % 4 * 2;
            if constexpr (Config::kShape.bytes)
                score_product_bytes<kKeys>(s_, q_step, k_step, i != 0);
            else
                score_product<Element, kKeys>(s_, q_step, k_step, i != 0);
        }
        if constexpr (Config::kShape.alibi_only)
            distance_product<Element>(s_, modifiers_.key_factors(), product_operand(shared_.distances, 16));
        product_commit();
    }
    __device__ __forceinline__ void multiply_values(uint64_t v) {
        keep_in_registers(o_);
        product_fence();
        if constexpr (Config::kShape.bytes) {
#pragma unroll
            for (int i = 0; i < kKeys / 32; ++i)
                value_product_bytes<Config::kShape.columns>(o_, p_ + 4 * i,
                                                            v + i / 4 * (Config::kShape.columns * kPanelRow / 16) + i % 4 * 2);
        } else {
#pragma unroll
            for (int i = 0; i < kKeys / 16; ++i) value_product<Element, Config::kShape.columns>(o_, p_ + 4 * i, v + i * 128);
        }
        product_commit();
    }
    // Issues the scores of the next key tile and the product with V of the current one, when this warpgroup is allowed to; returns when the
    // scores are there. `meanwhile` runs before the wait for them.
    template <class Step>
    __device__ __forceinline__ void issue_products(const Step &meanwhile) {
        const uint64_t q = q_operand(), k = k_operand(), v = v_operand();
        wait_k();
        find_missing();
        if (Config::kShape.ping_pong) ping_pong_wait();
        multiply_scores(q, k);
        if (Config::kShape.apart) {
            product_wait<0>();
            keep_in_registers(s_);
            hide_missing();
            if (Config::kShape.ping_pong) ping_pong_pass();
            wait_v();
            multiply_values(v);
            return;
        }
        wait_v();
        multiply_values(v);
        if (Config::kShape.ping_pong) ping_pong_pass();
        meanwhile();
        product_wait<1>();
        keep_in_registers(s_);
        hide_missing();
    }
    __device__ __forceinline__ void issue_products() {
        issue_products([] {});
    }

    // Rows of V that nobody may read become zero: a probability of zero times NaN would be NaN.
    __device__ __forceinline__ void clear_unread_values(int tile) {
        if constexpr (Config::kShape.bytes) return;  // The transposed V has zeros there.
        const int first = tile * kKeys, below = work_->read_first - first, from = work_->read_end - first;
        if (below <= 0 && from >= kKeys) return;
        wait_v();
        const uint32_t v = v_address();
        constexpr int kPieces = AttentionShape::panels(Config::kShape.columns) * kKeys * (kPanelRow / 16);
#pragma unroll 1
        for (int i = static_cast<int>(threadIdx.x) % kWarpgroupThreads; i < kPieces; i += kWarpgroupThreads) {
            const int key = i / (kPanelRow / 16) % kKeys;
            if (key < below || key >= from) asm volatile("st.shared.v4.b32 [%0], {%1, %1, %1, %1};" ::"r"(v + 16 * i), "r"(0) : "memory");
        }
        async_proxy_fence();
        named_sync(kGroupBarrier + group_, kWarpgroupThreads);
    }
    template <bool is_whole>
    __device__ __forceinline__ void fused_step(int tile) {
        modifiers_.choose_factors(tile);
        issue_products([&] { prepare_change(tile); });
        this->template look_at_fused<false>(tile, is_whole);
        release_k();  // K had to stay until then.
        end_step();
    }
    __device__ __forceinline__ void walk_fused(int tile) {
#pragma unroll 1
        while (tile >= first_tile_) {
            if (!is_full(tile)) {
                fused_step<false>(tile);
                clear_unread_values(tile);
                --tile;
                continue;
            }
            const int first = max(first_tile_, full_first_);
#pragma unroll 1
            for (; tile >= first; --tile) fused_step<true>(tile);
        }
    }
    template <int kChanges>
    __device__ __forceinline__ void modified_step(int tile, bool is_whole) {
        issue_products([&] { modifiers_.template prepare<kChanges>(tile > first_tile_ ? tile - 1 : -1); });
        this->template look_at_modified<kChanges, false>(tile, is_whole);
        release_k();  // K had to stay until then.
        end_step();
        if (!is_whole) clear_unread_values(tile);
    }
    __device__ __forceinline__ void scale_output() {
        if (!rows_.moved) return;
#pragma unroll
        for (int j = 0; j < Config::kShape.columns / 2; j += 4) {
            o_[j] *= rows_.factor[0];
            o_[j + 1] *= rows_.factor[0];
            o_[j + 2] *= rows_.factor[1];
            o_[j + 3] *= rows_.factor[1];
        }
    }
    __device__ __forceinline__ void narrow() { narrow_probabilities<Element, Config::kShape.bytes>(s_, p_); }
    // O includes the tile before, V's stage is released, and this tile's probabilities are ready for the product with V.
    __device__ __forceinline__ void end_step() {
        product_wait<0>();
        keep_in_registers(o_);
        release_v();
        scale_output();
        narrow();
    }
    __device__ __forceinline__ void finish_softmax(int tile) {
        narrow();
        if (!is_full(tile)) clear_unread_values(tile);
    }

    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &x : o_) x = 0;
    }
    // A tile's first scores; no other product runs beside them.
    __device__ __forceinline__ void begin_tile() {
        if constexpr (kPasses) {
            const int hidden = hidden_tiles();
#pragma unroll 1
            for (int i = 0; i < hidden; ++i) {  // One after the other: there may be more of them than stages.
                pass_hidden_keys(1);
                pass_hidden_values(1);
            }
            __syncwarp();
        }
        begin_change();
        if constexpr (kModifiesAny) {
            modifiers_.begin(work_, row_of(*work_));
            modifiers_.stage(end_tile_ - 1);
        }
        wait_q();
        wait_k();
        find_missing();
        if constexpr (kIsFused) modifiers_.choose_factors(end_tile_ - 1);
        multiply_scores(q_operand(), k_operand());
        if constexpr (kModifiesAny) modifiers_.template prepare<kChangeAny>(end_tile_ - 2 >= first_tile_ ? end_tile_ - 2 : -1);
        prepare_change(end_tile_ - 1);
        product_wait<0>();
        keep_in_registers(s_);
        hide_missing();
        release_k();
        first_softmax();
        begin_output();
        finish_softmax(end_tile_ - 1);
    }
    template <bool kDecides>
    __device__ __forceinline__ void exact_step(int tile, bool is_whole) {
        issue_products();
        release_k();
        this->template look<kDecides>(tile, is_whole);
        end_step();
    }
    template <class Step>
    __device__ __forceinline__ void unlooked_step(const Step &meanwhile) {
        issue_products(meanwhile);
        float share[2];
        rows_.moved = false;
        if constexpr (Config::kShape.bytes) rows_.rise_as_planned();
        bool has_outgrown;
        if constexpr (Config::kShape.bytes) {
            float most[2];
            rows_.bounded_exponentials(s_, factor(), share, most);
            has_outgrown = rows_.has_outgrown(most);
            rows_.plan_rise(most);
        } else {
            rows_.exponentials(s_, factor(), share);
            has_outgrown = rows_.has_outgrown(share);
        }
        if (has_outgrown) {
            repeat_warp();
            const float before[2] = {rows_.reference[0], rows_.reference[1]};
            rows_.find_reference_again(s_, factor(), !a_.exact_only);
            rows_.exponentials(s_, factor(), share);
            if constexpr (Config::kShape.bytes) rows_.make_room(rows_.reference[0] != before[0], rows_.reference[1] != before[1]);
        }
        rows_.row_sum[0] += share[0];
        rows_.row_sum[1] += share[1];
        release_k();  // K had to stay until then.
        end_step();
    }
    __device__ __forceinline__ void walk_plain(int tile) {
#pragma unroll 1
        while (tile >= first_tile_) {
            if (!is_full(tile)) {
                exact_step<false>(tile, false);
                clear_unread_values(tile);
                --tile;
                continue;
            }
            const int first = max(first_tile_, full_first_);
            if constexpr (kUnlooked) {
                if (trust_ == kUnknown) {
                    exact_step<true>(tile, true);
                    --tile;
                    // A step that outgrows the range of 8 bits is dear, and the first tiles raise maxima most.
                    constexpr int kMoreLooked = Config::kShape.bytes ? 2 : 0;
#pragma unroll 1
                    for (int i = 0; i < kMoreLooked && tile >= first; ++i, --tile) exact_step<false>(tile, true);
                }
                if (trust_ == kTrust) {
                    if constexpr (Config::kShape.bytes) rows_.make_room(true, true);
#pragma unroll 1
                    for (; tile >= first; --tile) unlooked_step([] {});
                }
            }
#pragma unroll 1
            for (; tile >= first; --tile) exact_step<false>(tile, true);
        }
    }
    __device__ __forceinline__ void walk_shown() {
        int tile = shown_.before(a_.p, end_tile_ - 1);
        const auto move_on = [&] { tile = shown_.before(a_.p, tile); };
#pragma unroll 1
        while (tile >= 0) {
            if (!is_full(tile)) {
                exact_step<false>(tile, false);
                clear_unread_values(tile);
                move_on();
                continue;
            }
            if constexpr (kUnlooked) {
                if (trust_ == kUnknown) {
                    exact_step<true>(tile, true);
                    move_on();
                }
                if (trust_ == kTrust) {
#pragma unroll 1
                    while (is_full(tile)) unlooked_step(move_on);
                }
            }
#pragma unroll 1
            for (; is_full(tile); move_on()) exact_step<false>(tile, true);
        }
    }
    // The tile's other key tiles. Those that the mask or the length cuts are at either end.
    __device__ __forceinline__ void walk() {
        int tile = end_tile_ - 2;
        if constexpr (Config::kShape.sparse) {
            walk_shown();
        } else if constexpr (kIsFused) {
            walk_fused(tile);
        } else if constexpr (Config::kShape.modifies) {
            modifiers_.choose([&](auto changes) {  // A loop for each kind: one for all would not stay in the instruction cache.
#pragma unroll 1
                for (; tile >= first_tile_; --tile) modified_step<decltype(changes)::value>(tile, is_full(tile));
            });
        } else {
            walk_plain(tile);
        }
        release_q();  // The last scores are done.
    }
    __device__ __forceinline__ void finish_tile(const AttentionWorkTile *work) {
        wait_v();
        multiply_values(v_operand());
        product_wait<0>();
        keep_in_registers(o_);
        release_v();
        float total[2];
        rows_.total(total);
        store(*work, rows_.reference, total, rows_.rounding);
        release_work(work);
    }

    __device__ __forceinline__ void store(const AttentionWorkTile &work, const float (&reference)[2], const float (&total)[2],
                                          const float (&rounding)[2]) {
        constexpr int kColumns = Config::kShape.columns;
        if constexpr (Config::kShape.bytes) {
            const float scale = this->value_scale(work);  // Not of a row that sees no key: it may be NaN.
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) o_[i] = total[i / 2 % 2] != 0 ? o_[i] * scale : o_[i];
        }
        if constexpr (Config::kShape.stages_o()) {
            if (stage_rows<Element, kColumns, Config::kShape.modifies>(a_, shared_.o, work, o_, reference, total, rounding, factor()))
                return;
        }
        store_rows<Element, kColumns, kKeys, Config::kShape.modifies, true, Config::kShape.sparse, AllColumns, Config::kShape.bytes>(
            a_.p, work, row_of(work), o_, reference, total, rounding, factor());
    }

    Ring<kWorkStages<Config>> work_ring_;
    [[maybe_unused]] std::conditional_t<Config::kShape.sparse, ShownTiles<kKeys>, int> shown_;
    float o_[Config::kShape.columns / 2];
    uint32_t p_[Config::kShape.p_words()];
};

}  // namespace attile::gpu::sm90
