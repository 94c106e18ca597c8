// SPDX-License-Identifier: Apache-2.0
// How a lane group of the decode kernel gets its rows of Q, K and V into registers.
#pragma once

#include "attention/decode_rows.h"
#include "attention/output.h"
#include "attention/scaled.h"
#include "attention/simt/decode_params.h"
#include "eight_bits_word.h"

namespace attile::gpu::simt {

// What a decode instance is: kQuadLanes lanes x kQuads quads cover a row of K or V; a step is kLoads rows for each of the group's key
// columns. A lane's quads are neighbours as far as one access goes: kRun elements.
template <class T, int kQuadLanesIn, int kQuadsIn, int kRowsIn, int kLoadsIn>
struct DecodeConfig {
    using Element = T;
    static constexpr int kQuadLanes = kQuadLanesIn, kQuads = kQuadsIn, kRows = kRowsIn, kLoads = kLoadsIn;
    static constexpr bool kHasScales = sizeof(T) == 1;  // And q is of another type.
    static constexpr int kBits = kBitsOf<T>;
    static constexpr int kRun = kHasScales ? 8 : 4, kRuns = kQuads * 4 / kRun;
    static constexpr int kThreads = 256, kGroups = kThreads / kLanes;
    // Two blocks leave 128 registers a thread, which has to do without a spill.
    static constexpr bool kIsLarge =
        kHasScales ? kRowsIn == 4 : (kRowsIn * kQuadsIn >= 8 || kQuadsIn * kLoadsIn >= 8 || (kRowsIn == 4 && kQuadLanesIn == 16));
    static constexpr int kBlocksPerUnit = kIsLarge ? 1 : 2;
    static constexpr int kKeyCols = kLanes / kQuadLanes;  // Keys that one load of a lane group covers.
    static constexpr int kStep = kLoads * kKeyCols;
    static constexpr int kCols = kQuadLanes * kQuads * 4;
    static constexpr int kScores = kLoads * kRows;                                   // Of a key column and step.
    static constexpr int kHeld = kScores > kQuadLanes ? kScores / kQuadLanes : 1;    // Scores a lane holds after they are summed.
    static constexpr int kCopies = kScores > kQuadLanes ? 1 : kQuadLanes / kScores;  // Lanes that hold the same score.
    static constexpr int kStrip = kKeyCols * kScores;
    // Where a lane's run, and its quad h, begins.
    static constexpr __host__ __device__ int run_col(int quad_lane, int run) { return (run * kQuadLanes + quad_lane) * kRun; }
    static constexpr __host__ __device__ int quad_col(int quad_lane, int h) { return run_col(quad_lane, h * 4 / kRun) + h * 4 % kRun; }
    static_assert((kScores & (kScores - 1)) == 0 && kScores >= 4, "scores are summed by halves and read as vectors");
};

// A run of a lane as it is kept: numbers of 8 and 4 bits as words, since compilers give each byte of a vector a register.
template <class C>
inline constexpr int kWordsOfRun = C::kHasScales ? C::kRun *C::kBits / 32 : 1;
template <class C>
using DecodeRun = std::conditional_t<C::kHasScales, Vec<uint32_t, kWordsOfRun<C>>, Vec<typename C::Element, C::kHasScales ? 1 : 4>>;
// Of a row of K or V from column `col` on; what is at `cols` and beyond is zero, as in load_stored().
template <class C>
ATTILE_LANE_FN DecodeRun<C> load_run(const AttentionOperand &x, int64_t row_offset, int col, int cols) {
    using Element = typename C::Element;
    if constexpr (C::kHasScales) {
        DecodeRun<C> run = {};
        const uint8_t *const from = static_cast<const uint8_t *>(x.data) + row_offset * C::kBits / 8;
        if (x.vector) {
            if (col < cols) run = load_vec_const<kWordsOfRun<C>>(reinterpret_cast<const uint32_t *>(from + col * C::kBits / 8));
        } else if constexpr (C::kBits == 8) {
#pragma unroll
            for (int e = 0; e < C::kRun; ++e)
                if (col + e < cols) run[e / 4] |= static_cast<uint32_t>(load_vec_const<1>(from + (col + e) * x.stride[3])[0]) << e % 4 * 8;
        } else {  // By pairs: `cols` is even.
#pragma unroll
            for (int e = 0; e < C::kRun; e += 2)
                if (col + e < cols) run[e / 8] |= static_cast<uint32_t>(load_vec_const<1>(from + (col + e) / 2)[0]) << e % 8 * 4;
        }
        return run;
    } else {
        return load_stored<Element, false>(x, row_offset, col, cols);
    }
}

// A lane's numbers of a row of K or V, as they are computed with. Those of 8 bits come divided by word_unit().
template <class C>
using DecodeNumbers = float[C::kQuads * 4];
template <class C>
ATTILE_LANE_FN void widen(const DecodeRun<C> (&stored)[C::kRuns], DecodeNumbers<C> &to) {
    if constexpr (C::kHasScales) {
#pragma unroll
        for (int h = 0; h < C::kQuads; ++h) {
            float four[4];
            const int bit = h * 4 % C::kRun * C::kBits;
            widen_word(typename C::Element(), stored[h * 4 / C::kRun][bit / 32] >> bit % 32, four);
#pragma unroll
            for (int e = 0; e < 4; ++e) to[h * 4 + e] = four[e];
        }
    } else {
#pragma unroll
        for (int x = 0; x < C::kQuads * 4; ++x) to[x] = to_compute(stored[x / 4][x % 4]);
    }
}

// The loader: a step's keys or values in a lane's registers. kPlain: K and V in vectors, their rows' distance in 32 bits, no pages.
template <class C, bool kPlain>
struct DecodeLoader {
    using Element = typename C::Element;
    using Run = DecodeRun<C>;
    using Step = Run[C::kLoads][C::kRuns];
    // Scales that differ from key to key. Four neighbours among the lanes, whose columns share a scale, have those of four loads.
    static constexpr int kSharing = 4;
    using Scales = float[C::kHasScales ? C::kLoads / kSharing : 1];
    static constexpr int kTile = C::kStep * C::kGroups;
    const DecodeRows<C> &at;
    const int last_key;
    const int64_t head_offset_k, head_offset_v;
    const char *next_keys = nullptr, *next_values = nullptr;
    const char *next_key_scales = nullptr, *next_value_scales = nullptr;  // Where keys differ by them.
    uint32_t no_page = 0;                                                 // Keys of the step whose page does not exist.

