// SPDX-License-Identifier: Apache-2.0
// Attention by tiles of q, k and v of int8: O = softmax(Q K^T) V for a block of rows of one head. Q K^T is exact, in DP4A's int32. Either P
// stays float and V is widened on its way to shared memory; or, as FAST_ACCUMULATION permits, P is rounded to steps of 1/255 of the row's
// largest of the tile, or of 1/127 where scales of V differ from key to key, and P V is DP4A's, too, a tile's sums by themselves. Record:
// docs/kernels/attention-simt.md.
//
// Shared bytes: 4 * (words of depth * (keys + 4 + rows + 4) + V + probabilities), or what O takes on its way out. Cols128 37888 and 34304,
// Cols64 35840. Bound: arithmetic, 4 * 64 or 4 * 128 operations for each two bytes of K and V.
#pragma once

#include "attention/output.h"
#include "attention/simt/int8_parts.cuh"
#include "attention/simt/start.h"

namespace attile::gpu::simt {

// What a lane has of a block, and the steps of a tile.
template <class C>
struct Int8Steps {
    using Shape = Int8Shape<C>;
    using Lanes = typename Shape::Lanes;
    static constexpr int kRows = C::kRows, kKeys = C::kKeys, kCols = C::kCols, kGroupRows = Shape::kGroupRows;
    static constexpr int kUnrolled = 8;
    using Rows = float[kRows];
    using Scores = float[kRows][kKeys];
    using Output = float[kRows][kCols];
    static_assert(kRows == 8 && kCols == 8 && kKeys % 4 == 0, "rows, columns and keys in pairs of quads");

    const SharedPointer<uint32_t> shared;
    const int lane_row, lane_col;

    // Rows 0 to 3 and 4 to 7 of a lane.
    ATTILE_LANE_FN void take_rows(uint32_t (&to)[kRows], int from, int swap) const {
#pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            const Vec<uint32_t, 4> part = load_vec<4>(shared + (from + (piece ^ swap) * (kGroupRows / 2)));
#pragma unroll
            for (int e = 0; e < 4; ++e) to[piece * 4 + e] = part[e];
        }
    }
    template <int kCount>
    ATTILE_LANE_FN void take_quad(uint32_t (&to)[kCount], int at, int from) const {
        const Vec<uint32_t, 4> part = load_vec<4>(shared + from);
#pragma unroll
        for (int e = 0; e < 4; ++e) to[at + e] = part[e];
    }

    // ---- S = Q K^T, times the rows' factors.
    ATTILE_LANE_FN void multiply_keys(const Rows &factor, Scores &score) const {
        int32_t dot[kRows][kKeys];
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) dot[i][j] = static_cast<int32_t>(kSumStart);
        uint32_t a[2][kRows], b[2][kKeys];
        const int query_at = Shape::kQueriesAt + lane_group_index() * kGroupRows + lane_row * 4, key_at = Shape::kKeysAt + lane_col * 4;
        const auto take = [&](int to, int word) ATTILE_ALWAYS_INLINE {
            take_rows(a[to], query_at + word * Shape::kQueryLine, 0);
#pragma unroll
            for (int j = 0; j < kKeys; j += 4) take_quad(b[to], j, key_at + word * Shape::kKeyLine + j * C::kLaneCols);
        };
        take(0, 0);
#pragma unroll 1
        for (int word = 0; word < Shape::kWords; word += kUnrolled) {
            unrolled<kUnrolled>([&](auto index) ATTILE_ALWAYS_INLINE {
                constexpr int k = decltype(index)::value, now = k & 1;
                // After the last one, for nothing, the first again.
                take(now ^ 1, k + 1 < kUnrolled ? word + k + 1 : (word + kUnrolled) % Shape::kWords);
#pragma unroll
                for (int i = 0; i < kRows; ++i)
#pragma unroll
                    for (int j = 0; j < kKeys; ++j) dot[i][j] = dot_of_four(a[now][i], b[now][j], dot[i][j]);
                schedule_fence(a[now ^ 1]);
            });
        }
#pragma unroll
        for (int i = 0; i < kRows; ++i)
#pragma unroll
            for (int j = 0; j < kKeys; ++j) score[i][j] = as_float(dot[i][j]) * factor[i];
    }
    // What differs from key to key, of the lane's keys of the tile that begins at `first_key`. It is sent for before the product, whose
    // registers leave no room for it.
    ATTILE_LANE_FN int key_of(int first_key, int j) const { return first_key + LaneKeys<C>::first(lane_col) + LaneKeys<C>::after(j); }
    ATTILE_LANE_FN void prefetch_scales(const KeyScales &scales, int first_key) const {
        if (!scales.first) return;
#pragma unroll
        for (int j = 0; j < kKeys; ++j) scales.prefetch(key_of(first_key, j));
    }
    ATTILE_LANE_FN void scale_keys(const KeyScales &scales, int first_key, Scores &score) const {
        if (!scales.first) return;
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            const float scale = scales.at(key_of(first_key, j));
#pragma unroll
            for (int i = 0; i < kRows; ++i) score[i][j] *= scale;
        }
    }

    // ---- What a row's weights are counted from. Each row moves by itself alone, so that it comes out the same in any company.
    static ATTILE_LANE_FN void largest(const Scores &score, Rows &top) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            top[i] = score[i][0];
