// SPDX-License-Identifier: Apache-2.0
// Both ends of an attention block: Q into shared memory, O and the log-sum-exp out to global memory.
#pragma once

#include "attention/block.h"
#include "attention/numbers.h"
#include "attention/score.h"
#include "attention/stream.h"

namespace attile::gpu {

// Q of a block, scaled to units of log2 and stored depth-major. Neighbouring threads take neighbouring rows, so stores are free of
// conflicts; or some of them a row's quads side by side, which makes a load fewer lines. All of a thread's loads are on their way before
// the first is waited for.
template <class C>
ATTILE_LANE_FN void load_queries(const AttentionParams &p, const AttentionBlock &block, float *queries) {
    constexpr int kBlockRows = C::kThreads / kLanes * AttentionLanes<C::kLaneCols, C::kRows>::kGroupRows;
    // Threads side by side take kRowsAtOnce rows, kQuadsAtOnce quads of each.
    constexpr int kRowsAtOnce = (C::kThreads < kBlockRows ? C::kThreads : kBlockRows) / C::kQuadsBeside,
                  kQuadsAtOnce = C::kThreads / kRowsAtOnce;
    constexpr int kRows = kBlockRows / kRowsAtOnce, kQuads = C::kDepth / 4 / kQuadsAtOnce;  // Of a thread.
    const int64_t entry_offset = block.entry.batch * p.q.stride[0] + block.entry.first_q * p.q.stride[2];
    const int thread = static_cast<int>(threadIdx.x), pair = thread / C::kQuadsBeside, own_row = pair % kRowsAtOnce;
    const int first_col = (thread % C::kQuadsBeside + pair / kRowsAtOnce * C::kQuadsBeside) * 4;
    float *const to = queries + first_col * kBlockRows + own_row;
    int64_t at[kRows];
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
        const int packed_row = min(block.first_row + own_row + r * kRowsAtOnce, block.rows - 1);
        at[r] = entry_offset + query_head(p, block.place.head, packed_row) * p.q.stride[1] + query_row(p, packed_row) * p.q.stride[2];
    }
    const auto store = [&](int r, int col, const Quad &quad) {
#pragma unroll
        for (int e = 0; e < 4; ++e) to[(col + e) * kBlockRows + r * kRowsAtOnce] = scaled_query(p, quad[e]);
    };
    if (p.q.vector && p.q.storage == AttentionStorage::kF32) {
        Quad quads[kRows][kQuads];
        const auto load = [&](auto is_whole) ATTILE_ALWAYS_INLINE {
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const float *const from = static_cast<const float *>(p.q.data) + at[r];
                // Columns that are not there repeat the last: loads under conditions would wait for one another.
#pragma unroll
                for (int i = 0; i < kQuads; ++i)
                    quads[r][i] = load_vec_const<4>(is_whole() ? from + first_col + i * kQuadsAtOnce * 4
                                                               : from + min(first_col + i * kQuadsAtOnce * 4, p.head_dim - 4));
            }
        };
        if (p.head_dim == C::kDepth) {
            load(std::true_type{});
        } else {
            load(std::false_type{});
#pragma unroll
            for (int r = 0; r < kRows; ++r)
#pragma unroll
                for (int i = 0; i < kQuads; ++i)
                    if (first_col + i * kQuadsAtOnce * 4 >= p.head_dim) quads[r][i] = Quad{};
        }
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll
            for (int i = 0; i < kQuads; ++i) store(r, i * kQuadsAtOnce * 4, quads[r][i]);
    } else {
#pragma unroll
        for (int r = 0; r < kRows; ++r)
#pragma unroll 1
            for (int col = first_col; col < p.depth; col += kQuadsAtOnce * 4)
                store(r, col - first_col, load_quad_any(p.q, at[r], col, p.head_dim));
    }
}

