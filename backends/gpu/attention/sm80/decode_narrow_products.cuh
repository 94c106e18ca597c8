// SPDX-License-Identifier: Apache-2.0
// Both products of decode_narrow.cuh, and what scales do to their operands.
#pragma once

#include "attention/decode_output.h"
#include "attention/sm80/decode_narrow_stages.cuh"
#include "attention/sm80/decode_narrow_words.cuh"
#include "mma/ptx.cuh"

namespace attile::gpu::sm80 {

template <class C>
struct NarrowProducts {
    using Words = NarrowWords<typename C::Element>;
    // Where weights, which have scales of values in them, become less or more than float16 holds well.
    static constexpr float kMostWeight = 0x1p12f, kLargestLift = 0x1p126f;
    static constexpr bool kIsBiased = Words::kBias != 0;
    static constexpr int kBiases = kIsBiased && C::kScales == KeyScales::kGroups ? C::kScaleBlocks : 1;
    using Queries = uint32_t[C::kCols / 16][2];
    using Output = float[C::kPieces][C::kPairs / 2][4];  // Two columns, each of the lane's two rows.
    using Biases = float[kBiases][4];        // Of biased numbers, sums of weights, of a row as in Output, for each of its scales.
    using Scores = float[C::kKeyBlocks][4];  // Of 16 keys, keys n and n + 8, each of the lane's two rows.

    const DecodeRows<C> &at;
    const NarrowStages<C> &stages;
    const int n, c;  // Lane 4 n + c.
    const Words words;

    __device__ __forceinline__ NarrowProducts(const DecodeRows<C> &rows, const NarrowStages<C> &of_warp)
        : at(rows), stages(of_warp), n(rows.lane / 4), c(rows.lane % 4) {}

