// SPDX-License-Identifier: Apache-2.0
// The one change that a fused kernel makes to a warp's scores: a bias of the type of Q, a boolean mask, ALiBi, or softcap. Bias and mask
// come in strips, which the producer loads by TMA as it does K. Other changes, and more than one: attention/sm90/modify.cuh.
//
// Where the softmax takes no maxima, what is subtracted from a score in the exponent is subtracted here, in the multiply-add that makes the
// change. Instructions an element, beside a multiply-add, the exponential and their sum that every kernel has: bias a multiply-add and its
// widening; mask a selection by a bit, and the bits; ALiBi a multiply-add; softcap five or seven and a maximum.
#pragma once

#include "attention/mma/alibi.cuh"
#include "attention/mma/bias.cuh"
#include "attention/mma/cap.cuh"
#include "attention/mma/score.cuh"
#include "attention/sm90/arguments.h"
#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

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
    __device__ __forceinline__ void begin([[maybe_unused]] const AttentionWorkTile &work, [[maybe_unused]] int row) {
        if constexpr (kShape.alibi_only) {
            const AttentionParams &p = a_.p;
            const int shift = alibi_shift(p, work);
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int packed = min(row + 8 * r, work.rows - 1), head = query_head(p, work.head, packed);
                slope_[r] =
                    AlibiSlope(load_number(p.alibi_slopes, work.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
                diagonal_[r] = query_row(p, packed) + shift;
            }
        }
    }
    // What needs no scores, while products are under way. strip: the tile's, which has come.
    __device__ __forceinline__ void prepare([[maybe_unused]] int tile, [[maybe_unused]] uint32_t strip) {
        if constexpr (kShape.alibi_only) {
            constexpr float kMostRise = std::is_same_v<Element, F16> ? 2 : 24;
#pragma unroll
            for (int r = 0; r < 2; ++r) rise_[r] = fmaxf(level(r, tile) - level_[r], 0.0f);
            has_risen_ = __any_sync(~0u, !(rise_[0] <= kMostRise && rise_[1] <= kMostRise));
            const int first = tile * kKeys, nearest = min(diagonal_[0], diagonal_[1]), farthest = max(diagonal_[0], diagonal_[1]);
            const bool is_finite = slope_[0].high - slope_[0].high == 0 && slope_[1].high - slope_[1].high == 0;
            is_linear_ = __all_sync(~0u, is_finite && (first + kKeys - 1 <= nearest || first >= farthest));
        }
        if constexpr (kShape.allowed_only) read_bits(strip);
    }
    // A tile of ALiBi's diagonal, which steps without maxima are not made for?
    __device__ __forceinline__ bool must_look() const { return kShape.alibi_only && !is_linear_; }
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
            level_[0] = level(0, tile);
            level_[1] = level(1, tile);
        }
    }

    // Makes scores of products, then calls finish(), on each of the ways there are, so that the compiler interleaves the two. strip: the
    // tile's. is_whole: by the mask every row sees all keys. is_relative: for a step without maxima; else `less` is 0.
    template <bool is_relative, class Finish>
    __device__ __forceinline__ void apply([[maybe_unused]] int tile, [[maybe_unused]] bool is_whole, [[maybe_unused]] uint32_t strip,
                                          [[maybe_unused]] const float (&less)[2], float (&s)[kScores], const Finish &finish) const {
        if constexpr (kShape.softcap_only) cap_scores(a_.p, is_whole && !a_.exact_only, less, s, finish);
        if constexpr (kShape.alibi_only) {
            const int first_key = tile * kKeys + (lane_ & 3) * 2;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                if (is_relative || is_linear_)
                    lower_on_one_side(slope_[r], r, first_key, diagonal_[r], a_.p.scale_log2, less[r], s);
                else
                    lower_by_distance(slope_[r], r, first_key, diagonal_[r], a_.p.scale_log2, less[r], s);
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
    // Keeps the compiler from computing all addresses ahead of the loop over key tiles, which would cost a register each.
    static __device__ __forceinline__ uint32_t renewed(uint32_t value) {
        asm volatile("" : "+r"(value));
        return value;
    }
    // Where in the strip a 16-byte chunk of one of the warp's rows is, in the first panel.
    __device__ __forceinline__ uint32_t place(uint32_t strip, int row, int chunk) const {
        return renewed(strip + (rows_before_ + row) * kRow + ((chunk ^ (row & 7)) << 4));
    }

    __device__ __forceinline__ auto bias_pair_at(uint32_t strip) const {
        return [from = place(strip, lane_ / 4, 0) + (lane_ & 3) * 4](int j, int r) {
            return (from ^ j % 8 << 4) + j / 8 * (kShape.rows() * kRow) + 8 * r * kRow;
        };
    }

    // What ALiBi adds at most to the scores of row r in a tile.
    __device__ __forceinline__ float level(int r, int tile) const {
        const int first = tile * kKeys - diagonal_[r], last = first + kKeys - 1;
        const int nearest = max(max(first, -last), 0), farthest = max(last, -first);
        const float high = slope_[r].high;
        return -high * static_cast<float>(high >= 0 ? nearest : farthest);
    }
    // Bytes of the boolean mask become bits. Each of the four threads that share a row reads a quarter of the keys.
    __device__ __forceinline__ void read_bits(uint32_t strip) {
        static_assert(!kShape.allowed_only || kKeys == 128, "32 keys a thread, a row a panel");
        const uint32_t from = place(strip, lane_ / 4, (lane_ & 3) * 2);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            uint32_t x[2][4];
            load_shared(x[0], from + 8 * r * kRow);
            load_shared(x[1], (from ^ 16) + 8 * r * kRow);
            bits_[r] = mask_bits(x);
        }
    }
    __device__ __forceinline__ void hide_disallowed(float (&s)[kScores]) const { hide_by_bits(bits_, lane_ & 3, s); }

    const AttentionArguments &a_;
    const int lane_, rows_before_;
    AlibiSlope slope_[2];
    int diagonal_[2] = {0, 0};
    float level_[2] = {0, 0}, rise_[2] = {0, 0};  // Of ALiBi: what the references were set for, and how much higher the tile is.
    bool has_risen_ = false, is_linear_ = false;
    uint32_t bits_[2] = {0, 0};
};

}  // namespace attile::gpu::sm90