// 2^x for x <= 0, results that are denormal too.
ATTILE_LANE_FN float exp2_down(float x) {
    const float root = exp2_fast(x * 0.5f);
    return root * root;
}

// What makes a row's result of its sums: the factor of O, and the log-sum-exp.
struct RowResult {
    float factor, lse;
    // `reference` in units of log2; a row that saw no key and has no sink gives 0 and -inf. kFar: it may be far from 0 (numeric.h), as a
    // sink that counts beside it, too.
    template <bool kFar>
    ATTILE_LANE_FN RowResult(std::bool_constant<kFar>, bool saw_key, float reference, float total, bool has_sink, float sink,
                             float unit = 1)
        : factor(0), lse(-INFINITY) {
        const auto log_sum = [&] {
            const float sum = add_log2_of(reference, total);
            return kFar ? from_score(sum, unit) : sum * static_cast<float>(kLn2);
        };
        if (has_sink && sink != -INFINITY) {
            if (saw_key) {
                const float rival = kFar ? to_score(sink, unit) : to_log2(sink);
                const float higher = max_nan(reference, rival), scale = exp2_down(reference - higher);
                total = total * scale + exp2_fast(rival - higher);
                factor = scale / total;
                reference = higher;
                lse = log_sum();
            } else {
                lse = sink;
            }
        } else if (saw_key) {
            factor = 1.0f / total;
            lse = log_sum();
        }
    }
    // Of `total`, relative to a log-sum-exp `top`, as parts of a row have.
    static ATTILE_LANE_FN RowResult of_parts(float top, float total, bool has_sink, float sink) {
        const bool saw_key = top != -INFINITY, counts = has_sink && sink != -INFINITY;
        if (counts && saw_key) {
            const float higher = max_nan(top, sink), scale = exp_difference(top, higher);
            total = total * scale + exp_difference(sink, higher);
            return RowResult(scale / total, higher + logf(total));
        }
        if (counts) return RowResult(0, sink);
        return saw_key ? RowResult(1.0f / total, top + logf(total)) : RowResult(0, -INFINITY);
    }

  private:
    ATTILE_LANE_FN RowResult(float factor_of_row, float lse_of_row) : factor(factor_of_row), lse(lse_of_row) {}
};

// What the kernel that puts splits together reads of a row besides its O. kFar: see RowResult.
template <bool kFar>
ATTILE_LANE_FN void store_part(const AttentionParams &p, int64_t at, const RowResult &result, float reference, float total,
                               float unit = 1) {
    float lse = result.lse;
    if (kFar && p.part_sum) {
        p.part_sum[at] = total;
        if (lse != -INFINITY) lse = from_score(reference, unit);
    }
    p.part_lse[at] = lse;
}

