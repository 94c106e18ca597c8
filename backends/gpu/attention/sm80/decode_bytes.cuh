// SPDX-License-Identifier: Apache-2.0
// Attention of few query rows over keys and values of 8 bits, on tensor cores. SIMT's kernel (attention/simt/decode.cuh) is bound by its
// instructions there: each number is widened, and multiplied for every row. Here both products are mma.sync of bfloat16, which holds every
// number of 8 bits exactly; numbers go from memory to a lane's registers and are widened there, without shared memory.
//
// S and O are computed transposed: an mma's 16 rows are keys, or columns of V, and its eight columns the block's four rows of Q, twice.
// Exactness: Q of 16 bits is there in two parts of eight bits each, which is exact, and so are the probabilities, of 16 bits: of o that has
// no more. The scores' sums are float32, and with them lse. The two results are added at the end.
//
// Tile: four rows of 64 or 128 columns; a warp takes steps of 16 keys, the eight warps of a block one after the other, and split-KV goes as
// in SIMT's kernel. Numbering: lane 4 n + c. Of K a lane loads keys n and n + 8 of a step, eight bytes of each block of 32 columns, from
// column 8 c on; of V keys 2 c, 2 c + 1 and those eight further, four bytes of each block, from column 4 n on. So a scale's block of 32
// columns is whole steps of the mma in both products.
// Registers: at most 128, two blocks a multiprocessor; with scales of groups one. Bound: instructions, then memory. Record:
// docs/kernels/attention-sm80.md.
#pragma once

#include "attention/decode_output.h"
#include "attention/scaled.h"
#include "attention/sm80/decode_bytes_shape.h"
#include "mma/ptx.cuh"
#include "mma/widen.cuh"

namespace attile::gpu::sm80 {

// Two float32 of 16 bits as two bfloat16 each, of which a lane holds the upper or the lower; what has more bits is rounded. Infinity and
// NaN are in the lower alone: beside a part that is 0 they would become NaN.
__device__ __forceinline__ float part_of(float x, bool is_upper) {
    const bool is_finite = fabsf(x) < INFINITY;
    const float upper = is_finite ? __uint_as_float(__float_as_uint(x) & 0xffff0000u) : 0.0f;
    return is_upper ? upper : x - upper;
}
__device__ __forceinline__ uint32_t pack_parts(float x, float y, bool is_upper) {
    return mma::narrow_pair<BF16>(part_of(x, is_upper), part_of(y, is_upper));
}

template <class C>
struct DecodeBytesWarp {
    static constexpr uint32_t kHidden = 0xffc0deadu;  // A NaN that no arithmetic makes.
    static constexpr int kStripRow = C::kStep + 4;    // Of a row's probabilities in shared memory: rows two apart in other banks.
    const DecodeRows<C> &at;
    const int n, c, last_key;
    // Which part of Q and of the probabilities is the lane's, of row n % 4. Its scores are of rows first_row() and the next.
    const bool is_upper;
    const char *const keys_from, *const values_from;
    const float *const key_scales_from, *const value_scales_from;
    int64_t key_group[C::kScaleBlocks], value_group[C::kScaleBlocks];
    const mma::Widener<typename C::Element, BF16> widen;
    float *const strip;

    // Of a step in a lane's registers. Scales of values: of the lane's scores, or, of groups, of its values.
    struct Step {
        Vec<uint32_t, 2> keys[2][C::kBlocks];
        uint32_t values[4][C::kBlocks];
        float key_scales[2][C::kScaleBlocks], value_scales[C::kScales == KeyScales::kGroups ? 4 : 2][C::kScaleBlocks];
    };
    using Queries = uint32_t[C::kBlocks * 2][2];
    using Output = float[C::kBlocks * 2][4];
    using Scores = float[2][2];  // [key][row]

