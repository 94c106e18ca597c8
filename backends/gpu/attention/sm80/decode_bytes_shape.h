// SPDX-License-Identifier: Apache-2.0
// The numbers of the kernel for decoding with 8 bits on tensor cores (attention/sm80/decode_bytes.cuh).
#pragma once

#include <type_traits>

#include "attention/sm80/decode_bytes.h"
#include "eight_bits.h"
#include "lane.h"

namespace attile::gpu::sm80 {

template <class T, int kColumns, KeyScales kScalesIn>
struct DecodeBytes {
    using Element = T;
    static constexpr KeyScales kScales = kScalesIn;
    static constexpr bool kByKey = kScales != KeyScales::kNone, kHasNan = !std::is_same<T, I8>::value;
    static constexpr int kCols = kColumns, kRows = 4, kThreads = 256, kGroups = kThreads / kLanes;
    static constexpr int kBlocksPerUnit = kScales == KeyScales::kGroups ? 1 : 2;
    static constexpr int kStep = 16, kTile = kStep * kGroups;  // Keys of a warp and of a block.
    static constexpr int kQuadLanes = kLanes;                  // What DecodeRows asks for.
    static constexpr int kBlocks = kColumns / 32;              // Columns go in blocks of 32, of which a scale has one or several.
    static constexpr int kScaleBlocks = kScales == KeyScales::kGroups ? kBlocks : 1;
    static constexpr bool kMarksHidden = kHasNan || kScales == KeyScales::kGroups;  // What is behind a probability of 0 is to be told.
    static constexpr float kUnit = kHasNan ? 1.0f : 64.0f;  // What brings widened numbers (mma/widen.cuh) to their size.
    static_assert(kColumns % 32 == 0 && kColumns <= 128, "O and Q are in registers");
};

}  // namespace attile::gpu::sm80
