// SPDX-License-Identifier: Apache-2.0
// The kernels of grouped products there are, as addresses to launch.
#pragma once

#include "gemm/block_scales.h"
#include "gemm/params.h"
#include "gemm/row_groups.h"

namespace attile::gpu::simt {

struct GemmGroupedParams {
    GemmParams product;  // m is the rows of all groups; a group is an entry of the inner batch axis.
    RowGroups groups;
    uint32_t first_tile;  // Of rows, of the first block.
};

// With B of 8 or 4 bits.
struct NarrowInput {
    BlockScales scale, zero;
    int32_t dtype, reserved;
};
struct GemmGroupedNarrowParams {
    GemmGroupedParams grouped;
    NarrowInput narrow;
};

struct GemmGroupedTile {
    const char *name;
    int m, n, threads;
    const void *vectors, *unaligned, *strided;  // By how A and B can be read, as GemmTileKernels has it; null: none was compiled.
};

// Of a type of A and B, the larger tile first; float64 has one. Its activations another kernel makes, which takes the same parameters.
const GemmGroupedTile *gemm_grouped_tiles(int32_t dtype);
inline constexpr int kGemmGroupedTiles = 2;
const GemmGroupedTile *gemm_grouped_narrow_tile(int32_t a_dtype);  // Of a type of A; with B of 8 or 4 bits.
const void *gemm_grouped_activate_f64();
inline constexpr int kGemmGroupedActivateThreads = 256;

}  // namespace attile::gpu::simt
