// SPDX-License-Identifier: Apache-2.0
// Parts of the attention tile kernel that move numbers: K and V into shared memory, fragments of them and of Q into registers, the rows'
// references in and out. A lane's arrays are the kernel's: as members they would keep the rest in memory until loops are unrolled.
#pragma once

#include <type_traits>

#include "attention/block.h"
#include "attention/score.h"
#include "attention/simt/kernels.h"
#include "attention/simt/shape.h"
#include "attention/simt/start.h"
#include "attention/stream.h"

namespace attile::gpu::simt {

// What a kind of kernel does with references, and the bits of a lane's state.
template <class C, AttentionKind kKind>
struct TileTraits {
    static constexpr bool kPlain = kKind == AttentionKind::kPlain, kModifiers = kKind == AttentionKind::kModified;
    // Does the product start from the rows' references, or are they subtracted from what it gives?
    static constexpr bool kCaps = kKind == AttentionKind::kSoftcapped;
    using Start = ScoreStart<C, kKind>;
    static constexpr bool kStartsFromReference = Start::kLoads || Start::kLifts || (!kModifiers && !kCaps && !C::kFewRegisters);
    static constexpr bool kSubtracts = !kModifiers && !kStartsFromReference;
    static_assert((!Start::kLoads && !Start::kLifts) || kStartsFromReference, "a start of more than references");
    // Yes-or-no state in one register. The low bits are rows that have not seen a key yet: their reference means nothing.
    static constexpr uint32_t kUnset = (1u << C::kRows) - 1, kMasked = 1u << 8, kNoRows = 1u << 9, kFirst = 1u << 10;
};

template <class Take>
ATTILE_LANE_FN void every(int pieces, const Take &take) {
#pragma unroll
    for (int piece = 0; piece < pieces; ++piece) take(piece);
}

// ---- The loader. The next chunk of K or V is on its way while the current one is worked on.
template <class C, AttentionKind kKind>
struct TileLoader {
    using Shape = AttentionShape<C>;
    using Keys = KeyChunk<C>;
    using Values = ValueChunk<C>;
    using Stage = Quad[Shape::kParts];
    const SharedPointer<float> shared;
    KeyStream<C, kKind> &keys;
    ValueStream<C, kKind> &values;
    Stage &stage;

    ATTILE_LANE_FN void load_keys(int first_col) const {
        every(Keys::kLoads, [&](int part) { stage[part] = keys.load(part, first_col); });
    }
    ATTILE_LANE_FN void store_keys(int to) const {
        every(Keys::kLoads, [&](int part) { keys.store(part, shared + to, stage[part]); });
    }
    ATTILE_LANE_FN void load_values(int key) const {
        every(Values::kLoads, [&](int part) { stage[part] = values.load(part, key); });
    }
    ATTILE_LANE_FN void store_values(int to) const {
        every(Values::kLoads, [&](int part) { values.store(part, shared + to, stage[part]); });
    }
    // V of keys from `key` on or K of columns from `first_col` on. As far as both are as many loads, they are the same ones: loads under
    // opposite conditions would keep two of a warp's six scoreboards busy, and what lacks one is issued in clusters.
    ATTILE_LANE_FN void load_either(bool values_next, int key, int first_col) const {
        if constexpr (kMovesOn<kKind> && Keys::kLoads >= Values::kLoads)
            every(Keys::kLoads, [&](int part) {
                if (part < Values::kLoads)
                    stage[part] = load_vec_const<4>(values_next ? values.at(part) : keys.at(part));
                else if (!values_next)
                    stage[part] = load_vec_const<4>(keys.at(part));
            });
        else
            values_next ? load_values(key) : load_keys(first_col);
    }
    ATTILE_LANE_FN void store_either(bool values_next, int to) const { values_next ? store_values(to) : store_keys(to); }
    // The first chunk of K of a tile on its way.
    ATTILE_LANE_FN void fetch(int first_key) const {
        keys.seek(first_key);
        load_keys(0);
    }
};

// ---- Fragments, loaded a step ahead into the other of two places.
template <class C>
struct TileFragments {
    using Shape = AttentionShape<C>;
    using Lanes = typename Shape::Lanes;
    using Keys = KeyChunk<C>;
    using Columns = LaneColumns<C>;
    static constexpr int kRows = C::kRows, kKeys = C::kKeys, kGroupRows = Lanes::kGroupRows;
    static constexpr int kPiecesA = kRows / 4, kKeyPieces = kKeys / 4, kValuePieces = Columns::kPieces;
    using A = float[2][kRows];
    using B = float[2][C::kCols > kKeys ? C::kCols : kKeys];
    const SharedPointer<float> shared;
    const int lane_row, lane_col, query_at;
    const int &buffer;
    A &a;
    B &b;

