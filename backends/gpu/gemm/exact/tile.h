// SPDX-License-Identifier: Apache-2.0
// Tiles of lines that residues are made of: where they are, their lines, and which of their numbers are no integers.
#pragma once

#include "gemm/exact/lines.h"
#include "numeric.h"

namespace attile::gpu::exact {

ATTILE_LANE_FN uint32_t tile_groups(const Numbers &of) { return static_cast<uint32_t>((lines_of(of) + kResidueLines - 1) / kResidueLines); }
ATTILE_LANE_FN uint32_t tiles_of(const ResidueParams &p) {
    return (tile_groups(p.a.numbers) + tile_groups(p.b.numbers)) * p.across.divisor;
}

// A's tiles, then B's.
struct Tile {
    const ResidueSide &side;
    int64_t first, first_depth;

    ATTILE_LANE_FN Tile(const ResidueParams &p, uint32_t number) : Tile(p, quotient(number, p.across), number, tile_groups(p.a.numbers)) {}

  private:
    ATTILE_LANE_FN Tile(const ResidueParams &p, uint32_t group, uint32_t number, uint32_t groups_a)
        : side(group < groups_a ? p.a : p.b),
          first(int64_t{group < groups_a ? group : group - groups_a} * kResidueLines),
          first_depth(int64_t{number - group * p.across.divisor} * kResidueDepth) {}
};

// In shared memory.
template <class T>
struct LinesOfTile {
    static constexpr int32_t kAllZeros = 1 << 30;
    const T *starts[kResidueLines];  // Null beyond the last line.
    int32_t scales[kResidueLines];   // kAllZeros: no number counts.
    uint32_t counts[kResidueLines];  // Of numbers that are rounded,
    uint32_t places[kResidueLines][kMostListed];

    // By one thread for each line.
    ATTILE_LANE_FN void begin(int line, const Tile &tile) {
        const Numbers &of = tile.side.numbers;
        const int64_t all = lines_of(of), number = tile.first + line;
        const LineOf found(of, min(number, all - 1));
        const Line &known = tile.side.lines[found.line + found.entry * tile.side.line_step];
        counts[line] = 0;
        starts[line] = number < all ? found.in<T>(of) + tile.first_depth * of.depth : nullptr;
        scales[line] = known.is_special != 0 ? kAllZeros : known.scale;
    }
    ATTILE_LANE_FN void add_rounded(int line, int place) {
        const uint32_t before = atomicAdd(&counts[line], 1u);
        if (before < kMostListed) places[line][before] = static_cast<uint32_t>(place);
    }
    // By one thread for each line, after all have been added: counts them with their line, and lists them. first: the tile's, in its line.
    ATTILE_LANE_FN void keep_rounded(int line, const Tile &tile, int64_t first) const {
        const ResidueSide &side = tile.side;
        const uint32_t count = counts[line];
        if (side.counts == 0 || count == 0) return;
        const LineOf found(side.numbers, tile.first + line);
        const int64_t number = found.line + found.entry * side.line_step;
        const uint32_t before = atomicAdd(&side.lines[number].rounded, count);
        for (uint32_t i = 0; i < count && before + i < kMostListed; ++i)
            side.listed[number * kMostListed + before + i] = static_cast<uint32_t>(first + places[line][i]);
    }
};

}  // namespace attile::gpu::exact
