// SPDX-License-Identifier: Apache-2.0
// What a lane group of the decode kernel is about, and how its rows of Q, K and V come into registers.
#pragma once

#include "attention/output.h"
#include "attention/simt/decode_params.h"

namespace attile::gpu::simt {

// What a decode instance is: kQuadLanes lanes x kQuads quads cover a row of K or V; a step is kLoads rows for each of the group's key
// columns.
template <class T, int kQuadLanesIn, int kQuadsIn, int kRowsIn, int kLoadsIn>
struct DecodeConfig {
    using Element = T;
    static constexpr int kQuadLanes = kQuadLanesIn, kQuads = kQuadsIn, kRows = kRowsIn, kLoads = kLoadsIn;
    static constexpr int kThreads = 256, kGroups = kThreads / kLanes;
    // Two blocks leave 128 registers a thread, which has to do without a spill.
    static constexpr bool kIsLarge = kRowsIn * kQuadsIn >= 8 || kQuadsIn * kLoadsIn >= 8 || (kRowsIn == 4 && kQuadLanesIn == 16);
    static constexpr int kBlocksPerUnit = kIsLarge ? 1 : 2;
    static constexpr int kKeyCols = kLanes / kQuadLanes;  // Keys that one load of a lane group covers.
    static constexpr int kStep = kLoads * kKeyCols;
    static constexpr int kCols = kQuadLanes * kQuads * 4;
    static constexpr int kScores = kLoads * kRows;                                   // Of a key column and step.
    static constexpr int kHeld = kScores > kQuadLanes ? kScores / kQuadLanes : 1;    // Scores a lane holds after they are summed.
    static constexpr int kCopies = kScores > kQuadLanes ? 1 : kQuadLanes / kScores;  // Lanes that hold the same score.
    static constexpr int kStrip = kKeyCols * kScores;
    static_assert((kScores & (kScores - 1)) == 0 && kScores >= 4, "scores are summed by halves and read as vectors");
};

// Four elements of a row from column `col` on, as they are stored; those at `cols` and beyond are zeros. Not converted yet, since that
// would wait for memory.
template <class Element, bool kVectors>
ATTILE_LANE_FN Vec<Element, 4> load_stored(const AttentionOperand &x, int64_t row_offset, int col, int cols) {
    const Element *const from = static_cast<const Element *>(x.data) + row_offset;
    Vec<Element, 4> quad = {};
    if (kVectors || x.vector) {
        if (col < cols) quad = load_vec_const<4>(from + col);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (col + e < cols) quad[e] = load_vec_const<1>(from + (col + e) * x.stride[3])[0];
    }
    return quad;
}

// What a lane group is about: rows of Q that share a head of K and V, and where its lanes stand among columns and keys.
template <class C>
struct DecodeRows {
    const DecodeParams &p;
    const AttentionPlace &place;
    const AttentionEntry &entry;
    const int rows, first_row, lane, group, quad_lane, key_col;

    ATTILE_LANE_FN DecodeRows(const DecodeParams &params, const AttentionPlace &of_block, const AttentionEntry &of_batch, int all_rows)
        : p(params),
          place(of_block),
          entry(of_batch),
          rows(all_rows),
          first_row(place.row_block * C::kRows),
          lane(lane_index()),
          group(lane_group_index()),
          quad_lane(lane % C::kQuadLanes),
          key_col(lane / C::kQuadLanes) {}
    ATTILE_LANE_FN KeyRange range_of(int row) const { return KeyRange(p, query_row(p, min(row, rows - 1)), entry); }
};

// The loader: a step's keys or values in a lane's registers. kPlain: K and V in vectors, their rows' distance in 32 bits, no pages.
template <class C, bool kPlain>
struct DecodeLoader {
    using Element = typename C::Element;
    using Step = Vec<Element, 4>[C::kLoads][C::kQuads];
    static constexpr int kTile = C::kStep * C::kGroups;
    const DecodeRows<C> &at;
    const int last_key;
    const int64_t head_offset_k, head_offset_v;
    const char *next_keys = nullptr, *next_values = nullptr;
    uint32_t no_page = 0;  // Keys of the step whose page does not exist.

