// SPDX-License-Identifier: Apache-2.0
// What happens to scores that pass through more than a mask, in the layout of the kernel of attention's gradients: a thread has two keys,
// eight apart, and pairs of rows. Bias is asked for before the products whose results it is added to. Softcap's slope 1 - tanh^2 follows
// from the probability and lse, so that no register keeps it.
#pragma once

#include "attention/mma/cap.cuh"
#include "attention/score.h"
#include "attention_backward/sm90/shared.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
class BackwardModifiers {
  public:
    static constexpr int kRows = Config::kShape.rows, kScores = kRows / 2;
    // Pairs of rows of a key, 16 bits each: 2 (8 j) + h for rows 8 j + 2 (lane % 4) and the next of key h.
    struct Fetched {
        uint32_t pairs[kScores / 2];
    };

    __device__ __forceinline__ explicit BackwardModifiers(const AttentionParams &p) : p_(p) {}

    // A new tile of keys, whose first the thread counts from.
    __device__ __forceinline__ void begin(const BackwardSite &site) {
        batch_ = warp_uniform(site.entry.batch);
        first_ = warp_uniform(site.first);
        len_q_ = warp_uniform(site.entry.len_q);
        len_k_ = warp_uniform(site.entry.len_k);
    }
    // Asks for what is read of the tile's rows from `row` on; first: the warp's first key of the tile.
    __device__ __forceinline__ void fetch(int head, int first, int row, Fetched &fetched) const {
        if (fetches_bias(first)) {
            read_pairs<2>(p_.bias, head, first, row, fetched);
        } else if (fetches_allowed(first)) {
            read_pairs<1>(p_.allowed, head, first, row, fetched);
        }
    }
    // From products to scores in units of log2. may_look: every row sees all keys, and how a row's scores come about may depend on others.
    __device__ __forceinline__ void apply(bool may_look, int head, int first, int row, const Fetched &fetched, float (&s)[kScores]) const {
        if (p_.softcap_log2 != 0) {
            cap_scores(p_, may_look, {0, 0}, s, [] {});
        } else {
#pragma unroll
            for (float &x : s) x *= p_.scale_log2;
        }
        if (fetches_bias(first)) {
            for_each_pair<2>(fetched, s, [](float &x, float &next, uint32_t pair) {
                const float2 bias = widen_pair<Element>(pair);
                x = add_bias_log2(x, bias.x);
                next = add_bias_log2(next, bias.y);
            });
        } else if (p_.bias.data != nullptr && p_.bias.storage == AttentionStorage::kF32) {
            for_each_apart<4>(p_.bias, head, first, row, s, [](float &x, uint32_t bits) { x = add_bias_log2(x, __uint_as_float(bits)); });
        } else if (p_.bias.data != nullptr) {
            for_each_apart<2>(p_.bias, head, first, row, s,
                              [](float &x, uint32_t bits) { x = add_bias_log2(x, widen_pair<Element>(bits).x); });
        }
        if (p_.alibi_slopes.data != nullptr) {
            const AlibiSlope slope(load_number(p_.alibi_slopes, batch_ * p_.alibi_slopes.stride[0] + head * p_.alibi_slopes.stride[1]));
            const int shift = p_.alibi_bottom_right ? len_k_ - len_q_ : 0;
            const float distance = static_cast<float>(first_ + first + lane_index() / 4 - (row + lane_index() % 4 * 2) - shift);
#pragma unroll
            for (int i = 0; i < kScores; ++i)
                s[i] = slope.lower(s[i], fabsf(distance + static_cast<float>((i & 2) * 4 - (i >> 2) * 8 - (i & 1))));
        }
        if (fetches_allowed(first)) {
            for_each_pair<1>(fetched, s, [](float &x, float &next, uint32_t pair) {
                if ((pair & 0xffff) == 0) x = -INFINITY;
                if (pair >> 16 == 0) next = -INFINITY;
            });
        } else if (p_.allowed.data != nullptr) {
            for_each_apart<1>(p_.allowed, head, first, row, s, [](float &x, uint32_t bits) { x = bits != 0 ? x : -INFINITY; });
        }
    }
    __device__ __forceinline__ bool caps() const { return p_.softcap_log2 != 0; }
    // How a capped score rises with the product, from its probability and its row's lse; 0 where the probability is.
    __device__ __forceinline__ float slope_of_cap(float probability, float lse, float inverse) const {
        const float t = (log2_fast(probability) + lse * kLog2EHigh) * inverse, within = fminf(fmaxf(t, -1.0f), 1.0f);
        return fmaf(-within, within, 1.0f);
    }
    __device__ __forceinline__ float inverse_cap() const { return 1.0f / p_.softcap_log2; }

