// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows over keys and values of 8 bits, on tensor cores. SIMT's kernel (attention/simt/decode.cuh) is bound by its
// instructions there: each number is widened and multiplied for every row. Here both products are mma.sync of bfloat16, which holds every
// number of 8 bits exactly; numbers go from memory to a lane's registers and are widened there, without shared memory.
//
// Exactness: an mma has 16 rows, a block four. So each row is there three times, with the upper, the middle and the last 8 bits of the
// significands of Q, and then of the probabilities: float32's 24 bits. The three results are added at the end.
//
// Tile: four rows; a warp takes steps of 16 keys, the eight warps of a block one after the other, and split-KV goes as in SIMT's kernel.
// Numbering: lane 4 n + c. A step's keys are two groups of eight; of K a lane loads key n of each, eight bytes of each block of 32
// columns, from column 8 c on; of V keys 2 c and 2 c + 1 of each, four bytes of each block, from column 4 n on. So a scale's block of 32
// columns is whole steps of the mma in both products.
// Registers: up to 255, one block a multiprocessor. Bound: memory. Record: docs/kernels/attention-sm80.md.
#pragma once

#include "attention/decode_output.h"
#include "attention/scaled.h"
#include "attention/sm80/decode_bytes_shape.h"
#include "mma/ptx.cuh"

namespace attile::gpu::sm80 {

// x times y plus z, pairs of bfloat16.
__device__ __forceinline__ uint32_t multiply_add_pairs(uint32_t x, uint32_t y, uint32_t z) {
    uint32_t sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}

// Two numbers as a pair of bfloat16: bytes of `word` and `other` by a selector of __byte_perm, which has each number in both bytes of its
// half. NaN of e4m3 comes out as a number: who asks has_nan().
template <class T>
__device__ __forceinline__ uint32_t widen_bytes(uint32_t word, uint32_t other, uint32_t selector) {
    const uint32_t halves = __byte_perm(word, other, selector);
    if constexpr (std::is_same_v<T, I8>) {
        // 128 and the lower bits, less 128 or, where the sign is set, 256.
        return multiply_add_pairs((halves & 0x007f007fu) | 0x43004300u, 0x3f803f80u, (halves & 0x00800080u) | 0xc300c300u);
    } else {
        // The exponent's bias is bfloat16's less 120; subnormal numbers are subnormal there, too.
        const uint32_t scaled = (halves >> 4 & 0x07f007f0u) | (halves & 0x80008000u);
        return multiply_add_pairs(scaled, 0x7b807b80u, 0x80008000u);
    }
}
// Does one of four numbers of e4m3 have no value?
__device__ __forceinline__ uint32_t nan_bytes(uint32_t word) { return ((word & 0x7f7f7f7fu) + 0x01010101u) & 0x80808080u; }

// A float32 as three bfloat16, cut off, not rounded, so that none overflows. Infinity and NaN are in the last alone: beside a part that is
// 0 they would become NaN.
struct Parts {
    float upper, middle, last;
    __device__ __forceinline__ explicit Parts(float x) {
        const bool is_finite = fabsf(x) < INFINITY;
        upper = is_finite ? cut(x) : 0.0f;
        middle = is_finite ? cut(x - upper) : 0.0f;
        last = is_finite ? x - upper - middle : x;
    }
    static __device__ __forceinline__ float cut(float x) { return __uint_as_float(__float_as_uint(x) & 0xffff0000u); }
    // What the lane's rows of an mma hold: row n, and row n + 8.
    __device__ __forceinline__ float first(bool is_upper) const { return is_upper ? upper : middle; }
    __device__ __forceinline__ float second(bool is_upper) const { return is_upper ? last : 0.0f; }
};
// Rows n and n + 8 of a fragment, two neighbours along the depth.
__device__ __forceinline__ void pack_parts(float x, float y, bool is_upper, uint32_t &row, uint32_t &row_below) {
    const Parts a(x), b(y);
    row = mma::narrow_pair<BF16>(a.first(is_upper), b.first(is_upper));
    row_below = mma::narrow_pair<BF16>(a.second(is_upper), b.second(is_upper));
}

template <class C>
struct DecodeBytesWarp {
    const DecodeRows<C> &at;
    const int n, c, row, last_key;  // row: the block's, whose scores the lane holds.
    const bool is_upper;            // Of Q and the probabilities, the upper and the last part; else the middle one.
    const char *const keys_from, *const values_from;
    const float *const key_scales_from, *const value_scales_from;
    int64_t key_group[C::kByKey ? C::kBlocks : 1], value_group[C::kByKey ? C::kBlocks : 1];

