// SPDX-License-Identifier: Apache-2.0
// The numbers of the kernel for few rows times weights of 8 or 4 bits (gemm/sm80/few_narrow.cuh).
#pragma once

#include <type_traits>

#include "eight_bits.h"
#include "gemm/sm80/few_narrow.h"

namespace attile::gpu::sm80 {

struct I4 {};
struct U4 {};

template <class Number_, class Element_, int kTiles_, int kReadBytes>
struct FewNarrow {
    using Number = Number_;
    using Element = Element_;
    static constexpr bool kHasNibbles = std::is_same_v<Number, I4> || std::is_same_v<Number, U4>, kHasNan = std::is_same_v<Number, E4M3>,
                          kHasZeros = std::is_same_v<Number, U4>;
    static constexpr int kTiles = kTiles_;  // Of eight rows.
    static constexpr int kRows = 8 * kTiles, kColumns = kFewNarrowColumns, kLaneColumns = kColumns / 8;
    static constexpr int kStages = kTiles == 1 && !kHasNibbles ? 4 : 3;
    static constexpr int kParts = 16 / kReadBytes, kWords = kReadBytes / 4;  // Of a step; of a part, that a lane has of a column.
    static constexpr int kDepth = kHasNibbles ? 128 : 64;                    // Of a step: 64 bytes of a column.
    static constexpr int kRowBytes = kDepth * 2, kPieces = kRowBytes / 64;   // Of a row of A: 64 bytes at a time.
    static constexpr int kRunPieces = kPieces / kParts;                      // Of 16 bytes of a row of A, that a lane multiplies in a part.
    static constexpr int kBytesB = kColumns * 64, kBytesA = kRows * kRowBytes, kFactorBytes = kColumns * 4;
    static constexpr int kStageB = kBytesB + 256 * ((kParts * (kHasZeros ? 2 : 1) * kFactorBytes + 255) / 256);  // With factors.
    static_assert(kStages * kStageB >= kColumns * kRows * 4, "a warp's sums at the end");
    static_assert(kRunPieces >= 1, "whole pieces");
};

}  // namespace attile::gpu::sm80