    // ---- Q, of row n, times a power of two; and what sums of the lane's two rows are multiplied with to be scores, in two parts.
    // Of biased numbers also what sums begin with, of all columns or of each block that has a scale.
    struct Factors {
        float high[2], low[2], bias[kBiases][2];
        bool exact;
    };
    // As they are stored: columns that a lane multiplies, four at a time.
    using Stored = Vec<uint16_t, 4>[C::kCols / 16];
    static __device__ __forceinline__ int stored_column(int c, int i) {
        constexpr int kQuads = C::kPerWord / 4;
        return i / kQuads * C::kPieceCols + c * C::kPerWord + i % kQuads * 4;
    }
    // Asks for them, before what is copied, behind which they would wait.
    __device__ __forceinline__ void load_queries(Stored &stored) const {
        const AttentionParams &p = at.p;
        const int packed_row = min(at.first_row + n, at.rows - 1);
        const int64_t begin = at.entry.batch * p.q.stride[0] + query_head(p, at.place.head, packed_row) * p.q.stride[1] +
                              (at.entry.first_q + query_row(p, packed_row)) * p.q.stride[2];
        const int cols = C::kAny ? p.head_dim : C::kCols;
        if (p.q.vector) {
#pragma unroll
            for (int i = 0; i < C::kCols / 16; ++i) stored[i] = load_stored<uint16_t, true>(p.q, begin, stored_column(c, i), cols);
        } else {
#pragma unroll
            for (int i = 0; i < C::kCols / 16; ++i) stored[i] = load_stored<uint16_t, false>(p.q, begin, stored_column(c, i), cols);
        }
    }
    template <class Query>
    __device__ __forceinline__ void take_queries(const Stored &stored, Queries &q, Factors &factors) const {
        const AttentionParams &p = at.p;
        float x[C::kPieces][C::kPerWord], top = 0;
        bool is_finite = true;
#pragma unroll
        for (int i = 0; i < C::kPieces; ++i)
#pragma unroll
            for (int e = 0; e < C::kPerWord; ++e) {
                Query number;
                copy_bits(number, stored[i * (C::kPerWord / 4) + e / 4][e % 4]);
                x[i][e] = to_compute(number);
                top = fmaxf(top, finite_size(x[i][e]));
                if constexpr (kIsBiased) is_finite = is_finite && fabsf(x[i][e]) < INFINITY;
            }
#pragma unroll
        for (int lanes = 1; lanes < 4; lanes *= 2) top = fmaxf(top, shuffle_xor(top, lanes));
        const uint32_t exponent = __float_as_uint(top) >> 23;
        const float power = __uint_as_float(min(268u - exponent, 254u) << 23), keys = column_scale(p.k_scale, 0);
        float biases[kBiases] = {};
#pragma unroll
        for (int i = 0; i < C::kPieces; ++i)
#pragma unroll
            for (int pair = 0; pair < C::kPairs; ++pair) {
                const float factor = pair % 2 == 0 ? power : power / Words::kOddFactor;
                uint32_t &to = q[i * (C::kPairs / 2) + pair / 2][pair % 2];
                to = mma::narrow_pair<F16>(x[i][Words::of_keys(pair, 0)] * factor, x[i][Words::of_keys(pair, 1)] * factor);
                if constexpr (kIsBiased) {
                    const float2 rounded = mma::widen_pair<F16>(to);
                    biases[kBiases == 1 ? 0 : i * C::kPieceCols / C::kScaleCols] +=
                        (rounded.x + rounded.y) * (pair % 2 == 0 ? 1.0f : Words::kOddFactor);
                }
            }
        // Of a row that is infinite somewhere numbers are widened exactly.
        factors.exact = kIsBiased && lane_any(!is_finite);
#pragma unroll
        for (int h = 0; h < kBiases; ++h) {
            float sum = biases[h];
#pragma unroll
            for (int lanes = 1; lanes < 4; lanes *= 2) sum += shuffle_xor(sum, lanes);
            sum *= -Words::kBias * Words::kUnit;
#pragma unroll
            for (int r = 0; r < 2; ++r) {
                const float of_row = shuffle(sum, (c * 2 + r) * 4);
                factors.bias[h][r] = kIsBiased && !factors.exact ? of_row : 0.0f;
            }
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float of_row = shuffle(power, (c * 2 + r) * 4), rest = p.query_scale / of_row, rest_low = p.query_scale_low / of_row;
            const float factor = __fmul_rz(rest, keys);  // What it leaves has its sign: an infinite sum stays what it is.
            factors.high[r] = factor;
            factors.low[r] = fabsf(factor) < INFINITY ? fused_multiply_add(rest, keys, -factor) + rest_low * keys : 0.0f;
        }
    }
    __device__ __forceinline__ void take_queries(const Stored &stored, Queries &q, Factors &factors) const {
        if (at.p.q.storage == AttentionStorage::kF16)
            take_queries<F16>(stored, q, factors);
        else
            take_queries<BF16>(stored, q, factors);
    }
    // What a column is multiplied with whatever the key.
    __device__ __forceinline__ float column_scale(const AttentionScales &x, int col) const {
        constexpr float kUnit = 1.0f / Words::kUnit;
        if constexpr (C::kAny) col = min(col, at.p.head_dim - 1);
        return x.by_key ? kUnit : load_scale(x, scales_at(x, at.entry.batch, at.place.head, 0), col) * kUnit;
    }