    ATTILE_LANE_FN explicit DecodeLoader(const DecodeRows<C> &rows)
        : at(rows),
          last_key(max(at.entry.len_k - 1, 0)),
          head_offset_k(at.place.head * at.p.k.stride[1]),
          head_offset_v(at.place.head * at.p.v.stride[1]) {}
    ATTILE_LANE_FN void begin(int first_key) {
        if (!kPlain) return;
        next_keys = begin_of(at.p.k, head_offset_k, first_key);
        next_values = begin_of(at.p.v, head_offset_v, first_key);
        if constexpr (C::kHasScales) {
            next_key_scales = begin_of(at.p.k_scale, at.p.head_dim, first_key);
            next_value_scales = begin_of(at.p.v_scale, at.p.head_dim_v, first_key);
        }
    }
    // Of load t, to each lane. All lanes call it.
    ATTILE_LANE_FN static float scale_of(const Scales &scales, int t) {
        return shuffle(scales[t / kSharing], static_cast<int>((lane_index() & ~(kSharing - 1)) | (t & (kSharing - 1))));
    }
    ATTILE_LANE_FN void load_keys(Step &keys, Scales &scales, int first) {
        if constexpr (kPlain)
            load_plain(keys, next_keys, at.p.k.row_bytes, at.p.head_dim, first);
        else
            load(keys, at.p.k, head_offset_k, at.p.head_dim, first);
        if (C::kHasScales && at.p.k_scale.by_key) load_scales(scales, at.p.k_scale, next_key_scales, at.p.head_dim, first);
    }
    ATTILE_LANE_FN void load_values(Step &values, Scales &scales, int first) {
        if constexpr (kPlain)
            load_plain(values, next_values, at.p.v.row_bytes, at.p.head_dim_v, first);
        else
            load(values, at.p.v, head_offset_v, at.p.head_dim_v, first);
        if (C::kHasScales && at.p.v_scale.by_key) load_scales(scales, at.p.v_scale, next_value_scales, at.p.head_dim_v, first);
    }

