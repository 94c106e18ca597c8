// SPDX-License-Identifier: Apache-2.0
// What happens to scores that pass through more than a mask, in the layout of the kernel of attention's gradients: a thread has two keys,
// eight apart, and pairs of rows. Bias is asked for before the products whose results it is added to. Softcap's slope 1 - tanh^2 follows
// from the probability and lse, so that no register keeps it.
#pragma once

#include "attention/score.h"
#include "attention/sm90/cap.cuh"
#include "attention_backward/sm90/shared.cuh"

namespace attile::gpu::sm90 {

template <class Element, class Config>
class BackwardModifiers {
  public:
    static constexpr int kRows = Config::kShape.rows, kScores = kRows / 2;
    struct Fetched {
        uint32_t bits[kScores];  // Of bias, as stored.
    };

    __device__ __forceinline__ explicit BackwardModifiers(const AttentionParams &p) : p_(p) {}

    // A new tile of keys, whose first the thread counts from.
    __device__ __forceinline__ void begin(const BackwardSite &site) {
        batch_ = warp_uniform(site.entry.batch);
        first_ = warp_uniform(site.first);
        len_q_ = warp_uniform(site.entry.len_q);
        len_k_ = warp_uniform(site.entry.len_k);
    }
    // Asks for the bias of the thread's pairs: keys key and key + 8 of the tile, rows row + 8 j and the next.
    __device__ __forceinline__ void fetch(int head, int key, int row, Fetched &fetched) const {
        if (p_.bias.data == nullptr) return;
        if (p_.bias.storage == AttentionStorage::kF32) {
            read<4>(p_.bias, head, key, row, fetched.bits);
        } else {
            read<2>(p_.bias, head, key, row, fetched.bits);
        }
    }
    // From products to scores in units of log2.
    __device__ __forceinline__ void apply(int head, int key, int row, const Fetched &fetched, float (&s)[kScores]) const {
        if (p_.softcap_log2 != 0) {
            cap_scores(p_, false, s);
        } else {
#pragma unroll
            for (float &x : s) x *= p_.scale_log2;
        }
        if (p_.bias.data != nullptr) {
            const bool is_wide = p_.bias.storage == AttentionStorage::kF32;
#pragma unroll
            for (int i = 0; i < kScores; ++i) {
                const float bias = is_wide ? __uint_as_float(fetched.bits[i]) : widen_pair<Element>(fetched.bits[i]).x;
                s[i] = add_bias_log2(s[i], bias);
            }
        }
        if (p_.alibi_slopes.data != nullptr) {
            const AlibiSlope slope(load_number(p_.alibi_slopes, batch_ * p_.alibi_slopes.stride[0] + head * p_.alibi_slopes.stride[1]));
            const int shift = p_.alibi_bottom_right ? len_k_ - len_q_ : 0;
            const float distance = static_cast<float>(first_ + key - row - shift);
#pragma unroll
            for (int i = 0; i < kScores; ++i)
                s[i] = slope.lower(s[i], fabsf(distance + static_cast<float>((i & 2) * 4 - (i >> 2) * 8 - (i & 1))));
        }
        if (p_.allowed.data != nullptr) {
            uint32_t shows[kScores];
            read<1>(p_.allowed, head, key, row, shows);
#pragma unroll
            for (int i = 0; i < kScores; ++i) s[i] = shows[i] != 0 ? s[i] : -INFINITY;
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
    // Keys and rows past the entry's last are repeats of it: the mask hides them.
    template <int kBytes>
    __device__ __forceinline__ void read(const AttentionOperand &x, int head, int key, int row, uint32_t (&bits)[kScores]) const {
        const int mine = first_ + key, last = len_k_ - 1;
        const char *const from =
            static_cast<const char *>(x.data) + (batch_ * x.stride[0] + head * x.stride[1] + min(mine, last) * x.stride[3]) * kBytes;
        const int64_t next_key = (min(mine + 8, last) - min(mine, last)) * x.stride[3] * kBytes, next_row = x.stride[2] * kBytes;
#pragma unroll
        for (int i = 0; i < kScores; i += 4) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const char *const at = from + min(row + 2 * i + e, len_q_ - 1) * next_row;
                bits[i + e] = load<kBytes>(at);
                bits[i + 2 + e] = load<kBytes>(at + next_key);
            }
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
