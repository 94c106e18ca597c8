// SPDX-License-Identifier: Apache-2.0
// O = softmax(Q K^T) V for rows of one head. Tiles, budget, bound: attention/simt/configs.h. Record: docs/kernels/attention-simt.md.
#pragma once

#include <type_traits>

#include "attention/block.h"
#include "attention/output.h"
#include "attention/score.h"
#include "attention/simt/kernels.h"
#include "attention/simt/shape.h"
#include "attention/simt/start.h"
#include "attention/stream.h"

namespace attile::gpu::simt {

template <class C, AttentionKind kKind>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, blocks_per_unit<C>(kKind)) attention_tile_kernel(const AttentionParams p) {
    constexpr bool kPlain = kKind == AttentionKind::kPlain, kModifiers = kKind == AttentionKind::kModified;
    using Shape = AttentionShape<C>;
    using Lanes = typename Shape::Lanes;
    using Keys = KeyChunk<C>;
    using Values = ValueChunk<C>;
    using Columns = LaneColumns<C>;
    using Order = AttentionOrder<C, kKind>;
    constexpr int kRows = C::kRows, kKeys = C::kKeys, kCols = C::kCols;
    // Does the product start from the rows' references, or are they subtracted from what it gives?
    constexpr bool kCaps = kKind == AttentionKind::kSoftcapped;
    constexpr bool kSubtracts = !kModifiers && (C::kFewRegisters || kCaps), kStartsFromReference = !kModifiers && !kSubtracts;
    using Start = ScoreStart<C, kKind>;
    static_assert((!Start::kLoads && !Start::kLifts) || kStartsFromReference, "a start of more than references");
    constexpr int kBlockRows = Shape::kBlockRows, kBlockKeys = Shape::kBlockKeys, kGroupRows = Lanes::kGroupRows;
    alignas(16) __shared__ float shared[Shape::kSharedFloats];

    const AttentionBlock block(p, kBlockRows, AttentionKindTag<kKind>{});
    if (block.first_row >= block.rows) return;
    // ---- Where things lie in shared memory, in floats.
    const int lane_row = Lanes::lane_row(lane_index()), lane_col = Lanes::lane_col(lane_index());
    const int query_at = lane_group_index() * kGroupRows + lane_row * 4;  // [depth][kBlockRows]
    int buffer = Shape::kQueries;                                         // The current chunk of K or V; the next goes to buffer ^ kChunk.
    int strip = Shape::kQueries + 2 * Shape::kChunk + lane_group_index() * 2 * Shape::kStrip;  // [kLaneCols keys][kGroupRows]

    // ---- K and V. The next chunk is on its way while the current one is worked on.
    KeyStream<C, kKind> keys(KeyRows<kKind>(p, block, p.k, p.head_dim));
    ValueStream<C, kKind> values(KeyRows<kKind>(p, block, p.v, p.head_dim_v), block.place.first_tile(p) * kBlockKeys);
    Quad stage[Shape::kParts];
    // Yes-or-no state in one register. The low bits are rows that have not seen a key yet: their reference means nothing.
    constexpr uint32_t kUnset = (1u << kRows) - 1, kMasked = 1u << 8, kNoRows = 1u << 9, kFirst = 1u << 10;
    uint32_t state = block.first_row + lane_group_index() * kGroupRows < block.rows ? 0 : kNoRows;
    const auto every = [](int pieces, const auto &take) {
#pragma unroll
        for (int piece = 0; piece < pieces; ++piece) take(piece);
    };
    const auto load_keys = [&](int first_col) { every(Keys::kLoads, [&](int part) { stage[part] = keys.load(part, first_col); }); };
    const auto store_keys = [&](int to) { every(Keys::kLoads, [&](int part) { keys.store(part, shared + to, stage[part]); }); };
    const auto load_values = [&](int key) { every(Values::kLoads, [&](int part) { stage[part] = values.load(part, key); }); };
    const auto store_values = [&](int to) { every(Values::kLoads, [&](int part) { values.store(part, shared + to, stage[part]); }); };
    // V of keys from `key` on or K of columns from `first_col` on. As far as both are as many loads, they are the same ones: loads under
    // opposite conditions would keep two of a warp's six scoreboards busy, and what lacks one is issued in clusters.
    const auto load_either = [&](bool values_next, int key, int first_col) {
        if constexpr (kMovesOn<kKind> && Keys::kLoads >= Values::kLoads)
            every(Keys::kLoads, [&](int part) {
                if (part < Values::kLoads)
                    stage[part] = load_vec_const<4>(values_next ? values.at(part) : keys.at(part));
                else if (!values_next)
                    stage[part] = load_vec_const<4>(keys.at(part));
            });
        else
            values_next ? load_values(key) : load_keys(first_col);
    };
    const auto store_either = [&](bool values_next, int to) { values_next ? store_values(to) : store_keys(to); };
    float zero[kRows] = {}, score[kRows][kKeys], out[kRows][kCols], kept_reference[kRows], sum[kRows], tile_sum[kRows];
    const TilePhases walk(p, block, kBlockRows, kBlockKeys);
    const Start scores_start(p, block, walk.first, walk.end);
    // Minus the row's reference: what scores are counted from, so that they are small.
    const auto set_references = [&](const float(&minus)[kRows]) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) kept_reference[i] = minus[i];
        if (C::kFewRegisters) {
            lane_sync();  // Others of the group may still be reading.
#pragma unroll
            for (int i = 0; i < kRows; i += 4)
                store_vec(shared + Shape::kReferences + query_at + Lanes::row(i),
                          Quad{{minus[i], minus[i + 1], minus[i + 2], minus[i + 3]}});
            lane_sync();
        }
    };
    const auto get_references = [&](float(&minus)[kRows]) {
#pragma unroll
        for (int i = 0; i < kRows; i += 4) {
            Quad part = {{kept_reference[i], kept_reference[i + 1], kept_reference[i + 2], kept_reference[i + 3]}};
            if (C::kFewRegisters) part = load_vec<4>(shared + Shape::kReferences + query_at + Lanes::row(i));
#pragma unroll
            for (int e = 0; e < 4; ++e) minus[i + e] = part[e];
        }
    };

    // ---- Fragments, loaded a step ahead into the other of two places.
    float a[2][kRows], b[2][kCols > kKeys ? kCols : kKeys];
    const auto take_a = [&](int to, int piece, int from) {
        const Quad part = load_vec<4>(shared + from);
#pragma unroll
        for (int e = 0; e < 4; ++e) a[to][piece * 4 + e] = part[e];
    };
    const auto take_query = [&](int to, int piece, int from) { take_a(to, piece, from + Lanes::row(piece * 4)); };
    const auto take_key = [&](int to, int piece, int depth) {
        const int first = one_address(buffer) + (Keys::swaps_lanes(depth) ? (lane_col * 4) ^ Keys::kLaneSwizzle : lane_col * 4);
        const Quad part = load_vec<4>(shared + first + depth * kBlockKeys + piece * 4 * C::kLaneCols);
#pragma unroll
        for (int e = 0; e < 4; ++e) b[to][piece * 4 + e] = part[e];
    };
    const auto take_value = [&](int to, int piece, int key) {
        Columns::take(piece, shared + one_address(buffer) + key * Values::kRow, lane_col, b[to]);
    };
    // Which half of a strip's rows comes first alternates with the key, against bank conflicts.
    const auto half_swap = [](int key) { return kRows == 8 ? (C::kLaneCols == 8 ? key & 1 : C::kLaneCols == 16 ? key >> 1 & 1 : 0) : 0; };
    const auto take_probability = [&](int to, int piece, int from, int key) {
        take_a(to, piece, from + key * kGroupRows + (piece ^ half_swap(key)) * (kGroupRows / 2));
    };
    constexpr int kPiecesA = kRows / 4, kKeyPieces = kKeys / 4, kValuePieces = Columns::kPieces;

    const int strip_at = lane_col * kGroupRows + lane_row * 4 + half_swap(lane_col) * (kGroupRows / 2);
    const auto store_strip = [&](int j, int to) {
#pragma unroll
        for (int i = 0; i < kRows; i += 4)
            store_vec(shared + (to + (strip_at ^ (i / 4) * (kGroupRows / 2))),
                      Quad{{score[i][j], score[i + 1][j], score[i + 2][j], score[i + 3][j]}});
    };
    const auto exponentiate = [&](int j, int row, int count, bool is_first = false) {
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
    };

    // The tile's scores from other references, without K in shared memory. Hardly ever needed, and then once or twice in a row's life. K's
    // rows are found by what costs the loop fewer registers.
    const auto score_anew = [&](int first_key, const float(&minus)[kRows]) {
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
                const float key = (kSubtracts && !kPlain ? keys.row(at) : rows.row(at))[d];
#pragma unroll
                for (int i = 0; i < kRows; ++i) score[i][j] = fused_multiply_add(query[i], key, score[i][j]);
            }
        }
    };

