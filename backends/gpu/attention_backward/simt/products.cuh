// SPDX-License-Identifier: Apache-2.0
// Attention's gradients by unfused kernels: one leaves probabilities and the scores' gradients in memory, others multiply them by dout, Q
// and K as GEMM does.
//
// attention_backward_scores: a block makes 64 rows x 128 keys of P = exp(Q K^T - lse) and of dS = P (dO V^T - delta), one after the other
// in the same 64 registers a thread. attention_backward_products: a block makes kM x kN of dV = P^T dO or dK = dS^T Q, over all rows of its
// pair's heads that see its keys, or of dQ = dS K, and the last launch stores them where the caller wants them. Every sum has a fixed
// order, which launches keep as they go on with it.
//
// 128 threads, 8 x 8 results each of every product; at most 128 registers, so four blocks a multiprocessor, no spills. Shared bytes: two
// panels of 8 depths, 4 * 2 * 8 * (68 + 132) = 12800, and 512 of row numbers and 96 of what the block is about; the products at most
// 4 * 2 * 8 * (68 + 128) = 12544 and 96. Bound: arithmetic at 128 columns (53 FLOP a byte), the L2 cache too at 64 (27). Record:
// docs/kernels/attention-backward-simt.md.
#pragma once

#include "attention_backward/simt/product_loop.h"
#include "attention_backward/simt/tasks.cuh"

namespace attile::gpu::simt {

// Sizes of a block and its panels. kOfKeys: dV and dK; else dQ.
template <class C, bool kOfKeys>
struct ProductsShape {
    using Tile = typename C::GradientTile;
    using Micro = GemmMicro<Tile, float>;
    static constexpr int kPitchA = Tile::kM + (kOfKeys ? 0 : 4), kPitchB = Tile::kN;
    static constexpr int kPanelA = C::kChunk * kPitchA, kStage = kPanelA + C::kChunk * kPitchB;
    static constexpr int kLoadsA = C::kChunk * Tile::kM / 4 / C::kThreads, kLoadsB = C::kChunk * Tile::kN / 4 / C::kThreads;
    static constexpr int kTilesN = C::kDepth / Tile::kN, kTilesOfKeys = C::kBlockKeys / Tile::kM;
    static constexpr int kAcross = C::kThreads / C::kChunk;  // Threads along a row of a panel.
    static_assert(kLoadsA * C::kThreads * 4 == C::kChunk * Tile::kM && kLoadsB * C::kThreads * 4 == C::kChunk * Tile::kN, "as many each");
    using StageA = Quad[kLoadsA];
    using StageB = Quad[kLoadsB];
};

// What the block works on. False: another kernel does, for its pair is irregular.
template <class C, bool kOfKeys>
ATTILE_LANE_FN bool fill_products_task(const AttentionBackwardParams &p, ProductsTask &task) {
    using Shape = ProductsShape<C, kOfKeys>;
    using Tile = typename Shape::Tile;
    const int first_col = static_cast<int>(blockIdx.x % Shape::kTilesN) * Tile::kN;
    uint32_t rest = blockIdx.x / Shape::kTilesN;
    int part = 0, is_value = 0, key_block = 0, unit = 0, pair;
    if constexpr (kOfKeys) {
        part = static_cast<int>(rest % Shape::kTilesOfKeys) * Tile::kM;
        is_value = static_cast<int>(rest / Shape::kTilesOfKeys % 2);
        rest /= 2 * Shape::kTilesOfKeys;
        key_block = p.first_block + static_cast<int>(p.keys_first ? quotient(rest, p.pairs) : remainder(rest, p.launch_blocks));
        pair = static_cast<int>(p.keys_first ? remainder(rest, p.pairs) : quotient(rest, p.launch_blocks));
    } else {
        // With a mask the last rows, which see most keys, of all pairs first.
        unit = p.keys_first ? p.end_unit - 1 - static_cast<int>(quotient(rest, p.pairs))
                            : p.first_unit + static_cast<int>(remainder(rest, p.launch_units));
        pair = static_cast<int>(p.keys_first ? remainder(rest, p.pairs) : quotient(rest, p.launch_units));
    }
    if (is_irregular(p, pair)) return false;
    const BackwardPlace place(p, pair, key_block);
    const AttentionEntry entry(p.forward, place.batch);
    if (threadIdx.x == 0) {
        task.fill(p, place, entry);
        task.unit = kOfKeys ? task.next_unit(p, -1) : unit;
        task.part = part;
        task.first_col = first_col;
        task.is_value = is_value;
    }
    return true;
}

// The loader: chunks of a matrix of pairs (a_at) by rows of another, none beyond the last. Arrays are the kernel's.
template <class C, bool kOfKeys>
struct ProductsLoader {
    using Shape = ProductsShape<C, kOfKeys>;
    static constexpr int kAcross = Shape::kAcross;
    static constexpr int kLines = C::kThreads / 2;  // Of dQ's A, along the depth: two quads of a chunk a row, stored transposed.
    const AttentionBackwardParams &p;
    const ProductsTask &task;
    typename Shape::StageA &stage_a;
    typename Shape::StageB &stage_b;
    const float *a_at = nullptr;
    const char *b_at = nullptr;
    int b_left = 0, b_row_bytes = 0;

