// SPDX-License-Identifier: Apache-2.0
// Which rows a tile has, looked up in what is known of the groups.
#pragma once

#include "gemm/row_groups.h"
#include "lane.h"

namespace attile::gpu {

// The group that a tile of rows is of; all.groups behind the last tile.
ATTILE_LANE_FN int32_t find_row_group(const RowGroups &all, uint32_t tile) {
    int32_t low = 0, high = all.groups;  // The last group whose first tile is not behind this one lies in low .. high.
    while (low < high) {
        const int32_t middle = low + (high - low + 1) / 2;
        if (static_cast<uint32_t>(all.first_tile[middle]) <= tile) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return low;
}

// False behind the last tile.
ATTILE_LANE_FN bool find_row_tile(const RowGroups &all, uint32_t tile, int32_t rows_of_tile, RowTile &found) {
    found.group = find_row_group(all, tile);
    if (found.group == all.groups) return false;
    const uint32_t in_group = tile - static_cast<uint32_t>(all.first_tile[found.group]);
    found.row = all.first_row[found.group] + static_cast<int32_t>(in_group) * rows_of_tile;
    found.end = all.first_row[found.group + 1];
    return true;
}

}  // namespace attile::gpu