    __device__ __forceinline__ DecodeBytesWarp(const DecodeRows<C> &rows, float *strips)
        : at(rows),
          n(rows.lane / 4),
          c(rows.lane % 4),
          last_key(max(rows.entry.len_k - 1, 0)),
          is_upper(n < C::kRows),
          keys_from(from(rows.p.k) + c * 8),
          values_from(from(rows.p.v) + n * 4),
          key_scales_from(scales_from(rows.p.k_scale)),
          value_scales_from(scales_from(rows.p.v_scale)),
          strip(strips + rows.group * C::kRows * kStripRow) {
        if constexpr (C::kByKey) {
#pragma unroll
            for (int h = 0; h < C::kScaleBlocks; ++h) {
                key_group[h] = group_of(rows.p.k_scale, h);
                value_group[h] = group_of(rows.p.v_scale, h);
            }
        }
    }
    // Of the lane's scores.
    __device__ __forceinline__ int first_row() const { return c % 2 * 2; }
    __device__ __forceinline__ int key_of(int t, int first_key) const { return first_key + t * 8 + n; }
    // Of its values, within the step.
    __device__ __forceinline__ int value_key(int j) const { return j / 2 * 8 + c * 2 + j % 2; }

    // ---- Q, in two parts, times a power of two near the scale: sums are as large as scores.
    template <class Query>
    __device__ __forceinline__ void load_queries(Queries &q) const {
        const AttentionParams &p = at.p;
        const int packed_row = min(at.first_row + n % C::kRows, at.rows - 1);
        const int64_t begin = at.entry.batch * p.q.stride[0] + query_head(p, at.place.head, packed_row) * p.q.stride[1] +
                              (at.entry.first_q + query_row(p, packed_row)) * p.q.stride[2];
        const float near = power_near_scale();
        Vec<Query, 4> stored[C::kBlocks * 2];
#pragma unroll
        for (int s = 0; s < C::kBlocks * 2; ++s)
            stored[s] = load_stored<Query, false>(p.q, begin, s / 2 * 32 + c * 8 + s % 2 * 4, p.head_dim);
#pragma unroll
        for (int s = 0; s < C::kBlocks * 2; ++s)
#pragma unroll
            for (int pair = 0; pair < 2; ++pair)
                q[s][pair] = pack_parts(to_compute(stored[s][pair * 2]) * near, to_compute(stored[s][pair * 2 + 1]) * near, is_upper);
    }
    __device__ __forceinline__ void load_queries(Queries &q) const {
        if (at.p.q.storage == AttentionStorage::kF16)
            load_queries<F16>(q);
        else
            load_queries<BF16>(q);
    }
    __device__ __forceinline__ float power_near_scale() const {
        return __uint_as_float(max(__float_as_uint(at.p.query_scale) & 0x7f800000u, 0x00800000u));
    }
    // What scores are multiplied with besides: the rest of the scale, in two parts as scaled_query() has it, and a scale of all keys.
    struct ScoreFactors {
        float rest, rest_low, keys;
    };
    __device__ __forceinline__ ScoreFactors score_factors() const {
        const float near = power_near_scale();
        return {at.p.query_scale / near, at.p.query_scale_low / near, column_scale(at.p.k_scale, 0)};
    }
    // What a column is multiplied with whatever the key.
    __device__ __forceinline__ float column_scale(const AttentionScales &x, int col) const {
        return x.by_key ? C::kUnit : load_scale(x, scales_at(x, at.entry.batch, at.place.head, 0), col) * C::kUnit;
    }

