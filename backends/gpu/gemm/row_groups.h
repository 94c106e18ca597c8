// SPDX-License-Identifier: Apache-2.0
// Which rows of a grouped product belong to which group. Offsets are data of the device: a kernel ahead of the product writes down where
// each group's rows begin, and which of the tiles of rows are its own; a tile lies within one group. The product's grid is as large as it
// can be, and blocks look up what their tiles are.
#pragma once

#include <cstdint>

namespace attile::gpu {

// Tiles are numbered through the groups in an order of their own, those of most rows a tile first: blocks that take tiles one after the
// other then have tiles of about the same time at a time.
struct RowGroups {
    const int32_t *first_row;   // Of each group; of the one behind the last, where its rows end.
    const int32_t *order;       // The group in each place of the order.
    const int32_t *first_tile;  // Of the group in each place; of the place behind the last, how many tiles there are.
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
    int32_t *first_row, *order, *first_tile;
};
inline constexpr int kFindRowGroupsThreads = 256;
const void *find_row_groups_kernel();  // One block.

}  // namespace attile::gpu
