// SPDX-License-Identifier: Apache-2.0
// Steps of the backward tile kernel between its products with sums: dP and S, P and dS, their way to shared memory, what sums begin from
// and where they go.
#pragma once

#include "attention_backward/simt/modified.h"
#include "attention_backward/simt/tile_loader.cuh"

namespace attile::gpu::simt {

template <class C, bool kModified>
struct BackwardSteps {
    using Shape = BackwardShape<C>;
    using Scores = typename Shape::Scores;
    using Keys = typename Shape::Keys;
    using Queries = typename Shape::Queries;
    using Loader = BackwardLoader<C, kModified>;
    using Rows = typename Loader::Rows;
    using Operand = typename Loader::Operand;
    static constexpr int kSumRows = C::Keys::kMicroM, kSumCols = C::Keys::kMicroN;
    using Sums = float[kSumRows][kSumCols];
    static constexpr int kRows = C::Scores::kMicroM, kKeys = C::Scores::kMicroN;
    using Pairs = float[kRows][kKeys];
    static constexpr int kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys, kDepth = Shape::kDepth;
    static constexpr int kKeyPitch = Shape::kKeyPitch, kRowPitch = Shape::kRowPitch;

    const AttentionBackwardParams &p;
    const BackwardBlock &block;
    float *const shared;
    const Loader &loader;
    float *const pairs;  // The lane's own.

    ATTILE_LANE_FN BackwardSteps(const AttentionBackwardParams &params, const BackwardBlock &of_block, float *memory, const Loader &loads)
        : p(params),
          block(of_block),
          shared(memory),
          loader(loads),
          pairs(shared + Scores::first_row() * kKeyPitch + Scores::first_col()) {}

    // ---- Sums of the block's keys, which it keeps to itself.
    template <class Take>
    ATTILE_LANE_FN void for_sums(float *to, const Take &take) const {
        const int first_key = block.key_block * kBlockKeys;
#pragma unroll
        for (int i = 0; i < kSumRows; ++i)
#pragma unroll
            for (int j = 0; j < kSumCols; j += 4)
                take(to + sum_at(p, block.split, block.pair, first_key + Keys::first_row() + Keys::row(i)) + Keys::first_col() +
                         Keys::col(j),
                     i, j);
    }
    ATTILE_LANE_FN void resume(Sums &sums, float *from) const {
        for_sums(from, [&](const float *at, int i, int j) {
            const Quad quad = load_vec<4>(at);
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j + e] = quad[e];
        });
    }
    ATTILE_LANE_FN void begin_sums(Sums &sum_k, Sums &sum_v) const {
        if (p.continues) {
            resume(sum_k, p.sum_k);
            resume(sum_v, p.sum_v);
        } else {
#pragma unroll
            for (int i = 0; i < kSumRows; ++i)
#pragma unroll
                for (int j = 0; j < kSumCols; ++j) sum_k[i][j] = sum_v[i][j] = 0;
        }
    }
    ATTILE_LANE_FN void keep(const Sums &sums, float *to) const {
        for_sums(to, [&](float *at, int i, int j) { store_vec(at, Quad{{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}}); });
    }