#pragma unroll
            for (int j = 1; j < kKeys; ++j) top[i] = fmaxf(top[i], score[i][j]);
        }
    }
    static ATTILE_LANE_FN void fold_rows(Rows &top) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) top[i] = Lanes::fold_row(top[i], [](float x, float y) { return fmaxf(x, y); });
    }
    // Is a row that has not seen a key, or whose reference is too low, among them? `top` may be of a lane's keys alone.
    static ATTILE_LANE_FN bool needs_higher(uint32_t unset, const Rows &top, const Rows &reference) {
        bool needs = unset != 0;
#pragma unroll
        for (int i = 0; i < kRows; ++i) needs = needs || top[i] - reference[i] > kRescaleAbove;
        return wave_any(lane_any(needs));
    }
    // `top` is of all the row's keys of the tile.
    static ATTILE_LANE_FN void raise_references(const Rows &top, uint32_t &unset, Rows &reference, Rows &sum, Output &out) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const bool is_first = (unset >> i & 1) != 0;
            const bool moves = top[i] != -INFINITY && (is_first || top[i] - reference[i] > kRescaleAbove);
            const float higher = moves ? top[i] : reference[i], down = is_first || !moves ? 1.0f : exp2_fast(reference[i] - higher);
            unset &= moves ? ~(1u << i) : ~0u;
            reference[i] = higher;
            sum[i] *= down;
