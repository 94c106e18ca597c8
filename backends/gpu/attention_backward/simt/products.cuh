// SPDX-License-Identifier: Apache-2.0
// Attention's gradients as products of whole matrices: one kernel leaves probabilities and the scores' gradients in memory, others multiply
// them by dout, Q and K as GEMM does.
//
// attention_backward_scores: a block makes 64 rows x 128 keys of P = exp(Q K^T - lse) and of dS = P (dO V^T - delta), one after the other
// in the same 64 registers a thread; P is written when it is there and read back by the thread that wrote it. attention_backward_products:
// a block makes kM x kN of dV = P^T dO or dK = dS^T Q, over all rows of its pair's heads that see its keys, or of dQ = dS K, and the last
// launch stores them where the caller wants them. Every sum has a fixed order, which launches keep as they go on with it.
//
// 128 threads, 8 x 8 results each of every product; at most 128 registers, so four blocks a multiprocessor, no spills. Shared bytes: two
// panels of 8 depths, 4 * 2 * 8 * (68 + 132) = 12800, and 512 of row numbers and 96 of what the block is about; the products at most
// 4 * 2 * 8 * (68 + 128) = 12544 and 96. In memory 8 bytes for each pair of row and key, written once and read once by sums (dS twice; by
// each 128 of dQ's and dK's columns), P once more by the scores' kernel, from the L2 cache at best: 24 bytes for 10 FLOP a column, 27 FLOP
// a byte at 64 columns, 53 at 128. The tile kernel (attention_backward/simt/tile.cuh) moves less, but most of its products are 8 x 4 a
// lane, whose fragments keep shared memory busy nearly all the time that the multiply-adds take; here each has GEMM's two loads of 16 bytes
// an operand for 64 multiply-adds. Which of the two takes a problem is a matter of expected time (attention_backward/plan.cpp).
//
// Best measured (H200, compute_61 PTX, ms a call; in brackets the tile kernel in the same process): B = 8, H = 16, S = 2048 d = 64 8.8
// (9.8), causal 5.0 (5.4); d = 128 16.0 (19.9), causal 8.7 (10.8); B = 2, H = 8, S = 4096 d = 256 15.2 (24.0), causal 7.8 (14.1). TFLOP/s
// of the three kernels: d = 64 33, 46, 43; d = 128 40, 47, 46; d = 256 44, 47, 47.
//
// What mattered: sums times one before they go to memory and after they come from there (moved as they are they lie in aligned quadruples,
// whose banks collide); the products storing dQ, dK and dV themselves (d = 64 9.8 -> 9.2); with a mask the last rows of all pairs first and
// launches of many pairs (d = 128 causal 9.6 -> 9.0); 1 GiB for P and dS instead of half (d = 64 9.1 -> 8.9, causal 5.3 -> 5.1); sums of
// keys and of rows in kernels of their own; the last step reading fragments for nothing instead of testing. Orders and bounds were chosen
// by machine code for sm_90 made from the PTX: of the issue slots of the loops, a second one for each multiply-add that fetches three
// registers and a third where those lie in one bank, multiply-adds are 0.79 to 0.81 (scores), 0.73 (keys, whose loop has the way from unit
// to unit in it) and 0.78 (rows), of gemm's 0.82 to 0.84. What lost: the last two chunks of a product in code of their own, as gemm has
// them (that share 0.57 to 0.73); bounds of three blocks (scores 6.9 -> 7.1 at d = 128, sums as fast); runs of up to eight key blocks a
// block of scores (0 to -2 %); K and V in chunks of 16 columns for pieces of 64 bytes (-5 %); kernels without the comparisons for tiles
// that all rows see all of (banks collide). What binds the scores at d = 64: a tile's ends cost as much as half of its two products (P and
// dS on their way out, P on its way back); the way to shared memory is busy 75 % of the time, issue slots 66 %; of the sums 50 and 80 %.
#pragma once

#include "attention_backward/simt/product_loop.h"
#include "attention_backward/simt/tasks.cuh"

