// SPDX-License-Identifier: Apache-2.0
// What a consumer warpgroup of the attention kernel does to its scores: masks, changes, maxima, exponentials.
#pragma once

#include "attention/mma/repair.cuh"
#include "attention/mma/softmax.cuh"
#include "attention/sm90/fused.cuh"
#include "attention/sm90/modify.cuh"
#include "attention/sm90/repeat.cuh"
#include "attention/sm90/rings.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
class AttentionScores : protected AttentionRings<Config> {
  protected:
    using Rings = AttentionRings<Config>;
    using Rings::group_, Rings::lane_, Rings::shared_, Rings::q_address, Rings::k_address;
    using Rings::wait_strip, Rings::release_strip, Rings::strip_address;

    __device__ __forceinline__ AttentionScores(const AttentionArguments &arguments, const AttentionShared<Config> &shared, int group)
        : Rings(shared, group), a_(arguments), modifiers_(arguments, change_place(shared, group)) {}

    static constexpr int kPanelRow = kAttentionPanel * 2, kKeys = Config::kShape.keys;
    static constexpr bool kIsFused = Config::kShape.is_fused(), kModifiesAny = Config::kShape.modifies && !kIsFused;
    using Change = std::conditional_t<kIsFused, FusedChange<Element, Config>, WarpModifiers<Element, Config>>;
    // Not f16 at other widths: ptxas takes warps for divergent there, or spills.
    static constexpr bool kUnlooked =
        Config::kShape.prediction && (Config::kShape.bytes || std::is_same_v<Element, BF16> || Config::kShape.depth == 64 ||
                                      (Config::kShape.depth == 128 && Config::kShape.columns == 128));
    // Not with ALiBi, whose tiles of the diagonal have a row's largest probability often, and are looked at: it is not rounded then. Nor of
    // few rows, which wait for memory: looking costs nothing there.
    static constexpr bool kMayTrust = Config::kShape.warpgroups > 1, kHasSlack = kMayTrust && !Config::kShape.alibi_only;
    // The rows of two warpgroups see the same key tiles, except under a window.
    static constexpr bool kPasses = Config::kShape.warpgroups > 2;

    // What the change is told of the warp: its own strip, or, of a fused one, its place among the consumer warps.
    static __device__ __forceinline__ uint32_t change_place([[maybe_unused]] const AttentionShared<Config> &shared,
                                                            [[maybe_unused]] int group) {
        if constexpr (kIsFused) return warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads) - kWarpsOfGroup;
        if constexpr (Config::kShape.strip_bytes() == 0) return 0;
        constexpr int kOfWarp = Config::kShape.strip_bytes() / (kWarpsOfGroup * Config::kShape.warpgroups);
        return shared.strips + (warp_uniform(static_cast<int>(threadIdx.x) / kWarpThreads) - kWarpsOfGroup) * kOfWarp;
    }
    __device__ __forceinline__ KeyRange range(int row) const {
        return KeyRange(a_.p, query_row(a_.p, min(row, work_->rows - 1)), work_->shift, work_->first_key, work_->len_k);
    }
    // The thread has this row and the one eight below.
    __device__ __forceinline__ int row_of(const AttentionWorkTile &work) const {
        return work.first_row + group_ * 64 + static_cast<int>(threadIdx.x) / kWarpThreads % kWarpsOfGroup * 16 + lane_ / 4;
    }

    // Hides scores of keys that the thread's two rows do not see.
    __device__ __forceinline__ void mask(int tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const KeyRange seen = range(row_of(*work_) + 8 * r);
            const int first = tile * kKeys + (lane_ & 3) * 2, below = seen.low - first, from = seen.high - first;
#pragma unroll
            for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                for (int e = 0; e < 2; ++e)
                    if (8 * j + e >= from) s_[4 * j + 2 * r + e] = -INFINITY;
            }
            if (__any_sync(~0u, below > 0)) {  // Windows alone have a left end.
#pragma unroll
                for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e)
                        if (8 * j + e < below) s_[4 * j + 2 * r + e] = -INFINITY;
                }
            }
        }
        if constexpr (Config::kShape.sparse) hide_by_tree(tile);
    }
    // Of row r: which of the thread's keys of a tile the tree mask hides, a bit each; all where nothing of the work tile is shown.
    __device__ __forceinline__ uint32_t hidden_by_tree(int tile, int r) const {
        if (shows_nothing_) return ~0u;
        const AttentionParams &p = a_.p;
        const int first = tile * kKeys + (lane_ & 3) * 2, tree = work_->len_k - p.tree_keys;
        if (p.tree_mask.data == nullptr || (tile + 1) * kKeys <= tree) return 0;
        const int packed = min(row_of(*work_) + 8 * r, work_->rows - 1);
        const uint8_t *const row = p.tree_mask.data + work_->batch * p.tree_mask.stride[0] +
                                   query_head(p, work_->head, packed) * p.tree_mask.stride[1] +
                                   query_row(p, packed) * p.tree_mask.stride[2];
        uint32_t hidden = 0;
#pragma unroll
        for (int i = 0; i < kKeys / 4; ++i) {
            const int key = first + i / 2 * 8 + i % 2;
            if (key >= tree && key < work_->len_k && row[(key - tree) * p.tree_mask.stride[3]] == 0) hidden |= 1u << i;
        }
        return hidden;
    }
    __device__ __forceinline__ void hide_by_tree(int tile) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            // The last tile's, where trees are, were looked up when the work tile began.
            const uint32_t hidden = tile == end_tile_ - 1 ? last_hidden_[r] : hidden_by_tree(tile, r);
            if (hidden == 0) continue;