    // ---- S^T = K Q^T, times the scales of keys.
    template <bool kExactly>
    __device__ __forceinline__ void multiply_keys(const Queries &q, const Factors &factors, uint32_t from, Scores &score) const {
        constexpr bool kGroups = C::kScales == KeyScales::kGroups;
        constexpr int kScaled =
            2 * C::kPieceCols / C::kScaleCols;  // Of the columns of two pieces, which are multiplied one after the other.
        static_assert(kScaled == 1 || kScaled == 2, "one scale, or each piece has one");
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b) {
            [[maybe_unused]] uint32_t nan[2] = {};
            float block[kScaled][4], odd[4] = {};  // Every other piece's sums apart: an mma waits for the one before.
#pragma unroll
            for (int e = 0; e < 4; ++e) score[b][e] = kGroups ? 0.0f : factors.bias[0][e % 2];
#pragma unroll
            for (int i = 0; i < C::kPieces; i += 2) {
                uint32_t word[4];  // Of keys n and n + 8 piece i, then i + 1.
                mma::load_matrices(word, (from + stages.rows_at + b * 16 * C::kRowBytes) ^ i * 16);
                if constexpr (kGroups) {
#pragma unroll
                    for (int h = 0; h < kScaled; ++h)
#pragma unroll
                        for (int e = 0; e < 4; ++e)
                            block[h][e] = kIsBiased ? factors.bias[kBiases == 1 ? 0 : i * kScaled / 2 + h][e % 2] : 0.0f;
                }
#pragma unroll
                for (int w = 0; w < 2; ++w) {
                    uint32_t pairs[2][C::kPairs];
#pragma unroll
                    for (int t = 0; t < 2; ++t) {
                        if constexpr (kExactly)
                            words.exact_keys(word[w * 2 + t], pairs[t]);
                        else
                            words.keys(word[w * 2 + t], pairs[t]);
                        if constexpr (C::kHasNan && !kConvertsE4m3) nan[t] |= mma::nan_bytes(word[w * 2 + t]);
                    }
#pragma unroll
                    for (int s = 0; s < C::kPairs / 2; ++s) {
                        const uint32_t a[4] = {pairs[0][s * 2], pairs[1][s * 2], pairs[0][s * 2 + 1], pairs[1][s * 2 + 1]};
                        const uint32_t(&of_q)[2] = q[(i + w) * (C::kPairs / 2) + s];
                        mma::multiply<F16>(kGroups ? block[w % kScaled] : w == 0 ? score[b] : odd, a, of_q[0], of_q[1]);
                    }
                }
                if constexpr (kGroups) {
#pragma unroll
                    for (int h = 0; h < kScaled; ++h)
#pragma unroll
                        for (int t = 0; t < 2; ++t) {
                            const float scale = stages.scale_of(from, false, i * kScaled / 2 + h, b, t);
#pragma unroll
                            for (int r = 0; r < 2; ++r)
                                score[b][t * 2 + r] = fused_multiply_add(block[h][t * 2 + r], scale, score[b][t * 2 + r]);
                        }
                }
            }
            if constexpr (!kGroups) {
#pragma unroll
                for (int e = 0; e < 4; ++e) score[b][e] += odd[e];
            }
            if constexpr (C::kScales == KeyScales::kOne) {
#pragma unroll
                for (int t = 0; t < 2; ++t) {
                    const float scale = stages.scale_of(from, false, 0, b, t);
                    score[b][t * 2] *= scale;
                    score[b][t * 2 + 1] *= scale;
                }
            }
            if constexpr (C::kHasNan && !kConvertsE4m3) {
#pragma unroll
                for (int t = 0; t < 2; ++t)
                    if ((lane_ballot(nan[t] != 0) >> n * 4 & 15u) != 0) score[b][t * 2] = score[b][t * 2 + 1] = NAN;
            }
        }
    }

    // ---- Probabilities times scales of values, and what `lift` makes of them.
    __device__ __forceinline__ void weigh(const Scores &p, uint32_t from, int b, int h, const float (&lift)[2], float (&w)[4]) const {
#pragma unroll
        for (int t = 0; t < 2; ++t) {
            const float scale = C::kByKey ? stages.scale_of(from, true, h, b, t) : 1.0f;
#pragma unroll
            for (int r = 0; r < 2; ++r) w[t * 2 + r] = C::kByKey ? p[b][t * 2 + r] * scale * lift[r] : p[b][t * 2 + r];
        }
    }
    // As the right operand of the second product. A probability of 0 has no weight, whatever the scale.
    __device__ __forceinline__ void narrow(const Scores &p, int b, bool rarely, float (&w)[4], uint32_t (&weights)[2]) const {
        if (C::kByKey && rarely) {
#pragma unroll
            for (int e = 0; e < 4; ++e)
                if (p[b][e] == 0) w[e] = 0;
        }
#pragma unroll
        for (int t = 0; t < 2; ++t) weights[t] = mma::transposed(mma::narrow_pair<F16>(w[t * 2], w[t * 2 + 1]));
    }
    // Weights of all keys, where one scale of values is all columns'; and, of groups too: do they fit float16, of every lane?
    __device__ __forceinline__ bool weigh(const Scores &p, uint32_t from, const float (&lift)[2], Scores &weights) const {
        float sizes = 0;  // Not their maximum, which would not show a NaN.
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int h = 0; h < C::kScaleBlocks; ++h) {
                weigh(p, from, b, h, lift, weights[b]);
#pragma unroll
                for (int e = 0; e < 4; ++e) sizes += fabsf(weights[b][e]);
            }
        return lane_all(sizes <= kMostWeight);
    }
    // Makes finite ones fit, and O follow.
    __device__ __forceinline__ void lift_weights(const Scores &p, uint32_t from, float (&lift)[2], Output &out, Biases &sums) const {
        float top[2] = {};
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int h = 0; h < C::kScaleBlocks; ++h)
#pragma unroll
                for (int t = 0; t < 2; ++t) {
                    const float scale = stages.scale_of(from, true, h, b, t);
#pragma unroll
                    for (int r = 0; r < 2; ++r) top[r] = fmaxf(top[r], finite_size(p[b][t * 2 + r] * scale));
                }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