#pragma unroll
            for (int x = 0; x < kCols; ++x) out[i][x] *= down;
        }
    }

    // ---- Probabilities: [keys, or words of them][rows of the lane group]. Which half of the rows comes first alternates, against bank
    // conflicts.
    static ATTILE_LANE_FN int half_swap(int key) { return C::kLaneCols == 8 ? key & 1 : key >> 1 & 1; }
    ATTILE_LANE_FN int strip_at() const { return Shape::kStripsAt + lane_group_index() * Shape::kStrip + lane_row * 4; }
    ATTILE_LANE_FN void store_strip(int key, const uint32_t (&rows)[kRows]) const {
        const int to = strip_at() + key * kGroupRows, swap = half_swap(key);
#pragma unroll
        for (int piece = 0; piece < 2; ++piece)
            store_vec(shared + (to + (piece ^ swap) * (kGroupRows / 2)),
                      Vec<uint32_t, 4>{{rows[piece * 4], rows[piece * 4 + 1], rows[piece * 4 + 2], rows[piece * 4 + 3]}});
    }

    // ---- O += P V of a chunk of kChunkKeys keys, whose scores are the lane's first ones.
    static constexpr int kStrips = C::kChunkKeys >= C::kLaneCols ? C::kChunkKeys / C::kLaneCols : 1;  // Keys of a lane in a chunk.
    ATTILE_LANE_FN void exponentiate(const Rows &reference, bool scales_values, const float (&value_scale)[kKeys], const Scores &score,
                                     Rows &sum) const {
#pragma unroll
        for (int j = 0; j < kStrips; ++j) {
            uint32_t weight[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                const float probability = exp2_fast(score[i][j] - reference[i]);
                sum[i] += probability;
                // A key that takes no part has none even of a scale that is NaN.
                const float scaled = scales_values && score[i][j] != -INFINITY ? probability * value_scale[j] : probability;
                weight[i] = __float_as_uint(scaled);
            }
            store_strip(lane_col + j * C::kLaneCols, weight);
        }
        lane_sync();
    }
    ATTILE_LANE_FN void multiply_values(int values_at, Output &out) const {
        uint32_t a[2][kRows], b[2][kCols];
        const int strip = strip_at(), low = values_at + value_place(lane_col), high = values_at + value_place(C::kLaneCols + lane_col);
        const auto take = [&](int to, int key) ATTILE_ALWAYS_INLINE {
            take_rows(a[to], strip + key * kGroupRows, half_swap(key));
            take_quad(b[to], 0, low + key * Shape::kColumns);
            take_quad(b[to], 4, high + key * Shape::kColumns);
        };
        take(0, 0);
        unrolled<C::kChunkKeys>([&](auto index) ATTILE_ALWAYS_INLINE {
            constexpr int key = decltype(index)::value, now = key & 1;
            if (key + 1 < C::kChunkKeys) take(now ^ 1, key + 1);
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int x = 0; x < kCols; ++x)
                    out[i][x] = fused_multiply_add(__uint_as_float(a[now][i]), __uint_as_float(b[now][x]), out[i][x]);
            schedule_fence(out);
        });
    }
    // The scores of the next chunk.
    static ATTILE_LANE_FN void shift(float (&of_keys)[kKeys]) {
#pragma unroll
        for (int j = 0; j + kStrips < kKeys; ++j) of_keys[j] = of_keys[j + kStrips];
    }

    // ---- The same of integers, a tile at once: from scores to weights, those of the row's largest score being 1. `unit` is what that one
    // is relative to the reference.
    ATTILE_LANE_FN void weigh(const Rows &top, const Rows &unit, Scores &score, Rows &sum) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            const float base = top[i] == -INFINITY ? 0.0f : top[i];
            float tile_sum = 0;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) tile_sum += score[i][j] = exp2_fast(score[i][j] - base);
            sum[i] = fused_multiply_add(tile_sum, unit[i], sum[i]);
        }
    }
    // A bit for each row that sees a key whose values have a scale that is no finite number: nothing that is rounded to steps would show
    // it.
    ATTILE_LANE_FN uint32_t wild_rows(const float (&value_scale)[kKeys], const Scores &score) const {
        float wild[kKeys];  // 0 or NaN
        bool is_wild = false;
#pragma unroll
        for (int j = 0; j < kKeys; ++j) {
            wild[j] = value_scale[j] - value_scale[j];
            is_wild = is_wild || wild[j] != 0;
        }
        uint32_t rows = 0;
        if (!wave_any(lane_any(is_wild))) return rows;
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            float sees = 0;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) sees += score[i][j] != -INFINITY ? wild[j] : 0.0f;
            sees = Lanes::fold_row(sees, [](float x, float y) { return x + y; });
            rows |= sees != 0 ? 1u << i : 0u;
        }
        return rows;
    }
    // Scales of the keys' values join the weights, of which the largest of a row becomes 1. A key that takes no part has none even of a
    // scale that is NaN.
    ATTILE_LANE_FN void weigh_values(const float (&value_scale)[kKeys], uint32_t wild, Rows &unit, Scores &weight) const {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            float most = 0;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) {
                weight[i][j] = weight[i][j] != 0 ? weight[i][j] * value_scale[j] : 0.0f;
                most = fmaxf(most, fabsf(weight[i][j]));
            }
            most = Lanes::fold_row(most, [](float x, float y) { return fmaxf(x, y); });
            const float inverse = most >= 0x1p-126f ? reciprocal_fast(most) : 0.0f;
            unit[i] = (wild >> i & 1) != 0 ? __uint_as_float(0x7fc00000u) : unit[i] * most;