#pragma unroll
            for (int i = 0; i < kKeys / 4; ++i)
                if ((hidden >> i & 1) != 0) s_[i / 2 * 4 + 2 * r + i % 2] = -INFINITY;
        }
    }
    // K's stage is there: which of its keys have no page.
    __device__ __forceinline__ void find_missing() {
        if constexpr (Config::kShape.paged) missing_ = shared_.missing_keys(Rings::steps_ % Rings::kStages);
    }
    __device__ __forceinline__ void hide_missing() {
        if constexpr (Config::kShape.paged) {
            if (missing_ == 0) return;
#pragma unroll
            for (int j = 0; j < kKeys / 2; ++j)
                if ((missing_ >> j / 4 & 1) != 0) s_[j] = -INFINITY;
        }
    }
    // Does every row see all keys?
    __device__ __forceinline__ bool is_full(int tile) const { return tile >= full_first_ && tile < full_end_; }

    // Times this, scores are in units of log2.
    __device__ __forceinline__ float factor() const {
        if constexpr (Config::kShape.bytes)
            return scale_;
        else if constexpr (kIsFused)
            return modifiers_.factor();
        else if constexpr (Config::kShape.modifies)
            return modifiers_.factor;
        else
            return a_.p.scale_log2;
    }
    // Scores become P in registers.
    template <bool kDecides>
    __device__ __forceinline__ void look(int tile, bool is_whole) {
        if constexpr (Config::kShape.bytes) mend_sign();
        if constexpr (Config::kShape.paged) is_whole = is_whole && missing_ == 0;
        if (!is_whole) mask(tile);
        if (kUnlooked && kDecides && is_whole) decide_trust();
        rows_.find_reference(s_, factor(), !a_.exact_only);
        if (kUnlooked && !Config::kShape.bytes && kDecides && !is_whole && !any_of_group(!rows_.spread_is_narrow(s_, factor())) &&
            !a_.exact_only)
            trust_ = kTrust;
        if constexpr (Config::kShape.bytes)
            if (before_ != 1) trust_ = kLook;
        rows_.exact_exponentials(s_, factor());
    }
    // The same for modified scores. One function for steps with and without maxima, since the modification is long. Each warp decides by
    // its own rows which of the two it takes.
    template <int kChanges, bool is_first>
    __device__ __forceinline__ void look_at_modified(int tile, bool is_whole) {
        if (modifiers_.is_idle()) {  // What it computes is not stored.
            rows_.moved = false;
            return;
        }
        bool looks = is_first || (kChanges & kChangeDistance) != 0 || trust_ != kTrust;
#pragma unroll 1
        for (;;) {
            modifiers_.template apply<kChanges>(tile, is_whole, s_);
            if (!is_whole) mask(tile);
            if (looks) {
                float row_max[2];
                modifiers_.find_row_max(rows_, s_, row_max);
                if (modifiers_.template mend_far<kChanges>(tile, row_max, s_)) {
                    if (!is_whole) mask(tile);
                    rows_.take_far(s_, factor(), !a_.exact_only);
                    break;
                }
                rows_.follow(row_max, factor(), !a_.exact_only);
                if (is_first)
                    trust_ =
                        __all_sync(~0u, rows_.spread_is_narrow(s_, factor())) && !a_.exact_only && modifiers_.may_trust() ? kTrust : kLook;
                rows_.exact_exponentials(s_, factor());
                break;
            }
            float share[2];
            rows_.moved = false;
            rows_.exponentials(s_, factor(), share);
            if (!rows_.has_outgrown(share)) {
                rows_.row_sum[0] += share[0];
                rows_.row_sum[1] += share[1];
                break;
            }
            if constexpr (!is_first) repeat_warp();
            trust_ = kLook;  // It is likely to happen again.
            looks = true;
        }
        if (tile > first_tile_) modifiers_.stage(tile - 1);
    }
    // The same where there is one change, known to the kernel.
    template <bool is_first>
    __device__ __forceinline__ void look_at_fused(int tile, bool is_whole) {
        if (modifiers_.is_idle()) {  // What it computes is not stored.
            rows_.moved = false;
            if (Config::kShape.loads_strips()) release_strip();
            return;
        }
        const uint32_t strip = strip_address();
        const bool rises = modifiers_.has_risen();
        bool looks = is_first || trust_ != kTrust || modifiers_.must_look() || (rises && !is_whole);
        if (!is_first && !looks) {
            float share[2], reference[2] = {rows_.reference[0], rows_.reference[1]};
            if (rises) {
                reference[0] += modifiers_.rise()[0];
                reference[1] += modifiers_.rise()[1];
            }
            if constexpr (Config::kShape.alibi_only) {
                if (!is_whole) mask(tile);
                modifiers_.take_level(reference);
                rows_.exponentials_less(s_, a_.p.scale_log2, reference, share);
            } else {
                modifiers_.template apply<true>(tile, is_whole, strip, reference, s_, [&] {
                    if (!is_whole) mask(tile);
                    rows_.template exponentials<Change::kIsRelative>(s_, factor(), share);
                });
            }
            looks = rows_.has_outgrown(share) || (rises && rows_.has_sunk(share));
            if (looks) {
                repeat_warp();
                modifiers_.forget_product();
                trust_ = kLook;  // It is likely to happen again.
            } else {
                rows_.moved = rises;
                if (rises) {
                    rows_.raise_reference(modifiers_.rise());
                    modifiers_.follow_rise();
                }
                rows_.row_sum[0] += share[0];
                rows_.row_sum[1] += share[1];
            }
        }
        if (looks) {
            modifiers_.template apply<false>(tile, is_whole, strip, {0, 0}, s_, [] {});
            if (!is_whole) mask(tile);
            float row_max[2];
            modifiers_.find_row_max(rows_, strip, s_, row_max);
            if (modifiers_.mend_far(strip, row_max, s_)) {
                if (!is_whole) mask(tile);
                rows_.take_far(s_, factor(), !a_.exact_only);
            } else {
                rows_.follow(row_max, factor(), kHasSlack && !a_.exact_only);
                if (is_first)
                    trust_ = kMayTrust && __all_sync(~0u, rows_.spread_is_narrow(s_, factor())) && !a_.exact_only ? kTrust : kLook;
                rows_.exact_exponentials(s_, factor());
            }
            modifiers_.see(tile);
        }
        if (Config::kShape.loads_strips()) release_strip();
    }
    // Of the work tile that begins, and of the key tile whose scores come.
    __device__ __forceinline__ void begin_change() {
        if constexpr (kIsFused) modifiers_.begin(*work_, row_of(*work_));
    }
    __device__ __forceinline__ void prepare_change([[maybe_unused]] int tile) {
        if constexpr (Config::kShape.loads_strips()) wait_strip();
        if constexpr (kIsFused) modifiers_.prepare(tile, strip_address());
    }
    // The four warps decide together, since they issue products together. They decide by this tile's scores alone: which tiles a warpgroup
    // gets depends on timing, and results must not.
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
    __device__ __forceinline__ void first_softmax() {
        rows_.begin();
        trust_ = kUnknown;
        if constexpr (Config::kShape.bytes) find_scale();
        if constexpr (kIsFused)
            look_at_fused<true>(end_tile_ - 1, is_full(end_tile_ - 1));
        else if constexpr (Config::kShape.modifies)
            look_at_modified<kChangeAny, true>(end_tile_ - 1, is_full(end_tile_ - 1));
        else
            look<true>(end_tile_ - 1, is_full(end_tile_ - 1));
    }
    __device__ __forceinline__ void repeat_warp() {
        const int warp = static_cast<int>(threadIdx.x) / kWarpThreads % kWarpsOfGroup;
        repeat_scores<Element, Config>(s_, q_address() + warp * 16 * kPanelRow, k_address());
        hide_missing();
    }

    __device__ __forceinline__ int first_head(const AttentionWorkTile &work) const {
        return work.head * static_cast<int>(a_.p.pack.divisor);
    }
    __device__ __forceinline__ int kv_head(const AttentionWorkTile &work) const {
        return static_cast<int>(quotient(static_cast<uint32_t>(first_head(work)), a_.p.group));
    }
    // Of 8 bits: a work tile's heads have one scale of q and one of k. One that is not positive, or that is far, is multiplied before the
    // maxima are taken.
    __device__ __forceinline__ void find_scale() {
        scale_ = warp_uniform(a_.p.scale_log2 * scale_of_head(a_.p.q_scale, work_->batch, first_head(*work_)) *
                              scale_of_head(a_.p.k_scale, work_->batch, kv_head(*work_)));
        before_ = 1;
        if (!(scale_ > 0 && scale_ < kLargestScale)) {
            before_ = scale_;
            scale_ = 1;
        }
    }
    __device__ __forceinline__ void mend_sign() {
        if (before_ == 1) return;
#pragma unroll
        for (float &x : s_) x *= before_;
    }
    __device__ __forceinline__ float value_scale(const AttentionWorkTile &work) const {
        return scale_of_head(a_.p.v_scale, work.batch, kv_head(work));
    }

    static constexpr float kLargestScale = 8192;
    float scale_, before_;  // Of 8 bits.

    enum Trust { kUnknown, kLook, kTrust };

    const AttentionArguments &a_;
    const AttentionWorkTile *work_ = nullptr;
    int first_tile_, end_tile_, full_first_, full_end_;
    Change modifiers_;
    RowSoftmax<Element, kKeys / 2, std::conditional_t<Config::kShape.bytes, BytesSoftmaxRange, SoftmaxRange<Element>>> rows_;
    Trust trust_ = kUnknown;
    float s_[kKeys / 2];
    uint32_t last_hidden_[2] = {};  // Of the last key tile: hidden_by_tree().
    bool shows_nothing_ = false;    // Of the work tile: the block mask hides all of its keys.
    uint32_t missing_ = 0;          // Of pages: a bit for each eight keys of the tile.
};

}  // namespace attile::gpu::sm90
