// SPDX-License-Identifier: Apache-2.0
// How a matrix lies over a grid of ranks: for each of its axes which indices a rank has, and where in its part.
#ifndef ATTILE_CORE_DISTRIBUTED_GRID_AXIS_H
#define ATTILE_CORE_DISTRIBUTED_GRID_AXIS_H

#include <attile/attile_distributed.h>

#include <cstdint>
#include <vector>

#include "distributed/rows.h"

namespace attile::core {

// Whole extents have at most this many rows or columns, so that no product of blocks and ranks has more than 63 bits.
inline constexpr int64_t kMostLines = int64_t{1} << 40;

// One axis of the part of a matrix that a call works on. Index i is row (column) origin + i of the whole matrix, whose blocks go round the
// coordinates. A rank has its indices in their order.
struct GridAxis {
    int64_t extent = 0;  // of the part
    int64_t origin = 0;
    int64_t block = 1;
    int32_t source = 0;  // the coordinate that has the first block, or ATTILE_REPLICATED
    int32_t ranks = 1;   // coordinates
    int32_t divide = 1;  // rank / divide % ranks is a rank's coordinate

    bool replicated() const { return source == ATTILE_REPLICATED; }
    // Whether every rank has all indices.
    bool has_all() const { return replicated() || ranks == 1; }
    // Lines after which blocks are on the same coordinates again.
    int64_t round() const { return block * ranks; }
    int32_t coordinate(int32_t rank) const { return rank / divide % ranks; }
    // How many of the whole matrix' first `lines` rows or columns the rank has.
    int64_t whole_below(int32_t rank, int64_t lines) const;
    // How many indices below `index` the rank has: where `index` is in its part, if it has it.
    int64_t below(int32_t rank, int64_t index) const { return whole_below(rank, origin + index) - whole_below(rank, origin); }
    int64_t count(int32_t rank) const { return below(rank, extent); }
    // The rank's first indices at or behind `index` that follow each other; empty at the extent if there are none.
    Range next(int32_t rank, int64_t index) const;
    // The same coordinates, each index on one of them: where all had all, they are cut evenly.
    GridAxis unshared() const;
};

// An axis that every rank has whole.
inline GridAxis whole_axis(int64_t extent) {
    GridAxis axis;
    axis.extent = extent;
    return axis;
}

// Rows and columns.
struct GridLayout {
    GridAxis axis[2];
    int64_t elements(int32_t rank) const { return product({axis[0].count(rank), axis[1].count(rank)}); }
};
inline GridLayout unshared(const GridLayout &layout) { return {{layout.axis[0].unshared(), layout.axis[1].unshared()}}; }
inline GridLayout transposed(const GridLayout &layout) { return {{layout.axis[1], layout.axis[0]}}; }

// Indices that lie one behind the other in two ranks' parts.
struct Run {
    int64_t from, to;  // where in the one's and in the other's part
    int64_t count;
};

// The indices in `range` that one rank has by `from` and another by `to`, in their order. Takes memory only where `runs` has too little.
void common_runs(const GridAxis &from, int32_t sender, const GridAxis &to, int32_t receiver, Range range, std::vector<Run> *runs);
int64_t count_runs(const std::vector<Run> &runs);
// How many of a rank's indices by the one it also has by the other.
int64_t count_common(const GridAxis &from, const GridAxis &to, int32_t rank);

}  // namespace attile::core

#endif