    // ---- Loads.
    __device__ __forceinline__ void load_keys(Step &step, int first_key) const {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            const int key = min(key_of(t, first_key), last_key);
            const char *const from = keys_from + static_cast<int64_t>(key) * at.p.k.row_bytes;
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) step.keys[t][h] = load_vec_const<2>(reinterpret_cast<const uint32_t *>(from + h * 32));
            if constexpr (C::kByKey) load_scales(step.key_scales[t], at.p.k_scale, key_scales_from, key_group, key);
        }
    }
    __device__ __forceinline__ void load_values(Step &step, int first_key) const {
#pragma unroll
        for (int j = 0; j < 4; ++j) {
            const int key = min(first_key + value_key(j), last_key);
            const char *const from = values_from + static_cast<int64_t>(key) * at.p.v.row_bytes;
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h)
                step.values[j][h] = load_vec_const<1>(reinterpret_cast<const uint32_t *>(from + h * 32))[0];
            if constexpr (C::kScales == KeyScales::kGroups)
                load_scales(step.value_scales[j], at.p.v_scale, value_scales_from, value_group, key);
        }
        if constexpr (C::kScales == KeyScales::kOne) {
#pragma unroll
            for (int t = 0; t < 2; ++t)
                load_scales(step.value_scales[t], at.p.v_scale, value_scales_from, value_group, min(key_of(t, first_key), last_key));
        }
    }

    // ---- S^T = K Q^T, in units of log2.
    __device__ __forceinline__ void multiply_keys(const Queries &q, const ScoreFactors &factors, const Step &step, Scores &score) const {
        float sums[4] = {};
#pragma unroll
        for (int h = 0; h < C::kBlocks; ++h) {
            float block[4] = {};
#pragma unroll
            for (int w = 0; w < 2; ++w) {
                const uint32_t words[2] = {step.keys[0][h][w], step.keys[1][h][w]};
                const uint32_t a[4] = {widen(words[0], words[0], mma::kLowerTwo), widen(words[1], words[1], mma::kLowerTwo),
                                       widen(words[0], words[0], mma::kUpperTwo), widen(words[1], words[1], mma::kUpperTwo)};
                mma::multiply<BF16>(C::kScales == KeyScales::kGroups ? block : sums, a, q[h * 2 + w][0], q[h * 2 + w][1]);
            }
            if constexpr (C::kScales == KeyScales::kGroups) {
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    sums[i] = fused_multiply_add(block[i], scale_of(at.p.k_scale, step.key_scales[i / 2][h]), sums[i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float sum = sums[i] + shuffle_xor(sums[i], 2);
            float &x = score[i / 2][i % 2];
            x = fused_multiply_add(sum, factors.rest, sum * factors.rest_low) * factors.keys;
            if constexpr (C::kScales == KeyScales::kOne) x *= scale_of(at.p.k_scale, step.key_scales[i / 2][0]);
        }
        if constexpr (C::kHasNan) {
#pragma unroll
            for (int t = 0; t < 2; ++t) {
                uint32_t nan = 0;
#pragma unroll
                for (int h = 0; h < C::kBlocks; ++h) nan |= mma::nan_bytes(step.keys[t][h][0]) | mma::nan_bytes(step.keys[t][h][1]);
                if ((lane_ballot(nan != 0) >> n * 4 & 15u) != 0) score[t][0] = score[t][1] = NAN;
            }
        }
    }
    // Probabilities, to the strip, times the value's scale; kHidden for a key that the row does not see.
    __device__ __forceinline__ void keep_probabilities(const Scores &probability, const bool (&hidden)[2][2], const Step &step) const {
        if (c >= 2) return;
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float x = probability[t][r];
                if constexpr (C::kScales == KeyScales::kOne) x *= scale_of(at.p.v_scale, step.value_scales[t][0]);
                if (hidden[t][r]) x = C::kMarksHidden ? __uint_as_float(kHidden) : 0.0f;
                strip[(first_row() + r) * kStripRow + t * 8 + n] = x;
            }
    }
    // ---- O^T += V^T P^T. `poisoned`: a row's columns that met a NaN, in shared memory.
    __device__ __forceinline__ void multiply_values(const Step &step, Output &out, uint8_t *poisoned) const {
        float weight[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) weight[j] = strip[n % C::kRows * kStripRow + value_key(j)];
        uint32_t b[2] = {};
#pragma unroll
        for (int h = 0; h < C::kBlocks; ++h) {
            if (h < C::kScaleBlocks) {
                float scaled[4];
#pragma unroll
                for (int j = 0; j < 4; ++j) {
                    scaled[j] = weight[j];
                    if constexpr (C::kScales == KeyScales::kGroups) scaled[j] *= scale_of(at.p.v_scale, step.value_scales[j][h]);
                    if (C::kMarksHidden && __float_as_uint(weight[j]) == kHidden) scaled[j] = 0;
                }
                b[0] = pack_parts(scaled[0], scaled[1], is_upper);
                b[1] = pack_parts(scaled[2], scaled[3], is_upper);
            }
            unrolled<2>([&](auto pair) ATTILE_ALWAYS_INLINE {
                constexpr uint32_t kByte = decltype(pair)::value * 2, kNext = kByte + 1;
                constexpr uint32_t kFirst = kByte * 0x11u + (kByte + 4) * 0x1100u, kSecond = kNext * 0x11u + (kNext + 4) * 0x1100u;
                const uint32_t a[4] = {
                    widen(step.values[0][h], step.values[1][h], kFirst), widen(step.values[0][h], step.values[1][h], kSecond),
                    widen(step.values[2][h], step.values[3][h], kFirst), widen(step.values[2][h], step.values[3][h], kSecond)};
                mma::multiply<BF16>(out[h * 2 + decltype(pair)::value], a, b[0], b[1]);
            });
        }
        if constexpr (C::kHasNan) poison(step, poisoned);
    }
    __device__ __forceinline__ void poison(const Step &step, uint8_t *poisoned) const {
        uint32_t nan = 0;
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) nan |= mma::nan_bytes(step.values[j][h]);
        if (!rarely(nan != 0)) return;
#pragma unroll
        for (int j = 0; j < 4; ++j)
#pragma unroll
            for (int h = 0; h < C::kBlocks; ++h) {
                const uint32_t bytes = mma::nan_bytes(step.values[j][h]);
                if (bytes == 0) continue;
#pragma unroll 1
                for (int r = 0; r < C::kRows; ++r) {
                    if (__float_as_uint(strip[r * kStripRow + value_key(j)]) == kHidden) continue;
#pragma unroll 1
                    for (int e = 0; e < 4; ++e)
                        if ((bytes >> e * 8 & 0x80u) != 0) poisoned[r * C::kCols + h * 32 + n * 4 + e] = 1;
                }
            }
    }
    // ---- The warp's results, to shared memory.
    __device__ __forceinline__ void keep(const DecodeOutput<C> &output, Output &out, const uint8_t *poisoned) const {
#pragma unroll
        for (int h = 0; h < C::kBlocks; ++h) {
            const int col = h * 32 + n * 4;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const int row = first_row() + r;
                Quad quad;
#pragma unroll
                for (int e = 0; e < 4; ++e) {
                    const float own = out[h * 2 + e / 2][e % 2 * 2 + r];
                    quad[e] = (own + shuffle_xor(own, 2)) * column_scale(at.p.v_scale, col + e);
                    if (C::kHasNan && poisoned[row * C::kCols + col + e] != 0) quad[e] = NAN;
                }
                if (c < 2) store_vec(output.outs + (at.group * C::kRows + row) * C::kCols + col, quad);
            }
        }
    }

  private:
    __device__ __forceinline__ const char *from(const AttentionOperand &x) const {
        return static_cast<const char *>(x.data) +
               (at.entry.batch * x.stride[0] + at.place.head * x.stride[1] + at.entry.first_k * x.stride[2]);
    }
    __device__ __forceinline__ const float *scales_from(const AttentionScales &x) const {
        return x.data + scales_at(x, at.entry.batch, at.place.head, at.entry.first_k);
    }
    __device__ __forceinline__ static int64_t group_of(const AttentionScales &x, int h) {
        return x.by_key ? quotient(static_cast<uint32_t>(h * 32), x.group) * x.stride[3] : 0;
    }
    __device__ __forceinline__ static void load_scales(float (&to)[C::kScaleBlocks], const AttentionScales &x, const float *from,
                                                       const int64_t (&group)[C::kScaleBlocks], int key) {
        if (!x.by_key) return;
        const float *const row_from =
            reinterpret_cast<const float *>(reinterpret_cast<const char *>(from) + static_cast<int64_t>(key) * x.row_bytes);
#pragma unroll
        for (int h = 0; h < C::kScaleBlocks; ++h) to[h] = load_vec_const<1>(row_from + group[h])[0];
    }
    __device__ __forceinline__ static float scale_of(const AttentionScales &x, float scale) { return x.by_key ? scale : 1; }
};