#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        sum[i] = 0;
#pragma unroll
        for (int x = 0; x < kCols; ++x) out[i][x] = 0;
    }
    set_references(zero);
    if constexpr (Start::kLifts) scores_start.first_references(kept_reference);
    state |= Start::kLate ? kUnset | kFirst : kUnset;
    int tile = block.place.first_tile(p), phase_end = min(block.entry.len_k / kBlockKeys, block.place.end_tile(p));
    if (!kPlain) phase_end = tile = walk.first;
    // The first chunk of K of a tile, on its way and then in place.
    const auto fetch = [&](int first_key) {
        keys.seek(first_key);
        load_keys(0);
    };
    const auto start = [&] {
        store_keys(buffer);
        block_sync_counted<C::kThreads, kPlain>();
        every(kPiecesA, [&](int piece) { take_query(0, piece, query_at); });
        every(kKeyPieces, [&](int piece) { take_key(0, piece, 0); });
    };
    fetch(tile * kBlockKeys);
    scores_start.load_first(p, tile * kBlockKeys, score);
    load_queries<C>(p, block, shared);  // Scaled, depth-major, for as long as the block lives.
    start();

    const int depth_chunks = p.depth / C::kChunkDepth;
#pragma unroll 1
    for (;; ++tile) {
        bool is_end = kPlain && tile == phase_end;
        if (!kPlain && tile == phase_end) {
            // A new phase: as many tiles as every row sees all of, or the others before or after them.
            const TilePhases phases(p, AttentionBlock(p, kBlockRows), kBlockRows, kBlockKeys);
            is_end = tile >= phases.end;
            if (!kSparesRegisters && is_end) break;  // Left from here, AMD's compilers keep two copies of O over the loop.
            state = !phases.is_full(tile) ? state | kMasked : state & ~kMasked;
            phase_end = phases.phase_end(tile);
        }
        if (is_end) break;
        const int first_key = tile * kBlockKeys;
        if (!kPlain && wave_any((state & (kMasked | kNoRows)) != 0)) {
            const AttentionBlock again(p, kBlockRows);
            const int group_row = again.first_row + static_cast<int>(fresh_thread() / kLanes) * kGroupRows;
            if (wave_all(group_row >= again.rows || first_key >= again.range(p, group_row + kGroupRows - 1).high ||
                         first_key + kBlockKeys <= again.range(p, group_row).low)) {
                // None of the group's rows sees any of these keys: only help to move them. The barriers match those below one by one.
#pragma unroll 1
                for (int chunk = 1; chunk < depth_chunks; ++chunk) {
                    buffer ^= Shape::kChunk;
                    load_keys(chunk * C::kChunkDepth);
                    store_keys(buffer);
                    block_sync_counted<C::kThreads, kPlain>();
                }
#pragma unroll 1
                for (int key = 0; key < kBlockKeys; key += C::kChunkKeys) {
                    buffer ^= Shape::kChunk;
                    load_values(first_key + key);
                    store_values(buffer);
                    block_sync_counted<C::kThreads, kPlain>();
                }
                buffer ^= Shape::kChunk;
                fetch(first_key + kBlockKeys);
                scores_start.load(p, first_key + kBlockKeys, score);
                state &= ~kFirst;
                start();
                continue;
            }
        }

        if (kModifiers) TileModifiers<C>(p, first_key).prefetch();

        // ---- S = Q K^T, above the rows' references.
        const bool late = Start::kLate && (state & kFirst) != 0;
        scores_start.begin(first_key, late, kStartsFromReference ? kept_reference : zero, score);
        if constexpr (kKind == AttentionKind::kBiased) scores_start.prefetch(p, first_key + kBlockKeys);
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
                        keys.step();
                        load_either(last, first_key, (chunk + u + 1) * C::kChunkDepth);
                    }
                    if (chunk_ends) {
                        buffer ^= Shape::kChunk;
                        store_either(last, buffer);
                        block_sync_counted<C::kThreads, kPlain>();
                    }
                    // After the last step for nothing, which costs whole tiles less than to ask; of Q then what nobody writes.
                    if (!kPlain || !C::kFewRegisters || !chunk_ends || !last) {
                        const int ahead = chunk_ends && last ? query_at : query + (u * C::kChunkDepth + k + 1) * kBlockRows;
                        if (Order::kQueriesFirst) every(kPiecesA, [&](int piece) { take_query(next, piece, ahead); });
                        every(kKeyPieces, [&](int piece) { take_key(next, piece, chunk_ends ? 0 : k + 1); });
                        if (!Order::kQueriesFirst) every(kPiecesA, [&](int piece) { take_query(next, piece, ahead); });
                    }
                    using Product = OuterProduct<kRows, kKeys, Order::kScoreWalk>;
