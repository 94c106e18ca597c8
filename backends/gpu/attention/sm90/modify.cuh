// SPDX-License-Identifier: Apache-2.0
// What happens to a warp's scores between Q K^T and the softmax where it is more than a mask. Each change is one pass over a thread's
// scores. Instructions an element: softcap five to seven and a maximum, by the scores' size; ALiBi two on either side of the diagonal; bias
// a multiply-add and its widening; boolean mask (`allowed`) one bit of a word. Bias and boolean mask are copied by cp.async, a key tile in
// advance, into a strip of shared memory that belongs to one warp.
#pragma once

#include "attention/mma/cap.cuh"
#include "attention/mma/score.cuh"
#include "attention/sm90/arguments.h"
#include "attention/sm90/shared.cuh"

namespace attile::gpu::sm90 {

// What may happen to scores. kChangeAny: what the problem says, decided at run time.
enum AttentionChange {
    kChangeCap = 1,
    kChangeBias = 2,
    kChangeDistance = 4,
    kChangeAllowed = 8,
    kChangePages = 16,
    kChangeScale = 32,
    kChangeAny = 64
};

template <class Element, class Config>
class WarpModifiers {
  public:
    static constexpr int kKeys = Config::kShape.keys, kScores = kKeys / 2;
    static constexpr bool kStages = Config::kShape.strip_bytes() > 0;

    // strip: the warp's own. c: the factor by which scores are multiplied after all changes.
    __device__ __forceinline__ WarpModifiers(const AttentionArguments &arguments, uint32_t strip)
        : a_(arguments), strip_(strip), lane_(lane_index()) {
        const AttentionParams &p = a_.p;
        // A bias that is the only change is converted to the scores' unit, rather than the scores to the bias's. Not where that could pass
        // float32's range, or make an ordinary bias a far score (numeric.h), which keeps fewer digits.
        const bool scales = p.softcap_log2 != 0 || p.alibi_slopes.data != nullptr ||
                            (p.bias.data != nullptr ? !(p.scale_log2 > kLeastUnit && p.scale_log2 < kMostUnit) : !(p.scale_log2 > 0.0f));
        factor = scales ? 1.0f : p.scale_log2;
        bias_unit_ = scales ? kLog2EHigh : kLog2EHigh / p.scale_log2;
        if (p.softcap_log2 != 0) changes_ |= kChangeCap;
        if (p.bias.data != nullptr) changes_ |= kChangeBias;
        if (p.alibi_slopes.data != nullptr) changes_ |= kChangeDistance;
        if (p.allowed.data != nullptr) changes_ |= kChangeAllowed;
        if (p.block_table != nullptr) changes_ |= kChangePages;
        if (scales && p.softcap_log2 == 0 && p.alibi_slopes.data == nullptr) changes_ |= kChangeScale;
    }
    float factor;

    // Calls step(std::integral_constant<int, changes>).
    template <class Step>
    __device__ __forceinline__ void choose(const Step &step) const {
        // A bias or mask that TMA reaches has kernels of its own, up to 128 columns softcap and ALiBi alone as well.
        constexpr bool kIsWide = Config::kShape.depth > 128;
        if (kIsWide && changes_ == kChangeCap) return step(std::integral_constant < int, kIsWide ? kChangeCap : kChangeAny > ());
        if (kIsWide && changes_ == kChangeDistance) return step(std::integral_constant < int, kIsWide ? kChangeDistance : kChangeAny > ());
        if (changes_ == kChangeBias) return step(std::integral_constant<int, kChangeBias>());
        if (changes_ == kChangeAllowed) return step(std::integral_constant<int, kChangeAllowed>());
        step(std::integral_constant<int, kChangeAny>());
    }
    // With ALiBi scores rise from key to key, and outgrow any headroom.
    __device__ __forceinline__ bool may_trust() const { return (changes_ & kChangeDistance) == 0; }