    ATTILE_LANE_FN void take_a(int to, int piece, const float *from) const {
        const Quad part = load_vec<4>(from);
#pragma unroll
        for (int e = 0; e < 4; ++e) a[to][piece * 4 + e] = part[e];
    }
    ATTILE_LANE_FN void take_query(int to, int piece, int from) const { take_a(to, piece, shared + (from + Lanes::row(piece * 4))); }
    ATTILE_LANE_FN void take_key(int to, int piece, int depth) const {
        const int first = buffer + (Keys::swaps_lanes(depth) ? (lane_col * 4) ^ Keys::kLaneSwizzle : lane_col * 4);
        const Quad part = load_vec<4>(shared.at(first) + depth * Shape::kBlockKeys + piece * 4 * C::kLaneCols);
#pragma unroll
        for (int e = 0; e < 4; ++e) b[to][piece * 4 + e] = part[e];
    }
    ATTILE_LANE_FN void take_value(int to, int piece, int key) const {
        const int lane = Columns::column(lane_col, Columns::begin(piece)) - Columns::column(0, Columns::begin(piece));
        Columns::take(piece, shared.at(buffer + lane) + key * ValueChunk<C>::kRow, 0, b[to]);
    }
    // Which half of a strip's rows comes first alternates with the key, against bank conflicts.
    static ATTILE_LANE_FN int half_swap(int key) {
        return kRows == 8 ? (C::kLaneCols == 8 ? key & 1 : C::kLaneCols == 16 ? key >> 1 & 1 : 0) : 0;
    }
    ATTILE_LANE_FN void take_probability(int to, int piece, int from, int key) const {
        take_a(to, piece, shared + from + (key * kGroupRows + (piece ^ half_swap(key)) * (kGroupRows / 2)));
    }
    // The first of a tile's product with K.
    ATTILE_LANE_FN void take_first() const {
        every(kPiecesA, [&](int piece) { take_query(0, piece, query_at); });
        every(kKeyPieces, [&](int piece) { take_key(0, piece, 0); });
    }
};

// ---- Minus the row's reference: what scores are counted from, so that they are small.
template <class C>
struct TileReferences {
    using Shape = AttentionShape<C>;
    using Lanes = typename Shape::Lanes;
    using Rows = float[C::kRows];
    const SharedPointer<float> shared;
    const int query_at;
    Rows &kept_reference;

    ATTILE_LANE_FN void set(const Rows &minus) const {
#pragma unroll
        for (int i = 0; i < C::kRows; ++i) kept_reference[i] = minus[i];
        if (C::kFewRegisters) {
            lane_sync();  // Others of the group may still be reading.
#pragma unroll
            for (int i = 0; i < C::kRows; i += 4)
                store_vec(shared + Shape::kReferences + query_at + Lanes::row(i),
                          Quad{{minus[i], minus[i + 1], minus[i + 2], minus[i + 3]}});
            lane_sync();
        }
    }
    ATTILE_LANE_FN void get(Rows &minus) const {
#pragma unroll
        for (int i = 0; i < C::kRows; i += 4) {
            Quad part = {{kept_reference[i], kept_reference[i + 1], kept_reference[i + 2], kept_reference[i + 3]}};
            if (C::kFewRegisters) part = load_vec<4>(shared + Shape::kReferences + query_at + Lanes::row(i));
#pragma unroll
            for (int e = 0; e < 4; ++e) minus[i + e] = part[e];
        }
    }
};

}  // namespace attile::gpu::simt
