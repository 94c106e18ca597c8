// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "attention/score.h"
#include "attention_backward/params.h"
#include "attention_backward/simt/modified.h"
#include "attention_backward/simt/shape.h"
#include "attention_backward/tiles.h"

namespace attile::gpu::simt {

// Rows of one operand as the panels take them: contiguous, of exactly kDepth columns. A row beyond the last is replaced by the last: it
// meets an exact zero. kAnyAddress: not at whole vectors perhaps. Made anew for each product, so that no register keeps what others need.
template <bool kAnyAddress>
struct BackwardRows {
    const char *first;
    int row_bytes, last;
    bool vector;

    ATTILE_LANE_FN BackwardRows(const AttentionOperand &x, const float *first_row, int rows)
        : first(reinterpret_cast<const char *>(first_row)), row_bytes(x.row_bytes), last(rows - 1), vector(x.vector != 0) {}
    ATTILE_LANE_FN const float *row(int i) const {
        return reinterpret_cast<const float *>(first + static_cast<int64_t>(min(i, last)) * row_bytes);
    }
    // Number by number: of quads as wholes, AMD's compilers would choose between two in scratch memory.
    static ATTILE_LANE_FN void load(Quad &to, const float *from, bool vector) {
        const Quad quad = load(from, vector);
#pragma unroll
        for (int e = 0; e < 4; ++e) to[e] = quad[e];
    }
    static ATTILE_LANE_FN Quad load(const float *from, bool vector) {
        if constexpr (kAnyAddress) {
            if (!vector) {
                Quad quad;
#pragma unroll
                for (int e = 0; e < 4; ++e) quad[e] = load_vec_const<1>(from + e)[0];
                return quad;
            }
        }
        return load_vec_const<4>(from);
    }
};

template <class C, bool kModified>
__global__ void ATTILE_LAUNCH_BOUNDS(BackwardShape<C>::kThreads, C::kBlocksPerUnit)
    attention_backward_tile(const AttentionBackwardParams parameter) {
    const AttentionBackwardParams &p = kernel_parameter(parameter);
    using Shape = BackwardShape<C>;
    using Scores = typename Shape::Scores;
    using Keys = typename Shape::Keys;
    using Queries = typename Shape::Queries;
    using Rows = BackwardRows<kModified>;
    constexpr int kSumRows = C::Keys::kMicroM, kSumCols = C::Keys::kMicroN;
    using Sums = float[kSumRows][kSumCols];
    constexpr int kRows = C::Scores::kMicroM, kKeys = C::Scores::kMicroN, kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys;
    constexpr int kDepth = Shape::kDepth, kKeyPitch = Shape::kKeyPitch, kRowPitch = Shape::kRowPitch;
    alignas(16) __shared__ float shared[Shape::kSharedFloats];

    // Where the block is and what it sees, in shared memory: the sums leave no registers to keep it in.
    const AttentionParams &f = p.forward;
    __shared__ BackwardBlock block;
    const BackwardPlace place(p, blockIdx.x);
    if (is_irregular(p, place.pair)) return;
    const AttentionEntry entry(f, place.batch);
    if (threadIdx.x == 0) block.fill(p, place, entry);
    __syncthreads();
    const auto seek = [&](int from) { return same_in_block(block.next_unit(p, from)); };
    int unit = seek(-1);
    if (unit < 0 && p.continues) return;

    // ---- Panels: a chunk is fetched into registers while the one before is multiplied.
    const auto my_thread = [] { return static_cast<int>(fresh_thread()); };
    enum Operand { kQuery, kDout, kKey, kValue };
    const auto rows_of = [&](Operand operand, int of_unit) {
        if (operand == kKey) return Rows(f.k, block.key, block.len_k);
        if (operand == kValue) return Rows(f.v, block.value, block.len_k);
        const AttentionOperand &x = operand == kQuery ? f.q : p.dout;
        const int head = unit_head(p, block.head_kv, of_unit);
        return Rows(x, (operand == kQuery ? block.query : block.dout) + head * x.stride[1], block.len_q);
    };
    Quad stage[Shape::kStage];
    int panel = Shape::kPairs;
    bool vector_rows = true, vector_keys = true;
    const float *row_at[Shape::kRowLoads], *key_at[Shape::kKeyLoads];  // Of score panels.
    const auto seek_scores = [&](Operand rows, Operand keys, int of_unit) {
        const int thread = my_thread(), quad = thread % Shape::kChunkQuads * 4, line = thread / Shape::kChunkQuads;
        const int first_key = block.key_block * kBlockKeys;
        const Rows from = rows_of(rows, of_unit), columns = rows_of(keys, of_unit);
#pragma unroll
        for (int i = 0; i < Shape::kRowLoads; ++i) row_at[i] = from.row(unit_row(p, of_unit) + line + i * Shape::kRowsAtOnce) + quad;
#pragma unroll
        for (int i = 0; i < Shape::kKeyLoads; ++i) key_at[i] = columns.row(first_key + line + i * Shape::kRowsAtOnce) + quad;
        vector_rows = from.vector;
        vector_keys = columns.vector;
    };
    const auto load_scores = [&] {
#pragma unroll
        for (int i = 0; i < Shape::kRowLoads; ++i) {
            Rows::load(stage[i], row_at[i], vector_rows);
            row_at[i] += C::kChunkDepth;
        }
#pragma unroll
        for (int i = 0; i < Shape::kKeyLoads; ++i) {
            Rows::load(stage[Shape::kRowLoads + i], key_at[i], vector_keys);
            key_at[i] += C::kChunkDepth;
        }
    };
    const auto store_scores = [&] {
        const int thread = my_thread(), quad = thread % Shape::kChunkQuads * 4, line = thread / Shape::kChunkQuads;
        float *const to = shared + panel + line;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
#pragma unroll
            for (int i = 0; i < Shape::kRowLoads; ++i) to[(quad + e) * kRowPitch + i * Shape::kRowsAtOnce] = stage[i][e];
#pragma unroll
            for (int i = 0; i < Shape::kKeyLoads; ++i)
                if ((i + 1) * Shape::kRowsAtOnce <= kBlockKeys || line + i * Shape::kRowsAtOnce < kBlockKeys)
                    to[Shape::kKeyPanel + (quad + e) * kKeyPitch + i * Shape::kRowsAtOnce] = stage[Shape::kRowLoads + i][e];
        }
    };
    const auto load_lines = [&](const Rows &rows, int first) {
        const int thread = my_thread();
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i)
            Rows::load(stage[i], rows.row(first + Shape::Lines::row(thread, i)) + Shape::Lines::col(thread, i), rows.vector);
    };
    const auto load_pass = [&](const Rows &keys, int pass, int first) {
        const int thread = my_thread(), first_key = block.key_block * kBlockKeys + first, first_col = pass * Shape::kPassCols;
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i)
            Rows::load(stage[i], keys.row(first_key + Shape::PassLines::row(thread, i)) + first_col + Shape::PassLines::col(thread, i),
                       keys.vector);
    };
    const auto store_lines = [&] {
        const int thread = my_thread();
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i) store_vec(shared + panel + (thread + i * Shape::kThreads) * 4, stage[i]);
    };
    // A product over `end` depths in chunks of kSteps, of which the first is published. While a chunk is multiplied the next is fetched, or
    // the first of the next product; it is published before the chunk's last step, and fragments are read a step ahead where there are
    // registers for it, so that neither the barrier nor shared memory is waited for. take_a and take_b read the fragments of a step; the
    // former's chunk may begin anywhere, the latter's lies in the panel.
    const auto multiply = [&](auto micro, auto &sums, auto steps, int end, const auto &take_a, const auto &take_b, const auto &fetch,
                              const auto &store) {
        using Micro = decltype(micro);
        constexpr int kSteps = decltype(steps)::value;
        static_assert(kSteps % 2 == 0, "fragments alternate");
        float a[2][sizeof sums / sizeof sums[0]], b[2][sizeof sums[0] / sizeof sums[0][0]];
        if (C::kAhead) {
            take_a(a[0], 0, 0);
            take_b(b[0], 0);
        }
#pragma unroll 1
        for (int depth = 0; depth < end; depth += kSteps) {
            fetch(depth + kSteps);
            unrolled<kSteps>([&](auto index) {
                constexpr int k = decltype(index)::value, now = C::kAhead ? k & 1 : 0, next = now ^ 1;
                constexpr bool is_last = k + 1 == kSteps;
                if (!C::kAhead) {
                    take_b(b[0], k);
                    take_a(a[0], depth, k);
                }
                if (is_last) {
                    panel = 2 * Shape::kPairs + Shape::kPanel - panel;
                    store(depth + kSteps);
                    __syncthreads();
                }
                if (C::kAhead && (!is_last || depth + kSteps < end)) {
                    take_a(a[next], is_last ? depth + kSteps : depth, is_last ? 0 : k + 1);
                    take_b(b[next], is_last ? 0 : k + 1);
                }
                Micro::template multiply<false>(sums, a[now], b[now]);
                schedule_fence(sums);
            });
        }
    };

    // ---- Sums of the block's keys, which it keeps to itself.
    Sums sum_k, sum_v;
    const auto for_sums = [&](float *to, const auto &take) {
        const int first_key = block.key_block * kBlockKeys;
#pragma unroll
        for (int i = 0; i < kSumRows; ++i)
#pragma unroll
            for (int j = 0; j < kSumCols; j += 4)
                take(to + sum_at(p, block.split, block.pair, first_key + Keys::first_row() + Keys::row(i)) + Keys::first_col() +
                         Keys::col(j),
                     i, j);
    };
    if (p.continues) {
        const auto resume = [&](Sums &sums, float *from) {
            for_sums(from, [&](const float *at, int i, int j) {
                const Quad quad = load_vec<4>(at);
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[i][j + e] = quad[e];
            });
        };
        resume(sum_k, p.sum_k);
        resume(sum_v, p.sum_v);
    } else {
#pragma unroll
        for (int i = 0; i < kSumRows; ++i)
#pragma unroll
            for (int j = 0; j < kSumCols; ++j) sum_k[i][j] = sum_v[i][j] = 0;
    }

    float *const pairs = shared + Scores::first_row() * kKeyPitch + Scores::first_col();  // The lane's own.
    const float *const pairs_of_keys = shared + Keys::first_row();
    const auto begin_unit = [&](int of_unit) {
        seek_scores(kDout, kValue, of_unit);
        load_scores();
        store_scores();
        __syncthreads();
    };
    if (C::kAhead && unit >= 0) begin_unit(unit);