#pragma unroll
                    for (int step = 0; step < kRows * kKeys; ++step) {
                        const int i = Product::row(step), x = Product::col(step), j = Keys::swaps_registers(k) ? x ^ 2 : x;
                        score[i][j] = fused_multiply_add(a[now][i], b[now][x], score[i][j]);
                    }
                    schedule_fence(score);
                });
            }
            query += C::kChunksAtOnce * C::kChunkDepth * kBlockRows;
            chunk += C::kChunksAtOnce;
        } while (chunk < depth_chunks);

        // ---- Masks, and references that are too low or not there yet.
        float minus_reference[kRows];
        if (kModifiers) TileModifiers<C>(p, first_key).apply((state & kMasked) == 0, score);
        if (kSubtracts || kModifiers) get_references(minus_reference);
        if (kCaps) {
            cap_scores<C>(p, minus_reference, score);
        } else if (kSubtracts) {
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kKeys; ++j) score[i][j] += minus_reference[i];
        }
        float tops[4];  // Four chains: one would be a chain of waits.
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                const float above = kModifiers ? score[i][j] + minus_reference[i] : score[i][j];
                tops[j & 3] = i == 0 && j < 4 ? above : fmaxf(tops[j & 3], above);
            }
        const float top = fmaxf(fmaxf(tops[0], tops[1]), fmaxf(tops[2], tops[3]));
        const bool needs = lane_any((state & (kModifiers ? kUnset : kUnset | kMasked | Start::kFar)) != 0 || top > kRescaleAbove);
        if (wave_any(needs)) {
            if (kStartsFromReference) get_references(minus_reference);
            if (late) scores_start.add(p, first_key, score), state &= ~kFirst;
            bool is_precise = true;
            bool is_raw = kModifiers;  // Not counted from references: a bias of -1e9 in an earlier tile would round modified scores.
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
                if (kStartsFromReference && !is_precise) score_anew(first_key, minus_reference);
                if constexpr (Start::kFar != 0) scores_start.mend_far(p, first_key, minus_reference, score);
                if (!kPlain && !kModifiers && wave_any((state & kMasked) != 0)) mask_scores<C>(p, first_key, score);

                // References that are too low, or not there yet.
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
            set_references(minus_reference);
            if constexpr (Start::kFar != 0) state = Start::are_far(minus_reference) ? state | Start::kFar : state & ~Start::kFar;
        } else if (kModifiers) {
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int j = 0; j < kKeys; ++j) score[i][j] += minus_reference[i];
        }

        if constexpr (Shape::kStripsInChunk)
            strip = (buffer ^ Shape::kChunk) + Values::kFloats + static_cast<int>(thread_of<C>() / kLanes) * 2 * Shape::kStrip;
        // ---- O += P V, strip by strip: the exponentials of the next strip lie between the products of this one.
        every(kValuePieces, [&](int piece) { take_value(0, piece, 0); });  // Not earlier: masks and references want the registers.
        exponentiate(0, 0, kRows, true);
        store_strip(0, strip);
        lane_sync();
        every(kPiecesA, [&](int piece) { take_probability(0, piece, strip + lane_row * 4, 0); });
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
                        values.step();
                        if (last && kMovesOn<kKind>) keys.next_tile(tile + 1 < phase_end, p.depth);
                        if (last && !kMovesOn<kKind>)
                            keys.seek(kPlain ? min(first_key + kBlockKeys, (phase_end - 1) * kBlockKeys) : first_key + kBlockKeys);
                        load_either(!last, first_key + body * Shape::kBodyKeys + next_chunk, 0);
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
                        store_either(!last, buffer);
                        block_sync_counted<C::kThreads, kPlain>();
                    } else if (k + 1 == C::kLaneCols) {
                        lane_sync();
                    }
                    // At the end of the tile the first fragments of the next, from where those of V would lie and as far apart.
                    constexpr bool kSamePlace = kCols / 4 >= kKeyPieces;
                    const bool tile_ends = chunk_ends && last;
                    const int from = tile_ends ? query_at : (k + 1 < C::kLaneCols ? strip : strip ^ Shape::kStrip) + lane_row * 4;
                    const auto take_rows = [&](int piece) { take_probability(next, piece, from, (k + 1) % C::kLaneCols); };
                    if (Order::kProbabilitiesFirst) every(kPiecesA, take_rows);
                    if (kSamePlace || !tile_ends)
                        every(kValuePieces, [&](int piece) { take_value(next, piece, (key + 1) % C::kChunkKeys); });
                    else
                        every(kKeyPieces, [&](int piece) { take_key(next, piece, 0); });
                    if (!Order::kProbabilitiesFirst) every(kPiecesA, take_rows);
                    using Product = OuterProduct<kRows, kCols, Order::kOutWalk>;
#pragma unroll
                    for (int step = 0; step < kRows * kCols; ++step) {
                        const int i = Product::row(step), x = Product::col(step);
                        out[i][x] = fused_multiply_add(a[now][i], b[now][x], out[i][x]);
                    }
                    schedule_fence(out);
                });
                strip ^= Shape::kStrip;
            }
        }
#pragma unroll
        for (int i = 0; C::kTileSums && i < kRows; ++i) sum[i] += tile_sum[i];
    }

    // ---- O and lse.
    float minus_reference[kRows];
    get_references(minus_reference);
#pragma unroll
    for (int i = 0; i < kRows; ++i) sum[i] = Lanes::fold_row(sum[i], [](float x, float y) { return x + y; });
    if constexpr (Start::kLifts) Start::spoil_small_sums(state, sum, out);
    block_sync_counted<C::kThreads, kPlain>();  // O passes through where others read K, V and references.
    store_rows<C, kKind>(p, state, minus_reference, sum, out, shared);
}

}  // namespace attile::gpu::simt