    ATTILE_LANE_FN ProductsLoader(const AttentionBackwardParams &params, const ProductsTask &of_block, typename Shape::StageA &a,
                                  typename Shape::StageB &b)
        : p(params), task(of_block), stage_a(a), stage_b(b) {}

    ATTILE_LANE_FN void seek_b(const AttentionOperand &x, const float *first, int head, int row, int rows) {
        const int thread = static_cast<int>(fresh_thread()), mine = min(row + thread / kAcross, rows - 1);
        b_at = reinterpret_cast<const char *>(task.row_of(x, first, head, mine) + task.first_col + thread % kAcross * 4);
        b_left = rows - 1 - mine;
        b_row_bytes = x.row_bytes;
    }
    // Of keys: the rows of a unit.
    ATTILE_LANE_FN void seek_unit(int unit) {
        const int thread = static_cast<int>(fresh_thread());
        a_at = (task.is_value ? p.probabilities : p.gradients) + scores_at(p, task.pair, unit) +
               static_cast<int64_t>(thread / kAcross) * p.scores_pitch + (task.key_block - p.first_block) * C::kBlockKeys + task.part +
               thread % kAcross * 4;
        const int head = unit_head(p, task.head_kv, unit), row = unit_row(p, unit);
        if (task.is_value)
            seek_b(p.dout, task.dout, head, row, task.len_q);
        else
            seek_b(p.forward.q, task.query, head, row, task.len_q);
    }
    // Of rows: keys from a block of them on.
    ATTILE_LANE_FN void seek_keys(int first) {
        const int thread = static_cast<int>(fresh_thread());
        a_at = p.gradients + scores_at(p, task.pair, task.unit) + static_cast<int64_t>(thread / 2) * p.scores_pitch +
               (first - p.first_block) * C::kBlockKeys + thread % 2 * 4;
        seek_b(p.forward.k, task.key, 0, first * C::kBlockKeys, task.len_k);
    }
    ATTILE_LANE_FN void fetch() {
        if constexpr (kOfKeys) {
#pragma unroll
            for (int i = 0; i < Shape::kLoadsA; ++i) stage_a[i] = load_vec<4>(a_at + i * kAcross * 4);
            a_at += static_cast<int64_t>(C::kChunk) * p.scores_pitch;
        } else {
#pragma unroll
            for (int i = 0; i < Shape::kLoadsA; ++i) stage_a[i] = load_vec<4>(a_at + static_cast<int64_t>(i * kLines) * p.scores_pitch);
            a_at += C::kChunk;
        }
#pragma unroll
        for (int i = 0; i < Shape::kLoadsB; ++i) stage_b[i] = load_vec_const<4>(reinterpret_cast<const float *>(b_at) + i * kAcross * 4);
        const int step = min(b_left, C::kChunk);
        b_left -= step;
        b_at += static_cast<int64_t>(step) * b_row_bytes;
    }
    ATTILE_LANE_FN void store(float *to) const {
        if constexpr (kOfKeys) {
            store_lines<Shape::kPitchA>(to, stage_a);
        } else {
            const int thread = static_cast<int>(fresh_thread()), line = thread / 2, quad = thread % 2 * 4;
#pragma unroll
            for (int e = 0; e < 4; ++e)
#pragma unroll
                for (int i = 0; i < Shape::kLoadsA; ++i) to[(quad + e) * Shape::kPitchA + line + i * kLines] = stage_a[i][e];
        }
        store_lines<Shape::kPitchB>(to + Shape::kPanelA, stage_b);
    }
    // Sums of all chunks: `more` says after every second whether there is a third.
    template <class More>
    ATTILE_LANE_FN void multiply(float *shared, float (&sums)[8][8], const More &more) {
        fetch();
        store(shared);
        __syncthreads();
        multiply_chunks<typename Shape::Micro, Shape::kPitchA, Shape::kPitchB>(
            shared, sums, more, [&] { fetch(); }, [&](float *to) { store(to); });
    }

