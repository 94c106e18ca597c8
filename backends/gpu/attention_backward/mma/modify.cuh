// SPDX-License-Identifier: Apache-2.0
// What happens to scores that pass through more than a mask, in the layout of the transposed scores of attention's gradients: a thread has
// two keys, eight apart, and pairs of rows. Bias is asked for before the products whose results it is added to. Softcap's slope 1 - tanh^2
// follows from the probability and lse, so that no register keeps it; that holds where neither bias nor ALiBi comes after the softcap.
#pragma once

#include "attention/mma/cap.cuh"
#include "attention/score.h"
#include "attention_backward/mma/site.cuh"
#include "mma/ptx.cuh"

namespace attile::gpu::mma {

// Config::kShape: which options there may be. kTileRows: of the scores at hand. kGuards: a bias of -inf hides a score that is not finite,
// too, and where a score is hidden the bias may be anything; else whoever calls finds what is not finite in the sums. Where a bias or a
// mask is the only option, the plan has seen to it that it can be read two keys at a time.
template <class Element, class Config, int kTileRows, bool kGuards>
class BackwardModifiers {
    static constexpr bool kBias = Config::kShape.bias, kAllowed = Config::kShape.allowed, kAlibi = Config::kShape.alibi,
                          kSoftcap = Config::kShape.softcap, kIsAlone = kBias + kAllowed + kAlibi + kSoftcap == 1;
    // Then scores stay products until they become probabilities.
    static constexpr bool kIsLate = kIsAlone && !kSoftcap;

  public:
    static constexpr int kScores = kTileRows / 2;
    static constexpr bool kReads = kBias || kAllowed;
    struct Fetched {
        // Pairs of rows of a key, 16 bits each: 2 (8 j) + h for rows 8 j + 2 (lane % 4) and the next of key h.
        uint32_t pairs[kReads ? kScores / 2 : 1];
        float slope;   // Of ALiBi.
        int diagonal;  // The block's first key less the key that row 0 is at distance 0 from.
    };

    // record: kModifierRecord bytes of shared memory of the warp's own. What a kernel of one option needs of a tile of keys and a head lies
    // there: in registers it would keep ptxas from running the products in the background.
    __device__ __forceinline__ BackwardModifiers(const BackwardTask &task, uint32_t record)
        : p_(task.p.forward), scale_(task.p.scale), record_(record) {}