    // Log-sum-exp and delta of a unit's rows.
    ATTILE_LANE_FN void load_row_numbers(int unit, int first_row) const {
        if (const int thread = loader.my_thread(); thread < kBlockRows) {
            const int64_t head = static_cast<int64_t>(block.batch) * p.forward.heads.divisor + unit_head(p, block.head_kv, unit);
            const BackwardRow<float> numbers = static_cast<const BackwardRow<float> *>(p.rows)[head * p.rows_allotted + first_row + thread];
            shared[Shape::kRowNumbers + thread] = numbers.lse;
            shared[Shape::kRowNumbers + kBlockRows + thread] = numbers.delta;
        }
    }
    // ---- dP = dO V^T, less delta in shared memory, then S = Q K^T.
    ATTILE_LANE_FN void multiply_scores(int unit, int first_row, const float *row_numbers, Pairs &score) const {
        const auto rows_of = [&](Operand operand, int of_unit) { return loader.rows_of(operand, of_unit); };
        const auto seek_scores = [&](Operand rows, Operand keys, int of_unit) { loader.seek_scores(rows, keys, of_unit); };
        const auto load_scores = [&] { loader.load_scores(); };
        const auto store_scores = [&] { loader.store_scores(); };
        const auto load_lines = [&](const Rows &rows, int first) { loader.load_lines(rows, first); };
        const auto store_lines = [&] { loader.store_lines(); };
#pragma unroll 1
        for (int product = 0; product < 2; ++product) {
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kKeys; ++j) score[i][j] = 0;
            loader.template multiply<Scores, C::kChunkDepth>(
                score, kDepth, [&](auto &a, int, int k) { Scores::load_a(a, shared + loader.panel + Scores::first_row() + k * kRowPitch); },
                [&](auto &b, int k) { Scores::load_b(b, shared + loader.panel + Shape::kKeyPanel + Scores::first_col() + k * kKeyPitch); },
                [&](int next) {
                    if (next == kDepth && product == 0) seek_scores(Loader::kQuery, Loader::kKey, unit);
                    if (next == kDepth && product != 0)
                        load_lines(rows_of(Loader::kDout, unit), first_row);
                    else
                        load_scores();
                },
                [&](int next) {
                    if (next == kDepth && product != 0)
                        store_lines();
                    else
                        store_scores();
                });
            if (product != 0) break;
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                const float delta = row_numbers[kBlockRows + Scores::row(i)];
#pragma unroll
                for (int j = 0; j < kKeys; j += 4)
                    store_vec(pairs + Scores::row(i) * kKeyPitch + Scores::col(j),
                              Quad{{score[i][j] - delta, score[i][j + 1] - delta, score[i][j + 2] - delta, score[i][j + 3] - delta}});
            }
        }
    }

    // ---- P, to shared memory, and the scores' gradients dS = P (dP - delta).
    ATTILE_LANE_FN void differentiate_all(int unit, int first_row, const float *row_numbers, Pairs &score) const {
        const AttentionParams &f = p.forward;
        const int first_key = block.key_block * kBlockKeys;
        const int my_key = first_key + Scores::first_col(), my_row = first_row + Scores::first_row();
        if constexpr (kModified) {
            const AttentionEntry anew(f, block.batch);
            modified_gradients<C>(p, anew, block.pair, unit_head(p, block.head_kv, unit), unit, my_row, my_key, row_numbers, pairs, score);
        } else {
            const Span seen = {my_row + block.shift - f.window_left, my_row + block.shift + f.window_right + 1};
            const int last_row = min(first_row + kBlockRows, block.len_q) - 1;
            const bool is_full = first_row + kBlockRows <= block.len_q && first_key + kBlockKeys <= block.len_k &&
                                 first_key >= last_row + block.shift - f.window_left &&
                                 first_key + kBlockKeys <= first_row + block.shift + f.window_right + 1;
            const auto differentiate = [&](const auto &hides) {
#pragma unroll
                for (int i = 0; i < kRows; ++i) {
                    const float minus_lse = -row_numbers[Scores::row(i)];
#pragma unroll
                    for (int j = 0; j < kKeys; j += 4) {
                        float *const at = pairs + Scores::row(i) * kKeyPitch + Scores::col(j);
                        Quad quad = load_vec<4>(at);
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            const float s = score[i][j + e];
                            const float above = fused_multiply_add(s, p.scale_low, fused_multiply_add(s, p.scale, minus_lse));
                            const float probability = exp2_fast(above * kLog2EHigh);
                            const bool hidden = hides(i, j + e);
                            score[i][j + e] = pick(hidden, 0.0f, probability * quad[e]);
                            quad[e] = pick(hidden, 0.0f, probability);
                        }
                        store_vec(at, quad);
                    }
                }
            };
            if (is_full) {
                differentiate([](int, int) { return false; });
            } else {
                const uint32_t width = static_cast<uint32_t>(seen.end - seen.first), from = static_cast<uint32_t>(my_key - seen.first);
                const int left = block.len_k - my_key;
                // Rows past the last are copies of it and see nothing, as those that have no key do: a log-sum-exp of infinity says so.
                differentiate([&](int i, int j) {
                    const uint32_t sees = row_numbers[Scores::row(i)] == INFINITY ? 0 : width;
                    return from + (Scores::col(j) - Scores::row(i)) >= sees || Scores::col(j) >= left;
                });
            }
        }
    }

    // dS row by row, for dK; key by key, for dQ.
    ATTILE_LANE_FN void store_pairs(const Pairs &score) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; j += 4)
                store_vec(pairs + Scores::row(i) * kKeyPitch + Scores::col(j),
                          Quad{{score[i][j], score[i][j + 1], score[i][j + 2], score[i][j + 3]}});
    }
    ATTILE_LANE_FN void store_pairs_by_keys(const Pairs &score) const {
#pragma unroll
        for (int j = 0; j < kKeys; ++j)
#pragma unroll
            for (int i = 0; i < kRows; i += 4)
                store_vec(shared + (Scores::first_col() + Scores::col(j)) * kRowPitch + Scores::first_row() + Scores::row(i),
                          Quad{{score[i][j], score[i + 1][j], score[i + 2][j], score[i + 3][j]}});
    }

    // ---- A pass of this block's part of dQ.
    using QueryTile = float[C::Queries::kMicroM][C::Queries::kMicroN];
    ATTILE_LANE_FN void store_pass(int pass, int unit, const QueryTile &query) const {
        float *const part = p.part_q + part_q_at(p, block.pair, block.key_block, unit);
#pragma unroll
        for (int i = 0; i < C::Queries::kMicroM; ++i)
#pragma unroll
            for (int j = 0; j < C::Queries::kMicroN; j += 4)
                store_vec_last(part + (Queries::first_row() + Queries::row(i)) * kDepth + pass * Shape::kPassCols + Queries::first_col() +
                                   Queries::col(j),
                               Quad{{query[i][j], query[i][j + 1], query[i][j + 2], query[i][j + 3]}});
    }
};

}  // namespace attile::gpu::simt