    ATTILE_LANE_FN explicit DecodeLoader(const DecodeRows<C> &rows)
        : at(rows),
          last_key(max(at.entry.len_k - 1, 0)),
          head_offset_k(at.place.head * at.p.k.stride[1]),
          head_offset_v(at.place.head * at.p.v.stride[1]) {}
    ATTILE_LANE_FN void begin(int first_key) {
        if (!kPlain) return;
        next_keys = begin_of(at.p.k, head_offset_k, first_key);
        next_values = begin_of(at.p.v, head_offset_v, first_key);
    }
    ATTILE_LANE_FN void load_keys(Step &keys, int first) {
        if constexpr (kPlain)
            load_plain(keys, next_keys, at.p.k.row_bytes, at.p.head_dim, first);
        else
            load(keys, at.p.k, head_offset_k, at.p.head_dim, first);
    }
    ATTILE_LANE_FN void load_values(Step &values, int first) {
        if constexpr (kPlain)
            load_plain(values, next_values, at.p.v.row_bytes, at.p.head_dim_v, first);
        else
            load(values, at.p.v, head_offset_v, at.p.head_dim_v, first);
    }

  private:
    ATTILE_LANE_FN const char *begin_of(const AttentionOperand &x, int64_t head_offset, int first_key) const {
        const int64_t from =
            at.entry.batch * x.stride[0] + head_offset + (at.entry.first_k + first_key + at.key_col) * x.stride[2] + at.quad_lane * 4;
        return reinterpret_cast<const char *>(static_cast<const Element *>(x.data) + from);
    }
    ATTILE_LANE_FN void load(Step &to, const AttentionOperand &x, int64_t head_offset, int cols, int first_key) {
        const DecodeParams &p = at.p;
#pragma unroll
        for (int t = 0; t < C::kLoads; ++t) {
            const int key = min(first_key + t * C::kKeyCols + at.key_col, last_key);
            int64_t outer = at.entry.batch, row = at.entry.first_k + key;
            if (p.block_table) {
                outer = p.block_table[at.entry.batch * p.block_table_stride[0] + quotient(key, p.page_size) * p.block_table_stride[1]];
                row = remainder(key, p.page_size);
                const bool exists = outer >= 0 && outer < p.pages;
                no_page = exists ? no_page & ~(1u << t) : no_page | 1u << t;
                if (!exists) outer = 0;
            }
            const int64_t from = outer * x.stride[0] + head_offset + row * x.stride[2];
#pragma unroll
            for (int h = 0; h < C::kQuads; ++h)
                to[t][h] = load_stored<Element, false>(x, from, (h * C::kQuadLanes + at.quad_lane) * 4, cols);
        }
    }
    // Plain rows: `from` is this lane's first quad of the step's first key in its key column, and goes on to the next step's.
    ATTILE_LANE_FN void load_plain(Step &to, const char *&from, int row_bytes, int cols, int first_key) {
        const int last = last_key - first_key - at.key_col;
#pragma unroll
        for (int t = 0; t < C::kLoads; ++t) {
            const char *const row = from + static_cast<int64_t>(min(t * C::kKeyCols, last)) * row_bytes;
#pragma unroll
            for (int h = 0; h < C::kQuads; ++h) {
                Vec<Element, 4> quad = {};
                if ((h * C::kQuadLanes + at.quad_lane) * 4 < cols)
                    quad = load_vec_const<4>(reinterpret_cast<const Element *>(row) + h * C::kQuadLanes * 4);
                to[t][h] = quad;
            }
        }
        from += static_cast<int64_t>(kTile) * row_bytes;
    }
};

// Q: all of the block's rows in every key column's lanes, scaled.
template <class C>
ATTILE_LANE_FN void load_decode_queries(const DecodeRows<C> &at, float (&q)[C::kRows][C::kQuads * 4]) {
    using Element = typename C::Element;
    const DecodeParams &p = at.p;
    Vec<Element, 4> stored[C::kRows][C::kQuads];  // All rows are sent for before the first is waited for.
    const auto load_queries = [&](auto in_vectors) {
#pragma unroll
        for (int r = 0; r < C::kRows; ++r) {
            const int row = min(at.first_row + r, at.rows - 1);
            const int64_t from = at.entry.batch * p.q.stride[0] + query_head(p, at.place.head, row) * p.q.stride[1] +
                                 (at.entry.first_q + query_row(p, row)) * p.q.stride[2];
#pragma unroll
            for (int h = 0; h < C::kQuads; ++h)
                stored[r][h] =
                    load_stored<Element, decltype(in_vectors)::value>(p.q, from, (h * C::kQuadLanes + at.quad_lane) * 4, p.head_dim);
        }
    };
    if (p.q.vector)
        load_queries(std::true_type());
    else
        load_queries(std::false_type());
#pragma unroll
    for (int r = 0; r < C::kRows; ++r)
#pragma unroll
        for (int x = 0; x < C::kQuads * 4; ++x) q[r][x] = scaled_query(p, to_compute(stored[r][x / 4][x % 4]));
}

}  // namespace attile::gpu::simt