    // A new tile of keys, whose first the thread counts from, and a head.
    __device__ __forceinline__ void begin(const BackwardSite &site, int head) {
        if constexpr (kIsLate) {
            __syncwarp();
            asm volatile("st.shared.b32 [%0 + 4], %1;" ::"r"(record_), "r"(site.first - site.entry.shift) : "memory");
            asm volatile("st.shared.v4.b32 [%0 + 16], {%1, %2, %3, %3};" ::"r"(record_), "r"(site.entry.len_q - 1), "r"(site.first),
                         "r"(site.entry.batch)
                         : "memory");
            __syncwarp();
            set_head(head);
        } else {
            batch_ = warp_uniform(site.entry.batch);
            first_ = warp_uniform(site.first);
            len_q_ = warp_uniform(site.entry.len_q);
            len_k_ = warp_uniform(site.entry.len_k);
            shift_ = warp_uniform(site.entry.shift);
        }
    }
    // Of the same tile.
    __device__ __forceinline__ void set_head(int head) const {
        if constexpr (kIsLate) {
            int batch;
            asm volatile("ld.shared.b32 %0, [%1 + 24];" : "=r"(batch) : "r"(record_) : "memory");
            __syncwarp();
            if constexpr (kAlibi) {
                const float slope = load_number(p_.alibi_slopes, batch * p_.alibi_slopes.stride[0] + head * p_.alibi_slopes.stride[1]);
                asm volatile("st.shared.f32 [%0], %1;" ::"r"(record_), "f"(slope) : "memory");
            } else {
                const AttentionOperand &x = kBias ? p_.bias : p_.allowed;
                const char *const from = static_cast<const char *>(x.data) + (batch * x.stride[0] + head * x.stride[1]) * (kBias ? 2 : 1);
                asm volatile("st.shared.b64 [%0 + 8], %1;" ::"r"(record_), "l"(from) : "memory");
            }
            __syncwarp();
        }
    }
    // Asks for what is read of the tile's rows from `row` on; first: the warp's first key of the tile.
    __device__ __forceinline__ void fetch(int head, int first, int row, Fetched &fetched) const {
        if constexpr (kIsLate && kAlibi) {
            asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];" : "=f"(fetched.slope), "=r"(fetched.diagonal) : "r"(record_) : "memory");
            return;
        }
        if constexpr (kIsLate) {
            const char *from;
            int last_row, first_key;
            asm volatile("ld.shared.b64 %0, [%1 + 8];" : "=l"(from) : "r"(record_) : "memory");
            asm volatile("ld.shared.v2.b32 {%0, %1}, [%2 + 16];" : "=r"(last_row), "=r"(first_key) : "r"(record_) : "memory");
            read_pairs<kBias ? 2 : 1>(kBias ? p_.bias : p_.allowed, from, first_key + first, last_row, row, fetched);
            return;
        }
        if (has_alibi())
            fetched.slope = load_number(p_.alibi_slopes, batch_ * p_.alibi_slopes.stride[0] + head * p_.alibi_slopes.stride[1]);
        if (fetches_bias(first)) {
            read_pairs<2>(p_.bias, start<2>(p_.bias, head, 0), first_ + first, len_q_ - 1, row, fetched);
        } else if (fetches_allowed(first)) {
            read_pairs<1>(p_.allowed, start<1>(p_.allowed, head, 0), first_ + first, len_q_ - 1, row, fetched);
        }
    }
    // From products to scores. may_look: every row sees all keys, and how a row's scores come about may depend on others.
    __device__ __forceinline__ void apply(bool may_look, int head, int first, int row, const Fetched &fetched, float (&s)[kScores]) const {
        if constexpr (kIsLate) return;
        if (caps()) {
            cap_scores(static_cast<float>(p_.softcap), scale_, may_look, {0, 0}, s, [] {});
        } else {
#pragma unroll
            for (float &x : s) x *= scale_;
        }
        if (fetches_bias(first)) {
            for_each_pair<2>(fetched, s, [](float &x, float &next, uint32_t pair) {
                const float2 bias = widen_pair<Element>(pair);
                x = sum(x, bias.x);
                next = sum(next, bias.y);
            });
        } else if (has_bias() && p_.bias.storage == AttentionStorage::kF32) {
            for_each_apart<4>(p_.bias, head, first, row, s, [](float &x, uint32_t bits) { x = sum(x, __uint_as_float(bits)); });
        } else if (has_bias()) {
            for_each_apart<2>(p_.bias, head, first, row, s, [](float &x, uint32_t bits) { x = sum(x, widen_pair<Element>(bits).x); });
        }
        if (has_alibi()) {
#pragma unroll
            for (int j = 0; j < kScores / 4; ++j) {
                const float at = distance(first_ + first - shift_, row, j);
#pragma unroll
                for (int e = 0; e < 4; ++e) s[4 * j + e] = fmaf(-fetched.slope, far(at, e), s[4 * j + e]);
            }
        }
        if (fetches_allowed(first)) {
            for_each_pair<1>(fetched, s, [](float &x, float &next, uint32_t pair) {
                if ((pair & 0xffff) == 0) x = -INFINITY;
                if (pair >> 16 == 0) next = -INFINITY;
            });
        } else if (has_allowed()) {
            for_each_apart<1>(p_.allowed, head, first, row, s, [](float &x, uint32_t bits) { x = bits != 0 ? x : -INFINITY; });
        }
    }
    // Probabilities of the scores of rows 8 j on, which have passed apply() and the mask. end: of the tile's keys that there are; a bias
    // behind them may be NaN. lse: of the thread's two rows.
    __device__ __forceinline__ void exponentials(int end, int first, int row, int j, const float (&lse)[2], const Fetched &fetched,
                                                 float *s) const {
        if constexpr (kIsLate) {
            [[maybe_unused]] const float at = kAlibi ? distance(fetched.diagonal + first, row, j) : 0.0f;
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                [[maybe_unused]] const uint32_t read = kReads ? fetched.pairs[2 * j + h] : 0u;
                [[maybe_unused]] const uint32_t pair = kBias ? there(end, first, h, transpose(read)) : kAllowed ? bytes_apart(read) : 0u;
                [[maybe_unused]] const float2 bias = kBias ? widen_pair<Element>(pair) : float2{};
#pragma unroll
                for (int r = 0; r < 2; ++r) {
                    float &x = s[2 * h + r];
                    [[maybe_unused]] const bool hidden = kGuards && kBias && fminf(x, r == 0 ? bias.x : bias.y) == -INFINITY;
                    if constexpr (kBias)  // lse first: near it a far bias leaves a difference.
                        x = (fmaf(x, scale_, -lse[r]) + (r == 0 ? bias.x : bias.y)) * kLog2EHigh;
                    else if constexpr (kAlibi)
                        x = fmaf(x, p_.scale_log2, fmaf(-fetched.slope, far(at, 2 * h + r), -lse[r]) * kLog2EHigh);
                    else
                        x = fmaf(x, p_.scale_log2, -lse[r] * kLog2EHigh);
                    if (hidden) x = -INFINITY;
                    if (kAllowed && (r == 0 ? pair & 0xffff : pair >> 16) == 0) x = -INFINITY;
                    x = exp2_fast(x);
                }
            }
        } else {
#pragma unroll
            for (int e = 0; e < 4; ++e) s[e] = exp2_fast((s[e] - lse[e & 1]) * kLog2EHigh);
        }
    }
    __device__ __forceinline__ bool caps() const { return kSoftcap && (kIsAlone || p_.softcap_log2 != 0); }
    // How a capped score rises with the product, from its probability and its row's lse; 0 where the probability is.
    __device__ __forceinline__ float slope_of_cap(float probability, float lse, float inverse) const {
        const float t = (log2_fast(probability) + lse * kLog2EHigh) * inverse, within = fminf(fmaxf(t, -1.0f), 1.0f);
        return fmaf(-within, within, 1.0f);
    }
    __device__ __forceinline__ float inverse_cap() const { return 1.0f / p_.softcap_log2; }

  private:
    __device__ __forceinline__ bool has_bias() const { return kBias && (kIsAlone || p_.bias.data != nullptr); }
    __device__ __forceinline__ bool has_allowed() const { return kAllowed && (kIsAlone || p_.allowed.data != nullptr); }
    __device__ __forceinline__ bool has_alibi() const { return kAlibi && (kIsAlone || p_.alibi_slopes.data != nullptr); }
    static __device__ __forceinline__ float sum(float x, float bias) { return kGuards && bias == -INFINITY ? -INFINITY : x + bias; }
    // What was read of the thread's key h, if it is one.
    static __device__ __forceinline__ uint32_t there(int end, int first, int h, uint32_t pair) {
        return kGuards || first + lane_index() / 4 + 8 * h < end ? pair : 0;
    }
    // From the diagonal to the thread's first key, of the first of its rows 8 j on. first: the warp's first key, less the key that row 0 is
    // at distance 0 from.
    static __device__ __forceinline__ float distance(int first, int row, int j) {
        float at = static_cast<float>(first + lane_index() / 4 - (row + lane_index() % 4 * 2)) - static_cast<float>(8 * j);
        asm volatile("" : "+f"(at));  // Not all of a tile's at once, for want of registers.
        return at;
    }
    // Of score e of those four.
    static __device__ __forceinline__ float far(float distance, int e) {
        return fabsf(distance + static_cast<float>((e & 2) * 4 - (e & 1)));
    }
    static __device__ __forceinline__ float log2_fast(float x) {
        float y;
        asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
        return y;
    }
    // One of the two is fetched, where it can be.
    __device__ __forceinline__ bool fetches_bias(int first) const {
        return kIsAlone ? kBias : has_bias() && p_.bias.storage != AttentionStorage::kF32 && in_pairs<2>(p_.bias, first);
    }
    __device__ __forceinline__ bool fetches_allowed(int first) const {
        return kIsAlone ? kAllowed : !has_bias() && has_allowed() && in_pairs<1>(p_.allowed, first);
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
    // Two bytes, 16 bits each.
    static __device__ __forceinline__ uint32_t bytes_apart(uint32_t pair) { return transpose((pair & 0xff) | (pair & 0xff00) << 8); }
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
    // Two keys of a row each, for transpose(), of the warp's 16 keys from `first` on. Rows and keys past the last are repeats of it, or of
    // an odd number of keys what pads a row, which the mask hides. from: key 0 of row 0.
    template <int kBytes>
    __device__ __forceinline__ void read_pairs(const AttentionOperand &x, const char *from, int first, int last_row, int row,
                                               Fetched &fetched) const {
        const int lane = lane_index(), key = first + lane % 4 * 2;
        const int last = (p_.len_k - 1) & ~1;  // Of an odd number rows are padded.
        const int keys[2] = {kIsLate ? min(key, last) : key, kIsLate ? min(key + 8, last) : key + 8};
        const int64_t next_row = x.stride[2] * kBytes;
        from += keys[0] * kBytes;
#pragma unroll
        for (int j = 0; j < kTileRows / 8; ++j) {
            const char *const at = from + min(row + 8 * j + lane / 4, last_row) * next_row;
            fetched.pairs[2 * j] = load<2 * kBytes>(at);
            fetched.pairs[2 * j + 1] = load<2 * kBytes>(at + (keys[1] - keys[0]) * kBytes);
        }
    }
    // Calls step(score, score of the next row, pair) with what read_pairs() read.
    template <int kBytes, class Step>
    static __device__ __forceinline__ void for_each_pair(const Fetched &fetched, float (&s)[kScores], const Step &step) {
#pragma unroll
        for (int i = 0; i < kScores / 2; ++i) {
            const uint32_t pair = fetched.pairs[i];
            step(s[2 * i], s[2 * i + 1], kBytes == 1 ? bytes_apart(pair) : transpose(pair));
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
    const float &scale_;
    const uint32_t record_;
    int batch_ = 0, first_ = 0, len_q_ = 0, len_k_ = 0, shift_ = 0;
};

// For kernels of scores that pass through no more than a mask.
struct NoBackwardModifiers {
    struct Fetched {};
    __device__ __forceinline__ NoBackwardModifiers(const BackwardTask &, uint32_t) {}
};

}  // namespace attile::gpu::mma