// One row of attention by a lane group, key by key: the product of a hidden key's zero probability and its value is never formed. For the
// few rows that came out NaN or infinite, since that may have been such a product's doing. A lane owns a key of 32, then every 32nd column.
// The row goes to `out`; the caller gets the reference and the sum in units of log2, and whether the row saw a key.
template <AttentionKind kKind>
ATTILE_LANE_FN bool attend_carefully(const AttentionParams &p, const AttentionBlock &block, int packed_row, int end_key, int first_key,
                                     float *out, float &reference, float &sum) {
    constexpr int kColumns = 8;
    const int lane = lane_index(), head = query_head(p, block.place.head, packed_row), row = query_row(p, packed_row);
    const int64_t q_at = block.entry.batch * p.q.stride[0] + head * p.q.stride[1] + (block.entry.first_q + row) * p.q.stride[2];
    const KeyRows<AttentionKind::kModified> keys(p, block, p.k, p.head_dim), values(p, block, p.v, p.head_dim_v);
    const KeyRange range = block.range(p, packed_row);
    float o[kColumns] = {};
    bool saw_key = false;
    reference = sum = 0;
#pragma unroll 1
    for (int base = max(range.low, first_key); base < min(range.high, end_key); base += kLanes) {
        const int key = base + lane;
        bool sees = key < range.high && key < end_key;
        float score = 0;
#pragma unroll 1
        for (int d = 0; d < p.head_dim; ++d)
            score = fused_multiply_add(scaled_query(p, load_number(p.q, q_at + d * p.q.stride[3])), keys.row(key)[d], score);
        if (modifies_scores(kKind) && sees) {
            const ScoreModifiers modifiers(p, block.entry, head, row);
            sees = modifiers.shows(key) && (!has_sparse_mask(p) || sparse_mask_shows(p, block.entry, head, row, key));
            score = modifiers.apply(score, key);
        }
        sees = sees && score != -INFINITY;  // Such a score takes no part.
        const uint32_t seen = lane_ballot(sees);
        if (seen == 0) continue;
        const float top = lane_fold(sees ? score : -INFINITY, [](float x, float y) { return max_nan(x, y); });
        if (top == -INFINITY) continue;
        const float higher = saw_key ? max_nan(reference, top) : top, factor = saw_key ? exp2_fast(reference - higher) : 0.0f;
        const float probability = sees ? exp2_fast(score - higher) : 0.0f;
        sum = sum * factor + lane_fold(probability, [](float x, float y) { return x + y; });
        reference = higher;
#pragma unroll
        for (int x = 0; x < kColumns; ++x) o[x] = saw_key ? o[x] * factor : 0.0f;
        saw_key = true;
#pragma unroll 1
        for (int j = 0; j < kLanes; ++j) {
            const float weight = shuffle(probability, j);
            if ((seen >> j & 1) == 0) continue;
            const float *const from = values.row(base + j);
#pragma unroll
            for (int x = 0; x < kColumns; ++x)
                if (lane + x * kLanes < p.head_dim_v) o[x] = fused_multiply_add(weight, from[lane + x * kLanes], o[x]);
        }
    }
#pragma unroll
    for (int x = 0; x < kColumns; ++x)
        if (lane + x * kLanes < p.head_dim_v) out[lane + x * kLanes] = o[x];
    return saw_key;
}

// Whole quads of float, each row for itself: nothing that would need the rows dealt out anew.
template <AttentionKind kKind>
ATTILE_LANE_FN bool can_store_directly(const AttentionParams &p, bool partial) {
    if (p.head_dim_v % 4 != 0 || (kKind != AttentionKind::kPlain && p.pack.divisor != 1)) return false;
    return partial || (p.sinks.data == nullptr && p.o.vector != 0 && p.o.storage == AttentionStorage::kF32);
}

