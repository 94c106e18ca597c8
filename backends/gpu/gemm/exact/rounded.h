// SPDX-License-Identifier: Apache-2.0
// Which numbers of a tile's lines are no integers, as residues are made of it.
#pragma once

#include "gemm/exact/lines.h"

namespace attile::gpu::exact {

// In shared memory.
struct RoundedOfTile {
    uint32_t counts[kResidueLines];
    uint32_t places[kResidueLines][kMostListed];

    ATTILE_LANE_FN void add(int line, int place) {
        const uint32_t before = atomicAdd(&counts[line], 1u);
        if (before < kMostListed) places[line][before] = static_cast<uint32_t>(place);
    }
    // By one thread for each line, after all have been added: counts them with their line, and lists them. first: the tile's, in its line.
    ATTILE_LANE_FN void keep(int of_tile, const ResidueSide &side, const LineOf &line, int64_t first) const {
        const uint32_t count = counts[of_tile];
        if (side.counts == 0 || count == 0) return;
        const int64_t number = line.line + line.entry * side.line_step;
        const uint32_t before = atomicAdd(&side.lines[number].rounded, count);
        for (uint32_t i = 0; i < count && before + i < kMostListed; ++i)
            side.listed[number * kMostListed + before + i] = static_cast<uint32_t>(first + places[of_tile][i]);
    }
};

}  // namespace attile::gpu::exact
