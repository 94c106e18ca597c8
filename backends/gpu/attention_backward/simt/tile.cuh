// SPDX-License-Identifier: Apache-2.0
// Gradients of attention by tiles: a block keeps the sums of dK and dV of its keys in registers while units of query rows pass by. Tiles,
// budget and bound: attention_backward/simt/configs.h. Record: docs/kernels/attention-backward-simt.md.
#pragma once

#include "attention_backward/simt/tile_steps.cuh"

namespace attile::gpu::simt {

template <class C, bool kModified>
__global__ void ATTILE_LAUNCH_BOUNDS(BackwardShape<C>::kThreads, C::kBlocksPerUnit)
    attention_backward_tile(const AttentionBackwardParams parameter) {
    const AttentionBackwardParams &p = kernel_parameter(parameter);
    using Shape = BackwardShape<C>;
    using Keys = typename Shape::Keys;
    using Queries = typename Shape::Queries;
    using Steps = BackwardSteps<C, kModified>;
    using Loader = typename Steps::Loader;
    constexpr int kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys, kDepth = Shape::kDepth;
    alignas(16) __shared__ float shared[Shape::kSharedFloats];

    // Where the block is and what it sees, in shared memory: the sums leave no registers to keep it in.
    __shared__ BackwardBlock block;
    const BackwardPlace place(p, blockIdx.x);
    if (is_irregular(p, place.pair)) return;
    const AttentionEntry entry(p.forward, place.batch);
    if (threadIdx.x == 0) block.fill(p, place, entry);
    __syncthreads();
    const auto seek = [&](int from) { return same_in_block(kModified ? block.next_made_unit(p, from) : block.next_unit(p, from)); };
    int unit = seek(-1);
    if (unit < 0 && p.continues) return;

    // ---- The loader. Its members are called by way of lambdas, as products with sums are written here and not in a part: else instances
    // with modified scores take up to 24 registers more, since what it finds anew for each product is kept.
    typename Loader::Stage stage;
    int panel = Shape::kPairs;
    bool vector_rows = true, vector_keys = true;
    typename Loader::RowAddresses row_at;
    typename Loader::KeyAddresses key_at;
    const Loader loader = {p, block, shared, stage, row_at, key_at, panel, vector_rows, vector_keys};
    const Steps steps(p, block, shared, loader);
    const auto rows_of = [&](auto operand, int of_unit) { return loader.rows_of(operand, of_unit); };
    const auto seek_scores = [&](auto rows, auto keys, int of_unit) { loader.seek_scores(rows, keys, of_unit); };
    const auto load_scores = [&] { loader.load_scores(); };
    const auto store_scores = [&] { loader.store_scores(); };
    const auto load_lines = [&](const auto &rows, int first) { loader.load_lines(rows, first); };
    const auto load_pass = [&](const auto &keys, int pass, int first) { loader.load_pass(keys, pass, first); };
    const auto store_lines = [&] { loader.store_lines(); };
    const auto begin_unit = [&](int of_unit) {
        seek_scores(Loader::kDout, Loader::kValue, of_unit);
        load_scores();
        store_scores();
        __syncthreads();
    };
    // Found once, or whenever they are asked for.
    const auto rows_for = [&](auto operand) {
        if constexpr (C::kKeepsRows)
            return [kept = rows_of(operand, unit)] { return kept; };
        else
            return [&rows_of, &unit, operand] { return rows_of(operand, unit); };
    };

    // ---- Sums of the block's keys, which it keeps to itself.
    typename Steps::Sums sum_k, sum_v;
    steps.begin_sums(sum_k, sum_v);
    if (C::kAhead && unit >= 0) begin_unit(unit);
#pragma unroll 1
    while (unit >= 0) {
        if (!C::kAhead) begin_unit(unit);
        const int first_row = unit_row(p, unit);
        steps.load_row_numbers(unit, first_row);
        const float *const row_numbers = shared + Shape::kRowNumbers + Shape::Scores::first_row();

        // ---- dP = dO V^T and S = Q K^T, then P and dS.
        typename Steps::Pairs score;
        steps.multiply_scores(unit, first_row, row_numbers, score);
        steps.differentiate_all(unit, first_row, row_numbers, score);

        // Nobody reads the pairs any more once the last chunk's successor is published.
        const auto multiply_keys = [&](typename Steps::Sums &sums, auto operand, const auto &load_next) {
            __syncthreads();  // Everyone's pairs are there.
            const auto rows = rows_for(operand);
            loader.template multiply<Keys, C::kChunkRows>(
                sums, kBlockRows,
                [&](auto &a, int row, int k) { Keys::load_a(a, shared + Keys::first_row() + (row + k) * Shape::kKeyPitch); },
                [&](auto &b, int k) { Keys::load_b(b, shared + panel + Keys::first_col() + k * kDepth); },
                [&](int next) { next < kBlockRows ? load_lines(rows(), first_row + next) : load_next(); }, [&](int) { store_lines(); });
        };
        // ---- dV += P^T dO.
        multiply_keys(sum_v, Loader::kDout, [&] { load_lines(rows_of(Loader::kQuery, unit), first_row); });
        steps.store_pairs(score);
        // ---- dK += dS^T Q.
        multiply_keys(sum_k, Loader::kQuery, [&] { load_pass(rows_of(Loader::kKey, unit), 0, 0); });
        steps.store_pairs_by_keys(score);
        __syncthreads();

        // ---- This block's part of dQ = dS K.
        const int next_unit = C::kAhead ? seek(unit) : -1;
#pragma unroll 1
        for (int pass = 0; pass < Shape::kPasses; ++pass) {
            typename Steps::QueryTile query = {};
            const bool is_last_pass = pass + 1 == Shape::kPasses;
            const auto rows = rows_for(Loader::kKey);
            loader.template multiply<Queries, Shape::kPassChunk>(
                query, kBlockKeys,
                [&](auto &a, int key, int k) { Queries::load_a(a, shared + Queries::first_row() + (key + k) * Shape::kRowPitch); },
                [&](auto &b, int k) { Queries::load_b(b, shared + panel + Queries::first_col() + k * Shape::kPassCols); },
                [&](int next) {
                    if (next < kBlockKeys) {
                        load_pass(rows(), pass, next);
                    } else if (!is_last_pass) {
                        load_pass(rows(), pass + 1, 0);
                    } else if (next_unit >= 0) {
                        seek_scores(Loader::kDout, Loader::kValue, next_unit);
                        load_scores();
                    }
                },
                [&](int next) {
                    if (next < kBlockKeys || !is_last_pass)
                        store_lines();
                    else if (C::kAhead)
                        store_scores();  // After the last unit nobody reads it.
                });
            steps.store_pass(pass, unit, query);
        }
        unit = C::kAhead ? next_unit : seek(unit);
    }
    steps.keep(sum_k, p.sum_k);
    steps.keep(sum_v, p.sum_v);
}

}  // namespace attile::gpu::simt
