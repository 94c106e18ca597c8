// SPDX-License-Identifier: Apache-2.0
// The numbers of the kernel for decoding with 8 bits on tensor cores (attention/sm80/decode_bytes.cuh).
#pragma once

#include <type_traits>

#include "eight_bits.h"
#include "lane.h"

namespace attile::gpu::sm80 {

// kByKey: scales differ from key to key.
template <class T, int kColumns, bool kByKeyIn>
struct DecodeBytes {
    using Element = T;
    static constexpr bool kByKey = kByKeyIn, kHasNan = sizeof(T) == 1 && !std::is_same<T, I8>::value;
    static constexpr int kCols = kColumns, kRows = 4, kThreads = 256, kGroups = kThreads / kLanes;
    static constexpr int kStep = 16, kTile = kStep * kGroups;  // Keys of a warp and of a block.
    static constexpr int kQuadLanes = kLanes, kQuads = 1;      // What DecodeRows asks for.
    static constexpr int kBlocks = kColumns / 32;              // Columns go in blocks of 32, of which a scale has one or several.
    static constexpr int kSets = kByKey ? 1 : 2;               // Steps whose keys are under way or in use at a time.
    static_assert(kColumns % 32 == 0 && kColumns <= 128, "O and Q are in registers");
};

}  // namespace attile::gpu::sm80