  private:
    ATTILE_LANE_FN const char *begin_of(const AttentionScales &x, int cols, int first_key) const {
        const int64_t row = at.entry.first_k + first_key + at.key_col;
        return reinterpret_cast<const char *>(x.data + scales_at(x, at.entry.batch, at.place.head, row) + group_of(x, cols) * x.stride[3]);
    }
    // The group that this lane's columns share; beyond the columns the last one.
    ATTILE_LANE_FN int64_t group_of(const AttentionScales &x, int cols) const {
        return quotient(static_cast<uint32_t>(min(C::run_col(at.quad_lane, 0), max(cols - 1, 0))), x.group);
    }
    static ATTILE_LANE_FN Run load_plain_run(const char *from) {
        if constexpr (C::kHasScales)
            return load_vec_const<kWordsOfRun<C>>(reinterpret_cast<const uint32_t *>(from));
        else
            return load_vec_const<C::kRun>(reinterpret_cast<const Element *>(from));
    }
    ATTILE_LANE_FN const char *begin_of(const AttentionOperand &x, int64_t head_offset, int first_key) const {
        const int64_t from =
            at.entry.batch * x.stride[0] + head_offset + (at.entry.first_k + first_key + at.key_col) * x.stride[2] + at.quad_lane * C::kRun;
        if constexpr (C::kBits < 8) return static_cast<const char *>(x.data) + from * C::kBits / 8;
        return reinterpret_cast<const char *>(static_cast<const Element *>(x.data) + from);
    }
    // The row of load t, and what it is counted in: the entry, or the page.
    ATTILE_LANE_FN void find_row(int t, int first_key, int64_t &outer, int64_t &row) {
        const AttentionParams &p = at.p;
        const int key = min(first_key + t * C::kKeyCols + at.key_col, last_key);
        outer = at.entry.batch;
        row = at.entry.first_k + key;
        if (!kPlain && p.block_table) {
            outer = p.block_table[at.entry.batch * p.block_table_stride[0] + quotient(key, p.page_size) * p.block_table_stride[1]];
            row = remainder(key, p.page_size);
            const bool exists = outer >= 0 && outer < p.pages;
            no_page = exists ? no_page & ~(1u << t) : no_page | 1u << t;
            if (!exists) outer = 0;
        }
    }
    ATTILE_LANE_FN void load(Step &to, const AttentionOperand &x, int64_t head_offset, int cols, int first_key) {
#pragma unroll
        for (int t = 0; t < C::kLoads; ++t) {
            int64_t outer, row;
            find_row(t, first_key, outer, row);
            const int64_t from = outer * x.stride[0] + head_offset + row * x.stride[2];
#pragma unroll
            for (int r = 0; r < C::kRuns; ++r) to[t][r] = load_run<C>(x, from, C::run_col(at.quad_lane, r), cols);
        }
    }
    ATTILE_LANE_FN void load_scales(Scales &to, const AttentionScales &x, const char *&from, int cols, int first_key) {
        const int own = at.quad_lane % kSharing, last = last_key - first_key - at.key_col;
#pragma unroll
        for (int t = 0; t < C::kLoads; t += kSharing) {
            if constexpr (kPlain) {
                const char *const row = from + static_cast<int64_t>(min((t + own) * C::kKeyCols, last)) * x.row_bytes;
                to[t / kSharing] = load_vec_const<1>(reinterpret_cast<const float *>(row))[0];
            } else {
                int64_t outer, row;
                find_row(t + own, first_key, outer, row);
                to[t / kSharing] = load_vec_const<1>(x.data + scales_at(x, outer, at.place.head, row) + group_of(x, cols) * x.stride[3])[0];
            }
        }
        if constexpr (kPlain) from += static_cast<int64_t>(kTile) * x.row_bytes;
    }
    // Plain rows: `from` is this lane's first quad of the step's first key in its key column, and goes on to the next step's.
    ATTILE_LANE_FN void load_plain(Step &to, const char *&from, int row_bytes, int cols, int first_key) {
        const int last = last_key - first_key - at.key_col;
#pragma unroll
        for (int t = 0; t < C::kLoads; ++t) {
            const char *const row = from + static_cast<int64_t>(min(t * C::kKeyCols, last)) * row_bytes;
#pragma unroll
            for (int r = 0; r < C::kRuns; ++r) {
                Run run = {};
                if (C::run_col(at.quad_lane, r) < cols) run = load_plain_run(row + r * C::kQuadLanes * C::kRun * C::kBits / 8);
                to[t][r] = run;
            }
        }
        from += static_cast<int64_t>(kTile) * row_bytes;
    }
};

// Q: all of the block's rows in every key column's lanes, scaled.
template <class Query, bool kVectors, class C>
ATTILE_LANE_FN void load_queries_of(const DecodeRows<C> &at, float (&q)[C::kRows][C::kQuads * 4]) {
    const AttentionParams &p = at.p;
    Vec<Query, 4> stored[C::kRows][C::kQuads];  // All rows are sent for before the first is waited for.
#pragma unroll
    for (int r = 0; r < C::kRows; ++r) {
        const int row = min(at.first_row + r, at.rows - 1);
        const int64_t from = at.entry.batch * p.q.stride[0] + query_head(p, at.place.head, row) * p.q.stride[1] +
                             (at.entry.first_q + query_row(p, row)) * p.q.stride[2];
#pragma unroll
        for (int h = 0; h < C::kQuads; ++h)
            stored[r][h] = load_stored<Query, kVectors>(p.q, from, C::quad_col(at.quad_lane, h), p.head_dim);
    }
#pragma unroll
    for (int r = 0; r < C::kRows; ++r)
#pragma unroll
        for (int x = 0; x < C::kQuads * 4; ++x) q[r][x] = scaled_query(p, to_compute(stored[r][x / 4][x % 4]));
}

// What a lane's column is multiplied with, where that does not depend on the key.
template <class C>
ATTILE_LANE_FN float column_scale(const DecodeRows<C> &at, const AttentionScales &x, int col, int cols) {
    const float unit = word_unit(typename C::Element());
    if (x.by_key || col >= cols) return unit;
    return load_scale(x, scales_at(x, at.entry.batch, at.place.head, 0), col) * unit;
}

template <class C>
ATTILE_LANE_FN void load_decode_queries(const DecodeRows<C> &at, float (&q)[C::kRows][C::kQuads * 4]) {
    const AttentionParams &p = at.p;
    const auto load = [&](auto query) {
        if (p.q.vector)
            load_queries_of<decltype(query), true>(at, q);
        else
            load_queries_of<decltype(query), false>(at, q);
    };
    if (p.q.storage == AttentionStorage::kF32)
        load(0.0f);
    else if (p.q.storage == AttentionStorage::kF16)
        load(F16());
    else
        load(BF16());
    if constexpr (C::kHasScales) {
#pragma unroll
        for (int x = 0; x < C::kQuads * 4; ++x) {
            const float scale = column_scale(at, p.k_scale, C::quad_col(at.quad_lane, x / 4) + x % 4, p.head_dim);
#pragma unroll
            for (int r = 0; r < C::kRows; ++r) q[r][x] *= scale;
        }
    }
}

}  // namespace attile::gpu::simt
