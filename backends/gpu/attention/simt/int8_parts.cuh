// SPDX-License-Identifier: Apache-2.0
// The configurations of the int8 attention kernel (attention/simt/int8_tile.cuh), and its ways into shared memory: Q, K and V in rows of
// bytes that begin at multiples of 16.
//
// Words hold four neighbours of a row of Q or K, [words][rows or keys]; V is float, [keys][columns], or words of four keys of a column.
#pragma once

#include "attention/block.h"
#include "attention/simt/configs.h"
#include "attention/stream.h"
#include "eight_bits_word.h"

namespace attile::gpu::simt {

// What weights are when they are multiplied by V.
enum class Int8Weights {
    kFloat,
    kSteps,  // Of 1/255 of the row's largest of the tile.
    kSigned  // Times scales of V that differ from key to key, steps of 1/127 of the largest.
};
template <Int8Weights kWeights_>
struct Int8Base : AttentionBase {
    static constexpr Int8Weights kWeights = kWeights_;
    static constexpr bool kIntegers = kWeights != Int8Weights::kFloat, kFewRegisters = true;
    static constexpr bool kKeyRuns = kIntegers;  // A word of probabilities is a run.
    static constexpr int kChunkKeys = 16;        // Of V as float, one of two that are there at a time.
    static constexpr int kBlocksPerUnit = 2;
};
// 64 rows x 64 keys; a lane owns 8 x 4 scores.
template <Int8Weights kWeights>
struct Int8Cols128 : Int8Base<kWeights> {
    static constexpr int kLaneCols = 16, kKeys = 4, kCols = 8, kDepth = 128;
};
// 128 rows x 64 keys; 8 x 8 scores.
template <Int8Weights kWeights>
struct Int8Cols64 : Int8Base<kWeights> {
    static constexpr int kLaneCols = 8, kKeys = 8, kCols = 8, kDepth = 64;
};

// Sizes that follow, and places in shared memory, in words.
template <class C>
struct Int8Shape {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    static constexpr int kGroupRows = Lanes::kGroupRows, kBlockRows = C::kThreads / kLanes * kGroupRows;
    static constexpr int kBlockKeys = C::kKeys * C::kLaneCols, kColumns = C::kCols * C::kLaneCols, kWords = C::kDepth / 4;
    static_assert(kBlockKeys == 64 && C::kThreads == 128, "staging deals out 64 keys to four lane groups");
    static_assert(C::kDepth * 128 * 128 < 1 << 22 && kBlockKeys * 255 * 128 < 1 << 22, "sums fit the fraction of a float (as_float)");
    // Two column quads of 16 keys go to different banks.
    static constexpr int kKeyLine = kBlockKeys + 4, kQueryLine = kBlockRows + 4;
    static constexpr int kStripKeys = C::kIntegers ? kBlockKeys / 4 : C::kChunkKeys;  // Words of probabilities of a row.
    static constexpr int kKeysAt = 0, kQueriesAt = kWords * kKeyLine, kValuesAt = kQueriesAt + kWords * kQueryLine;
    static constexpr int kValueBuffer = C::kIntegers ? kBlockKeys / 4 * kColumns : C::kChunkKeys * kColumns;
    static constexpr int kStripsAt = kValuesAt + (C::kIntegers ? 1 : 2) * kValueBuffer, kStrip = kStripKeys * kGroupRows;
    static constexpr int kEnd = kStripsAt + C::kThreads / kLanes * kStrip;
    static constexpr int kOutput = kBlockRows * (kColumns + 4) + 2 * kBlockRows;  // store_rows()
    static constexpr int kShared = kEnd > kOutput ? kEnd : kOutput;
    static_assert(kShared * 4 <= 49152, "48 KB");
};

// Rows of bytes of K or V.
struct ByteRows {
    const char *first;
    int row_bytes, last;

