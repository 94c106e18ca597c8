// SPDX-License-Identifier: Apache-2.0
// The first of the unfused kernels of gradients: P and dS (attention_backward/simt/products.cuh, where the figures are).
#pragma once

#include "attention/score.h"
#include "attention_backward/simt/product_loop.h"
#include "attention_backward/simt/tasks.cuh"

namespace attile::gpu::simt {

// Sizes of a block and its panels: chunks of rows and of keys, depth-major.
template <class C>
struct ScoresShape {
    using Tile = typename C::ScoreTile;
    using Micro = GemmMicro<Tile, float>;
    static constexpr int kPitchA = Tile::kM + 4, kPitchB = Tile::kN + 4, kPanelA = C::kChunk * kPitchA,
                         kStage = kPanelA + C::kChunk * kPitchB;
    static constexpr int kLines = C::kThreads / 2, kKeyLoads = Tile::kN / kLines, kParts = C::kUnitRows / Tile::kM;
    static_assert(kLines == Tile::kM && C::kBlockKeys == Tile::kN, "a quad of rows a thread");
    using Addresses = const float *[kKeyLoads];
    using Stage = Quad[1 + kKeyLoads];
};

// What the block works on, if anybody reads what it makes.
template <class C>
ATTILE_LANE_FN bool fill_task(const AttentionBackwardParams &p, ProductsTask &task) {
    using Shape = ScoresShape<C>;
    const uint32_t tile = blockIdx.x / Shape::kParts, of_keys = quotient(tile, p.launch_blocks);
    const int pair = static_cast<int>(quotient(of_keys, p.launch_units));
    if (is_irregular(p, pair)) return false;
    const BackwardPlace place(p, pair, p.first_block + static_cast<int>(remainder(tile, p.launch_blocks)));
    const AttentionEntry entry(p.forward, place.batch);
    const int unit = p.first_unit + static_cast<int>(remainder(of_keys, p.launch_units)), first_row = unit_row(p, unit);
    if (!key_blocks_of(p, entry, first_row).has(place.key_block)) return false;
    if (threadIdx.x == 0) {
        task.fill(p, place, entry);
        task.unit = unit;
        task.part = static_cast<int>(blockIdx.x % Shape::kParts) * Shape::Tile::kM;
    }
    return true;
}

// The loader of a product's panels: a thread's quad of rows and its quads of keys. Arrays are the kernel's.
template <class C>
struct ScoresLoader {
    using Shape = ScoresShape<C>;
    const AttentionBackwardParams &p;
    const ProductsTask &task;
    const float *&row_at;
    typename Shape::Addresses &key_at;
    typename Shape::Stage &stage;

    ATTILE_LANE_FN void seek(const AttentionOperand &rows, const float *first_row, const AttentionOperand &keys,
                             const float *first_key) const {
        const int thread = static_cast<int>(fresh_thread()), line = thread / 2, quad = thread % 2 * 4;
        const int row = min(unit_row(p, task.unit) + task.part + line, task.len_q - 1);
        row_at = task.row_of(rows, first_row, unit_head(p, task.head_kv, task.unit), row) + quad;
#pragma unroll
        for (int i = 0; i < Shape::kKeyLoads; ++i) {
            const int key = min(task.key_block * C::kBlockKeys + line + i * Shape::kLines, task.len_k - 1);
            key_at[i] = task.row_of(keys, first_key, 0, key) + quad;
        }
    }
    ATTILE_LANE_FN void fetch() const {
        stage[0] = load_vec_const<4>(row_at);
        row_at += C::kChunk;
#pragma unroll
        for (int i = 0; i < Shape::kKeyLoads; ++i) {
            stage[1 + i] = load_vec_const<4>(key_at[i]);
            key_at[i] += C::kChunk;
        }
    }
    ATTILE_LANE_FN void store(float *to) const {
        const int thread = static_cast<int>(fresh_thread()), line = thread / 2, quad = thread % 2 * 4;
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            to[(quad + e) * Shape::kPitchA + line] = stage[0][e];
#pragma unroll
            for (int i = 0; i < Shape::kKeyLoads; ++i)
                to[Shape::kPanelA + (quad + e) * Shape::kPitchB + line + i * Shape::kLines] = stage[1 + i][e];
        }
    }
    ATTILE_LANE_FN void multiply(float *shared, float (&score)[8][8]) const {
        __syncthreads();  // The product before has read its fragments.
        store(shared);
        __syncthreads();
        int chunks = C::kDepth / C::kChunk / 2;
        multiply_chunks<typename Shape::Micro, Shape::kPitchA, Shape::kPitchB>(
            shared, score, [&] { return --chunks > 0; }, [&] { fetch(); }, [&](float *to) { store(to); });
    }
};

