// SPDX-License-Identifier: Apache-2.0
// A computing warpgroup of the attention kernel: 64 rows of each tile, keys from the last tile to the first.
#pragma once

#include "sm90_attention_product.cuh"
#include "sm90_attention_repeat.cuh"
#include "sm90_attention_shared.cuh"
#include "tensor_attention_output.cuh"
#include "tensor_attention_score.cuh"
#include "tensor_attention_softmax.cuh"

namespace attile::sm90 {

// Named barriers: a warpgroup's turn at issuing products, and its own four warps.
inline constexpr int kTurnBarrier = 1, kGroupBarrier = 5;

template <class Element, class Config>
class AttentionWarpgroup {
  public:
    __device__ __forceinline__ AttentionWarpgroup(const AttentionArguments &arguments, const AttentionShared<Config> &places, int group)
        : a_(arguments), shared_(places), group_(group), lane_(simt::lane_index()) {}

    __device__ __forceinline__ void run() {
        // The first turn is the first warpgroup's.
        if (Config::kShape.ping_pong && group_ == Config::kShape.warpgroups - 1) pass_turn();
        if constexpr (Config::kShape.run_on) {
            if (!next_tile()) return;
            begin_tile();
            for (;;) {
                walk();
                const AttentionTileNote *const last = note_;
                if (!next_tile()) {
                    finish_tile(last);
                    return;
                }
                const int hidden = hidden_tiles();
                if (hidden > static_cast<int>(kStages) - 2) {  // A group without rows: V of the tiles passed needs the last one's stage.
                    finish_tile(last);
                    pass_turns(1);
                    begin_tile();
                    continue;
                }
                // The first scores of this tile with the last values of that one.
                pass_hidden_keys(hidden);
                wait_q();
                issue_products();
                release_k();
                const float reference[2] = {rows_.reference[0], rows_.reference[1]}, rounding[2] = {rows_.rounding[0], rows_.rounding[1]};
                float total[2];
                rows_.total(total);
                first_softmax();
                product_wait<0>();
                keep_in_registers(o_);
                release_v();
                pass_hidden_values(hidden);
                store_rows<Element, Config::kShape.columns, kKeys>(a_.p, *last, row_of(*last), o_, reference, total, rounding);
                release_note(last);
                begin_output();
                finish_softmax(end_tile_ - 1);
            }
        } else {
            while (next_tile()) {
                begin_tile();
                walk();
                finish_tile(note_);
            }
        }
    }

  private:
    static constexpr int kPanelRow = kAttentionPanel * 2, kKeys = Config::kShape.keys;
    // f16 at other widths: ptxas takes warps for scattered there, or spills.
    static constexpr bool kUnlooked = Config::kShape.prediction && (std::is_same_v<Element, simt::BF16> || Config::kShape.depth == 64 ||
                                                                    (Config::kShape.depth == 128 && Config::kShape.columns == 128));
    // Two groups' rows see the same key tiles but for windows.
    static constexpr bool kPasses = Config::kShape.warpgroups > 2;