    ATTILE_LANE_FN ByteRows(const AttentionParams &p, const AttentionBlock &block, const AttentionOperand &x)
        : row_bytes(x.row_bytes), last(max(block.entry.len_k - 1, 0)) {
        first = static_cast<const char *>(x.data) + block.place.batch * x.stride[0] + key_head(p, block) * x.stride[1] +
                block.entry.first_k * x.stride[2];
    }
    static ATTILE_LANE_FN int key_head(const AttentionParams &p, const AttentionBlock &block) {
        return p.pack.divisor == 1 ? static_cast<int>(quotient(block.place.head, p.group)) : block.place.head;
    }
    ATTILE_LANE_FN const uint32_t *at(int key, int col) const {
        return reinterpret_cast<const uint32_t *>(first + static_cast<int64_t>(min(key, last)) * row_bytes + col);
    }
};

// K's tile: a thread has every second of its key's pieces of 16 bytes; 16 keys a lane group.
template <class C>
struct Int8Keys {
    using Shape = Int8Shape<C>;
    static constexpr int kLoads = C::kDepth / 32;
    Vec<uint32_t, 4> held[kLoads];

    // The place of the thread's key in a line: a lane's keys lie in quads side by side.
    static ATTILE_LANE_FN int place() { return static_cast<int>(threadIdx.x / kLanes * 16 + threadIdx.x % kLanes / 2); }
    ATTILE_LANE_FN void load(const ByteRows &rows, int first_key) {
        const int at = place(), lane_col = at / 4 % C::kLaneCols, j = at % 4 + at / (4 * C::kLaneCols) * 4;
        const uint32_t *const from =
            rows.at(first_key + LaneKeys<C>::first(lane_col) + LaneKeys<C>::after(j), static_cast<int>(threadIdx.x % 2 * 16));
#pragma unroll
        for (int i = 0; i < kLoads; ++i) held[i] = load_vec_const<4>(from + i * 8);
    }
    ATTILE_LANE_FN void store(uint32_t *keys) const {
        uint32_t *const to = keys + threadIdx.x % 2 * 4 * Shape::kKeyLine + place();
#pragma unroll
        for (int i = 0; i < kLoads; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) to[(i * 8 + e) * Shape::kKeyLine] = held[i][e];
    }
};

// Where quad `quad` of a row of V lies: what threads store and what lanes read at a time meets in no bank.
ATTILE_LANE_FN int value_place(int quad) { return 4 * (quad ^ (quad >> 3 & 3)); }

// V, a chunk of kChunkKeys keys as float. Eight threads a key.
template <class C>
struct FloatValues {
    using Shape = Int8Shape<C>;
    static constexpr int kOwn = Shape::kColumns / 8;  // Of a thread.
    static_assert(C::kChunkKeys == C::kThreads / 8, "a key for eight threads");
    Vec<uint32_t, kOwn / 4> held;

    ATTILE_LANE_FN void load(const ByteRows &rows, int first_key) {
        held = load_vec_const<kOwn / 4>(rows.at(first_key + static_cast<int>(threadIdx.x / 8), static_cast<int>(threadIdx.x % 8) * kOwn));
    }
    ATTILE_LANE_FN void store(uint32_t *values) const {
        const int row = static_cast<int>(threadIdx.x / 8) * Shape::kColumns, quad = static_cast<int>(threadIdx.x % 8) * (kOwn / 4);
#pragma unroll
        for (int m = 0; m < kOwn / 4; ++m) {
            float wide[4];
            widen_word(I8{}, held[m], wide);
            store_vec(reinterpret_cast<float *>(values) + row + value_place(quad + m), Quad{{wide[0], wide[1], wide[2], wide[3]}});
        }
    }
};

// A whole tile of V as words of four keys. Eight threads a word's keys.
template <class C>
struct WordValues {
    using Shape = Int8Shape<C>;
    static constexpr int kOwn = Shape::kColumns / 8;
    static_assert(Shape::kBlockKeys / 4 == C::kThreads / 8, "four keys for eight threads");
    Vec<uint32_t, kOwn / 4> held[4];