    // A new tile of rows, of which the thread has `row` and row + 8; `work` stays valid.
    __device__ __forceinline__ void begin(const AttentionWorkTile *work, int row) {
        const AttentionParams &p = a_.p;
        work_ = work;
        row_ = row;
        if (p.alibi_slopes.data == nullptr) return;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int packed = min(row + 8 * r, work->rows - 1), head = query_head(p, work->head, packed);
            slope_[r] = AlibiSlope(load_number(p.alibi_slopes, work->batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
            diagonal_[r] = query_row(p, packed) + work->shift;
        }
    }
    // Has the warp none of the work tile's rows?
    __device__ __forceinline__ bool is_idle() const { return warp_uniform(row_ - lane_ / 4) >= work_->rows; }
    // Starts the copies of what apply() will read of a key tile. The tile before has been read.
    __device__ __forceinline__ void stage([[maybe_unused]] int tile) const {
        if constexpr (kStages) {
            const AttentionParams &p = a_.p;
            if ((p.bias.data == nullptr && p.allowed.data == nullptr) || is_idle()) return;
            __syncwarp();
            if (p.bias.data != nullptr) {
                if (is_wide())
                    stage_rows<4>(p.bias, strip_, tile);
                else
                    stage_rows<2>(p.bias, strip_, tile);
            }
            if (stages_allowed()) stage_rows<1>(p.allowed, allowed_strip(), tile);
            copy_commit();
        }
    }
    // Before apply(), while products are under way: waits for the copies. Where nothing is staged, prefetches for tile `next` instead.
    template <int kChanges>
    __device__ __forceinline__ void prepare([[maybe_unused]] int next) const {
        if (!has<kChanges>(kChangeBias) && !has<kChanges>(kChangeAllowed)) return;
        if constexpr (kStages) {
            copy_wait<0>();
            __syncwarp();
        } else {
            if (next >= 0) prefetch_scores<kKeys>(a_.p, *work_, row_ - lane_ / 4, next * kKeys);
        }
    }
    // Makes scores of products. is_whole: by the mask every row sees all keys.
    template <int kChanges>
    __device__ __forceinline__ void apply(int tile, bool is_whole, float (&s)[kScores]) const {
        const AttentionParams &p = a_.p;
        const int first_key = tile * kKeys + (lane_ & 3) * 2;
        float c = p.scale_log2;
        if (has<kChanges>(kChangeCap)) {
            cap_scores(p.softcap_log2, p.scale_log2, is_whole && !a_.exact_only, {0, 0}, s, [] {});
            c = 1;
        }
        if (has<kChanges>(kChangeScale)) {
#pragma unroll
            for (float &x : s) x *= c;
            c = 1;
        }
        if (has<kChanges>(kChangeBias)) {
            if (has<kChanges>(kChangeDistance) && c != 1) {
#pragma unroll
                for (float &x : s) x *= c;
                c = 1;
            }
            if constexpr (kStages) {
                if (is_wide())
                    add_wide_bias(s);
                else
                    add_bias(s);
            } else {
                read_bias<Element>(
                    p, *work_, row_, first_key,
                    [&](float x, float bias) { return bias == -INFINITY ? -INFINITY : __builtin_fmaf(bias, bias_unit_, x); }, s);
            }
        }
        if (has<kChanges>(kChangeDistance)) lower_by_distance(tile * kKeys, c, s);
        if (has<kChanges>(kChangeAllowed)) {
            if (stages_allowed())
                hide_disallowed(s);
            else
                read_allowed(p, *work_, row_, first_key, s);
        }
        if (has<kChanges>(kChangePages)) hide_missing_pages(tile, s);
    }
    // The row_max of each row. Where a score is not finite and the bias is -inf, their sum is NaN; but the bias hides the key.
    template <class Rows>
    __device__ __forceinline__ void find_row_max(const Rows &rows, float (&s)[kScores], float (&row_max)[2]) const {
        rows.find_row_max_or_nan(s, row_max);
        if (!__any_sync(~0u, row_max[0] != row_max[0] || row_max[1] != row_max[1])) return;
        if (kStages && a_.p.bias.data != nullptr)
            for_each_staged([](float &x, float bias) { x = x != x && bias == -INFINITY ? -INFINITY : x; }, s);
        rows.find_row_max(s, row_max);
    }
    // Where a row_max is far from 0 (numeric.h) or infinite: sets scores with a far bias as numeric.h represents them. All changes but the
    // mask, which is to follow, are made again. Returns whether it did, the same in all of the warp.
    template <int kChanges>
    __device__ __forceinline__ bool mend_far(int tile, const float (&row_max)[2], float (&s)[kScores]) const {
        if (!has<kChanges>(kChangeBias)) return false;
        constexpr float kMost = 0x1p24f;  // In units of log2. Beyond it the rounding of a reference alone may pass float16's range.
        if (!__any_sync(~0u, !(fabsf(row_max[0] * factor) <= kMost && fabsf(row_max[1] * factor) <= kMost))) return false;
        const AttentionParams &p = a_.p;
        const int first_key = tile * kKeys + (lane_ & 3) * 2;
        const auto mend = [&](float &x, float bias) {
            if (is_far(bias * bias_unit_) && x == x) x = far_score(bias);
        };
        if constexpr (kStages) {
            for_each_staged(mend, s);
        } else {
            read_bias<Element>(
                p, *work_, row_, first_key,
                [&](float x, float bias) {
                    mend(x, bias);
                    return x;
                },
                s);
        }
        if (p.allowed.data != nullptr) {
            if (stages_allowed())
                hide_disallowed(s);
            else
                read_allowed(p, *work_, row_, first_key, s);
        }
        if (p.block_table != nullptr) hide_missing_pages(tile, s);
        return true;
    }

  private:
    static constexpr float kLeastUnit = 1.0f / 128;
    static constexpr float kMostUnit = 32;  // Of scores: times this, far scores stay below the largest that RowSoftmax allows.

    // Calls step(score, bias) for the thread's scores.
    template <class Step>
    __device__ __forceinline__ void for_each_staged(const Step &step, float (&s)[kScores]) const {
        const bool is_wide = this->is_wide();
        const uint32_t wide = wide_pairs(), narrow = renewed(strip_ + swizzled<2>(lane_ / 4, 0) + (lane_ & 3) * 4);
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float2 bias;
                if (is_wide)
                    bias = load_pair((wide ^ j << 5) + 8 * r * kKeys * 4);
                else
                    bias = widen_pair<Element>(load_word((narrow ^ j << 4) + 8 * r * kKeys * 2));
                step(s[4 * j + 2 * r], bias.x);
                step(s[4 * j + 2 * r + 1], bias.y);
            }
        }
    }
    template <int kChanges>
    __device__ __forceinline__ bool has(int change) const {
        return ((kChanges == kChangeAny ? changes_ : kChanges) & change) != 0;
    }
    __device__ __forceinline__ bool is_wide() const { return a_.p.bias.storage == AttentionStorage::kF32; }
    // Beside a float32 bias the strip has no room for the boolean mask.
    __device__ __forceinline__ bool stages_allowed() const {
        return kStages && a_.p.allowed.data != nullptr && (a_.p.bias.data == nullptr || !is_wide());
    }
    __device__ __forceinline__ uint32_t allowed_strip() const { return strip_ + 16 * kKeys * 2; }