// Writes the rows from the registers where they are: neighbouring lane columns write 64 bytes and more side by side.
template <class C, AttentionKind kKind>
ATTILE_LANE_FN void store_rows_directly(const AttentionParams &p, int my_row, int lane_col, uint32_t unset,
                                        const float (&minus_reference)[C::kRows], const float (&total)[C::kRows],
                                        const float (&out)[C::kRows][C::kCols]) {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    using Columns = LaneColumns<C>;
    const AttentionBlock block(p, C::kThreads / kLanes * Lanes::kGroupRows, AttentionKindTag<kKind>{});
    const int first_row = block.first_row + static_cast<int>(fresh_thread() / kLanes) * Lanes::kGroupRows + my_row;
    const bool partial = block.place.is_part;
    const int64_t head = static_cast<int64_t>(block.entry.batch) * p.heads.divisor + block.place.head;
    const int64_t part_row = block.place.split * p.part_rows + head * p.len_q + first_row, row = block.entry.first_q + first_row;
    const int64_t step = partial ? p.head_dim_v : p.o.stride[2];
    float *to = partial ? p.part_o + part_row * step
                        : static_cast<float *>(const_cast<void *>(p.o.data)) + block.entry.batch * p.o.stride[0] +
                              block.place.head * p.o.stride[1] + row * step;
    // Straight on where all rows and columns are there: a block's two ends count where sequences are short.
    const auto store = [&](auto is_whole) ATTILE_ALWAYS_INLINE {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) {
            if (i > 0) to += (Lanes::row(i) - Lanes::row(i - 1)) * step;
            if (!is_whole() && first_row + Lanes::row(i) >= block.rows) continue;
            const float factor = (unset >> i & 1) == 0 ? reciprocal_fast(total[i]) : 0.0f;
#pragma unroll
            for (int piece = 0; piece < Columns::kPieces; ++piece) {
                const int x = Columns::begin(piece), count = Columns::begin(piece + 1) - x, col = Columns::column(lane_col, x);
                if (!is_whole() && col + count > p.head_dim_v) continue;  // Whole pieces: columns come in quads.
                if (count == 4) {
                    Quad quad;
#pragma unroll
                    for (int e = 0; e < 4; ++e) quad[e] = x + e < C::kCols ? out[i][x + e] * factor : 0.0f;
                    store_vec(to + col, quad);
                } else if (count == 2) {
                    Vec<float, 2> pair;
#pragma unroll
                    for (int e = 0; e < 2; ++e) pair[e] = x + e < C::kCols ? out[i][x + e] * factor : 0.0f;
                    store_vec(to + col, pair);
                } else {
                    to[col] = out[i][x] * factor;
                }
            }
        }
    };
    if (block.first_row + C::kThreads / kLanes * Lanes::kGroupRows <= block.rows && p.head_dim_v == C::kCols * C::kLaneCols)
        store(std::true_type{});
    else
        store(std::false_type{});
    if (lane_col != 0 || (!partial && p.lse.data == nullptr)) return;
    const int64_t lse = block.entry.batch * p.lse.stride[0] + block.place.head * p.lse.stride[1] + row * p.lse.stride[2];
#pragma unroll
    for (int i = 0; i < C::kRows; ++i) {
        if (first_row + Lanes::row(i) >= block.rows) continue;
        const RowResult result(std::bool_constant<has_bias(kKind)>(), (unset >> i & 1) == 0, -minus_reference[i], total[i], false, 0);
        if (partial)
            store_part<has_bias(kKind)>(p, part_row + Lanes::row(i), result, -minus_reference[i], total[i]);
        else
            store_number(p.lse, lse + Lanes::row(i) * p.lse.stride[2], result.lse);
    }
}

// Where a row's part of a split lies, counted in rows.
ATTILE_LANE_FN int64_t part_row_of(const AttentionParams &p, const AttentionBlock &block, int head, int index) {
    const int64_t of_entry = static_cast<int64_t>(block.entry.batch) * p.heads.divisor * p.pack.divisor + head;
    return block.place.split * p.part_rows + of_entry * p.len_q + index;
}

