// SPDX-License-Identifier: Apache-2.0
// Which rows of a grouped product belong to which group. Offsets are data of the device: a kernel ahead of the product writes down where
// each group's rows begin, and which of the tiles of rows are its own; a tile lies within one group. The product's grid is as large as it
// can be, and blocks look up what their tiles are.
#pragma once

#include <cstdint>

namespace attile::gpu {

// Both have an entry for each group and one behind the last: its first row, and the number of its first tile.
struct RowGroups {
    const int32_t *first_row, *first_tile;
    int32_t groups;
};

// Rows of a tile: those of `group` from `row` to before `end`, at most.
struct RowTile {
    int32_t group, row, end;
};

struct FindRowGroupsParams {
    const int32_t *offsets;
    int64_t stride;
    int32_t groups, rows;
    int32_t rows_of_tile;
    int32_t *first_row, *first_tile;
};
inline constexpr int kFindRowGroupsThreads = 256;
const void *find_row_groups_kernel();  // One block.

}  // namespace attile::gpu