// The thread's own pairs in a matrix of them.
template <class C>
ATTILE_LANE_FN float *pairs_of_thread(const AttentionBackwardParams &p, const ProductsTask &task, float *pairs) {
    using Micro = typename ScoresShape<C>::Micro;
    return pairs + scores_at(p, task.pair, task.unit) + static_cast<int64_t>(task.part + Micro::first_row()) * p.scores_pitch +
           (task.key_block - p.first_block) * C::kBlockKeys + Micro::first_col();
}

// P = exp(S - lse).
template <class C>
ATTILE_LANE_FN void store_probabilities(const AttentionBackwardParams &p, const ProductsTask &task, const BackwardRow<float> *row_numbers,
                                        const float (&score)[8][8]) {
    using Micro = typename ScoresShape<C>::Micro;
    const AttentionParams &f = p.forward;
    float *const to = pairs_of_thread<C>(p, task, p.probabilities);
    const int my_row = unit_row(p, task.unit) + task.part + Micro::first_row() + task.shift;
    const int my_key = task.key_block * C::kBlockKeys + Micro::first_col();
    const Span seen = {my_row - f.window_left, my_row + f.window_right + 1};
    const uint32_t width = static_cast<uint32_t>(seen.end - seen.first), from = static_cast<uint32_t>(my_key - seen.first);
    const int left = task.len_k - my_key;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float minus_lse = -row_numbers[Micro::first_row() + Micro::row(i)].lse;
        // Rows past the last are copies of it and see nothing, as those that have no key do: a log-sum-exp of infinity says so.
        const uint32_t sees = minus_lse == -INFINITY ? 0 : width;
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            Quad quad;
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const float s = score[i][j + e];
                const float above = fused_multiply_add(s, p.scale_low, fused_multiply_add(s, p.scale, minus_lse));
                const int col = Micro::col(j + e);
                const bool hidden = from + (col - Micro::row(i)) >= sees || col >= left;
                quad[e] = pick(hidden, 0.0f, exp2_fast(above * kLog2EHigh));
            }
            store_vec(to + static_cast<int64_t>(Micro::row(i)) * p.scores_pitch + Micro::col(j), quad);
        }
    }
}

// dS = P (dP - delta).
template <class C>
ATTILE_LANE_FN void store_gradients(const AttentionBackwardParams &p, const ProductsTask &task, const BackwardRow<float> *row_numbers,
                                    const float (&score)[8][8]) {
    using Micro = typename ScoresShape<C>::Micro;
    const float *const from = pairs_of_thread<C>(p, task, p.probabilities);
    float *const to = pairs_of_thread<C>(p, task, p.gradients);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float delta = row_numbers[Micro::first_row() + Micro::row(i)].delta;
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            const int64_t at = static_cast<int64_t>(Micro::row(i)) * p.scores_pitch + Micro::col(j);
            Quad quad = load_vec<4>(from + at);
            // What is hidden takes no part, however large dP is there.
#pragma unroll
            for (int e = 0; e < 4; ++e) quad[e] = pick(quad[e] == 0, 0.0f, quad[e] * (score[i][j + e] - delta));
            store_vec(to + at, quad);
        }
    }
}

// ---- Scores that pass through more than a mask. Where softcap is among it dP comes first, so that a score, its probability and what the
// softcap leaves of its gradient are at hand together.