// What becomes of the rows of a lane group in shared memory: `results` holds minus a row's reference, or infinity if it saw no key, and its
// sum; then whether it saw a key, and the factor of O. lse goes to memory.
template <AttentionKind kKind, int kGroupRows>
ATTILE_LANE_FN void finish_rows(const AttentionParams &p, const AttentionBlock &block, int first_row, int lane, float *results) {
    const bool partial = block.place.is_part;
#pragma unroll 1
    for (int row = lane; row < kGroupRows; row += kLanes) {
        const int packed_row = first_row + row;
        if (packed_row >= block.rows) break;
        const int head = query_head(p, block.place.head, packed_row), index = query_row(p, packed_row);
        const bool has_sink = !partial && p.sinks.data != nullptr;
        const bool saw_key = results[row] != INFINITY;  // True also of NaN.
        const float reference = -results[row], total_of_row = results[kGroupRows + row];
        const RowResult result(std::bool_constant<has_bias(kKind)>(), saw_key, reference, total_of_row, has_sink,
                               has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
        // Zero means that the row is zero whatever was summed: NaN must not get through there, and must everywhere else.
        results[row] = saw_key ? 1.0f : 0.0f;
        results[kGroupRows + row] = result.factor;
        if (partial)
            store_part<has_bias(kKind)>(p, part_row_of(p, block, head, index), result, reference, total_of_row);
        else if (p.lse.data)
            store_number(p.lse,
                         block.entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (block.entry.first_q + index) * p.lse.stride[2],
                         result.lse);
    }
}

// O of a lane group's rows from shared memory to where it belongs, neighbouring lanes along a row.
template <class C, int kGroupRows, int kRow>
ATTILE_LANE_FN void copy_rows_out(const AttentionParams &p, const AttentionBlock &block, int first_row, int lane, const float *outs,
                                  const float *results) {
    constexpr int kCols = C::kCols * C::kLaneCols;
    const bool partial = block.place.is_part;
    const int rows = min(kGroupRows, block.rows - first_row);
    const auto row_at = [&](int row) -> int64_t {
        const int head = query_head(p, block.place.head, first_row + row), index = query_row(p, first_row + row);
        if (partial) return part_row_of(p, block, head, index) * p.head_dim_v;
        return block.entry.batch * p.o.stride[0] + head * p.o.stride[1] + (block.entry.first_q + index) * p.o.stride[2];
    };
    if (partial ? p.head_dim_v % 4 == 0 : p.o.vector && p.o.storage == AttentionStorage::kF32) {
        constexpr int kRowQuads = ValueChunk<C>::kRowQuads < kLanes ? ValueChunk<C>::kRowQuads : kLanes;  // Lanes of a row.
        constexpr int kRowsAtOnce = kLanes / kRowQuads;
        float *const to = partial ? p.part_o : static_cast<float *>(const_cast<void *>(p.o.data));
        const int col = lane % kRowQuads * 4;
        int64_t at = row_at(lane / kRowQuads) + col;
        const int64_t step = kRowsAtOnce * (partial ? p.head_dim_v : p.o.stride[2]);
#pragma unroll 4
        for (int row = lane / kRowQuads; row < rows; row += kRowsAtOnce) {
            const float seen = results[row], factor = results[kGroupRows + row];
            if (p.pack.divisor != 1) at = row_at(row) + col;
#pragma unroll
            for (int x = 0; x < kCols; x += kRowQuads * 4) {
                if (col + x >= p.head_dim_v) continue;
                Quad quad = load_vec<4>(outs + row * kRow + col + x);
#pragma unroll
                for (int e = 0; e < 4; ++e) quad[e] = seen != 0 ? quad[e] * factor : 0.0f;
                store_vec(to + at + x, quad);
            }
            at += step;
        }
    } else {
#pragma unroll 1
        for (int row = 0; row < rows; ++row) {
            const int64_t at = row_at(row);
#pragma unroll 1
            for (int col = lane; col < p.head_dim_v; col += kLanes) {
                const float x = results[row] != 0 ? outs[row * kRow + col] * results[kGroupRows + row] : 0.0f;
                if (partial)
                    p.part_o[at + col] = x;
                else
                    store_number(p.o, at + col * p.o.stride[3], x);
            }
        }
    }
}

// Writes the rows of each lane group, if they cannot be written directly, by way of its share of the shared memory of Q, which nobody needs
// any more: so the lanes can be dealt out anew, neighbours along a row. kMends: rows that came out NaN or infinite are made again, where
// K and V are float.
template <class C, AttentionKind kKind, bool kMends = true>
ATTILE_LANE_FN void store_rows(const AttentionParams &p, uint32_t unset, const float (&minus_reference)[C::kRows],
                               const float (&total)[C::kRows], const float (&out)[C::kRows][C::kCols], float *shared) {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    constexpr int kGroups = C::kThreads / kLanes, kGroupRows = Lanes::kGroupRows, kCols = C::kCols * C::kLaneCols;
    constexpr int kRow = kCols + 4;  // Rows four banks apart.
    float *const outs = shared + lane_group_index() * kGroupRows * kRow;
    float *const results =
        shared + kGroups * kGroupRows * kRow + lane_group_index() * 2 * kGroupRows;  // A factor and whether there is a row.
    const int lane = static_cast<int>(fresh_thread() % kLanes), lane_col = Lanes::lane_col(lane), my_row = Lanes::lane_row(lane) * 4;
    uint32_t suspects = 0;
#pragma unroll
    for (int i = 0; kMends && i < C::kRows; ++i) {
        float check = 0;  // NaN if the row holds a NaN or an infinity.
#pragma unroll
        for (int x = 0; x < C::kCols; ++x) check = fused_multiply_add(out[i][x], 0.0f, check);
        suspects |= check == 0 ? 0u : 1u << i;
    }
    const bool has_suspects = kMends && lane_any(suspects != 0);
    if (!has_suspects && can_store_directly<kKind>(p, fresh(blockIdx.x) >= p.whole_blocks)) {
        store_rows_directly<C, kKind>(p, my_row, lane_col, unset, minus_reference, total, out);
        return;
    }
    // Times one: a vector store of the sums themselves would force them into aligned quadruples of registers, all through the kernel.
    const float one = kKind == AttentionKind::kPlain ? 1.0f : fresh(1.0f);
#pragma unroll
    for (int i = 0; i < C::kRows; ++i) {
        const int row = my_row + Lanes::row(i);
#pragma unroll
        for (int piece = 0; piece < LaneColumns<C>::kPieces; ++piece) {
            const int x = LaneColumns<C>::begin(piece), count = LaneColumns<C>::begin(piece + 1) - x;
            float *const to = outs + row * kRow + LaneColumns<C>::column(lane_col, x);
            if (count == 4) {
                store_vec(to, Quad{{out[i][x] * one, out[i][x + 1] * one, out[i][x + 2] * one, out[i][x + 3] * one}});
            } else {
                for (int e = 0; e < count; ++e) to[e] = out[i][x + e];
            }
        }
        if (lane_col == 0) {
            results[row] = (unset >> i & 1) != 0 ? INFINITY : minus_reference[i];
            results[kGroupRows + row] = total[i];
        }
    }
    lane_sync();
    // Not before O has left its registers, of which there are too few for both.
    const AttentionBlock block(p, kGroups * kGroupRows, AttentionKindTag<kKind>{});
    const int first_row = block.first_row + static_cast<int>(fresh_thread() / kLanes) * kGroupRows;
    if (kMends && has_suspects) {
        constexpr int kBlockKeys = C::kKeys * C::kLaneCols;
        const TilePhases phases(p, block, kGroups * kGroupRows, kBlockKeys);
#pragma unroll 1
        for (int row = 0; row < kGroupRows; ++row) {
            // Row i of the lanes of the lane row that begins at `owner`.
            const int quad = row / 4, i = row % 4 + quad / Lanes::kLaneRows * 4, owner = quad % Lanes::kLaneRows * 4;
            if (!lane_any((suspects >> i & 1) != 0 && my_row == owner) || first_row + row >= block.rows) continue;
            float reference = 0, sum = 0;
            const bool saw_key = attend_carefully<kKind>(p, block, first_row + row, phases.end * kBlockKeys, phases.first * kBlockKeys,
                                                         outs + row * kRow, reference, sum);
            if (lane == 0) {
                results[row] = saw_key ? -reference : INFINITY;
                results[kGroupRows + row] = sum;
            }
        }
        lane_sync();
    }
    finish_rows<kKind, kGroupRows>(p, block, first_row, lane, results);
    lane_sync();
    copy_rows_out<C, kGroupRows, kRow>(p, block, first_row, lane, outs, results);
}

}  // namespace attile::gpu