    // Where a 16-byte chunk of a row of the strip is. Rows lie one behind the other, swizzled so that no two rows that are read together
    // share a bank. The swizzle is an exclusive or with a value that repeats every kSwizzleRows rows.
    template <int kBytes>
    static constexpr int kSwizzleStep = kBytes == 4 ? 2 : 1;
    template <int kBytes>
    static constexpr int kSwizzleRows = kBytes == 4   ? 4
                                        : kBytes == 2 ? 8
                                                      : 2;
    template <int kBytes>
    static __device__ __forceinline__ constexpr int swizzle(int row, int chunk) {
        return (chunk ^ row % kSwizzleRows<kBytes> * kSwizzleStep<kBytes>) << 4;
    }
    template <int kBytes>
    static __device__ __forceinline__ constexpr int swizzled(int row, int chunk) {
        return row * (kKeys * kBytes) + swizzle<kBytes>(row, chunk);
    }
    // The thread's pair j of float32 numbers, in row lane / 4, is at this address exclusive-or j times two chunks.
    __device__ __forceinline__ uint32_t wide_pairs() const {
        return renewed(strip_ + swizzled<4>(lane_ / 4, (lane_ >> 1) & 1) + (lane_ & 1) * 8);
    }
    static __device__ __forceinline__ uint32_t load_word(uint32_t from) {
        uint32_t word;
        asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(from) : "memory");
        return word;
    }
    static __device__ __forceinline__ float2 load_pair(uint32_t from) {
        float2 pair;
        asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(pair.x), "=f"(pair.y) : "r"(from) : "memory");
        return pair;
    }

    // Copies the warp's 16 rows of an operand of kBytes a number to the strip. Keys past the last become zero.
    template <int kBytes>
    __device__ __forceinline__ void stage_rows(const AttentionOperand &x, uint32_t to, int tile) const {
        constexpr int kOfChunk = 16 / kBytes, kChunks = kKeys / kOfChunk, kRowsAtOnce = kWarpThreads / kChunks;
        static_assert(kChunks <= kWarpThreads && kWarpThreads % kChunks == 0, "whole rows at once");
        const AttentionParams &p = a_.p;
        const int first_row = row_ - lane_ / 4, last_row = work_->rows - 1;
        const char *const data = static_cast<const char *>(x.data);
        const int len_k = warp_uniform(work_->len_k);
        // The same in all threads. No chunk may reach past a row's end: cp.async would not read there, but compute-sanitizer reports it.
        const bool in_chunks = x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) % kOfChunk) == 0 &&
                               reinterpret_cast<uintptr_t>(data) % 16 == 0 && (tile * kKeys + kKeys <= len_k || len_k % kOfChunk == 0);
        const int lane_row = lane_ / kChunks, chunk = lane_ % kChunks;
        if (in_chunks) {
            const int key = tile * kKeys + chunk * kOfChunk, bytes = key < len_k ? 16 : 0;
            const uint32_t into = renewed(to + swizzled<kBytes>(lane_row, chunk));
            const auto place_of = [&](int i) {
                const int row = i * kRowsAtOnce;
                return (into ^ swizzle<kBytes>(row, 0)) + row * kKeys * kBytes;
            };
            if (p.pack.divisor == 1 && warp_uniform(first_row) + 15 <= warp_uniform(last_row)) {
                const char *from =
                    data + (work_->batch * x.stride[0] + work_->head * x.stride[1] + (first_row + lane_row) * x.stride[2] + key) * kBytes;
                if (x.stride[2] == 0) {
#pragma unroll
                    for (int i = 0; i < 16 / kRowsAtOnce; ++i) copy_async_cached(place_of(i), from, bytes);
                } else {
#pragma unroll
                    for (int i = 0; i < 16 / kRowsAtOnce; ++i) {
                        copy_async(place_of(i), from, bytes);
                        from += kRowsAtOnce * kBytes * x.stride[2];
                    }
                }
            } else {
#pragma unroll 1
                for (int i = 0; i < 16 / kRowsAtOnce; ++i) {
                    const int packed = min(first_row + lane_row + i * kRowsAtOnce, last_row);
                    copy_async(place_of(i), data + (score_row_at(p, *work_, packed, x) + key) * kBytes, bytes);
                }
            }
            return;
        }
        const int last_key = len_k - 1;