    // Of a step in a lane's registers.
    struct Step {
        Vec<uint32_t, 2> keys[2][C::kBlocks];
        uint32_t values[4][C::kBlocks];
        float key_scales[C::kByKey ? 4 : 1][C::kByKey ? C::kBlocks : 1], value_scales[C::kByKey ? 4 : 1][C::kByKey ? C::kBlocks : 1];
    };
    using Queries = uint32_t[C::kBlocks * 2][4];
    using Output = float[C::kBlocks * 4][4];

    __device__ __forceinline__ explicit DecodeBytesWarp(const DecodeRows<C> &rows)
        : at(rows),
          n(rows.lane / 4),
          c(rows.lane % 4),
          row(n % C::kRows),
          last_key(max(rows.entry.len_k - 1, 0)),
          is_upper(n < C::kRows),
          keys_from(from(rows.p.k) + c * 8),
          values_from(from(rows.p.v) + n * 4),
          key_scales_from(scales_from(rows.p.k_scale)),
          value_scales_from(scales_from(rows.p.v_scale)) {
        if constexpr (C::kByKey) {
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                key_group[h] = group_of(rows.p.k_scale, h, rows.p.head_dim);
                value_group[h] = group_of(rows.p.v_scale, h, rows.p.head_dim_v);
            }
        }
    }
    // The key of a score, or of a row of V: j / 2 is its group of eight.
    __device__ __forceinline__ int key_of(int j, int first_key) const { return first_key + j / 2 * 8 + c * 2 + j % 2; }

