// SPDX-License-Identifier: Apache-2.0
// The one change that a fused kernel makes to a warp's scores: a bias of the type of Q, a boolean mask, ALiBi, or softcap. Bias and mask
// come in strips, which the producer loads by TMA as it does K. Other changes, and more than one: attention/sm90/modify.cuh.
//
// Where the softmax takes no maxima, what is subtracted from a score in the exponent is subtracted here, in the multiply-add that makes the
// change. Instructions an element, beside a multiply-add, the exponential and their sum that every kernel has: bias a multiply-add and its
// widening; mask a selection by a bit, and the bits; softcap five or seven and a maximum.
//
// ALiBi is a further step of the scores' product where AlibiProduct takes it: its factor is a wgmma's operand in registers, its distances
// are one in shared memory.
#pragma once

#include "attention/mma/alibi.cuh"
#include "attention/mma/bias.cuh"
#include "attention/mma/cap.cuh"
#include "attention/mma/score.cuh"
#include "attention/sm90/arguments.h"
#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// ALiBi's distances: row `key` of a panel has the key's from the tile's first in depths 0 to 2, from its last in 8 to 10. All of a block's
// threads call it.
template <class Element, int kKeys>
__device__ __forceinline__ void write_key_distances(uint32_t panel) {
    const int key = static_cast<int>(threadIdx.x);
    if (key >= kKeys) return;
    const uint32_t row = panel + key * (kAttentionPanel * 2);
#pragma unroll
    for (int chunk = 0; chunk < 2; ++chunk) {
        const float distance = static_cast<float>(chunk == 0 ? key : kKeys - 1 - key);
        const uint32_t thrice[4] = {narrow_pair<Element>(distance, distance), narrow_pair<Element>(distance, 0), 0, 0};
        store_shared(row + ((chunk ^ (key & 7)) << 4), thrice);
    }
    async_proxy_fence();
}

template <class Element, class Config>
class FusedChange {
  public:
    static constexpr AttentionShape kShape = Config::kShape;
    static constexpr int kKeys = kShape.keys, kScores = kKeys / 2, kRow = kAttentionPanel * 2;
    // apply() leaves exponents less `less`; else scores, to be multiplied by factor().
    static constexpr bool kIsRelative = !kShape.allowed_only;

    // warp: among all the tile's consumer warps.
    __device__ __forceinline__ FusedChange(const AttentionArguments &arguments, int warp)
        : a_(arguments), lane_(lane_index()), rows_before_(warp * 16) {}

    __device__ __forceinline__ float factor() const { return kIsRelative ? 1.0f : a_.p.scale_log2; }