#pragma unroll
            for (int j = 0; j < kKeys; ++j) weight[i][j] *= inverse;
        }
    }
    // Weights of at most 1 as steps.
    static constexpr float kMostSteps = C::kWeights == Int8Weights::kSigned ? 127 : 255;
    ATTILE_LANE_FN void store_steps(const Scores &weight) const {
#pragma unroll
        for (int j = 0; j < kKeys; j += 4) {
            uint32_t words[kRows];
#pragma unroll
            for (int i = 0; i < kRows; ++i) {
                uint32_t steps[4];
#pragma unroll
                for (int e = 0; e < 4; ++e)  // In the lowest byte.
                    steps[e] = __float_as_uint(fused_multiply_add(weight[i][j + e], kMostSteps, kSumBase));
                words[i] = pick_bytes<0x5410>(pick_bytes<0x0040>(steps[0], steps[1]), pick_bytes<0x0040>(steps[2], steps[3]));
            }
            store_strip(lane_col + j / 4 * C::kLaneCols, words);
        }
    }
    static ATTILE_LANE_FN int32_t dot(uint32_t weights, uint32_t values, int32_t sum) {
        return C::kWeights == Int8Weights::kSigned ? dot_of_four(weights, values, sum) : dot_of_four_unsigned(weights, values, sum);
    }
    // unit: of a row's weights of the tile, relative to its reference.
    ATTILE_LANE_FN void multiply_words(const Rows &unit, Output &out) const {
        constexpr int kTileWords = Shape::kBlockKeys / 4;
        const int strip = strip_at();
#pragma unroll
        for (int first = 0; first < kCols; first += 4) {  // Sums of all columns at once would take too many registers.
            const int values = Shape::kValuesAt + value_place(first / 4 * C::kLaneCols + lane_col);
            int32_t sums[kRows][4];
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int x = 0; x < 4; ++x) sums[i][x] = static_cast<int32_t>(kSumStart);
            uint32_t a[2][kRows], b[2][4];
            const auto take = [&](int to, int word) ATTILE_ALWAYS_INLINE {
                take_rows(a[to], strip + word * kGroupRows, half_swap(word));
                take_quad(b[to], 0, values + word * Shape::kColumns);
            };
            take(0, 0);
#pragma unroll 1
            for (int word = 0; word < kTileWords; word += kUnrolled) {
                unrolled<kUnrolled>([&](auto index) ATTILE_ALWAYS_INLINE {
                    constexpr int k = decltype(index)::value, now = k & 1;
                    take(now ^ 1, k + 1 < kUnrolled ? word + k + 1 : (word + kUnrolled) % kTileWords);
#pragma unroll
                    for (int i = 0; i < kRows; ++i)
#pragma unroll
                        for (int x = 0; x < 4; ++x) sums[i][x] = dot(a[now][i], b[now][x], sums[i][x]);
                    schedule_fence(a[now ^ 1]);
                });
            }
#pragma unroll
            for (int i = 0; i < kRows; ++i)
#pragma unroll
                for (int x = 0; x < 4; ++x)
                    out[i][first + x] = fused_multiply_add(as_float(sums[i][x]), unit[i] * (1 / kMostSteps), out[i][first + x]);
        }
    }

    // ---- What store_rows() takes. value_scale: of all of V.
    static ATTILE_LANE_FN void finish(float value_scale, uint32_t &unset, Rows &reference, Rows &sum, Output &out) {
#pragma unroll
        for (int i = 0; i < kRows; ++i) {
            sum[i] = Lanes::fold_row(sum[i], [](float x, float y) { return x + y; });
            // Comparisons pass over NaN, which a row whose scores are all NaN has seen.
            if (sum[i] != sum[i]) unset &= ~(1u << i);
            reference[i] = -reference[i];
            const float scale = (unset >> i & 1) != 0 ? 1.0f : value_scale;  // Of a row that sees nothing it may be NaN.
#pragma unroll
            for (int x = 0; x < kCols; ++x) out[i][x] *= scale;
        }
    }
};