    // The next tile, if there is one.
    __device__ __forceinline__ bool next_tile() {
        barrier_wait(shared_.note_full(note_ring_.place), note_ring_.parity);
        note_ = shared_.notes + note_ring_.place;
        note_ring_.advance();
        if (warp_uniform(note_->batch) < 0) return false;
        first_tile_ = warp_uniform(note_->first_tile);
        end_tile_ = warp_uniform(kPasses ? note_->group_end[group_] : note_->end_tile);
        full_first_ = warp_uniform(note_->full_first[group_]);
        full_end_ = warp_uniform(note_->full_end[group_]);
        __syncwarp();  // Else ptxas takes the warp for scattered after the wait, and nothing for uniform.
        return true;
    }
    __device__ __forceinline__ simt::KeyRange range(int row) const {
        return simt::KeyRange(a_.p, simt::query_row(a_.p, min(row, note_->rows - 1)), note_->shift, note_->len_k);
    }
    // The thread has this row and the one eight below.
    __device__ __forceinline__ int row_of(const AttentionTileNote &note) const {
        return note.first_row + group_ * 64 + static_cast<int>(threadIdx.x) / kWarpThreads % kWarpsOfGroup * 16 + lane_ / 4;
    }
    __device__ __forceinline__ void release_note(const AttentionTileNote *note) const {
        __syncwarp();
        release(shared_.note_empty(static_cast<int>(note - shared_.notes)));
    }
    __device__ __forceinline__ void release(uint32_t empty) const {
        if (lane_ == 0) barrier_arrive(empty);
    }
    // K's stage is that of the key tile whose scores are next, V's that of the one whose values are.
    static constexpr uint32_t kStages = Config::kShape.stages, kPlacesOfQ = Config::kShape.q_places();
    static_assert((kStages & (kStages - 1)) == 0, "so that places and parities are bits of a count");
    __device__ __forceinline__ void wait_q() const { barrier_wait(shared_.q_full(tiles_ % kPlacesOfQ), tiles_ / kPlacesOfQ & 1); }
    __device__ __forceinline__ void wait_k() const { barrier_wait(shared_.k_full(steps_ % kStages), steps_ / kStages & 1); }
    __device__ __forceinline__ void wait_v() const { barrier_wait(shared_.v_full(values_ % kStages), values_ / kStages & 1); }
    __device__ __forceinline__ void release_q() {
        release(shared_.q_empty(tiles_ % kPlacesOfQ));
        ++tiles_;
    }
    __device__ __forceinline__ void release_k() {
        release(shared_.k_empty(steps_ % kStages));
        ++steps_;
    }
    __device__ __forceinline__ void release_v() {
        release(shared_.v_empty(values_ % kStages));
        ++values_;
    }
    __device__ __forceinline__ uint32_t q_address() const {
        return shared_.q + tiles_ % kPlacesOfQ * Config::kShape.q_bytes() + group_ * 64 * kPanelRow;
    }
    __device__ __forceinline__ uint32_t k_address() const { return shared_.k + steps_ % kStages * Config::kShape.k_bytes(); }
    __device__ __forceinline__ uint32_t v_address() const { return shared_.v + values_ % kStages * Config::kShape.v_bytes(); }
    __device__ __forceinline__ void wait_turn() const { named_sync(kTurnBarrier + group_, 2 * kWarpgroupThreads); }
    __device__ __forceinline__ void pass_turn() const {
        named_arrive(kTurnBarrier + (group_ + 1 == Config::kShape.warpgroups ? 0 : group_ + 1), 2 * kWarpgroupThreads);
    }

    __device__ __forceinline__ void pass_turns([[maybe_unused]] int count) const {
        if constexpr (Config::kShape.ping_pong) {
#pragma unroll 1
            for (int i = 0; i < count; ++i) {
                wait_turn();
                pass_turn();
            }
        }
    }

    // Key tiles at the end of the tile's that other groups' rows see, but none of this one's. Their stages are waited for before they are
    // released, or the count of two phases would mix.
    __device__ __forceinline__ int hidden_tiles() const { return kPasses ? warp_uniform(note_->end_tile) - end_tile_ : 0; }
    __device__ __forceinline__ void pass_hidden_keys(int count) {
        pass_turns(count);
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

    // Steps within an operand do not carry out of the address's bits.
    __device__ __forceinline__ uint64_t q_operand() const { return product_operand(q_address(), 16); }
    __device__ __forceinline__ uint64_t k_operand() const { return product_operand(k_address(), 16); }
    __device__ __forceinline__ uint64_t v_operand() const { return product_operand(v_address(), kKeys * kPanelRow); }

    __device__ __forceinline__ void multiply_scores(uint64_t q, uint64_t k) {
        keep_in_registers(s_);
        product_fence();
#pragma unroll
        for (int i = 0; i < (Config::kShape.depth + 15) / 16; ++i)
            score_product<Element, kKeys>(s_, q + i / 4 * (Config::kShape.rows() * kPanelRow / 16) + i % 4 * 2,
                                          k + i / 4 * (kKeys * kPanelRow / 16) + i % 4 * 2, i != 0);
        product_commit();
    }
    __device__ __forceinline__ void multiply_values(uint64_t v) {
        keep_in_registers(o_);
        product_fence();
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i) value_product<Element, Config::kShape.columns>(o_, p_ + 4 * i, v + i * 128);
        product_commit();
    }
    // Scores of the next key tile and values of the current one, in this warpgroup's turn; returns when the scores are there.
    __device__ __forceinline__ void issue_products() {
        const uint64_t q = q_operand(), k = k_operand(), v = v_operand();
        wait_k();
        if (Config::kShape.ping_pong) wait_turn();
        multiply_scores(q, k);
        if (Config::kShape.apart) {
            product_wait<0>();
            keep_in_registers(s_);
            if (Config::kShape.ping_pong) pass_turn();
            wait_v();
            multiply_values(v);
            return;
        }
        wait_v();
        multiply_values(v);
        if (Config::kShape.ping_pong) pass_turn();
        product_wait<1>();
        keep_in_registers(s_);
    }