#pragma unroll
            for (int lanes = 4; lanes < kLanes; lanes *= 2) top[r] = fmaxf(top[r], shuffle_xor(top[r], lanes));
            if (!(top[r] * lift[r] > kMostWeight / 64)) continue;
            // The power of two that brings it to 1 or a little more, as far as there is one.
            const uint32_t exponent = __float_as_uint(top[r]) >> 23;
            const float lifted = __uint_as_float(max(min(254u - exponent, 253u), 1u) << 23);
            scale_output(out, sums, r, lifted / lift[r]);
            lift[r] = lifted;
        }
    }
    // Where the reference moves, and what is there counts less by `factor`, weights may be lifted more. Returns what O is multiplied with.
    static __device__ __forceinline__ float relift(float &lift, float factor) {
        const float most = fminf(lift / factor, kLargestLift), before = lift;
        lift = __uint_as_float(__float_as_uint(most) & 0x7f800000u);
        return factor > 0 ? factor * (lift / before) : factor;
    }
    static __device__ __forceinline__ float finite_size(float x) {
        const float size = fabsf(x);
        return size < INFINITY ? size : 0.0f;
    }
    static __device__ __forceinline__ void scale_output(Output &out, Biases &sums, int r, float factor) {
#pragma unroll
        for (auto &of_block : sums) of_block[r] *= factor;
#pragma unroll
        for (int i = 0; i < C::kPieces; ++i)
#pragma unroll
            for (int pair = 0; pair < C::kPairs / 2; ++pair) {
                out[i][pair][r] *= factor;
                out[i][pair][r + 2] *= factor;
            }
    }
    // ---- O^T += V^T P^T. kCarefully: NaN of V is left out, and marked for the rows that see its key; and weights need not be finite.
    template <bool kCarefully>
    __device__ __forceinline__ void multiply_values(const Scores &p, const Scores &all_weights, uint32_t from, const float (&lift)[2],
                                                    Output &out, Biases &sums, const uint32_t (&seen)[C::kKeyBlocks],
                                                    uint8_t *poisoned) const {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b) {
            uint32_t weights[2];
#pragma unroll
            for (int i = 0; i < C::kPieces; i += 2) {
                uint32_t word[4];  // Of piece i keys 2 c and the next and those eight further; then of piece i + 1.
                mma::load_matrices_turned(word, (from + C::kHalfBytes + stages.rows_at + b * 16 * C::kRowBytes) ^ i * 16);
                if constexpr (kCarefully && C::kHasNan) leave_out_nan(word, seen[b], i, poisoned);
#pragma unroll
                for (int w = 0; w < 2; ++w) {
                    const int col = (i + w) * C::kPieceCols;
                    if (C::kScales == KeyScales::kGroups ? col % C::kScaleCols == 0 : col == 0) {
                        const int h = C::kScales == KeyScales::kGroups ? col / C::kScaleCols : 0;
                        float weight[4];
#pragma unroll
                        for (int e = 0; e < 4; ++e) weight[e] = all_weights[b][e];
                        if constexpr (C::kScales == KeyScales::kGroups) weigh(p, from, b, h, lift, weight);
                        narrow(p, b, kCarefully, weight, weights);
                        if constexpr (kIsBiased && !kCarefully) {
                            constexpr uint32_t kOnes[4] = {0x3c003c00u, 0x3c003c00u, 0x3c003c00u, 0x3c003c00u};
                            mma::multiply<F16>(sums[kBiases == 1 ? 0 : h], kOnes, weights[0], weights[1]);
                        }
                    }
                    uint32_t first[C::kPairs], second[C::kPairs];
                    if constexpr (kCarefully) {
                        words.exact_values(word[w * 2], first);
                        words.exact_values(word[w * 2 + 1], second);
                    } else {
                        words.values(word[w * 2], first);
                        words.values(word[w * 2 + 1], second);
                    }
#pragma unroll
                    for (int s = 0; s < C::kPairs / 2; ++s) {
                        const uint32_t a[4] = {first[s * 2], first[s * 2 + 1], second[s * 2], second[s * 2 + 1]};
                        mma::multiply<F16>(out[i + w][s], a, weights[0], weights[1]);
                    }
                }
            }
        }
    }
    __device__ __forceinline__ void leave_out_nan(uint32_t (&word)[4], uint32_t seen, int piece, uint8_t *poisoned) const {
        uint32_t nan = 0;
#pragma unroll
        for (const uint32_t x : word) nan |= mma::nan_bytes(x);
        if (!lane_any(nan != 0)) return;
#pragma unroll 1
        for (int row = 0; row < C::kRows; ++row) {
            // By lanes that have the word's keys, 2 c and the next, and the row among their scores.
            const uint32_t by[2] = {shuffle(seen, c * 8 + row / 2), shuffle(seen, c * 8 + 4 + row / 2)};
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const uint32_t bytes = mma::nan_bytes(word[w]);
#pragma unroll
                for (int e = 0; e < 4; ++e)  // Key e / 2, column e % 2.
                    if ((bytes >> e * 8 & 0x80u) != 0 && (by[e / 2] >> (w % 2 * 2 + row % 2) & 1u) != 0)
                        poisoned[row * C::kCols + (piece + w / 2) * C::kPieceCols + n * 2 + e % 2] = 1;
            }
        }
