// SPDX-License-Identifier: Apache-2.0
// Sizes of a block of the attention kernel: what follows from a configuration, and what must hold between its numbers.
#pragma once

#include "attention/lanes.h"
#include "attention/stream.h"

namespace attile::gpu::simt {

// Numbers that follow from a configuration.
template <class C>
struct AttentionShape {
    using Lanes = AttentionLanes<C::kLaneCols, C::kRows>;
    static constexpr int kGroups = C::kThreads / kLanes;
    static constexpr int kBlockRows = kGroups * Lanes::kGroupRows;
    static constexpr int kBlockKeys = C::kKeys * C::kLaneCols;
    static constexpr int kStrip = C::kLaneCols * Lanes::kGroupRows;  // Floats: one key of each lane column, all rows of the group.
    static constexpr int kChunk = KeyChunk<C>::kFloats > ValueChunk<C>::kFloats ? KeyChunk<C>::kFloats : ValueChunk<C>::kFloats;
    static constexpr int kParts = KeyChunk<C>::kLoads > ValueChunk<C>::kLoads ? KeyChunk<C>::kLoads : ValueChunk<C>::kLoads;
    static constexpr int kQueries = (C::kDepth * kBlockRows + 2 * kChunk - 1) / (2 * kChunk) * 2 * kChunk;  // Up to where chunks may begin.
    // Strips lie after the chunks or, where V's leave room, behind it in one of them: not that of V's first chunk, where K's next goes.
    static constexpr bool kStripsInChunk = ValueChunk<C>::kFloats + 2 * kGroups * kStrip <= kChunk;
    static_assert(!kStripsInChunk || kBlockKeys / C::kChunkKeys % 2 == 0, "V's last chunk is in the other place than its first");
    static constexpr int kReferences = kQueries + 2 * kChunk + (kStripsInChunk ? 0 : 2 * kGroups * kStrip);
    static constexpr int kSharedFloats = kReferences + (C::kFewRegisters ? kBlockRows : 0);
    static constexpr int kBodyKeys = C::kStripsAtOnce * C::kLaneCols;
    static_assert(kSharedFloats * sizeof(float) <= 49152, "48 KB");
    static_assert(C::kKeys % C::kStripsAtOnce == 0 && kBodyKeys % C::kChunkKeys == 0,
                  "a loop body takes whole strips and whole chunks of V");
    static_assert(C::kDepth % (C::kChunkDepth * C::kChunksAtOnce) == 0, "whole bodies of the loop over depth");
    static_assert(kBlockRows * (C::kCols * C::kLaneCols + 6) <= kSharedFloats, "O fits on its way out");
    static_assert((kChunk & (kChunk - 1)) == 0 && kQueries % (2 * kChunk) == 0, "chunks alternate between places one bit apart");
    static_assert((kStrip & (kStrip - 1)) == 0 && kQueries % (2 * kStrip) == 0, "strips likewise");
    static_assert(!kStripsInChunk || ValueChunk<C>::kFloats % (2 * kStrip) == 0, "those in a chunk, too");
};

}  // namespace attile::gpu::simt