    // Hides scores of keys that the thread's two rows do not see.
    __device__ __forceinline__ void mask(int tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const simt::KeyRange seen = range(row_of(*note_) + 8 * r);
            const int first = tile * kKeys + (lane_ & 3) * 2, below = seen.low - first, from = seen.high - first;
#pragma unroll
            for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * j + e >= from) s_[4 * j + 2 * r + e] = -INFINITY;
            }
            if (!__any_sync(~0u, below > 0)) continue;  // Windows alone have a left end.
#pragma unroll
            for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * j + e < below) s_[4 * j + 2 * r + e] = -INFINITY;
            }
        }
    }
    // Rows of V that nobody may read become zero: a probability of zero would not stop a NaN.
    __device__ __forceinline__ void clear_unread_values(int tile) {
        const int first = tile * kKeys, below = note_->read_first - first, from = note_->read_end - first;
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
    // Does every row see all keys? Where scores are modified it does not matter: one loop is enough there.
    __device__ __forceinline__ bool is_full(int tile) const { return !Config::kShape.modifies && tile >= full_first_ && tile < full_end_; }

    // From scores to units of log2.
    __device__ __forceinline__ float factor() const { return Config::kShape.modifies ? 1.0f : a_.p.scale_log2; }
    // From scores to P in registers; V's stage is one back from then on.
    template <bool kDecides>
    __device__ __forceinline__ void look(int tile, bool is_whole) {
        if constexpr (Config::kShape.modifies) {
            modify_scores<Element>(a_.p, *note_, row_of(*note_), tile * kKeys + (lane_ & 3) * 2, s_);
            if (tile > first_tile_) prefetch_scores<kKeys>(a_.p, *note_, row_of(*note_) - lane_ / 4, (tile - 1) * kKeys);
        }
        if (!is_whole) mask(tile);
        if (kUnlooked && kDecides && is_whole) decide_trust();
        rows_.find_reference(s_, factor(), !a_.exact_only);
        if (kUnlooked && kDecides && !is_whole && !any_of_group(!rows_.spread_is_narrow(s_, factor())) && !a_.exact_only) trust_ = kTrust;
        rows_.exact_exponentials(s_, factor());
    }
    // All four warps alike, since they issue products together. By this tile's scores alone: which tiles a warpgroup gets is a matter of
    // time, and results must not be.
    __device__ __forceinline__ void decide_trust() {
        trust_ = any_of_group(rows_.spread_is_wide(s_, factor())) || a_.exact_only ? kLook : kTrust;
    }
    __device__ __forceinline__ bool any_of_group(bool is_so) const {
        int any;
        asm volatile("{ .reg .pred p, q; setp.ne.b32 p, %1, 0; bar.red.or.pred q, %2, %3, p; selp.b32 %0, 1, 0, q; }"
                     : "=r"(any)
                     : "r"(static_cast<int>(is_so)), "r"(kGroupBarrier + group_), "n"(kWarpgroupThreads)
                     : "memory");
        return warp_uniform(any) != 0;
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
    __device__ __forceinline__ void narrow() {
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) p_[i] = narrow_pair<Element>(s_[2 * i], s_[2 * i + 1]);
    }
    __device__ __forceinline__ void finish_softmax(int tile) {
        narrow();
        if (!is_full(tile)) clear_unread_values(tile);
    }

    __device__ __forceinline__ void begin_output() {
#pragma unroll
        for (float &x : o_) x = 0;
    }
    __device__ __forceinline__ void first_softmax() {
        rows_.begin();
        trust_ = kUnknown;
        look<true>(end_tile_ - 1, is_full(end_tile_ - 1));
    }
    // A tile's first scores, with nothing to go along.
    __device__ __forceinline__ void begin_tile() {
        if constexpr (kPasses) {
            const int hidden = hidden_tiles();
#pragma unroll 1
            for (int i = 0; i < hidden; ++i) {  // In turn: there may be more than stages.
                pass_hidden_keys(1);
                pass_hidden_values(1);
            }
            __syncwarp();
        }
        wait_q();
        wait_k();
        multiply_scores(q_operand(), k_operand());
        product_wait<0>();
        keep_in_registers(s_);
        release_k();
        first_softmax();
        begin_output();
        finish_softmax(end_tile_ - 1);
    }
    template <bool kDecides>
    __device__ __forceinline__ void exact_step(int tile, bool is_whole) {
        issue_products();
        release_k();
        look<kDecides>(tile, is_whole);
        product_wait<0>();
        keep_in_registers(o_);
        release_v();
        scale_output();
        narrow();
    }
    __device__ __forceinline__ void unlooked_step() {
        issue_products();
        float share[2];
        rows_.moved = false;
        rows_.exponentials(s_, factor(), share);
        if (rows_.has_outgrown(share)) {
            const int warp = static_cast<int>(threadIdx.x) / kWarpThreads % kWarpsOfGroup;
            repeat_scores<Element, Config>(s_, q_address() + warp * 16 * kPanelRow, k_address());
            rows_.find_reference(s_, factor(), !a_.exact_only);
            rows_.exponentials(s_, factor(), share);
        }
        rows_.sum[0] += share[0];
        rows_.sum[1] += share[1];
        release_k();  // K had to stay until then.
        product_wait<0>();
        keep_in_registers(o_);
        release_v();
        scale_output();
        narrow();
    }
    // The tile's other key tiles. Those that mask or lengths cut come at either end.
    __device__ __forceinline__ void walk() {
        int tile = end_tile_ - 2;
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
                }
                if (trust_ == kTrust) {
#pragma unroll 1
                    for (; tile >= first; --tile) unlooked_step();
                }
            }