  private:
    static __device__ __forceinline__ float log2_fast(float x) {
        float y;
        asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
    // One of the two is fetched, where it can be.
    __device__ __forceinline__ bool fetches_bias(int first) const {
        return p_.bias.data != nullptr && p_.bias.storage != AttentionStorage::kF32 && in_pairs<2>(p_.bias, first);
    }
    __device__ __forceinline__ bool fetches_allowed(int first) const {
        return p_.bias.data == nullptr && p_.allowed.data != nullptr && in_pairs<1>(p_.allowed, first);
    }
    // Can two keys be read at once, of all of the warp's? The same for all lanes.
    template <int kBytes>
    __device__ __forceinline__ bool in_pairs(const AttentionOperand &x, int first) const {
        return x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) & 1) == 0 &&
               reinterpret_cast<uintptr_t>(x.data) % (2 * kBytes) == 0 && first_ + first + 16 <= len_k_;
    }
    template <int kBytes>
    __device__ __forceinline__ const char *start(const AttentionOperand &x, int head, int key) const {
        return static_cast<const char *>(x.data) + (batch_ * x.stride[0] + head * x.stride[1] + key * x.stride[3]) * kBytes;
    }
    static __device__ __forceinline__ uint32_t transpose(uint32_t pair) {
        uint32_t turned;
        asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
        return turned;
    }
    // Elements as stored, bytes in 16 bits each.
    template <int kBytes>
    static __device__ __forceinline__ uint32_t load(const char *from) {
        uint32_t bits;
        if constexpr (kBytes == 4) {
            asm volatile("ld.global.nc.b32 %0, [%1];" : "=r"(bits) : "l"(__cvta_generic_to_global(from)));
        } else if constexpr (kBytes == 2) {
            asm volatile("{.reg .u16 half; ld.global.nc.u16 half, [%1]; cvt.u32.u16 %0, half;}"
                         : "=r"(bits)
                         : "l"(__cvta_generic_to_global(from)));
        } else {
            asm volatile("{.reg .u16 byte; ld.global.nc.u8 byte, [%1]; cvt.u32.u16 %0, byte;}"
                         : "=r"(bits)
                         : "l"(__cvta_generic_to_global(from)));
        }
        return bits;
    }
    // Two keys of a row each, for transpose(). Rows past the last are repeats of it, which the mask hides.
    template <int kBytes>
    __device__ __forceinline__ void read_pairs(const AttentionOperand &x, int head, int first, int row, Fetched &fetched) const {
        const int lane = lane_index();
        const char *const from = start<kBytes>(x, head, first_ + first + lane % 4 * 2);
        const int64_t next_row = x.stride[2] * kBytes;
#pragma unroll
        for (int j = 0; j < kRows / 8; ++j) {
            const char *const at = from + min(row + 8 * j + lane / 4, len_q_ - 1) * next_row;
            fetched.pairs[2 * j] = load<2 * kBytes>(at);
            fetched.pairs[2 * j + 1] = load<2 * kBytes>(at + 8 * kBytes);
        }
    }
    // Calls step(score, score of the next row, pair) with what read_pairs() read.
    template <int kBytes, class Step>
    static __device__ __forceinline__ void for_each_pair(const Fetched &fetched, float (&s)[kScores], const Step &step) {
#pragma unroll
        for (int i = 0; i < kScores / 2; ++i) {
            const uint32_t pair = fetched.pairs[i];
            step(s[2 * i], s[2 * i + 1], transpose(kBytes == 1 ? (pair & 0xff) | (pair & 0xff00) << 8 : pair));
        }
    }
    // Calls step(score, element as stored), element by element, few at a time for want of registers. Keys and rows past the last are
    // repeats of it.
    template <int kBytes, class Step>
    __device__ __forceinline__ void for_each_apart(const AttentionOperand &x, int head, int first, int row, float (&s)[kScores],
                                                   const Step &step) const {
        const int lane = lane_index(), key = first_ + first + lane / 4;
        const int64_t next_row = x.stride[2] * kBytes;
        const char *const from = start<kBytes>(x, head, min(key, len_k_ - 1)), *const next =
                                                                                   start<kBytes>(x, head, min(key + 8, len_k_ - 1));
#pragma unroll
        for (int i = 0; i < kScores; i += 8) {
            uint32_t bits[8];
#pragma unroll
            for (int k = 0; k < 8; ++k) {
                const int mine = min(row + lane % 4 * 2 + 2 * i + (k >> 2) * 8 + (k & 1), len_q_ - 1);
                bits[k] = load<kBytes>(((k & 2) == 0 ? from : next) + mine * next_row);
            }
#pragma unroll
            for (int k = 0; k < 8; ++k) step(s[i + k], bits[k]);
        }
    }

    const AttentionParams &p_;
    int batch_ = 0, first_ = 0, len_q_ = 0, len_k_ = 0;
};

// For kernels of scores that pass through no more than a mask.
struct NoBackwardModifiers {
    struct Fetched {};
    __device__ __forceinline__ explicit NoBackwardModifiers(const AttentionParams &) {}
};

}  // namespace attile::gpu::sm90