#pragma unroll
        for (uint32_t &x : word) x &= ~((mma::nan_bytes(x) >> 7) * 0xffu);
    }
    // ---- The warp's results, to shared memory.
    __device__ __forceinline__ void keep(const DecodeOutput<C> &output, const Output &out, const Biases &sums, const float (&lift)[2],
                                         const uint8_t *poisoned) const {
        const AttentionScales &scale = at.p.v_scale;
        if (scale.by_key || scale.data == nullptr || scale.stride[3] == 0)
            keep<false>(output, out, sums, lift, poisoned);
        else
            keep<true>(output, out, sums, lift, poisoned);
    }
    template <bool kByColumn>
    __device__ __forceinline__ void keep(const DecodeOutput<C> &output, const Output &out, const Biases &sums, const float (&lift)[2],
                                         const uint8_t *poisoned) const {
        const float all = kByColumn ? 1.0f : column_scale(at.p.v_scale, 0);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = c * 2 + r;
            if (at.first_row + row >= at.rows) continue;
            const float back = C::kByKey ? 1.0f / lift[r] : 1.0f;
#pragma unroll
            for (int i = 0; i < C::kPieces; ++i) {
                const int col = i * C::kPieceCols + n * C::kPairs;
                Vec<float, C::kPairs> x;
#pragma unroll
                for (int e = 0; e < C::kPairs; ++e) {
                    float sum = out[i][e / 2][e % 2 * 2 + r];
                    if (kIsBiased && e % 2 == 1) sum *= 1 / Words::kOddFactor;
                    if constexpr (kIsBiased)
                        sum -= Words::kBias * Words::kUnit * sums[kBiases == 1 ? 0 : i * C::kPieceCols / C::kScaleCols][r];
                    x[e] = sum * back * (kByColumn ? column_scale(at.p.v_scale, col + e) : all);
                }
                if constexpr (C::kHasNan) {
#pragma unroll
                    for (int e = 0; e < C::kPairs; ++e)
                        if (poisoned[row * C::kCols + col + e] != 0) x[e] = NAN;
                }
                store_vec(output.outs + (at.group * C::kRows + row) * C::kCols + col, x);
            }
        }
    }
};

}  // namespace attile::gpu::sm80