#pragma unroll 1
    while (unit >= 0) {
        if (!C::kAhead) begin_unit(unit);
        const int first_row = unit_row(p, unit);
        if (const int thread = my_thread(); thread < kBlockRows) {
            const int64_t head = static_cast<int64_t>(block.batch) * f.heads.divisor + unit_head(p, block.head_kv, unit);
            const BackwardRow<float> numbers = static_cast<const BackwardRow<float> *>(p.rows)[head * p.rows_allotted + first_row + thread];
            shared[Shape::kRowNumbers + thread] = numbers.lse;
            shared[Shape::kRowNumbers + kBlockRows + thread] = numbers.delta;
        }
        const float *const row_numbers = shared + Shape::kRowNumbers + Scores::first_row();

        // ---- dP = dO V^T, then S = Q K^T.
        float score[kRows][kKeys];
#pragma unroll 1
        for (int product = 0; product < 2; ++product) {
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kKeys; ++j) score[i][j] = 0;
            multiply(
                Scores(), score, std::integral_constant<int, C::kChunkDepth>(), kDepth,
                [&](auto &a, int, int k) { Scores::load_a(a, shared + panel + Scores::first_row() + k * kRowPitch); },
                [&](auto &b, int k) { Scores::load_b(b, shared + panel + Shape::kKeyPanel + Scores::first_col() + k * kKeyPitch); },
                [&](int next) {
                    if (next == kDepth && product == 0) seek_scores(kQuery, kKey, unit);
                    if (next == kDepth && product != 0)
                        load_lines(rows_of(kDout, unit), first_row);
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

        // ---- P, and the scores' gradients dS = P (dP - delta).
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

        // Found once, or whenever they are asked for.
        const auto rows_for = [&](Operand operand) {
            if constexpr (C::kKeepsRows)
                return [kept = rows_of(operand, unit)] { return kept; };
            else
                return [&rows_of, &unit, operand] { return rows_of(operand, unit); };
        };

        // ---- dV += P^T dO. Nobody reads the pairs any more once the last chunk's successor is published.
        const auto multiply_keys = [&](Sums &sums, Operand operand, const auto &load_next) {
            __syncthreads();  // Everyone's pairs are there.
            const auto rows = rows_for(operand);
            multiply(
                Keys(), sums, std::integral_constant<int, C::kChunkRows>(), kBlockRows,
                [&](auto &a, int row, int k) { Keys::load_a(a, pairs_of_keys + (row + k) * kKeyPitch); },
                [&](auto &b, int k) { Keys::load_b(b, shared + panel + Keys::first_col() + k * kDepth); },
                [&](int next) {
                    if (next < kBlockRows)
                        load_lines(rows(), first_row + next);
                    else
                        load_next();
                },
                [&](int) { store_lines(); });
        };
        multiply_keys(sum_v, kDout, [&] { load_lines(rows_of(kQuery, unit), first_row); });
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; j += 4)
                store_vec(pairs + Scores::row(i) * kKeyPitch + Scores::col(j),
                          Quad{{score[i][j], score[i][j + 1], score[i][j + 2], score[i][j + 3]}});
        // ---- dK += dS^T Q.
        multiply_keys(sum_k, kQuery, [&] { load_pass(rows_of(kKey, unit), 0, 0); });
#pragma unroll
        for (int j = 0; j < kKeys; ++j)
#pragma unroll
            for (int i = 0; i < kRows; i += 4)
                store_vec(shared + (Scores::first_col() + Scores::col(j)) * kRowPitch + Scores::first_row() + Scores::row(i),
                          Quad{{score[i][j], score[i + 1][j], score[i + 2][j], score[i + 3][j]}});
        __syncthreads();

        // ---- This block's part of dQ = dS K.
        const int next_unit = C::kAhead ? seek(unit) : -1;
#pragma unroll 1
        for (int pass = 0; pass < Shape::kPasses; ++pass) {
            float query[C::Queries::kMicroM][C::Queries::kMicroN] = {};
            const bool is_last_pass = pass + 1 == Shape::kPasses;
            const auto rows = rows_for(kKey);
            multiply(
                Queries(), query, std::integral_constant<int, Shape::kPassChunk>(), kBlockKeys,
                [&](auto &a, int key, int k) { Queries::load_a(a, shared + Queries::first_row() + (key + k) * kRowPitch); },
                [&](auto &b, int k) { Queries::load_b(b, shared + panel + Queries::first_col() + k * Shape::kPassCols); },
                [&](int next) {
                    if (next < kBlockKeys) {
                        load_pass(rows(), pass, next);
                    } else if (!is_last_pass) {
                        load_pass(rows(), pass + 1, 0);
                    } else if (next_unit >= 0) {
                        seek_scores(kDout, kValue, next_unit);
                        load_scores();
                    }
                },
                [&](int next) {
                    if (next < kBlockKeys || !is_last_pass)
                        store_lines();
                    else if (C::kAhead)
                        store_scores();  // After the last unit nobody reads it.
                });
            float *const part = p.part_q + part_q_at(p, block.pair, block.key_block, unit);
#pragma unroll
            for (int i = 0; i < C::Queries::kMicroM; ++i)
#pragma unroll
                for (int j = 0; j < C::Queries::kMicroN; j += 4)
                    store_vec_last(part + (Queries::first_row() + Queries::row(i)) * kDepth + pass * Shape::kPassCols +
                                       Queries::first_col() + Queries::col(j),
                                   Quad{{query[i][j], query[i][j + 1], query[i][j + 2], query[i][j + 3]}});
        }
        unit = C::kAhead ? next_unit : seek(unit);
    }

    const auto keep = [&](const Sums &sums, float *to) {
        for_sums(to, [&](float *at, int i, int j) { store_vec(at, Quad{{sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]}}); });
    };
    keep(sum_k, p.sum_k);
    keep(sum_v, p.sum_v);
}

}  // namespace attile::gpu::simt