template <class C>
__global__ void __launch_bounds__(C::kThreads, C::kBlocksPerUnit) attention_decode_bytes_kernel(const AttentionParams p) {
#if __CUDA_ARCH__ >= 800
    using Warp = DecodeBytesWarp<C>;
    alignas(16) __shared__ float shared[C::kGroups * C::kRows * (C::kCols + 2)];
    static_assert(C::kCols + 2 >= Warp::kStripRow, "strips lie where results will");
    __shared__ uint8_t poisoned[C::kHasNan ? C::kRows * C::kCols : 1];
    const AttentionPlace place(p, blockIdx.x);
    const AttentionEntry entry(p, place.batch, AttentionKindTag<AttentionKind::kMasked>{});
    const int rows = entry.len_q * static_cast<int>(p.pack.divisor);
    if (place.row_block * C::kRows >= rows) return;
    const DecodeRows<C> at(p, place, entry, rows);
    const Warp warp(at, shared);
    if constexpr (C::kHasNan) {
        for (int i = static_cast<int>(threadIdx.x); i < C::kRows * C::kCols; i += C::kThreads) poisoned[i] = 0;
        __syncthreads();
    }
    // The keys of this block, in steps of warps.
    const KeyRange first_range = at.range_of(at.first_row), last_range = at.range_of(at.first_row + C::kRows - 1);
    const int tile = first_range.low / C::kTile + place.split * p.split_tiles;  // Splits begin where the rows' window does.
    const int tile_end = min((last_range.high + C::kTile - 1) / C::kTile, tile + p.split_tiles);
    const int all_low = last_range.low, all_high = first_range.high;  // The keys that every row sees.

    int first_key = (tile * C::kGroups + at.group) * C::kStep;
    const int end_key = tile_end * C::kTile;
    typename Warp::Step step;
    if (first_key < end_key) {
        warp.load_keys(step, first_key);
        warp.load_values(step, first_key);
    }
    typename Warp::Queries q;
    warp.load_queries(q);
    const typename Warp::ScoreFactors factors = warp.score_factors();
    typename Warp::Output out = {};
    // Of the lane's two rows. minus_reference: minus the largest score, or a little less.
    float minus_reference[2] = {}, sum[2] = {};
    bool unset[2] = {true, true};

#pragma unroll 1
    for (; first_key < end_key; first_key += C::kTile) {
        const int next_key = first_key + C::kTile;
        typename Warp::Scores score;
        warp.multiply_keys(q, factors, step, score);
        if (next_key < end_key) warp.load_keys(step, next_key);
        if (first_key < all_low || first_key + C::kStep > all_high) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const KeyRange range = at.range_of(at.first_row + warp.first_row() + r);
#pragma unroll
                for (int t = 0; t < 2; ++t)
                    if (!range.has(warp.key_of(t, first_key))) score[t][r] = -INFINITY;
            }
        }
        bool hidden[2][2], needs = false;  // Scores of -inf take no part.
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                hidden[t][r] = score[t][r] == -INFINITY;
                needs = needs || (unset[r] && !hidden[t][r]) || score[t][r] + minus_reference[r] > 16.0f;
            }
        if (lane_any(needs)) {
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                float top = fmaxf(score[0][r], score[1][r]);
#pragma unroll
                for (int lanes = 4; lanes < kLanes; lanes *= 2) top = fmaxf(top, shuffle_xor(top, lanes));
                const float before = -minus_reference[r], higher = top == -INFINITY ? before : unset[r] ? top : fmaxf(top, before);
                const float factor = unset[r] ? 1.0f : exp2_fast(before - higher);
                if (top != -INFINITY) unset[r] = false;
                minus_reference[r] = -higher;
                sum[r] *= factor;
#pragma unroll
                for (int t = 0; t < C::kBlocks * 2; ++t) {
                    out[t][r] *= factor;
                    out[t][r + 2] *= factor;
                }
            }
        }
#pragma unroll
        for (int t = 0; t < 2; ++t)
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                score[t][r] = exp2_fast(score[t][r] + minus_reference[r]);
                sum[r] += score[t][r];
            }
        warp.keep_probabilities(score, hidden, step);
        __syncwarp();
        warp.multiply_values(step, out, poisoned);
        __syncwarp();
        if (next_key < end_key) warp.load_values(step, next_key);
    }
#pragma unroll
    for (int r = 0; r < 2; ++r)
#pragma unroll
        for (int lanes = 4; lanes < kLanes; lanes *= 2) sum[r] += shuffle_xor(sum[r], lanes);
    __syncthreads();  // Nobody reads strips or marks any more.
    const DecodeOutput<C> output(at, shared);
    warp.keep(output, out, poisoned);
    if (warp.n == 0 && warp.c < 2) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float *const result = output.results + (at.group * C::kRows + warp.first_row() + r) * 2;
            // A row whose scores are NaN has no reference either, but its sum tells that it saw keys.
            result[0] = unset[r] && sum[r] == 0 ? -INFINITY : -minus_reference[r];
            result[1] = sum[r];
        }
    }
    __syncthreads();
    output.template store<false>();
#endif
}

}  // namespace attile::gpu::sm80
