// SPDX-License-Identifier: Apache-2.0
// The kernel that adds the parts of tiles whose depth was cut.
#pragma once

#include "gemm/sm90/arguments.h"

namespace attile::gpu::sm90 {

inline constexpr int kAddPartsThreads = 256;  // Each has four sums of a tile.

struct GemmAddArguments {
    GemmArguments product;
    int32_t rows, columns;  // Of its tiles.
};

// Takes GemmAddArguments. A block for every kAddPartsThreads * 4 elements of the tiles that were cut.
const void *gemm_add_parts_kernel();

}  // namespace attile::gpu::sm90