  private:
    template <int kPitch, int kQuads>
    static ATTILE_LANE_FN void store_lines(float *to, const Quad (&stage)[kQuads]) {
        const int thread = static_cast<int>(fresh_thread());
#pragma unroll
        for (int i = 0; i < kQuads; ++i) store_vec(to + thread / kAcross * kPitch + thread % kAcross * 4 + i * kAcross * 4, stage[i]);
    }
};

// Where the sums are kept that launches hand on.
template <class C, bool kOfKeys>
ATTILE_LANE_FN float *sums_of_thread(const AttentionBackwardParams &p, const ProductsTask &task) {
    using Micro = typename ProductsShape<C, kOfKeys>::Micro;
    const int64_t row = kOfKeys ? sum_at(p, 0, task.pair, task.key_block * C::kBlockKeys + task.part + Micro::first_row())
                                : part_q_at(p, task.pair, 0, task.unit) + Micro::first_row() * C::kDepth;
    return (!kOfKeys ? p.part_q : task.is_value ? p.sum_v : p.sum_k) + row + task.first_col + Micro::first_col();
}

// Those of the launch before. Times one, so that the loop may have them in any registers: moved as they are they would be in aligned
// quadruples, whose banks collide.
template <class C, bool kOfKeys>
ATTILE_LANE_FN void resume_sums(const AttentionBackwardParams &p, const ProductsTask &task, float (&sums)[8][8]) {
    using Micro = typename ProductsShape<C, kOfKeys>::Micro;
    const float *const from = sums_of_thread<C, kOfKeys>(p, task);
    const float one = fresh(1.0f);
#pragma unroll
    for (int i = 0; i < 8; ++i)
#pragma unroll
        for (int j = 0; j < 8; j += 4) {
            const Quad old = load_vec<4>(from + Micro::row(i) * C::kDepth + Micro::col(j));
#pragma unroll
            for (int e = 0; e < 4; ++e) sums[i][j + e] = one * old[e];
        }
}

// The last launch's go where the caller wants them, if those are rows of whole quads.
template <class C, bool kOfKeys>
ATTILE_LANE_FN void store_sums(const AttentionBackwardParams &p, const ProductsTask &task, const float (&sums)[8][8]) {
    using Micro = typename ProductsShape<C, kOfKeys>::Micro;
    const AttentionParams &f = p.forward;
    const bool is_result = kOfKeys ? p.stores_keys != 0 : p.stores_rows != 0;
    const bool is_value = kOfKeys && task.is_value;
    const AttentionOperand &x = !kOfKeys ? p.dq : is_value ? p.dv : p.dk;
    const int64_t step = is_result ? x.stride[2] : C::kDepth;
    const int cols = !is_result ? C::kDepth : is_value ? f.head_dim_v : f.head_dim, my_col = task.first_col + Micro::first_col();
    const float scale = is_result && !is_value ? p.scale : fresh(1.0f);
    float *to;
    int rows = C::GradientTile::kM;
    if (is_result) {
        const AttentionEntry entry(f, task.batch);
        const int first = kOfKeys ? task.key_block * C::kBlockKeys + task.part : unit_row(p, task.unit);
        rows = (!kOfKeys ? task.len_q : f.cu_len_k ? task.len_k : f.len_k) - first;
        to = static_cast<float *>(const_cast<void *>(x.data)) + entry.batch * x.stride[0] +
             (kOfKeys ? task.head_kv : unit_head(p, task.head_kv, task.unit)) * x.stride[1] +
             ((kOfKeys ? entry.first_k : entry.first_q) + first + Micro::first_row()) * step + my_col;
    } else {
        to = sums_of_thread<C, kOfKeys>(p, task);
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

template <class C, bool kOfKeys>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, C::kBlocksPerUnit) attention_backward_products(const AttentionBackwardParams parameter) {
    const AttentionBackwardParams &p = kernel_parameter(parameter);
    using Shape = ProductsShape<C, kOfKeys>;
    alignas(16) __shared__ float shared[2 * Shape::kStage];
    __shared__ ProductsTask task;
    if (!fill_products_task<C, kOfKeys>(p, task)) return;
    __syncthreads();

    typename Shape::StageA stage_a;
    typename Shape::StageB stage_b;
    ProductsLoader<C, kOfKeys> loader(p, task, stage_a, stage_b);
    float sums[8][8] = {};
    if constexpr (kOfKeys) {
        int unit = same_in_block(task.unit), chunks = C::kUnitRows / C::kChunk / 2;
        if (p.continues) {
            if (unit < 0 && !p.stores_keys) return;
            resume_sums<C, kOfKeys>(p, task, sums);
        }
        const auto more = [&] {
            if (--chunks > 0) return true;
            unit = same_in_block(task.next_unit(p, unit));
            if (unit < 0) return false;
            loader.seek_unit(unit);
            chunks = C::kUnitRows / C::kChunk / 2;
            return true;
        };
        if (unit >= 0) {
            loader.seek_unit(unit);
            loader.multiply(shared, sums, more);
        }
    } else {
        const Span seen = key_blocks_of(p, AttentionEntry(p.forward, task.batch), unit_row(p, task.unit));
        const int first = max(seen.first, p.first_block), blocks = min(seen.end, p.end_block) - first;
        if (p.first_block > 0) {
            if (blocks <= 0 && !p.stores_rows) return;
            resume_sums<C, kOfKeys>(p, task, sums);
        }
        if (blocks > 0) {
            loader.seek_keys(first);
            int chunks = blocks * (C::kBlockKeys / C::kChunk / 2);
            loader.multiply(shared, sums, [&] { return --chunks > 0; });
        }
    }
    store_sums<C, kOfKeys>(p, task, sums);
}

}  // namespace attile::gpu::simt
