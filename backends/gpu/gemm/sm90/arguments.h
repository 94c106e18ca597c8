// SPDX-License-Identifier: Apache-2.0
// The arguments of the sm_90a GEMM kernel, passed by value, and the constants it shares with its host side. Its A is the operand along the
// rows of the tiles. For a product with few rows that is the caller's B, and the tile is the transpose of a part of D.
#pragma once

#include <cstdint>

#include "divider.h"
#include "gemm/params.h"
#include "gemm/residue_sums.h"
#include "gemm/row_groups.h"
#include "tensor_map.h"

namespace attile::gpu::sm90 {

inline constexpr int kGemmDepth = 64;         // Of a stage: 128 bytes, the width of the swizzle.
inline constexpr int kGemmPiece = 64;         // Rows or columns that are loaded at a time.
inline constexpr int kGemmMaxSplits = 8;      // Blocks of a cluster that share a depth: 1, 2, 3, 4 or 8.
inline constexpr int kGemmMostHalved = 64;    // Columns of tiles that two blocks can share by halves.
inline constexpr int kGemmMulticast = 2;      // Blocks that share a panel: B's of the same columns, or A's of the same rows.
inline constexpr int kGemmStripBytes = 4096;  // Of each consumer warp, at most: 16 rows of 64 sums.
inline constexpr int kGemmGroupPiece = 16;    // Rows of a group that are loaded at a time.
inline constexpr int kGemmSharedLimit = 227 * 1024;

// What a kernel does with its sums, each a kernel by itself: code that is there and not taken would make short products up to 16 % slower,
// since a block's first instructions come from memory. Plain: narrowed, in whole pieces of 16 bytes; or two blocks share a depth by
// halves. Fused: what is done to sums in registers, any narrow D and one in float32. General: the operation's epilogue, and split depths.
// Turned, turned fused: as plain and fused, of tiles whose columns are rows of D.
enum class GemmEnd { kPlain, kFused, kGeneral, kTurned, kTurnedFused };
// How sums leave for D. General: by the operation's epilogue, element by element or in vectors of four.
enum GemmWay : int32_t { kGemmGeneral, kGemmNarrow, kGemmFloats };
// What is done to sums in registers; a bias has a value a column or a row of D. C is unpaired where not all of its rows are made of
// aligned pairs.
enum GemmFused : int32_t {
    kFusedC = 1,
    kFusedBiasColumns = 2,
    kFusedBiasRows = 4,
    kFusedActivation = 8,
    kFusedUnpairedC = 16,
};

struct GemmTileShape {
    int rows, columns;
    bool turned;  // Made to have rows of D along its columns, and nothing else. Its B is contiguous along the depth.
};
// Numbers of 8 bits whose scales change along the depth; kColumns: and from column to column of a tile.
template <class Number, bool kColumns>
struct GemmGrouped {};

// The columns of a turned tile that are made for so many rows of a group, up to 240: of the widths that products are written out for.
constexpr int gemm_width(int rows) {
    if (rows <= 32) return rows <= 16 ? 16 : 32;
    if (rows <= 128) return rows <= 64 ? 64 : 128;
    return rows > 208 ? 240 : (rows + 15) / 16 * 16;
}
// Numbers of 16 bits of products of groups of rows, which lie along the columns of turned tiles.
template <class Element>
struct GemmRowGroups {};

// Numbers of int8 whose sums are stored modulo a number.
struct GemmResidues {};

// A tile's kernels for operands contiguous along the depth (0) or along their other axis (1): of A, of B.
struct GemmKernels {
    const void *of_layouts[2][2];
};

// A producer warpgroup, and a consumer warpgroup for every 64 rows.
constexpr int gemm_threads(int rows) { return 128 + rows * 2; }
constexpr int gemm_stage_bytes(int rows, int columns, bool outer_b) {
    const int loaded = outer_b && columns < kGemmPiece ? kGemmPiece : columns;
    return (rows + loaded) * kGemmDepth * 2;
}
constexpr int gemm_stages(int rows, int columns, bool outer_b) { return 196608 / gemm_stage_bytes(rows, columns, outer_b); }
// Rows of D that a warpgroup of a turned tile passes through half of its strips at a time, by 64 columns of D. With 192 rows four stages
// leave room for no more than 48.
constexpr int gemm_turned_piece(int rows) { return rows > 128 ? 48 : 64; }
constexpr int gemm_strip_bytes(int rows, bool turned) { return turned ? gemm_turned_piece(rows) * 64 : kGemmStripBytes; }
// Stages, strips, the bias of a tile's columns, two barriers a stage and one more, and what aligning the first stage to 1024 bytes may
// take.
constexpr int gemm_shared_bytes(const GemmTileShape &tile, bool outer_b) {
    const int stages = gemm_stages(tile.rows, tile.columns, outer_b);
    return 1024 + stages * gemm_stage_bytes(tile.rows, tile.columns, outer_b) + tile.rows / 16 * gemm_strip_bytes(tile.rows, tile.turned) +
           tile.columns * 4 + 16 * stages + 16;
}

// Factors of groups of rows or columns of a product of 8 bits; none where data is null.
struct GemmScales {
    const float *data;
    int64_t stride;
    Divider group;
    int64_t depth;  // From one group of 128 of the depth to the next, if they change along it.
};

// Of sums that are stored modulo a number, which so many batch entries in a row share.
struct GemmModuli {
    Divider entries;
    uint8_t largest[kMostModuli];  // As in ResidueSums.
};

struct GemmArguments {
    TensorMap map_a, map_b;  // Innermost axis first: contiguous, other, inner batch, outer batch.
    GemmOutput c, d, bias;
    int64_t m, n;  // Extents of D, whose columns are contiguous.
    float alpha, beta;
    uint32_t units;      // Of work: tiles or parts of one (of a cluster, if it shares a panel), batch included.
    Divider entry;       // Tiles of a batch entry.
    Divider band;        // Of those, rows that are walked together, so that they share panels in the L2 cache: tiles,
    Divider rows, last;  // and tiles along the rows, in the last band maybe fewer,
    uint32_t last_band;  // whose number this is.
    Divider batch_y;     // Extent of the inner batch axis.
    int32_t a_batch_x, a_batch_y, b_batch_x, b_batch_y;  // 0 where an operand is the same for all entries of the axis, else 1.
    int32_t depth_each, depth_more;                      // Blocks of kGemmDepth of each split, and how many splits have one more.
    uint32_t whole;                                      // Tiles from this one on are cut along the depth, each into
    Divider parts;                                       // so many units of work, whose sums another kernel adds (add_parts.cuh);
    float *partial;                                      // they are left here, as gemm_partial() says.
    int32_t part_each, part_more;                        // Blocks of kGemmDepth of each part, and how many parts have one more.
    int32_t splits;                                      // Blocks of a cluster that share the depth of a tile.
    int32_t multicast;                                   // Blocks of a cluster that share a panel:
    int32_t shares_a;                                    // A's, of the same rows; else B's, of the same columns.
    int32_t transposed;                                  // The tile's rows are columns of D; of a turned one always.
    int32_t simple;                                      // No C, no bias, no activation.
    int32_t way;                                         // A GemmWay; of a narrow one
    int32_t wide;                                        // 16 bytes at a time.
    int32_t fused;                                       // GemmFused, of a kernel that fuses.
    int32_t halves;                                      // Two splits, each of which stores half of a tile's columns.
    int32_t vectorised;                                  // As in GemmParams.
    int32_t activation;
    int32_t columns_first;               // Sums meet the column's scale first;
    int32_t grouped;                     // sums of groups along the depth have met both.
    GemmScales row_scale, column_scale;  // Of products of 8 bits, in the tile's orientation.
    RowGroups row_groups;                // Of products of groups, an entry of the inner batch axis each; `units` is then not looked at.
    Divider of_group;                    // And tiles along the columns of D (of clusters) for each of a group's rows.
    GemmModuli moduli;                   // Of sums that are stored modulo a number.
};

// Where a part's sums begin in `partial`, of a tile of so many elements: the parts of a tile one after the other, and of each what the
// blocks of the cluster left. A thread's sums lie there four at a time, those of all threads of the tile together.
constexpr int64_t gemm_partial(int64_t unit_of_parts, int blocks, int block, int elements) {
    return (unit_of_parts * blocks + block) * elements;
}

}  // namespace attile::gpu::sm90