#pragma unroll 4
        for (int i = 0; i < 16 * kKeys / kWarpThreads; ++i) {
            using Number = std::conditional_t<kBytes == 4, uint32_t, std::conditional_t<kBytes == 2, uint16_t, uint8_t>>;
            const int row = i * kWarpThreads / kKeys, of_row = i * kWarpThreads % kKeys + lane_, key = tile * kKeys + of_row;
            const int64_t at = score_row_at(p, *work_, min(first_row + row, last_row), x) + max(min(key, last_key), 0) * x.stride[3];
            const uint32_t into = to + swizzled<kBytes>(row, of_row / kOfChunk) + of_row % kOfChunk * kBytes;
            const uint32_t there = reinterpret_cast<const Number *>(data)[at], number = key <= last_key ? there : 0;
            if constexpr (kBytes == 4) asm volatile("st.shared.b32 [%0], %1;" ::"r"(into), "r"(number) : "memory");
            if constexpr (kBytes == 2) asm volatile("st.shared.b16 [%0], %1;" ::"r"(into), "h"(static_cast<uint16_t>(number)) : "memory");
            if constexpr (kBytes == 1) asm volatile("st.shared.b8 [%0], %1;" ::"r"(into), "r"(number) : "memory");
        }
    }

    __device__ __forceinline__ void add_bias(float (&s)[kScores]) const {
        const uint32_t from = renewed(strip_ + swizzled<2>(lane_ & 15, lane_ >> 4));
#pragma unroll
        for (int i = 0; i < kKeys / 16; ++i) {
            uint32_t pairs[4];
            load_matrices(pairs, from ^ i << 5);
#pragma unroll
            for (int h = 0; h < 4; ++h) {
                const float2 bias = widen_pair<Element>(pairs[h]);
                s[8 * i + 2 * h] = __builtin_fmaf(bias.x, bias_unit_, s[8 * i + 2 * h]);
                s[8 * i + 2 * h + 1] = __builtin_fmaf(bias.y, bias_unit_, s[8 * i + 2 * h + 1]);
            }
        }
    }
    __device__ __forceinline__ void add_wide_bias(float (&s)[kScores]) const {
        const uint32_t from = wide_pairs();
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float2 bias = load_pair((from ^ j << 5) + 8 * r * kKeys * 4);
                float &x = s[4 * j + 2 * r], &y = s[4 * j + 2 * r + 1];
                x = __builtin_fmaf(bias.x, bias_unit_, x);
                y = __builtin_fmaf(bias.y, bias_unit_, y);
            }
        }
    }

    // ALiBi: what is subtracted grows by the slope from key to key, on each side of the diagonal.
    __device__ __forceinline__ void lower_by_distance(int tile_key, float c, float (&s)[kScores]) const {
        const int nearest = min(diagonal_[0], diagonal_[1]), farthest = max(diagonal_[0], diagonal_[1]);
        const bool is_finite = slope_[0].high - slope_[0].high == 0 && slope_[1].high - slope_[1].high == 0;
        const bool is_before = __all_sync(~0u, is_finite && tile_key + kKeys - 1 <= nearest);
        const bool is_behind = __all_sync(~0u, is_finite && tile_key >= farthest);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float distance = static_cast<float>(tile_key + (lane_ & 3) * 2 - diagonal_[r]);  // Of the thread's first key.
            if (is_before || is_behind) {
                const float first = slope_[r].lower(0.0f, fabsf(distance)), step = is_before ? slope_[r].high : -slope_[r].high;
#pragma unroll
                for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float &x = s[4 * j + 2 * r + e];
                        x = __builtin_fmaf(x, c, __builtin_fmaf(step, static_cast<float>(8 * j + e), first));
                    }
                }
            } else {
#pragma unroll
                for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
                    for (int e = 0; e < 2; ++e) {
                        float &x = s[4 * j + 2 * r + e];
                        x = slope_[r].lower(x * c, fabsf(distance + static_cast<float>(8 * j + e)));
                    }
                }
            }
        }
    }

    // Bytes of the boolean mask become bits. Each of the four threads that share a row reads a quarter of the keys; they exchange the bits.
    __device__ __forceinline__ void hide_disallowed(float (&s)[kScores]) const {
        static_assert(!kStages || kKeys == 128 || kKeys == 64, "32 keys a thread");
        const uint32_t from = renewed(allowed_strip() + swizzled<1>(lane_ / 4, mask_quarter<kKeys>(lane_) * 2));
        uint32_t bits[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            uint32_t x[2][4];
#pragma unroll
            for (int h = 0; h < 2; ++h) load_shared(x[h], (from ^ h << 4) + 8 * r * kKeys);
            bits[r] = mask_bits(x);
        }
        if (__all_sync(~0u, (bits[0] & bits[1]) == ~0u)) return;
        hide_by_bits(bits, lane_ & 3, s);
    }

    // Pages come in multiples of eight keys.
    __device__ __forceinline__ void hide_missing_pages(int tile, float (&s)[kScores]) const {
        const AttentionParams &p = a_.p;
        const int32_t *const table = p.block_table + work_->batch * p.block_table_stride[0];
        const int key = tile * kKeys + 8 * lane_;
        const int there = max(min(key, work_->len_k - 1), 0);
        const int64_t page = table[quotient(static_cast<uint32_t>(there), p.page_size) * p.block_table_stride[1]];
        const unsigned missing = __ballot_sync(~0u, page < 0 || page >= p.pages);
        if (missing == 0) return;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i)
                if ((missing >> j & 1) != 0) s[4 * j + i] = -INFINITY;
        }
    }

    const AttentionArguments &a_;
    const uint32_t strip_;
    const int lane_;
    const AttentionWorkTile *work_ = nullptr;
    int row_ = 0, changes_ = 0;
    float bias_unit_;  // Times this, a bias has the unit of the scores that it is added to.
    AlibiSlope slope_[2];
    int diagonal_[2] = {0, 0};
};

}  // namespace attile::gpu::sm90