template <class C>
__global__ void ATTILE_LAUNCH_BOUNDS(C::kThreads, C::kBlocksPerUnit) attention_int8_kernel(const AttentionParams p) {
    using Steps = Int8Steps<C>;
    using Shape = Int8Shape<C>;
    using Lanes = typename Shape::Lanes;
    constexpr int kRows = C::kRows, kKeys = C::kKeys, kBlockKeys = Shape::kBlockKeys, kGroupRows = Shape::kGroupRows;
    constexpr AttentionKindTag<AttentionKind::kMasked> kKind;
    alignas(16) __shared__ uint32_t shared[Shape::kShared];

    if (!kDotsFour) return;  // Plans have no use for it there, and it would spill.

    // ---- What this block does.
    const AttentionBlock block(p, Shape::kBlockRows, kKind);
    if (block.first_row >= block.rows) return;
    const TilePhases walk(p, block, Shape::kBlockRows, kBlockKeys);
    const Steps steps = {shared, Lanes::lane_row(lane_index()), Lanes::lane_col(lane_index())};
    const int group_row = block.first_row + lane_group_index() * kGroupRows;
    const bool has_rows = group_row < block.rows;
    const int low = block.range(p, group_row).low, high = block.range(p, group_row + kGroupRows - 1).high;
    const ByteRows key_rows(p, block, p.k), value_rows(p, block, p.v);
    const KeyScales key_scales(p, block, p.k_scale), value_scales(p, block, p.v_scale);

    // ---- A lane's numbers.
    typename Steps::Scores score;
    typename Steps::Output out;
    typename Steps::Rows reference, sum, factor;
    uint32_t unset = (1u << kRows) - 1;
#pragma unroll
    for (int i = 0; i < kRows; ++i) {
        factor[i] = query_factor(p, block, group_row + steps.lane_row * 4 + Lanes::row(i));
        reference[i] = sum[i] = 0;
#pragma unroll
        for (int x = 0; x < C::kCols; ++x) out[i][x] = 0;
    }

    Int8Keys<C> next_keys;
    std::conditional_t<C::kIntegers, WordValues<C>, FloatValues<C>> next_values;
    uint32_t *const keys = shared + Shape::kKeysAt, *const values = shared + Shape::kValuesAt;
    if (walk.first < walk.end) {
        next_keys.load(key_rows, walk.first * kBlockKeys);
        if (!C::kIntegers) next_values.load(value_rows, walk.first * kBlockKeys);
        next_keys.store(keys);
        if (!C::kIntegers) next_values.store(values);
    }
    load_int8_queries<C>(p, block, shared + Shape::kQueriesAt);
    __syncthreads();

#pragma unroll 1
    for (int tile = walk.first; tile < walk.end; ++tile) {
        const int first_key = tile * kBlockKeys;
        const bool sees = wave_any(has_rows && first_key < high && first_key + kBlockKeys > low);
        next_values.load(value_rows, first_key + (C::kIntegers ? 0 : C::kChunkKeys));
        typename Steps::Rows top;
        if (sees) {
            steps.prefetch_scales(key_scales, first_key);
            if (C::kWeights != Int8Weights::kSteps) steps.prefetch_scales(value_scales, first_key);
            steps.multiply_keys(factor, score);
            steps.scale_keys(key_scales, first_key, score);
            if (!walk.is_full(tile)) mask_scores<C>(p, first_key, score);
            Steps::largest(score, top);
            if (C::kIntegers) Steps::fold_rows(top);
            if (Steps::needs_higher(unset, top, reference)) {
                if (!C::kIntegers) Steps::fold_rows(top);
                Steps::raise_references(top, unset, reference, sum, out);
            }
        }
        float value_scale[kKeys] = {};  // Where they differ from key to key.
        const bool scales_values = C::kWeights != Int8Weights::kSteps && value_scales.first != nullptr && sees;
        if (scales_values) {
#pragma unroll
            for (int j = 0; j < kKeys; ++j) value_scale[j] = value_scales.at(steps.key_of(first_key, j));
        }
        if constexpr (C::kIntegers) {
            typename Steps::Rows unit;
            if (sees) {
#pragma unroll
                for (int i = 0; i < kRows; ++i) unit[i] = exp2_fast(top[i] - reference[i]);
                const uint32_t wild = C::kWeights == Int8Weights::kSigned ? steps.wild_rows(value_scale, score) : 0;
                steps.weigh(top, unit, score, sum);
                if constexpr (C::kWeights == Int8Weights::kSigned) steps.weigh_values(value_scale, wild, unit, score);
                steps.store_steps(score);
            }
            next_values.store(values);
            __syncthreads();
            next_keys.load(key_rows, first_key + kBlockKeys);
            if (sees) steps.multiply_words(unit, out);
            next_keys.store(keys);
            __syncthreads();
        } else {
            constexpr int kChunks = kBlockKeys / C::kChunkKeys;
#pragma unroll 1
            for (int chunk = 0; chunk < kChunks; ++chunk) {
                // The next chunk of V is on its way, or in the last one's time K of the next tile and its first chunk.
                const bool is_last = chunk + 1 == kChunks;
                next_values.store(values + (chunk + 1) % 2 * Shape::kValueBuffer);
                if (is_last) next_keys.store(keys);
                if (!is_last) next_values.load(value_rows, first_key + (chunk + 2) * C::kChunkKeys);
                if (chunk + 2 == kChunks) next_keys.load(key_rows, first_key + kBlockKeys);
                if (sees) {
                    steps.exponentiate(reference, scales_values, value_scale, score, sum);
                    steps.multiply_values(Shape::kValuesAt + chunk % 2 * Shape::kValueBuffer, out);
                    Steps::shift(value_scale);
#pragma unroll
                    for (int i = 0; i < kRows; ++i) Steps::shift(score[i]);
                }
                __syncthreads();
            }
        }
    }

    // ---- O and lse.
    float value_scale = 1;  // Of the head.
    if (p.v_scale.data && !p.v_scale.by_key)
        value_scale = p.v_scale.data[block.entry.batch * p.v_scale.stride[0] + ByteRows::key_head(p, block) * p.v_scale.stride[1]];
    Steps::finish(value_scale, unset, reference, sum, out);
    store_rows<C, AttentionKind::kMasked, false>(p, unset, reference, sum, out, reinterpret_cast<float *>(shared));
}

}  // namespace attile::gpu::simt