    // ---- Q, scaled, in three parts.
    template <class Query, bool kVectors>
    __device__ __forceinline__ void load_queries(Queries &q) const {
        const AttentionParams &p = at.p;
        const int packed_row = min(at.first_row + row, at.rows - 1);
        const int64_t begin = at.entry.batch * p.q.stride[0] + query_head(p, at.place.head, packed_row) * p.q.stride[1] +
                              (at.entry.first_q + query_row(p, packed_row)) * p.q.stride[2];
        Vec<Query, 4> stored[C::kBlocks * 2];
#pragma unroll
        for (int s = 0; s < C::kBlocks * 2; ++s) stored[s] = load_stored<Query, kVectors>(p.q, begin, col_of(s), p.head_dim);
#pragma unroll
        for (int s = 0; s < C::kBlocks * 2; ++s) {
            float x[4];
#pragma unroll
            for (int e = 0; e < 4; ++e)
                x[e] = scaled_query(p, to_compute(stored[s][e])) * column_scale(p.k_scale, col_of(s) + e, p.head_dim);
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) pack_parts(x[pair * 2], x[pair * 2 + 1], is_upper, q[s][pair * 2], q[s][pair * 2 + 1]);
        }
    }
    __device__ __forceinline__ void load_queries(Queries &q) const {
        const auto load = [&](auto query) {
            if (at.p.q.vector)
                load_queries<decltype(query), true>(q);
            else
                load_queries<decltype(query), false>(q);
        };
        if (at.p.q.storage == AttentionStorage::kF32)
            load(0.0f);
        else if (at.p.q.storage == AttentionStorage::kF16)
            load(F16());
        else
            load(BF16());
    }
    // What a column is multiplied with whatever the key.
    __device__ __forceinline__ float column_scale(const AttentionScales &x, int col, int cols) const {
        if (x.by_key || col >= cols) return 1;
        return load_scale(x, scales_at(x, at.entry.batch, at.place.head, 0), col);
    }

    // ---- Loads.
    __device__ __forceinline__ void load_keys(Step &step, int first_key) const {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            const char *const from = keys_from + static_cast<int64_t>(min(first_key + t * 8 + n, last_key)) * at.p.k.row_bytes;
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                step.keys[t][h] = {};
                if (h * 32 + c * 8 < at.p.head_dim) step.keys[t][h] = load_vec_const<2>(reinterpret_cast<const uint32_t *>(from + h * 32));
            }
        }
        if constexpr (C::kByKey) load_scales(step.key_scales, at.p.k_scale, key_scales_from, key_group, first_key);
    }
    __device__ __forceinline__ void load_values(Step &step, int first_key) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const char *const from = values_from + static_cast<int64_t>(min(key_of(j, first_key), last_key)) * at.p.v.row_bytes;
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                step.values[j][h] = 0;
                if (h * 32 + n * 4 < at.p.head_dim_v)
                    step.values[j][h] = load_vec_const<1>(reinterpret_cast<const uint32_t *>(from + h * 32))[0];
            }
        }
        if constexpr (C::kByKey) load_scales(step.value_scales, at.p.v_scale, value_scales_from, value_group, first_key);
    }

    // ---- S = Q K^T: of the lane's row, keys key_of(0 .. 3).
    __device__ __forceinline__ void multiply_keys(const Queries &q, const Step &step, float (&score)[4]) const {
        float sums[2][4] = {};
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                float block[4] = {};
#pragma unroll
                for (int w = 0; w < 2; ++w) {
                    const uint32_t word = step.keys[t][h][w];
                    mma::multiply<BF16>(C::kByKey ? block : sums[t], q[h * 2 + w], widen_bytes<typename C::Element>(word, word, 0x1100u),
                                        widen_bytes<typename C::Element>(word, word, 0x3322u));
                }
                if constexpr (C::kByKey) {
#pragma unroll
                    for (int i = 0; i < 4; ++i) sums[t][i] = fused_multiply_add(block[i], key_scale(step, t * 2 + i % 2, h), sums[t][i]);
                }
            }
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const float own = sums[j / 2][j % 2] + sums[j / 2][j % 2 + 2];
            score[j] = own + shuffle_xor(own, 16);
        }
        if constexpr (C::kHasNan) {
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                uint32_t nan = 0;
#pragma unroll
                for (int h = 0; h < C::kBlocks; ++h) nan |= nan_bytes(step.keys[t][h][0]) | nan_bytes(step.keys[t][h][1]);
                const uint32_t lanes = lane_ballot(nan != 0);
                if (lanes == 0) continue;
#pragma unroll
                for (int i = 0; i < 2; ++i)
                    if ((lanes >> (c * 2 + i) * 4 & 15u) != 0) score[t * 2 + i] = NAN;
            }
        }
    }
    // ---- O += P V. `poisoned`: a row's columns that met a NaN, in shared memory.
    __device__ __forceinline__ void multiply_values(const float (&probability)[4], const bool (&hidden)[4], const Step &step, Output &out,
                                                    uint8_t *poisoned) const {
        uint32_t a[4] = {};
#pragma unroll
        for (int h = 0; h < C::kBlocks; ++h) {
            if (h == 0 || C::kByKey) {
                float weight[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    weight[j] = probability[j];
                    if constexpr (C::kByKey) weight[j] = hidden[j] ? 0.0f : probability[j] * value_scale(step, j, h);
                }
                pack_parts(weight[0], weight[1], is_upper, a[0], a[1]);
                pack_parts(weight[2], weight[3], is_upper, a[2], a[3]);
            }
            unrolled<4>([&](auto byte) ATTILE_ALWAYS_INLINE {
                constexpr uint32_t kByte = decltype(byte)::value, kSelector = (kByte | kByte << 4) | (kByte + 4 | (kByte + 4) << 4) << 8;
                mma::multiply<BF16>(out[h * 4 + kByte], a,
                                    widen_bytes<typename C::Element>(step.values[0][h], step.values[1][h], kSelector),
                                    widen_bytes<typename C::Element>(step.values[2][h], step.values[3][h], kSelector));
            });
        }
        if constexpr (C::kHasNan) poison(hidden, step, poisoned);
    }
    __device__ __forceinline__ void poison(const bool (&hidden)[4], const Step &step, uint8_t *poisoned) const {
        uint32_t nan = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) nan |= nan_bytes(step.values[j][h]);
        if (!rarely(lane_any(nan != 0))) return;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const uint32_t hides = lane_ballot(hidden[j]);
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                const uint32_t bytes = nan_bytes(step.values[j][h]);
#pragma unroll 1
                for (int e = 0; e < 4 && bytes != 0; ++e)