#pragma unroll 1
            for (; tile >= first; --tile) exact_step<false>(tile, true);
        }
        release_q();  // The last scores are done.
    }
    __device__ __forceinline__ void finish_tile(const AttentionTileNote *note) {
        wait_v();
        multiply_values(v_operand());
        product_wait<0>();
        keep_in_registers(o_);
        release_v();
        float total[2];
        rows_.total(total);
        store_rows<Element, Config::kShape.columns, kKeys>(a_.p, *note, row_of(*note), o_, rows_.reference, total, rows_.rounding);
        release_note(note);
    }

    enum Trust { kUnknown, kLook, kTrust };

    const AttentionArguments &a_;
    const AttentionShared<Config> shared_;
    const int group_, lane_;
    Ring<kNotes<Config>> note_ring_;
    uint32_t tiles_ = 0, steps_ = 0, values_ = 0;  // Tiles of rows, key tiles whose scores are done, and whose values are.
    const AttentionTileNote *note_ = nullptr;
    int first_tile_, end_tile_, full_first_, full_end_;
    RowSoftmax<Element, kKeys / 2> rows_;
    Trust trust_ = kUnknown;
    float s_[kKeys / 2], o_[Config::kShape.columns / 2];
    uint32_t p_[kKeys / 4];
};

}  // namespace attile::sm90