// dP - delta, where dS will be.
template <class C>
ATTILE_LANE_FN void store_differences(const AttentionBackwardParams &p, const ProductsTask &task, const BackwardRow<float> *row_numbers,
                                      const float (&score)[8][8]) {
    using Micro = typename ScoresShape<C>::Micro;
    float *const to = pairs_of_thread<C>(p, task, p.gradients);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float delta = row_numbers[Micro::first_row() + Micro::row(i)].delta;
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            store_vec(to + static_cast<int64_t>(Micro::row(i)) * p.scores_pitch + Micro::col(j),
                      Quad{{score[i][j] - delta, score[i][j + 1] - delta, score[i][j + 2] - delta, score[i][j + 3] - delta}});
    }
}

// What is read of a row of bias or `allowed`: of the thread's eight keys, four side by side where the operand allows it and all are there.
template <class T>
ATTILE_LANE_FN void read_keys(const AttentionOperand &x, bool in_vectors, int64_t row_at, const int (&keys)[8], T (&to)[8]) {
    const T *const from = static_cast<const T *>(x.data) + row_at;
    if (in_vectors) {
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            const Vec<T, 4> quad = load_vec_const<4>(from + keys[j]);
#pragma unroll
            for (int e = 0; e < 4; ++e) to[j + e] = quad[e];
        }
    } else {
#pragma unroll
        for (int j = 0; j < 8; ++j) to[j] = load_vec_const<1>(from + keys[j] * x.stride[3])[0];
    }
}

// P = exp(score - lse), row by row; kCaps: and dS = P (dP - delta) times what the softcap leaves of it, which is before bias and ALiBi.
template <class C, bool kCaps>
ATTILE_LANE_FN void store_modified(const AttentionBackwardParams &p, const ProductsTask &task, const BackwardRow<float> *row_numbers,
                                   const float (&score)[8][8]) {
    using Micro = typename ScoresShape<C>::Micro;
    const AttentionParams &f = p.forward;
    float *const probabilities = pairs_of_thread<C>(p, task, p.probabilities), *const gradients = pairs_of_thread<C>(p, task, p.gradients);
    const int head = unit_head(p, task.head_kv, task.unit);
    const int my_row = unit_row(p, task.unit) + task.part + Micro::first_row(),
              my_key = task.key_block * C::kBlockKeys + Micro::first_col();
    // Rows and keys past the last are copies of it, which are hidden.
    const bool all_keys = (task.key_block + 1) * C::kBlockKeys <= task.len_k;
    int keys[8];
#pragma unroll
    for (int j = 0; j < 8; ++j) keys[j] = min(my_key + Micro::col(j), task.len_k - 1);
    float slope = 0;
    int diagonal = 0;
    if (f.alibi_slopes.data) {
        slope = load_number(f.alibi_slopes, task.batch * f.alibi_slopes.stride[0] + head * f.alibi_slopes.stride[1]);
        diagonal = my_row + task.shift;
    }
    const int64_t bias_at = task.batch * f.bias.stride[0] + head * f.bias.stride[1],
                  allowed_at = task.batch * f.allowed.stride[0] + head * f.allowed.stride[1];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const int row = my_row + Micro::row(i), there = min(row, task.len_q - 1);
        float x[8];
        [[maybe_unused]] float left[8];
#pragma unroll
        for (int j = 0; j < 8; ++j) x[j] = fused_multiply_add(score[i][j], p.scale, score[i][j] * p.scale_low);
        if constexpr (kCaps) {
#pragma unroll
            for (int j = 0; j < 8; ++j) {
                const float t = tanh_fast(x[j] * p.inverse_softcap);
                x[j] = p.softcap * t;
                left[j] = fused_multiply_add(-t, t, 1.0f);
            }
        }
        if (f.bias.data) {
            float bias[8];
            if (f.bias.storage == AttentionStorage::kF32) {
                read_keys(f.bias, all_keys && f.bias.vector, bias_at + there * f.bias.stride[2], keys, bias);
            } else {
#pragma unroll
                for (int j = 0; j < 8; ++j) bias[j] = load_number(f.bias, bias_at + there * f.bias.stride[2] + keys[j] * f.bias.stride[3]);
            }
#pragma unroll
            for (int j = 0; j < 8; ++j) x[j] = pick(bias[j] == -INFINITY, -INFINITY, x[j] + bias[j]);
        }
        if (f.alibi_slopes.data) {
#pragma unroll
            for (int j = 0; j < 8; ++j)
                x[j] = fused_multiply_add(-slope, fabsf(static_cast<float>(my_key + Micro::col(j) - diagonal - Micro::row(i))), x[j]);
        }
        if (f.allowed.data) {
            uint8_t shows[8];
            read_keys(f.allowed, all_keys && f.allowed.vector, allowed_at + there * f.allowed.stride[2], keys, shows);
#pragma unroll
            for (int j = 0; j < 8; ++j) x[j] = pick(shows[j] == 0, -INFINITY, x[j]);
        }
        const float lse = row_numbers[Micro::first_row() + Micro::row(i)].lse;
        const uint32_t sees = lse == INFINITY ? 0 : static_cast<uint32_t>(f.window_left + f.window_right + 1);
        const uint32_t from = static_cast<uint32_t>(my_key - (row + task.shift - f.window_left));
        const int64_t at = static_cast<int64_t>(Micro::row(i)) * p.scores_pitch;
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            Quad probability, gradient;
            if constexpr (kCaps) gradient = load_vec<4>(gradients + at + Micro::col(j));
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int col = Micro::col(j + e);
                const bool hidden = from + col >= sees || my_key + col >= task.len_k || x[j + e] == -INFINITY;
                const float value = exp2_fast((x[j + e] - lse) * kLog2EHigh);
                probability[e] = pick(hidden, 0.0f, value);
                // What is hidden takes no part, however large dP is there.
                if constexpr (kCaps) gradient[e] = pick(hidden, 0.0f, value * gradient[e] * left[j + e]);
            }
            store_vec(probabilities + at + Micro::col(j), probability);
            if constexpr (kCaps) store_vec(gradients + at + Micro::col(j), gradient);
        }
    }
}

