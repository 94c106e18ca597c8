// SPDX-License-Identifier: Apache-2.0
// The loader of the backward tile kernel: panels of the operands on their way through registers to shared memory, and the loop over the
// chunks of a product that they feed.
#pragma once

#include "attention/score.h"
#include "attention_backward/params.h"
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

// Panels: a chunk is fetched into registers while the one before is multiplied. A lane's arrays are the kernel's: as members they would
// keep the rest in memory until loops are unrolled.
template <class C, bool kModified>
struct BackwardLoader {
    using Shape = BackwardShape<C>;
    using Rows = BackwardRows<kModified>;
    using Stage = Quad[Shape::kStage];
    using RowAddresses = const float * [Shape::kRowLoads];  // Of score panels.
    using KeyAddresses = const float * [Shape::kKeyLoads];
    static constexpr int kBlockKeys = Shape::kBlockKeys, kKeyPitch = Shape::kKeyPitch, kRowPitch = Shape::kRowPitch;
    enum Operand { kQuery, kDout, kKey, kValue };
    const AttentionBackwardParams &p;
    const BackwardBlock &block;
    float *const shared;
    Stage &stage;
    RowAddresses &row_at;
    KeyAddresses &key_at;
    int &panel;
    bool &vector_rows, &vector_keys;

    static ATTILE_LANE_FN int my_thread() { return static_cast<int>(fresh_thread()); }
    ATTILE_LANE_FN Rows rows_of(Operand operand, int of_unit) const {
        const AttentionParams &f = p.forward;
        if (operand == kKey) return Rows(f.k, block.key, block.len_k);
        if (operand == kValue) return Rows(f.v, block.value, block.len_k);
        const AttentionOperand &x = operand == kQuery ? f.q : p.dout;
        const int head = unit_head(p, block.head_kv, of_unit);
        return Rows(x, (operand == kQuery ? block.query : block.dout) + head * x.stride[1], block.len_q);
    }
    // ---- Score panels.
    ATTILE_LANE_FN void seek_scores(Operand rows, Operand keys, int of_unit) const {
        const int thread = my_thread(), quad = thread % Shape::kChunkQuads * 4, line = thread / Shape::kChunkQuads;
        const int first_key = block.key_block * kBlockKeys;
        const Rows from = rows_of(rows, of_unit), columns = rows_of(keys, of_unit);
#pragma unroll
        for (int i = 0; i < Shape::kRowLoads; ++i) row_at[i] = from.row(unit_row(p, of_unit) + line + i * Shape::kRowsAtOnce) + quad;
#pragma unroll
        for (int i = 0; i < Shape::kKeyLoads; ++i) key_at[i] = columns.row(first_key + line + i * Shape::kRowsAtOnce) + quad;
        vector_rows = from.vector;
        vector_keys = columns.vector;
    }
    ATTILE_LANE_FN void load_scores() const {
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
    }
    ATTILE_LANE_FN void store_scores() const {
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
    }
    // ---- Row panels; a pass takes some columns of K.
    ATTILE_LANE_FN void load_lines(const Rows &rows, int first) const {
        const int thread = my_thread();
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i)
            Rows::load(stage[i], rows.row(first + Shape::Lines::row(thread, i)) + Shape::Lines::col(thread, i), rows.vector);
    }
    ATTILE_LANE_FN void load_pass(const Rows &keys, int pass, int first) const {
        const int thread = my_thread(), first_key = block.key_block * kBlockKeys + first, first_col = pass * Shape::kPassCols;
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i)
            Rows::load(stage[i], keys.row(first_key + Shape::PassLines::row(thread, i)) + first_col + Shape::PassLines::col(thread, i),
                       keys.vector);
    }
    ATTILE_LANE_FN void store_lines() const {
        const int thread = my_thread();
#pragma unroll
        for (int i = 0; i < Shape::kLineLoads; ++i) store_vec(shared + panel + (thread + i * Shape::kThreads) * 4, stage[i]);
    }
    // A product over `end` depths in chunks of kSteps, of which the first is published. While a chunk is multiplied the next is fetched, or
    // the first of the next product; it is published before the chunk's last step, and fragments are read a step ahead where there are
    // registers for it, so that neither the barrier nor shared memory is waited for. take_a and take_b read the fragments of a step; the
    // former's chunk may begin anywhere, the latter's lies in the panel.
    template <class Micro, int kSteps, class Sums, class TakeA, class TakeB, class Fetch, class Store>
    ATTILE_LANE_FN void multiply(Sums &sums, int end, const TakeA &take_a, const TakeB &take_b, const Fetch &fetch,
                                 const Store &store) const {
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
    }
};

}  // namespace attile::gpu::simt
