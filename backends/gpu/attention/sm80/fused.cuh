// SPDX-License-Identifier: Apache-2.0
// The one change that a fused kernel makes to a warp's scores: a bias of the type of Q, a boolean mask, or ALiBi (softcap:
// attention/mma/cap.cuh). Bias and mask come in strips, a tile of keys each, which cp.async copies as it does K.
//
// A warp's products need nearly all registers for themselves: where other code keeps addresses or numbers alive, the compiler loads one
// fragment after the other and waits for each. So addresses are made anew for each tile, ALiBi's numbers lie in shared memory, and what
// is rare goes through local memory.
#pragma once

#include "attention/mma/alibi.cuh"
#include "attention/mma/bias.cuh"
#include "attention/mma/score.cuh"
#include "attention/sm80/load.cuh"

namespace attile::gpu::sm80 {

// A warp's place in the block's tile of rows.
template <class Config>
struct WarpRows {
    static __device__ __forceinline__ int lane() { return static_cast<int>(threadIdx.x) % kWarpThreads; }
    static __device__ __forceinline__ int first() { return static_cast<int>(threadIdx.x) / kWarpThreads * Config::kShape.warp_rows(); }
    // The thread has this row and the one eight below, in a tile that begins with first_row.
    static __device__ __forceinline__ int row(int first_row, int row_tile) { return first_row + first() + 16 * row_tile + lane() / 4; }
    // Keys that the mask shows to a row.
    static __device__ __forceinline__ KeyRange seen(const AttentionParams &p, const AttentionWorkTile &work, int row) {
        return KeyRange(p, query_row(p, min(row, work.rows - 1)), work.shift, work.first_key, work.len_k);
    }
};

template <class Element, class Config>
class FusedChange {
  public:
    static constexpr int kKeys = Config::kShape.keys, kRowTiles = Config::kShape.row_tiles, kScores = kKeys / 2;
    using Rows = WarpRows<Config>;
    using Strip = StripRows<Config>;

    // What a block's threads read of shared memory; by one of them.
    static __device__ __forceinline__ void describe(const AttentionParams &p, const AttentionWorkTile &work, AttentionSources &sources) {
        if constexpr (Config::kShape.alibi_only) {
            const AttentionOperand &x = p.alibi_slopes;
            const AlibiSlope slope(load_number(x, work.batch * x.stride[0] + work.head * x.stride[1]));
            sources.alibi_high = slope.high;
            sources.alibi_low = slope.low;
            sources.alibi_diagonal = work.first_row + work.shift;
            sources.alibi_is_product = AlibiProduct<Element>::takes(slope.high, p.scale_log2);
            AlibiProduct<Element>::split(slope.high, p.scale_log2, sources.alibi_pairs);
        }
        if constexpr (Config::kShape.strip_bytes() > 0) {
            const AttentionOperand &x = Config::kShape.bias_only ? p.bias : p.allowed;
            const int64_t at = work.batch * x.stride[0] + work.head * x.stride[1] + work.first_row * x.stride[2];
            sources.strips = static_cast<const char *>(x.data) + at * (Config::kShape.bias_only ? 2 : 1);
        }
    }

    // A bias.

    static __device__ __forceinline__ void add_bias(float scale, uint32_t strip, float (&s)[kRowTiles][kScores]) {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) add_bias_to_scaled<Element>(scale, s[t], bias_at(strip, t));
    }
    // Is a row_max far from 0, and not because the bias is -inf for all of the row?
    static __device__ __forceinline__ bool has_far_scores(uint32_t strip, const float (&row_max)[kRowTiles][2]) {
        bool is_far = false;
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
            uint32_t common[2];
            find_common_bits<kKeys>(bias_at(strip, t), common);
#pragma unroll
            for (int r = 0; r < 2; ++r)
                is_far = is_far || !(is_near(row_max[t][r]) || (row_max[t][r] == -INFINITY && is_hiding<Element>(common[r])));
        }
        return __any_sync(~0u, is_far);
    }
    // Scores are multiplied by c, for a reference and a score that are rounded separately would differ, and far ones are set as numeric.h
    // represents them; what the mask hides is hidden.
    static __device__ __forceinline__ void mend_far_scores(const AttentionParams &p, const AttentionWorkTile &work, int tile,
                                                           uint32_t strip, float c, float (&s)[kRowTiles][kScores]) {
        constexpr int kPairs = kScores / 2;
        float scores[kRowTiles * kScores];
#pragma unroll
        for (int i = 0; i < kRowTiles * kScores; ++i) scores[i] = s[i / kScores][i % kScores];
#pragma unroll 1
        for (int i = 0; i < kRowTiles * kPairs; ++i) {
            const int t = i / kPairs, j = i % kPairs / 2, row = Rows::row(0, t) + i % 2 * 8;
            const int first_key = tile * kKeys + 8 * j + (Rows::lane() & 3) * 2;
            const KeyRange seen = Rows::seen(p, work, work.first_row + row);
            const float2 bias = load_bias<Element>(strip + Strip::at(row, j) + (Rows::lane() & 3) * 4);
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float &x = scores[2 * i + e];
                hide_by_bias(x, e == 0 ? bias.x : bias.y);
                x *= c;
                set_far_score(x, e == 0 ? bias.x : bias.y);
                if (first_key + e >= seen.high || first_key + e < seen.low) x = -INFINITY;
            }
        }