template <class C, BackwardScores kScores>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, C::kBlocksPerUnit) attention_backward_scores(const AttentionBackwardParams parameter) {
    const AttentionBackwardParams &p = kernel_parameter(parameter);
    using Shape = ScoresShape<C>;
    alignas(16) __shared__ float shared[2 * Shape::kStage];
    __shared__ BackwardRow<float> row_numbers[Shape::Tile::kM];
    __shared__ ProductsTask task;

    const AttentionParams &f = p.forward;
    if (!fill_task<C>(p, task)) return;
    __syncthreads();
    if (threadIdx.x < Shape::Tile::kM) {
        const int64_t head = static_cast<int64_t>(task.batch) * f.heads.divisor + unit_head(p, task.head_kv, task.unit);
        row_numbers[threadIdx.x] =
            static_cast<const BackwardRow<float> *>(p.rows)[head * p.rows_allotted + unit_row(p, task.unit) + task.part + threadIdx.x];
    }

    const float *row_at;
    typename Shape::Addresses key_at;
    typename Shape::Stage stage;
    const ScoresLoader<C> loader = {p, task, row_at, key_at, stage};
    if constexpr (kScores == BackwardScores::kCapped) {
        loader.seek(p.dout, task.dout, f.v, task.value);
        loader.fetch();
        {
            float score[8][8] = {};
            loader.multiply(shared, score);
            loader.seek(f.q, task.query, f.k, task.key);
            loader.fetch();
            store_differences<C>(p, task, row_numbers, score);
        }
        float score[8][8] = {};
        loader.multiply(shared, score);
        store_modified<C, true>(p, task, row_numbers, score);
        return;
    }
    // ---- S = Q K^T, and P.
    loader.seek(f.q, task.query, f.k, task.key);
    loader.fetch();
    {
        float score[8][8] = {};
        loader.multiply(shared, score);
        // What modifies scores leaves no registers for what is fetched.
        if constexpr (kScores == BackwardScores::kModified) store_modified<C, false>(p, task, row_numbers, score);
        loader.seek(p.dout, task.dout, f.v, task.value);
        loader.fetch();
        if constexpr (kScores != BackwardScores::kModified) store_probabilities<C>(p, task, row_numbers, score);
    }
    // ---- dP = dO V^T, and dS.
    float score[8][8] = {};
    loader.multiply(shared, score);
    store_gradients<C>(p, task, row_numbers, score);
}

}  // namespace attile::gpu::simt