#pragma unroll 1
                    for (int r = 0; r < C::kRows; ++r)
                        if ((bytes >> e * 8 & 0x80u) != 0 && (hides >> (r * 4 + c) & 1u) == 0)
                            poisoned[r * C::kCols + h * 32 + n * 4 + e] = 1;
            }
        }
    }
    // ---- The warp's results, to shared memory.
    __device__ __forceinline__ void keep(const DecodeOutput<C> &output, Output &out, const uint8_t *poisoned) const {
#pragma unroll
        for (int h = 0; h < C::kBlocks; ++h)
#pragma unroll
            for (int i = 0; i < 2; ++i) {
                const int col = h * 32 + (c * 2 + i) * 4;
                Quad quad;
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float own = out[h * 4 + e][i] + out[h * 4 + e][i + 2];
                    quad[e] = (own + shuffle_xor(own, 16)) * column_scale(at.p.v_scale, col + e, at.p.head_dim_v);
                    if (C::kHasNan && poisoned[row * C::kCols + col + e] != 0) quad[e] = NAN;
                }
                if (is_upper) store_vec(output.outs + (at.group * C::kRows + row) * C::kCols + col, quad);
            }
    }

  private:
    // The first of a step's eight numbers along a block's columns that a lane has.
    __device__ __forceinline__ int col_of(int s) const { return s / 2 * 32 + c * 8 + s % 2 * 4; }
    __device__ __forceinline__ const char *from(const AttentionOperand &x) const {
        return static_cast<const char *>(x.data) +
               (at.entry.batch * x.stride[0] + at.place.head * x.stride[1] + at.entry.first_k * x.stride[2]);
    }
    __device__ __forceinline__ const float *scales_from(const AttentionScales &x) const {
        return x.data + scales_at(x, at.entry.batch, at.place.head, at.entry.first_k);
    }
    __device__ __forceinline__ static int64_t group_of(const AttentionScales &x, int h, int cols) {
        return x.by_key ? quotient(static_cast<uint32_t>(min(h * 32, max(cols - 1, 0))), x.group) * x.stride[3] : 0;
    }
    __device__ __forceinline__ void load_scales(float (&to)[4][C::kBlocks], const AttentionScales &x, const float *from,
                                                const int64_t (&group)[C::kBlocks], int first_key) const {
        if (!x.by_key) return;
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int64_t bytes = static_cast<int64_t>(min(key_of(j, first_key), last_key)) * x.row_bytes;
            const float *const row_from = reinterpret_cast<const float *>(reinterpret_cast<const char *>(from) + bytes);
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) to[j][h] = load_vec_const<1>(row_from + group[h])[0];
        }
    }
    __device__ __forceinline__ float key_scale(const Step &step, int j, int h) const {
        return at.p.k_scale.by_key ? step.key_scales[j][h] : 1;
    }
    __device__ __forceinline__ float value_scale(const Step &step, int j, int h) const {
        return at.p.v_scale.by_key ? step.value_scales[j][h] : 1;
    }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, 1) attention_decode_bytes_kernel(const AttentionParams p) {
#if __CUDA_ARCH__ >= 800
    using Warp = DecodeBytesWarp<C>;
    alignas(16) __shared__ float shared[C::kGroups * C::kRows * (C::kCols + 2)];
    __shared__ uint8_t poisoned[C::kHasNan ? C::kRows * C::kCols : 1];
    const AttentionPlace place(p, blockIdx.x);
    const AttentionEntry entry(p, place.batch, AttentionKindTag<AttentionKind::kMasked>{});
    const int rows = entry.len_q * static_cast<int>(p.pack.divisor);
    if (place.row_block * C::kRows >= rows) return;
    const DecodeRows<C> at(p, place, entry, rows);
    const Warp warp(at);
    if constexpr (C::kHasNan) {
        for (int i = static_cast<int>(threadIdx.x); i < C::kRows * C::kCols; i += C::kThreads) poisoned[i] = 0;
        __syncthreads();
    }
    // The keys of this block, in steps of warps.
    const KeyRange first_range = at.range_of(at.first_row), last_range = at.range_of(at.first_row + C::kRows - 1);
    const int tile = first_range.low / C::kTile + place.split * p.split_tiles;  // Splits begin where the rows' window does.
    const int tile_end = min((last_range.high + C::kTile - 1) / C::kTile, tile + p.split_tiles);
    const int all_low = last_range.low, all_high = first_range.high;  // The keys that every row sees.
    const KeyRange range = at.range_of(at.first_row + warp.row);

    int first_key = (tile * C::kGroups + at.group) * C::kStep;
    const int end_key = tile_end * C::kTile;
    typename Warp::Step steps[C::kSets];
#pragma unroll
    for (int set = 0; set < C::kSets; ++set) {
        if (first_key + set * C::kTile >= end_key) continue;
        warp.load_keys(steps[set], first_key + set * C::kTile);
        warp.load_values(steps[set], first_key + set * C::kTile);
    }
    typename Warp::Queries q;
    warp.load_queries(q);
    typename Warp::Output out = {};
    float minus_reference = 0, sum = 0;  // minus_reference: minus the row's largest score, or a little less.
    bool unset = true;

#pragma unroll 1
    while (first_key < end_key) {
#pragma unroll
        for (int set = 0; set < C::kSets; ++set) {
            if (first_key >= end_key) break;
            typename Warp::Step &step = steps[set];
            const int next_key = first_key + C::kSets * C::kTile;
            float score[4];
            bool hidden[4];
            warp.multiply_keys(q, step, score);
            if (next_key < end_key) warp.load_keys(step, next_key);
            const bool masked = first_key < all_low || first_key + C::kStep > all_high;
            float top = -INFINITY;
            bool sees = false;
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                if (masked && !range.has(warp.key_of(j, first_key))) score[j] = -INFINITY;
                hidden[j] = score[j] == -INFINITY;  // Of these none takes part.
                sees = sees || !hidden[j];
                top = fmaxf(top, score[j]);
            }
            if (lane_any((unset && sees) || top + minus_reference > 16.0f)) {
                // The row's, whose other scores the lanes beside have.
                top = fmaxf(top, shuffle_xor(top, 1));
                top = fmaxf(top, shuffle_xor(top, 2));
                const float before = -minus_reference, higher = top == -INFINITY ? before : unset ? top : fmaxf(top, before);
                const float factor = unset ? 1.0f : exp2_fast(before - higher);
                if (top != -INFINITY) unset = false;
                minus_reference = -higher;
                sum *= factor;
#pragma unroll
                for (int t = 0; t < C::kBlocks * 4; ++t)
#pragma unroll
                    for (int i = 0; i < 4; ++i) out[t][i] *= factor;
            }
            float probability[4];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                probability[j] = exp2_fast(score[j] + minus_reference);
                sum += probability[j];
            }
            warp.multiply_values(probability, hidden, step, out, poisoned);
            if (next_key < end_key) warp.load_values(step, next_key);
            first_key += C::kTile;
        }
    }
    sum += shuffle_xor(sum, 1);
    sum += shuffle_xor(sum, 2);
    if constexpr (C::kHasNan) __syncthreads();
    const DecodeOutput<C> output(at, shared);
    warp.keep(output, out, poisoned);
    if (warp.is_upper && warp.c == 0) {
        float *const result = output.results + (at.group * C::kRows + warp.row) * 2;
        // A row whose scores are NaN has no reference either, but its sum tells that it saw keys.
        result[0] = unset && sum == 0 ? -INFINITY : -minus_reference;
        result[1] = sum;
    }
    __syncthreads();
    output.template store<false>();
#endif
}

}  // namespace attile::gpu::sm80