    ATTILE_LANE_FN void load(const ByteRows &rows, int first_key) {
        const int key = first_key + static_cast<int>(threadIdx.x / 8) * 4, col = static_cast<int>(threadIdx.x % 8) * kOwn;
#pragma unroll
        for (int e = 0; e < 4; ++e) held[e] = load_vec_const<kOwn / 4>(rows.at(key + e, col));
    }
    ATTILE_LANE_FN void store(uint32_t *values) const {
        const int row = static_cast<int>(threadIdx.x / 8) * Shape::kColumns, quad = static_cast<int>(threadIdx.x % 8) * (kOwn / 4);
#pragma unroll
        for (int m = 0; m < kOwn / 4; ++m) {
            const uint32_t of_key[4] = {held[0][m], held[1][m], held[2][m], held[3][m]};
            uint32_t of_column[4];
            transpose_bytes(of_key, of_column);
            store_vec(values + row + value_place(quad + m), Vec<uint32_t, 4>{{of_column[0], of_column[1], of_column[2], of_column[3]}});
        }
    }
};

// Q of a block, for as long as it lives.
template <class C>
ATTILE_LANE_FN void load_int8_queries(const AttentionParams &p, const AttentionBlock &block, uint32_t *queries) {
    using Shape = Int8Shape<C>;
    constexpr int kLoads = C::kDepth / 16 * Shape::kBlockRows / C::kThreads;
    const char *const first = static_cast<const char *>(p.q.data) + block.entry.batch * p.q.stride[0] + block.entry.first_q * p.q.stride[2];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
        const int f = static_cast<int>(threadIdx.x) + i * C::kThreads;
        const int row = f % Shape::kBlockRows, quad = f / Shape::kBlockRows, packed_row = min(block.first_row + row, block.rows - 1);
        const char *const from =
            first + query_head(p, block.place.head, packed_row) * p.q.stride[1] + query_row(p, packed_row) * p.q.stride[2] + quad * 16;
        const Vec<uint32_t, 4> held = load_vec_const<4>(reinterpret_cast<const uint32_t *>(from));
#pragma unroll
        for (int e = 0; e < 4; ++e) queries[(quad * 4 + e) * Shape::kQueryLine + row] = held[e];
    }
}

// What Q and K are multiplied with before they are scores in units of log2: a factor of each row, and of each key where keys differ.
ATTILE_LANE_FN float query_factor(const AttentionParams &p, const AttentionBlock &block, int packed_row) {
    double factor = p.scale * kLog2E;  // Rounded once: it would shift all scores of a row alike.
    const int row = min(packed_row, block.rows - 1);
    if (p.q_scale.data)
        factor *= static_cast<double>(
            p.q_scale.data[block.entry.batch * p.q_scale.stride[0] + query_head(p, block.place.head, row) * p.q_scale.stride[1] +
                           (block.entry.first_q + query_row(p, row)) * p.q_scale.stride[2]]);
    if (p.k_scale.data && !p.k_scale.by_key)
        factor *= static_cast<double>(
            p.k_scale.data[block.entry.batch * p.k_scale.stride[0] + ByteRows::key_head(p, block) * p.k_scale.stride[1]]);
    return static_cast<float>(factor);
}

// The scales of keys or values, if they differ from key to key.
struct KeyScales {
    const char *first;  // Null: none differ.
    int row_bytes, last;

    ATTILE_LANE_FN KeyScales(const AttentionParams &p, const AttentionBlock &block, const AttentionScales &x)
        : first(nullptr), row_bytes(x.row_bytes), last(max(block.entry.len_k - 1, 0)) {
        if (x.data && x.by_key)
            first = reinterpret_cast<const char *>(x.data + block.entry.batch * x.stride[0] + ByteRows::key_head(p, block) * x.stride[1] +
                                                   block.entry.first_k * x.stride[2]);
    }
    ATTILE_LANE_FN const float *place(int key) const {
        return reinterpret_cast<const float *>(first + static_cast<int64_t>(min(key, last)) * row_bytes);
    }
    ATTILE_LANE_FN void prefetch(int key) const { gpu::prefetch(place(key)); }
    ATTILE_LANE_FN float at(int key) const { return load_vec_const<1>(place(key))[0]; }
};

// Sums of integers that begin here are floats less this, as they are.
inline constexpr uint32_t kSumStart = 0x4b400000u;
inline constexpr float kSumBase = 0x1.8p23f;
ATTILE_LANE_FN float as_float(int32_t sum) { return __uint_as_float(static_cast<uint32_t>(sum)) - kSumBase; }

}  // namespace attile::gpu::simt
