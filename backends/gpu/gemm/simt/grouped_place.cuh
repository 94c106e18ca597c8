// SPDX-License-Identifier: Apache-2.0
// Tiles of grouped products.
#pragma once

#include "gemm/params.h"
#include "gemm/row_groups.cuh"

namespace attile::gpu::simt {

// Which tile a block makes: of the tiles of a group's rows, and along the columns, which come one after the other.
template <class Config>
struct GroupedPlace {
    int64_t row_first, col_first, split, batch_x, batch_y, depth_first, depth;
    int64_t end;

    ATTILE_LANE_FN GroupedPlace(const GemmParams &p, const RowTile &tile, uint32_t column)
        : row_first(tile.row), split(0), batch_x(0), batch_y(tile.group), depth_first(0), depth(p.k), end(tile.end) {
        col_first = static_cast<int64_t>(column) * Config::kN;
    }
    static constexpr bool kMayHaveNoDepth = true;
    ATTILE_LANE_FN int64_t row_end(const GemmParams &) const { return end; }
};

}  // namespace attile::gpu::simt
