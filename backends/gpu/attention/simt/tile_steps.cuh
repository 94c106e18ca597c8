// SPDX-License-Identifier: Apache-2.0
// A tile of the attention tile kernel, step by step: S = Q K^T, references, O += P V.
#pragma once

#include "attention/simt/tile_parts.cuh"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
struct TileSteps : TileTraits<C, kKind> {
    using Traits = TileTraits<C, kKind>;
    using Traits::kCaps, Traits::kFirst, Traits::kMasked, Traits::kModifiers, Traits::kNoRows, Traits::kPlain, Traits::kStartsFromReference,
        Traits::kSubtracts, Traits::kUnset;
    using Start = typename Traits::Start;
    using Shape = AttentionShape<C>;
    using Lanes = typename Shape::Lanes;
    using Keys = KeyChunk<C>;
    using Order = AttentionOrder<C, kKind>;
    using Fragments = TileFragments<C>;
    using Rows = float[C::kRows];
    using Scores = float[C::kRows][C::kKeys];
    using Output = float[C::kRows][C::kCols];
    static constexpr int kRows = C::kRows, kKeys = C::kKeys, kCols = C::kCols;
    static constexpr int kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys, kGroupRows = Lanes::kGroupRows;
    static constexpr int kPiecesA = Fragments::kPiecesA, kKeyPieces = Fragments::kKeyPieces, kValuePieces = Fragments::kValuePieces;

    const AttentionParams &p;
    const SharedPointer<float> shared;
    const Start &scores_start;
    const TileLoader<C, kKind> &loader;
    const Fragments &fragments;
    const TileReferences<C> &references;
    const int query_at, strip_at;
    int &buffer;      // The current chunk of K or V; the next goes to buffer ^ kChunk.
    int &strip;       // Of probabilities: [kLaneCols keys][kGroupRows].
    uint32_t &state;  // Bits of TileTraits.
    Scores &score;
    Output &out;
    Rows &kept_reference, &sum, &tile_sum;

    ATTILE_LANE_FN TileSteps(const AttentionParams &params, float *memory, const Start &start, const TileLoader<C, kKind> &loads,
                             const Fragments &pieces, const TileReferences<C> &minus, int &chunk, int &strips, uint32_t &bits,
                             Scores &scores, Output &output, Rows &kept, Rows &sums, Rows &tile_sums)
        : p(params),
          shared(memory),
          scores_start(start),
          loader(loads),
          fragments(pieces),
          references(minus),
          query_at(pieces.query_at),
          strip_at(fragments.lane_col * kGroupRows + fragments.lane_row * 4 + Fragments::half_swap(fragments.lane_col) * (kGroupRows / 2)),
          buffer(chunk),
          strip(strips),
          state(bits),
          score(scores),
          out(output),
          kept_reference(kept),
          sum(sums),
          tile_sum(tile_sums) {}

