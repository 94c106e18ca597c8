// SPDX-License-Identifier: Apache-2.0
// The numbers of the kernel for decoding with 8 and 4 bits on tensor cores (attention/sm80/decode_narrow.cuh).
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "attention/sm80/decode_narrow.h"
#include "eight_bits.h"
#include "lane.h"
#include "narrow.h"

namespace attile::gpu::sm80 {

// kAnyIn: scores may be modified, keys lie in pages, and rows be shorter than kColumns.
template <class T, int kColumns, KeyScales kScalesIn, bool kAnyIn, int kThreadsIn>
struct DecodeNarrow {
    using Element = T;
    static constexpr KeyScales kScales = kScalesIn;
    static constexpr bool kAny = kAnyIn;
    static constexpr bool kByKey = kScales != KeyScales::kNone, kHasNan = std::is_same_v<T, E4M3>;
    static constexpr int kBits = std::is_same_v<T, I4> ? 4 : 8, kPerWord = 32 / kBits, kPairs = kPerWord / 2;
    static constexpr int kCols = kColumns, kRows = 8, kThreads = kThreadsIn;
    static constexpr int kGroups = kThreads / kLanes;
    // A row of K or V, in pieces of 16 bytes.
    static constexpr int kRowBytes = kCols * kBits / 8, kPieces = kRowBytes / 16, kPieceCols = 128 / kBits;
    // Keys of a warp's step, blocks of 16 as an mma's depth has, and of a block of threads.
    static constexpr int kKeyBlocks = kRowBytes < 128 ? 2 : 1, kStep = 16 * kKeyBlocks, kTile = kStep * kGroups;
    static constexpr int kScaleCols = 32;  // Columns that surely share a scale.
    static constexpr int kScaleBlocks = kScales == KeyScales::kGroups ? kCols / kScaleCols : kByKey ? 1 : 0;
    static constexpr int kQuadLanes = kLanes;  // What DecodeRows asks for.
    // Of a stage of a warp: rows of K, of V, their scales.
    static constexpr int kHalfBytes = kStep * kRowBytes, kScaleBytes = kStep * kScaleBlocks * 4;
    static constexpr int kStageBytes = 2 * (kHalfBytes + kScaleBytes), kStages = 2;
    static constexpr int kStagesBytes = kGroups * kStages * kStageBytes, kResultBytes = kGroups * kRows * (kCols + 2) * 4;
    static constexpr int kMarksBytes = kHasNan ? kRows * kCols : 0;  // Columns that met a NaN.
    static constexpr int kSharedBytes = (kStagesBytes > kResultBytes ? kStagesBytes : kResultBytes) + kMarksBytes;
    static_assert(kColumns % 64 == 0 && kColumns <= 128, "O and Q are in registers");
};

}  // namespace attile::gpu::sm80