    // A new tile of rows, of which the thread has `row` and row + 8.
    __device__ __forceinline__ void begin(const AttentionWorkTile &work, int row) {
        is_idle_ = warp_uniform(row - lane_ / 4) >= work.rows;
        if constexpr (kShape.alibi_only) {
            const AttentionParams &p = a_.p;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int packed = min(row + 8 * r, work.rows - 1), head = query_head(p, work.head, packed);
                slope_[r] =
                    AlibiSlope(load_number(p.alibi_slopes, work.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
                diagonal_[r] = query_row(p, packed) + work.shift;
                set_key_factors(r);
            }
        }
    }
    // Has the warp none of the work tile's rows?
    __device__ __forceinline__ bool is_idle() const { return is_idle_; }
    // Before the product that makes a tile's scores: whether it adds ALiBi, and on which side of the diagonal.
    __device__ __forceinline__ void choose_factors([[maybe_unused]] int tile) {
        if constexpr (kShape.alibi_only) {
            bool is_beside = has_factors_;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int offset = tile * kKeys - diagonal_[r];
                is_beside = is_beside && (offset >= 0 || offset <= 1 - kKeys);
                offset_[r] = static_cast<float>(offset);
            }
            is_added_ = __all_sync(~0u, is_beside);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                used_[r] = is_added_ && offset_[r] >= 0 ? factors_[r] : 0;
                used_[2 + r] = is_added_ && offset_[r] < 0 ? factors_[r] : 0;
            }
        }
    }
    __device__ __forceinline__ const uint32_t (&key_factors() const)[4] { return used_; }
    // Scores were made without it.
    __device__ __forceinline__ void forget_product() { is_added_ = false; }
    // What is to be subtracted in the exponent of a row whose product has ALiBi: `less`, and the term of the tile's nearest key.
    __device__ __forceinline__ void take_level(float (&less)[2]) const {
#pragma unroll
        for (int r = 0; r < 2; ++r) less[r] = -slope_[r].lower(-less[r], nearest(r));
    }
    // What needs no scores, while products are under way. strip: the tile's, which has come.
    __device__ __forceinline__ void prepare([[maybe_unused]] int tile, [[maybe_unused]] uint32_t strip) {
        if constexpr (kShape.alibi_only) {
            // As far below the tile's level as P's range bears, a reference stays; then it rises beyond the level, so as not to rise soon.
            constexpr float kMostRise = std::is_same_v<Element, F16> ? 2 : 40, kBeyond = std::is_same_v<Element, F16> ? 0 : 40;
#pragma unroll
            for (int r = 0; r < 2; ++r) rise_[r] = level(r) - level_[r];
            has_risen_ = __any_sync(~0u, !(rise_[0] <= kMostRise && rise_[1] <= kMostRise));
#pragma unroll
            for (float &rise : rise_) rise = rise > 0 ? rise + kBeyond : 0;
        }
        if constexpr (kShape.allowed_only) read_bits(strip);
    }
    // Steps without maxima are for products that have ALiBi.
    __device__ __forceinline__ bool must_look() const { return kShape.alibi_only && !is_added_; }
    // May ALiBi have let scores rise, from the tile whose maxima were looked at to this one, by more than steps without maxima bear? Their
    // references rise as far then, by rise().
    __device__ __forceinline__ bool has_risen() const { return kShape.alibi_only && has_risen_; }
    __device__ __forceinline__ const float (&rise() const)[2] { return rise_; }
    __device__ __forceinline__ void follow_rise() {
        level_[0] += rise_[0];
        level_[1] += rise_[1];
    }
    // This tile's maxima are looked at.
    __device__ __forceinline__ void see([[maybe_unused]] int tile) {
        if constexpr (kShape.alibi_only) {
            level_[0] = level(0);
            level_[1] = level(1);
        }
    }

    // Makes scores of products, then calls finish(), on each of the ways there are, so that the compiler interleaves the two. strip: the
    // tile's. is_whole: by the mask every row sees all keys. is_relative: for a step without maxima; else `less` is 0.
    template <bool is_relative, class Finish>
    __device__ __forceinline__ void apply([[maybe_unused]] int tile, [[maybe_unused]] bool is_whole, [[maybe_unused]] uint32_t strip,
                                          [[maybe_unused]] const float (&less)[2], float (&s)[kScores], const Finish &finish) const {
        if constexpr (kShape.softcap_only) cap_scores(a_.p.softcap_log2, a_.p.scale_log2, is_whole && !a_.exact_only, less, s, finish);
        if constexpr (kShape.alibi_only) {
            const int first_key = tile * kKeys + (lane_ & 3) * 2;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if (is_added_) {
                    const float level = slope_[r].lower(-less[r], nearest(r));
#pragma unroll
                    for (int j = 2 * r; j < kScores; j += 4) {
                        s[j] = __builtin_fmaf(s[j], a_.p.scale_log2, level);
                        s[j + 1] = __builtin_fmaf(s[j + 1], a_.p.scale_log2, level);
                    }
                } else {
                    lower_by_distance(slope_[r], r, first_key, diagonal_[r], a_.p.scale_log2, less[r], s);
                }
            }
            finish();
        }
        if constexpr (kShape.bias_only) {
            const uint32_t from = place(strip, lane_ & 15, lane_ >> 4);
            add_bias<Element>(a_.p.scale_log2, less, s, [&](int i) { return (from ^ i % 4 << 5) + i / 4 * (kShape.rows() * kRow); });
            finish();
        }
        if constexpr (kShape.allowed_only) {
            hide_disallowed(s);
            finish();
        }
    }
    // The row_max of each row. Where a score is not finite and the bias is -inf, their sum is NaN; but the bias hides the key.
    template <class Rows>
    __device__ __forceinline__ void find_row_max(const Rows &rows, uint32_t strip, float (&s)[kScores], float (&row_max)[2]) const {
        if constexpr (kShape.bias_only) {
            rows.find_row_max_or_nan(s, row_max);
            if (!__any_sync(~0u, row_max[0] != row_max[0] || row_max[1] != row_max[1])) return;
            for_each_bias<Element>(s, bias_pair_at(strip), hide_by_bias);
        }
        rows.find_row_max(s, row_max);
    }
    // Where a row_max is far from 0 (numeric.h) or infinite: sets scores with a far bias as numeric.h represents them. Returns whether it
    // did, the same in all of the warp.
    __device__ __forceinline__ bool mend_far([[maybe_unused]] uint32_t strip, [[maybe_unused]] const float (&row_max)[2],
                                             [[maybe_unused]] float (&s)[kScores]) const {
        if constexpr (kShape.bias_only) {
            if (!__any_sync(~0u, is_far_row(row_max))) return false;
            for_each_bias<Element>(s, bias_pair_at(strip), set_far_score);
            return true;
        }
        return false;
    }

  private:
    // Where in the strip a 16-byte chunk of one of the warp's rows is, in the first panel.
    __device__ __forceinline__ uint32_t place(uint32_t strip, int row, int chunk) const {
        const int of_strip = static_cast<int>(quotient(static_cast<uint32_t>(rows_before_ + row), a_.scores_pack));
        return renewed(strip + of_strip * kRow + ((chunk ^ (of_strip & 7)) << 4));
    }

    __device__ __forceinline__ auto bias_pair_at(uint32_t strip) const {
        const uint32_t pair = (lane_ & 3) * 4, first = place(strip, lane_ / 4, 0) + pair, second = place(strip, lane_ / 4 + 8, 0) + pair;
        return [first, second](int j, int r) { return ((r == 0 ? first : second) ^ j % 8 << 4) + j / 8 * (kShape.rows() * kRow); };
    }

    // This thread's part of the factor for row r.
    __device__ __forceinline__ void set_key_factors(int r) {
        uint32_t pairs[4];
        AlibiProduct<Element>::split(slope_[r].high, a_.p.scale_log2, pairs);
        const int place = lane_ & 3;
        factors_[r] = place == 0 ? pairs[0] : place == 1 ? pairs[1] : 0;  // Not by index: they would lie in local memory.
        const bool takes = AlibiProduct<Element>::takes(slope_[r].high, a_.p.scale_log2);
        has_factors_ = r == 0 ? takes : has_factors_ && takes;
    }
    // From row r's diagonal to the tile's nearest key, where the tile does not hold it.
    __device__ __forceinline__ float nearest(int r) const { return fmaxf(offset_[r], -(offset_[r] + (kKeys - 1))); }
    // What ALiBi adds at most to the scores of row r in the tile.
    __device__ __forceinline__ float level(int r) const {
        const float high = slope_[r].high, farthest = fmaxf(offset_[r] + (kKeys - 1), -offset_[r]);
        return -high * (high >= 0 ? fmaxf(nearest(r), 0.0f) : farthest);
    }
    // Bytes of the boolean mask become bits. Each of the four threads that share a row reads a quarter of the keys.
    __device__ __forceinline__ void read_bits(uint32_t strip) {
        static_assert(!kShape.allowed_only || kKeys == 128 || kKeys == 64, "32 keys a thread, a row a panel");
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const uint32_t from = place(strip, lane_ / 4 + 8 * r, mask_quarter<kKeys>(lane_) * 2);
            uint32_t x[2][4];
            load_shared(x[0], from);
            load_shared(x[1], from ^ 16);
            bits_[r] = mask_bits(x);
        }
    }
    __device__ __forceinline__ void hide_disallowed(float (&s)[kScores]) const { hide_by_bits(bits_, lane_ & 3, s); }

    const AttentionArguments &a_;
    const int lane_, rows_before_;
    AlibiSlope slope_[2];
    int diagonal_[2] = {0, 0};
    float offset_[2] = {0, 0};                    // From the diagonal to the tile's first key.
    float level_[2] = {0, 0}, rise_[2] = {0, 0};  // Of ALiBi: what the references were set for, and how much higher the tile is.
    bool is_idle_ = false, has_risen_ = false, has_factors_ = false, is_added_ = false;
    uint32_t factors_[2] = {0, 0}, used_[4] = {0, 0, 0, 0};
    uint32_t bits_[2] = {0, 0};
};

}  // namespace attile::gpu::sm90