    ATTILE_LANE_FN void begin(const AttentionBlock &block, const TilePhases &walk) const {
        Rows minus_reference = {};
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            sum[i] = 0;
#pragma unroll
            for (int x = 0; x < kCols; ++x) out[i][x] = 0;
        }
        if constexpr (Start::kLifts) scores_start.first_references(p, block, walk.first, walk.end, minus_reference);
        references.set(minus_reference);
        state |= Start::kLate ? kUnset | kFirst : kUnset;
    }
    // The first chunk of K, which is on its way, in place.
    ATTILE_LANE_FN void begin_tile() const {
        loader.store_keys(buffer);
        block_sync_counted<C::kThreads, kPlain>();
        fragments.take_first();
    }

    // ---- None of the group's rows sees any of the tile's keys: only help to move them. The barriers match the others' one by one.
    ATTILE_LANE_FN bool sees_none(int first_key) const {
        const AttentionBlock again(p, kBlockRows, AttentionKindTag<kKind>{});
        const int group_row = again.first_row + static_cast<int>(fresh_thread() / kLanes) * kGroupRows;
        return wave_all(group_row >= again.rows || first_key >= again.range(p, group_row + kGroupRows - 1).high ||
                        first_key + kBlockKeys <= again.range(p, group_row).low);
    }
    // The first tile from `first` on of which the block mask shows some row a key. The same for all of the block.
    ATTILE_LANE_FN int shown_tile(int first) const {
        const AttentionBlock again(p, kBlockRows, AttentionKindTag<kKind>{});
        const int pack = static_cast<int>(p.pack.divisor), end = (again.entry.len_k + kBlockKeys - 1) / kBlockKeys;
        const int first_row = query_row(p, again.first_row), last_row = query_row(p, min(again.first_row + kBlockRows, again.rows) - 1);
        int tile = first;
        while (tile < end && !block_mask_shows(p, again.entry.batch, again.place.head * pack, pack, first_row, last_row, tile * kBlockKeys,
                                               min((tile + 1) * kBlockKeys, again.entry.len_k) - 1))
            ++tile;
        return same_in_block(tile);
    }
    // Another tile than the next one comes: its first chunk of K instead of that one's.
    ATTILE_LANE_FN void go_to(int first_key) const {
        buffer ^= Shape::kChunk;
        loader.fetch(first_key);
        scores_start.load(p, first_key, score);
        begin_tile();
    }
    ATTILE_LANE_FN void pass_tile(int first_key, int depth_chunks) const {
#pragma unroll 1
        for (int chunk = 1; chunk < depth_chunks; ++chunk) {
            buffer ^= Shape::kChunk;
            loader.load_keys(chunk * C::kChunkDepth);
            loader.store_keys(buffer);
            block_sync_counted<C::kThreads, kPlain>();
        }
#pragma unroll 1
        for (int key = 0; key < kBlockKeys; key += C::kChunkKeys) {
            buffer ^= Shape::kChunk;
            loader.load_values(first_key + key);
            loader.store_values(buffer);
            block_sync_counted<C::kThreads, kPlain>();
        }
        go_to(first_key + kBlockKeys);
        state &= ~kFirst;
    }

    // ---- S = Q K^T, above the rows' references.
    ATTILE_LANE_FN void multiply_keys(int first_key, int depth_chunks, bool late) const {
        Rows minus_reference = {};
        if (kStartsFromReference) references.get(minus_reference);
        scores_start.begin(p, first_key, late, minus_reference, score);
        if constexpr (is_biased(kKind)) scores_start.prefetch(p, first_key + kBlockKeys);
        int query = query_at, chunk = 0;
#pragma unroll 1
        do {  // At least once: else the compiler copies the scores for the case that there is no depth.
#pragma unroll
            for (int u = 0; u < C::kChunksAtOnce; ++u) {
                const bool last = u == C::kChunksAtOnce - 1 && chunk + C::kChunksAtOnce >= depth_chunks;  // V comes next.
                unrolled<C::kChunkDepth>([&](auto index) {
                    constexpr int k = decltype(index)::value, now = k & 1, next = now ^ 1;
                    constexpr bool chunk_ends = k + 1 == C::kChunkDepth;
                    if (k == 0) {
                        loader.keys.step();
                        loader.load_either(last, first_key, (chunk + u + 1) * C::kChunkDepth);
                    }
                    if (chunk_ends) {
                        buffer ^= Shape::kChunk;
                        loader.store_either(last, buffer);
                        block_sync_counted<C::kThreads, kPlain>();
                    }
                    // After the last step for nothing, which costs whole tiles less than to ask; of Q then what nobody writes.
                    if (!kPlain || !C::kFewRegisters || !chunk_ends || !last) {
                        const int ahead = chunk_ends && last ? query_at : query + (u * C::kChunkDepth + k + 1) * kBlockRows;
                        if (Order::kQueriesFirst) every(kPiecesA, [&](int piece) { fragments.take_query(next, piece, ahead); });
                        every(kKeyPieces, [&](int piece) { fragments.take_key(next, piece, chunk_ends ? 0 : k + 1); });
                        if (!Order::kQueriesFirst) every(kPiecesA, [&](int piece) { fragments.take_query(next, piece, ahead); });
                    }
                    using Product = OuterProduct<kRows, kKeys, Order::kScoreWalk>;
#pragma unroll
                    for (int step = 0; step < kRows * kKeys; ++step) {
                        const int i = Product::row(step), x = Product::col(step), j = Keys::swaps_registers(k) ? x ^ 2 : x;
                        score[i][j] = fused_multiply_add(fragments.a[now][i], fragments.b[now][x], score[i][j]);
                    }
                    schedule_fence(score);
                });
            }
            query += C::kChunksAtOnce * C::kChunkDepth * kBlockRows;
            chunk += C::kChunksAtOnce;
        } while (chunk < depth_chunks);
    }

    // ---- Masks, and references that are too low or not there yet.
    ATTILE_LANE_FN void add_references(const Rows &minus_reference) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) score[i][j] += minus_reference[i];
    }
    // Modifiers, and references that the product did not start from.
    ATTILE_LANE_FN void modify(int first_key, Rows &minus_reference) const {
        if (kModifiers) TileModifiers<C>(p, first_key).apply((state & kMasked) == 0, score);
        if (kSubtracts || kModifiers) references.get(minus_reference);
        if (kCaps) {
            cap_scores<C>(p, minus_reference, score);
        } else if (kSubtracts) {
            add_references(minus_reference);
        }
    }
    ATTILE_LANE_FN float largest(const Rows &minus_reference) const {
        float tops[4];  // Four chains: one would be a chain of waits.
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const float above = kModifiers ? score[i][j] + minus_reference[i] : score[i][j];
                tops[j & 3] = i == 0 && j < 4 ? above : fmaxf(tops[j & 3], above);
            }
        return fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
    }
    // The tile's scores from other references, without K in shared memory. Hardly ever needed, and then once or twice in a row's life. K's
    // rows are found by what costs the loop fewer registers.
    ATTILE_LANE_FN void score_anew(int first_key, const Rows &minus) const {
        const KeyRows<kKind> rows(p, AttentionBlock(p, kBlockRows, AttentionKindTag<kKind>{}), p.k, p.head_dim);
        scores_start.begin_anew(p, first_key, minus, score);
        const int first_col = first_key + LaneKeys<C>::first(Lanes::lane_col(thread_of<C>() % kLanes));
#pragma unroll 1
        for (int d = 0; d < p.head_dim; ++d) {
            float query[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i) query[i] = shared[query_at + Lanes::row(i) + d * kBlockRows];
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const int at = first_col + LaneKeys<C>::after(j);
                const float key = (kSubtracts && !kPlain ? loader.keys.row(at) : rows.row(at))[d];
#pragma unroll
                for (int i = 0; i < kRows; ++i) score[i][j] = fused_multiply_add(query[i], key, score[i][j]);
            }
        }
    }
    // Those of rows that have to move; their scores, sums and O follow.
    ATTILE_LANE_FN void raise_references(int first_key, bool needs, bool late, float top, Rows &minus_reference) const {
        if (kStartsFromReference) references.get(minus_reference);
        if (late) scores_start.add(p, first_key, minus_reference, score), state &= ~kFirst;
        bool is_precise = unknown(true);  // Else AMD's compilers would enter the loop behind its head, and hold 64 numbers twice for it.
        bool is_raw = kModifiers;         // Not counted from references: a bias of -1e9 in an earlier tile would round modified scores.
        if (kSubtracts) {
            float below = 0;  // How far below 0 the lowest reference is.
#pragma unroll
            for (const float minus : minus_reference) below = fmaxf(below, minus);
            is_raw = wave_any(lane_any(top > kAnewAbove && below > kAnewBelow));  // The lanes of a row have to be of one mind.
            if (is_raw) score_anew(first_key, {});
            if (kCaps && is_raw) cap_scores<C>(p, {}, score);
        }
#pragma unroll 1
        do {
            schedule_fence(minus_reference);  // Else AMD's compilers would hold the numbers twice, once for either case of the next line.
            if (kStartsFromReference && !is_precise) score_anew(first_key, minus_reference);
            if constexpr (Start::kFar != 0) scores_start.mend_far(p, first_key, minus_reference, score);
            if (!kPlain && !kModifiers && wave_any((state & kMasked) != 0)) mask_scores<C>(p, first_key, score);
            is_precise = true;
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                float row_top = score[i][0];
#pragma unroll
                for (int j = 1; j < kKeys; ++j) row_top = fmaxf(row_top, score[i][j]);
                row_top = Lanes::fold_row(row_top, [](float x, float y) { return fmaxf(x, y); });
                // Rows that stay as they are jump on, or go along: on AMD, where a jump that not all of a wave takes costs registers,
                // and in the plain kind, whose rows are then worked on together, not one waiting for the other.
                constexpr bool kGoesAlong = kSparesRegisters || kPlain;
                const bool stays = kGoesAlong && (row_top == -INFINITY || !needs);
                if (!kGoesAlong && row_top == -INFINITY) continue;
                const bool first = (state >> i & 1) != 0;
                const float before = minus_reference[i];
                const float least = is_raw ? -before : 0.0f;  // The reference now, counted as scores are.
                if constexpr (Start::kLifts) {
                    if (first) row_top += scores_start.lift(i, first_key, first_key + kBlockKeys - 1) - before;
                }
                // A modified row by itself alone, whatever others of the group do, so that it comes out the same in any company.
                const bool moves = first || !kModifiers || row_top - least > kRescaleAbove;
                const float higher = stays || !moves ? least : first ? Start::first_reference(row_top) : fmaxf(row_top, least);
                const float factor = first ? 1.0f : exp2_fast(least - higher);
                state &= stays ? ~0u : ~(1u << i);
                minus_reference[i] = is_raw ? -higher : before - higher;
                if (kStartsFromReference && !first && higher > kAnewAbove && before > fabsf(minus_reference[i])) is_precise = false;
                sum[i] *= factor;
#pragma unroll
                for (int j = 0; j < kKeys; ++j) score[i][j] -= higher;
#pragma unroll
                for (int x = 0; x < kCols; ++x) out[i][x] *= factor;
                schedule_fence(out[i]);
            }
        } while (kStartsFromReference && wave_any(lane_any(!is_precise)));
        references.set(minus_reference);
        if constexpr (Start::kFar != 0) state = Start::are_far(minus_reference) ? state | Start::kFar : state & ~Start::kFar;
    }

    // ---- O += P V, strip by strip: the exponentials of the next strip lie between the products of this one.
    ATTILE_LANE_FN void store_strip(int j, int to) const {
#pragma unroll
        for (int i = 0; i < kRows; i += 4)
            store_vec(shared + (to + (strip_at ^ (i / 4) * (kGroupRows / 2))),
                      Quad{{score[i][j], score[i + 1][j], score[i + 2][j], score[i + 3][j]}});
    }
    ATTILE_LANE_FN void exponentiate(int j, int row, int count, bool is_first = false) const {
#pragma unroll
        for (int i = row; i < row + count; ++i) {
            score[i][j] = exp2_fast(score[i][j]);
            schedule_fence(score[i][j]);
            // A tile is summed by itself before it joins the row, which is what keeps long rows accurate.
            if (!C::kTileSums)
                sum[i] += score[i][j];
            else
                tile_sum[i] = is_first ? score[i][j] : tile_sum[i] + score[i][j];
        }
    }
    ATTILE_LANE_FN void multiply_values(int first_key, int tile, int phase_end) const {
        if constexpr (Shape::kStripsInChunk)
            strip = (buffer ^ Shape::kChunk) + ValueChunk<C>::kFloats + static_cast<int>(thread_of<C>() / kLanes) * 2 * Shape::kStrip;
        const int lane_row = fragments.lane_row;
        // Not earlier: masks and references want the registers.
        every(kValuePieces, [&](int piece) { fragments.take_value(0, piece, 0); });
        exponentiate(0, 0, kRows, true);
        store_strip(0, strip);
        lane_sync();
        every(kPiecesA, [&](int piece) { fragments.take_probability(0, piece, strip + lane_row * 4, 0); });
        constexpr int kBodies = kKeys / C::kStripsAtOnce;
        constexpr int kExpAtOnce = C::kLaneCols >= 16 ? 1 : 16 / C::kLaneCols;
        constexpr int kExpSteps = kRows / kExpAtOnce;
        static_assert(kExpSteps + 1 < C::kLaneCols, "a strip is long enough for the work on the next");
#pragma unroll 1
        for (int body = 0; body < kBodies; ++body) {
#pragma unroll
            for (int u = 0; u < C::kStripsAtOnce; ++u) {
                const bool last_strip = u == C::kStripsAtOnce - 1;
                unrolled<C::kLaneCols>([&](auto index) {
                    constexpr int k = decltype(index)::value, now = k & 1, next = now ^ 1;
                    const int key = u * C::kLaneCols + k;  // Within the body.
                    const int next_chunk = (key / C::kChunkKeys + 1) * C::kChunkKeys;
                    const bool chunk_ends = key + 1 == next_chunk;
                    const bool last = next_chunk == Shape::kBodyKeys && body + 1 == kBodies;  // K of the next tile comes next.
                    if (key % C::kChunkKeys == 0) {
                        loader.values.step();
                        if (last && kMovesOn<kKind>) loader.keys.next_tile(tile + 1 < phase_end, p.depth);
                        if (last && !kMovesOn<kKind>)
                            loader.keys.seek(kPlain ? min(first_key + kBlockKeys, (phase_end - 1) * kBlockKeys) : first_key + kBlockKeys);
                        loader.load_either(!last, first_key + body * Shape::kBodyKeys + next_chunk, 0);
                    }

                    if (!last_strip) {
                        if (k < kExpSteps) exponentiate(u + 1, k * kExpAtOnce, kExpAtOnce);
                        if (k == kExpSteps) store_strip(u + 1, strip ^ Shape::kStrip);
                    } else if (kBodies > 1 && k == 0 && body + 1 < kBodies) {
#pragma unroll
                        for (int i = 0; i < kRows; ++i)
#pragma unroll
                            for (int j = 0; j + C::kStripsAtOnce < kKeys; ++j) score[i][j] = score[i][j + C::kStripsAtOnce];
                        exponentiate(0, 0, kRows);
                        store_strip(0, strip ^ Shape::kStrip);
                    }

                    // The scores' registers are free.
                    if (Start::kLoads && last_strip && k == 0 && body + 1 == kBodies) scores_start.load(p, first_key + kBlockKeys, score);

                    if (chunk_ends) {
                        buffer ^= Shape::kChunk;
                        loader.store_either(!last, buffer);
                        block_sync_counted<C::kThreads, kPlain>();
                    } else if (k + 1 == C::kLaneCols) {
                        lane_sync();
                    }
                    // At the end of the tile the first fragments of the next, from where those of V would lie and as far apart.
                    constexpr bool kSamePlace = kCols / 4 >= kKeyPieces;
                    const bool tile_ends = chunk_ends && last;
                    const int from = tile_ends ? query_at : (k + 1 < C::kLaneCols ? strip : strip ^ Shape::kStrip) + lane_row * 4;
                    const auto take_rows = [&](int piece) { fragments.take_probability(next, piece, from, (k + 1) % C::kLaneCols); };
                    if (Order::kProbabilitiesFirst) every(kPiecesA, take_rows);
                    if (kSamePlace || !tile_ends)
                        every(kValuePieces, [&](int piece) { fragments.take_value(next, piece, (key + 1) % C::kChunkKeys); });
                    else
                        every(kKeyPieces, [&](int piece) { fragments.take_key(next, piece, 0); });
                    if (!Order::kProbabilitiesFirst) every(kPiecesA, take_rows);
                    using Product = OuterProduct<kRows, kCols, Order::kOutWalk>;
#pragma unroll
                    for (int step = 0; step < kRows * kCols; ++step) {
                        const int i = Product::row(step), x = Product::col(step);
                        out[i][x] = fused_multiply_add(fragments.a[now][i], fragments.b[now][x], out[i][x]);
                    }
                    schedule_fence(out);
                });
                strip ^= Shape::kStrip;
            }
        }
#pragma unroll
        for (int i = 0; C::kTileSums && i < kRows; ++i) sum[i] += tile_sum[i];
    }
};

}  // namespace attile::gpu::simt