#pragma unroll
        for (int i = 0; i < kRowTiles * kScores; ++i) s[i / kScores][i % kScores] = scores[i];
    }

    // A boolean mask, of which bytes become bits: a word has those of 16 keys in two rows, which lie in its halves. Of the four threads
    // that share the rows each reads a quarter of the keys.

    __device__ __forceinline__ void make_bits(uint32_t strip) {
        uint32_t beyond = 0;
#pragma unroll
        for (int i = 0; i < kRowTiles * kWords; ++i) {
            uint32_t x[2][4];
            read_bytes(strip, i, x);
            beyond |= beyond_one(x);
            bits_[i] = bits_of(x);
        }
        if (!__any_sync(~0u, beyond != 0)) return;
#pragma unroll
        for (int i = 0; i < kRowTiles * kWords; ++i) {
            uint32_t x[2][4];
            read_bytes(strip, i, x);
            make_zeros_and_ones(x);
            bits_[i] = bits_of(x);
        }
    }
    __device__ __forceinline__ void hide_disallowed(float (&s)[kRowTiles][kScores]) const {
#pragma unroll
        for (int t = 0; t < kRowTiles; ++t) {
#pragma unroll
            for (int k = 0; k < kKeys / 16; ++k) {
                const uint32_t word = __shfl_sync(~0u, bits_[t * kWords + k % kWords], k / kWords, 4) >> ((Rows::lane() & 3) * 4);
#pragma unroll
                for (int i = 0; i < 8; ++i)
                    if ((word & (1u << (i / 4 * 16 + i % 4))) == 0) s[t][8 * k + i / 2 % 2 * 4 + i / 4 * 2 + i % 2] = -INFINITY;
            }
        }
    }

    // ALiBi of a tile of keys. All rows have one head's slope.
    class AlibiTile {
      public:
        __device__ __forceinline__ AlibiTile(const AttentionSources &sources, int tile)
            : sources_(sources),
              first_(tile * kKeys),
              diagonal_(sources.alibi_diagonal + Rows::first()),
              is_before_(first_ + kKeys - 1 <= diagonal_),
              is_product_(sources.alibi_is_product && (is_before_ || first_ >= diagonal_ + Config::kShape.warp_rows() - 1)) {
            slope_.high = sources.alibi_high;
            slope_.low = sources.alibi_low;
        }
        // Is ALiBi in the product? Else lower_scores() is to be called.
        __device__ __forceinline__ bool is_product() const { return is_product_; }
        __device__ __forceinline__ void multiply(float (&s)[kRowTiles][kScores]) const {
            const float column = static_cast<float>(Rows::lane() / 4);
            AlibiProduct<Element>::add(is_product_ ? sources_.alibi_pairs[Rows::lane() & 3] : 0,
                                       is_before_ ? static_cast<float>(kKeys - 1) - column : column, is_before_ ? -8.0f : 8.0f, s);
        }
        // Scores become those of units of log2.
        __device__ __forceinline__ void lower_scores(float scale, float (&s)[kRowTiles][kScores]) const {
#pragma unroll
            for (int i = 0; i < 2 * kRowTiles; ++i)
                lower_by_distance(slope_, i % 2, first_ + (Rows::lane() & 3) * 2, row_diagonal(i), scale, 0, s[i / 2]);
        }
        // After multiply() the scores of row lane / 4 + 8 i lack what ALiBi subtracts at the tile's key that is nearest to the diagonal: a
        // reference raised by that is to be subtracted from them. And back again.
        __device__ __forceinline__ float raise_reference(int i, float x) const { return raised(slope_, x, distance(i)); }
        __device__ __forceinline__ float lower_reference(int i, float x) const { return slope_.lower(x, distance(i)); }

      private:
        __device__ __forceinline__ int row_diagonal(int i) const { return diagonal_ + Rows::lane() / 4 + 8 * i; }
        __device__ __forceinline__ float distance(int i) const {
            const int to_first = first_ - row_diagonal(i);
            return static_cast<float>(is_before_ ? 1 - kKeys - to_first : to_first);
        }
        const AttentionSources &sources_;
        const int first_, diagonal_;  // Key; diagonal of the warp's first row.
        const bool is_before_, is_product_;
        AlibiSlope slope_;
    };

  private:
    static constexpr int kWords = kKeys < 64 ? 1 : kKeys / 64;  // Of bits, a row tile.

    // For load_matrices().
    static __device__ __forceinline__ auto bias_at(uint32_t strip, int t) {
        const uint32_t from = renewed(strip + Strip::at(Rows::first() + 16 * t + (Rows::lane() & 15), Rows::lane() >> 4));
        return [from](int i) { return Strip::step(from, 2 * i); };
    }
    static __device__ __forceinline__ void read_bytes(uint32_t strip, int i, uint32_t (&x)[2][4]) {
        const uint32_t from = renewed(strip + Strip::at(Rows::row(0, 0), (Rows::lane() & 3) * kWords)) ^ i % kWords << 4;
#pragma unroll
        for (int r = 0; r < 2; ++r) load_shared(x[r], from + (16 * (i / kWords) + 8 * r) * Strip::kBytes);
    }

    // Of bytes that are 0 or 1. Four bits in a row are those of a thread's scores: of two keys, and of those eight further.
    static __device__ __forceinline__ uint32_t bits_of(const uint32_t (&x)[2][4]) {
        uint32_t bits = 0;
#pragma unroll
        for (int i = 3; i >= 0; --i) {
            const uint32_t *const of = x[i / 2] + i % 2;
            bits = bits * 256 + __dp4a(of[2], 0x80400804u, __dp4a(of[0], 0x20100201u, 0u));
        }
        return bits;
    }

    uint32_t bits_[kRowTiles * kWords];  // Of the boolean mask.
};

}  // namespace attile::gpu::sm80