namespace attile::gpu::simt {

// kOfKeys: dV and dK; else dQ.
template <class C, bool kOfKeys>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, C::kBlocksPerUnit) attention_backward_products(const AttentionBackwardParams parameter) {
    const AttentionBackwardParams &p = kernel_parameter(parameter);
    using Tile = typename C::GradientTile;
    using Micro = GemmMicro<Tile, float>;
    constexpr int kPitchA = Tile::kM + (kOfKeys ? 0 : 4), kPitchB = Tile::kN;
    constexpr int kPanelA = C::kChunk * kPitchA, kStage = kPanelA + C::kChunk * kPitchB;
    constexpr int kLoadsA = C::kChunk * Tile::kM / 4 / C::kThreads, kLoadsB = C::kChunk * Tile::kN / 4 / C::kThreads;
    constexpr int kTilesN = C::kDepth / Tile::kN, kTilesOfKeys = C::kBlockKeys / Tile::kM;
    constexpr int kAcross = C::kThreads / C::kChunk;  // Threads along a row of a panel.
    static_assert(kLoadsA * C::kThreads * 4 == C::kChunk * Tile::kM && kLoadsB * C::kThreads * 4 == C::kChunk * Tile::kN, "as many each");
    alignas(16) __shared__ float shared[2 * kStage];
    __shared__ ProductsTask task;

    const AttentionParams &f = p.forward;
    {
        const int first_col = static_cast<int>(blockIdx.x % kTilesN) * Tile::kN;
        uint32_t rest = blockIdx.x / kTilesN;
        int part = 0, is_value = 0, key_block = 0, unit = 0, pair;
        if constexpr (kOfKeys) {
            part = static_cast<int>(rest % kTilesOfKeys) * Tile::kM;
            is_value = static_cast<int>(rest / kTilesOfKeys % 2);
            rest /= 2 * kTilesOfKeys;
            key_block = p.first_block + static_cast<int>(p.keys_first ? quotient(rest, p.pairs) : remainder(rest, p.launch_blocks));
            pair = static_cast<int>(p.keys_first ? remainder(rest, p.pairs) : quotient(rest, p.launch_blocks));
        } else {
            // With a mask the last rows, which see most keys, of all pairs first.
            unit = p.keys_first ? p.end_unit - 1 - static_cast<int>(quotient(rest, p.pairs))
                                : p.first_unit + static_cast<int>(remainder(rest, p.launch_units));
            pair = static_cast<int>(p.keys_first ? remainder(rest, p.pairs) : quotient(rest, p.launch_units));
        }
        if (is_irregular(p, pair)) return;
        const BackwardPlace place(p, pair, key_block);
        const AttentionEntry entry(f, place.batch);
        if (threadIdx.x == 0) {
            task.fill(p, place, entry);
            task.unit = kOfKeys ? task.next_unit(p, -1) : unit;
            task.part = part;
            task.first_col = first_col;
            task.is_value = is_value;
        }
        __syncthreads();
    }

    // What is multiplied: chunks of a matrix of pairs (a_at) by rows of another, none beyond the last.
    Quad stage_a[kLoadsA], stage_b[kLoadsB];
    const float *a_at = nullptr;
    const char *b_at = nullptr;
    int b_left = 0, b_row_bytes = 0;
    float sums[8][8] = {};
    const auto seek_b = [&](const AttentionOperand &x, const float *first, int head, int row, int rows) {
        const int thread = static_cast<int>(fresh_thread()), mine = min(row + thread / kAcross, rows - 1);
        b_at = reinterpret_cast<const char *>(task.row_of(x, first, head, mine) + task.first_col + thread % kAcross * 4);
        b_left = rows - 1 - mine;
        b_row_bytes = x.row_bytes;
    };
    const auto fetch_b = [&] {
#pragma unroll
        for (int i = 0; i < kLoadsB; ++i) stage_b[i] = load_vec_const<4>(reinterpret_cast<const float *>(b_at) + i * kAcross * 4);
        const int step = min(b_left, C::kChunk);
        b_left -= step;
        b_at += static_cast<int64_t>(step) * b_row_bytes;
    };
    const auto store_lines = [&](float *to, auto pitch, const auto &stage) {
        const int thread = static_cast<int>(fresh_thread());
        constexpr int kPitch = decltype(pitch)::value;
#pragma unroll
        for (int i = 0; i < static_cast<int>(sizeof stage / sizeof stage[0]); ++i)
            store_vec(to + thread / kAcross * kPitch + thread % kAcross * 4 + i * kAcross * 4, stage[i]);
    };
    const auto store_b = [&](float *to) { store_lines(to + kPanelA, std::integral_constant<int, kPitchB>(), stage_b); };
    const auto multiply = [&](const auto &more, const auto &fetch, const auto &store) {
        fetch();
        store(shared);
        __syncthreads();
        multiply_chunks<Micro, kPitchA, kPitchB>(shared, sums, more, fetch, store);
    };
    // Where the sums are kept that launches hand on. Times one, so that the loop may have them in any registers: moved as they are they
    // would be in aligned quadruples, whose banks collide.
    const auto sums_at = [&] {
        const int64_t row = kOfKeys ? sum_at(p, 0, task.pair, task.key_block * C::kBlockKeys + task.part + Micro::first_row())
                                    : part_q_at(p, task.pair, 0, task.unit) + Micro::first_row() * C::kDepth;
        return (!kOfKeys ? p.part_q : task.is_value ? p.sum_v : p.sum_k) + row + task.first_col + Micro::first_col();
    };
    const auto resume = [&] {
        const float *const from = sums_at();
        const float one = fresh(1.0f);
#pragma unroll
        for (int i = 0; i < 8; ++i)
#pragma unroll
            for (int j = 0; j < 8; j += 4) {
                const Quad old = load_vec<4>(from + Micro::row(i) * C::kDepth + Micro::col(j));
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[i][j + e] = one * old[e];
            }
    };

    if constexpr (kOfKeys) {
        int unit = same_in_block(task.unit), chunks = C::kUnitRows / C::kChunk / 2;
        if (p.continues) {
            if (unit < 0 && !p.stores_keys) return;
            resume();
        }
        const auto seek = [&] {
            const int thread = static_cast<int>(fresh_thread());
            a_at = (task.is_value ? p.probabilities : p.gradients) + scores_at(p, task.pair, unit) +
                   static_cast<int64_t>(thread / kAcross) * p.scores_pitch + (task.key_block - p.first_block) * C::kBlockKeys + task.part +
                   thread % kAcross * 4;
            const int head = unit_head(p, task.head_kv, unit), row = unit_row(p, unit);
            if (task.is_value)
                seek_b(p.dout, task.dout, head, row, task.len_q);
            else
                seek_b(f.q, task.query, head, row, task.len_q);
        };
        const auto fetch = [&] {
#pragma unroll
            for (int i = 0; i < kLoadsA; ++i) stage_a[i] = load_vec<4>(a_at + i * kAcross * 4);
            a_at += static_cast<int64_t>(C::kChunk) * p.scores_pitch;
            fetch_b();
        };
        const auto store = [&](float *to) {
            store_lines(to, std::integral_constant<int, kPitchA>(), stage_a);
            store_b(to);
        };
        const auto more = [&] {
            if (--chunks > 0) return true;
            unit = same_in_block(task.next_unit(p, unit));
            if (unit < 0) return false;
            seek();
            chunks = C::kUnitRows / C::kChunk / 2;
            return true;
        };
        if (unit >= 0) {
            seek();
            multiply(more, fetch, store);
        }
    } else {
        const Span seen = key_blocks_of(p, AttentionEntry(f, task.batch), unit_row(p, task.unit));
        const int first = max(seen.first, p.first_block), blocks = min(seen.end, p.end_block) - first;
        if (p.first_block > 0) {
            if (blocks <= 0 && !p.stores_rows) return;
            resume();
        }
        // Along the depth: two quads of a chunk a row, stored transposed.
        constexpr int kLines = C::kThreads / 2;
        const auto fetch = [&] {
#pragma unroll
            for (int i = 0; i < kLoadsA; ++i) stage_a[i] = load_vec<4>(a_at + static_cast<int64_t>(i * kLines) * p.scores_pitch);
            a_at += C::kChunk;
            fetch_b();
        };
        const auto store = [&](float *to) {
            const int thread = static_cast<int>(fresh_thread()), line = thread / 2, quad = thread % 2 * 4;
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int i = 0; i < kLoadsA; ++i) to[(quad + e) * kPitchA + line + i * kLines] = stage_a[i][e];
            store_b(to);
        };
        if (blocks > 0) {
            const int thread = static_cast<int>(fresh_thread());
            a_at = p.gradients + scores_at(p, task.pair, task.unit) + static_cast<int64_t>(thread / 2) * p.scores_pitch +
                   (first - p.first_block) * C::kBlockKeys + thread % 2 * 4;
            seek_b(f.k, task.key, 0, first * C::kBlockKeys, task.len_k);
            int chunks = blocks * (C::kBlockKeys / C::kChunk / 2);
            multiply([&] { return --chunks > 0; }, fetch, store);
        }
    }

    // The last launch's go where the caller wants them, if those are rows of whole quads.
    const bool is_result = kOfKeys ? p.stores_keys != 0 : p.stores_rows != 0;
    const bool is_value = kOfKeys && task.is_value;
    const AttentionOperand &x = !kOfKeys ? p.dq : is_value ? p.dv : p.dk;
    const int64_t step = is_result ? x.stride[2] : C::kDepth;
    const int cols = !is_result ? C::kDepth : is_value ? f.head_dim_v : f.head_dim, my_col = task.first_col + Micro::first_col();
    const float scale = is_result && !is_value ? p.scale : fresh(1.0f);
    float *to;
    int rows = Tile::kM;
    if (is_result) {
        const AttentionEntry entry(f, task.batch);
        const int first = kOfKeys ? task.key_block * C::kBlockKeys + task.part : unit_row(p, task.unit);
        rows = (!kOfKeys ? task.len_q : f.cu_len_k ? task.len_k : f.len_k) - first;
        to = static_cast<float *>(const_cast<void *>(x.data)) + entry.batch * x.stride[0] +
             (kOfKeys ? task.head_kv : unit_head(p, task.head_kv, task.unit)) * x.stride[1] +
             ((kOfKeys ? entry.first_k : entry.first_q) + first + Micro::first_row()) * step + my_col;
    } else {
        to = sums_at();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        if (Micro::first_row() + Micro::row(i) >= rows) continue;
#pragma unroll
        for (int j = 0; j < 8; j += 4)
            if (my_col + Micro::col(j) < cols)
                store_vec(to + Micro::row(i) * step + Micro::col(j),
                          Quad{{scale * sums[i][j], scale * sums[i][j + 1], scale * sums[i][j + 2], scale * sums[i][j + 3]}});
    }
}

}  // namespace attile::gpu::simt
