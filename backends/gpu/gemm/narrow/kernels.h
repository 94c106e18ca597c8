// SPDX-License-Identifier: Apache-2.0
// The kernels for products of numbers of 8 and 4 bits, as the host sees them. Sums lie in rows of whole vectors, dense matrices one after
// the other for each batch entry, all of a part's together; D's contiguous axis is their columns.
#pragma once

#include <cstdint>

#include "divider.h"
#include "gemm/block_scales.h"
#include "gemm/params.h"

namespace attile::gpu::narrow {

inline constexpr int kMostParts = 6;

// A or B, of any type, as dense rows along the depth: `to` has count_x x count_y matrices of `outer` rows of `row` elements, those past
// `depth` zeros. What is rewritten as i8 is i8, or bytes that are copied, and is not scaled. As bf16 a number may be cut in parts of 8 bits
// of its significand, whose sum it is: 0 has the highest, 2 the lowest of float32's.
struct RewriteParams {
    const void *from;
    void *to;
    int32_t from_dtype, to_dtype;                                // ATTILE_ constants; to f32, f16, bf16 or i8.
    int64_t from_batch_x, from_batch_y, from_outer, from_depth;  // In elements.
    int64_t outer, depth, row, count_x, count_y;
    BlockScales scale, zero;
    int32_t parts, part[kMostParts];  // Matrices side by side along the depth, each `row` long: what of a number they have.
};
inline constexpr int kRewriteThreads = 256, kRewriteRows = 32, kRewriteDepth = 64;
const void *rewrite_kernel();

// Products of int8, exact in int32 as far as kMostExactChunks reach; A and B in rows along the depth, which is a multiple of 16. Where all
// rows of one begin at multiples of 16 bytes it is aligned. `group_chunks` is 0, or sums of so many chunks are made float32, scaled and
// added.
struct ProductParams {
    const int8_t *a, *b;
    int64_t a_row, a_batch_x, a_batch_y, b_row, b_batch_x, b_batch_y;  // In bytes.
    int32_t a_aligned, b_aligned;
    int64_t m, n, k;
    void *sums;  // int32, with groups float32.
    int64_t sum_row, sum_batch, sum_part;
    int32_t chunks_each, group_chunks;  // Of a part; of a group.
    int32_t is_swapped;                 // A and B are the caller's B and A: a sum meets the scale of its B first, as it would unswapped.
    Divider tiles, tiles_n, parts, batch_y;
    BlockScales a_scale, b_scale;  // Of groups.
};
inline constexpr int kProductThreads = 256, kProductChunk = 32;
inline constexpr int kMostExactDepth = 131071;                            // (2^31 - 1) / 128^2: any sum of so many products fits int32,
inline constexpr int kMostExactChunks = kMostExactDepth / kProductChunk;  // and of so many whole chunks.
struct ProductTile {
    const void *kernel, *grouped;
    const char *name;
    int rows, columns;
};
inline constexpr int kProductTiles = 2;
const ProductTile *product_tiles();  // The one for few rows first.

// D = activation(alpha a_scale b_scale sum + beta C + bias) of the sums of all parts; with D of i32 the sums themselves.
struct FinishParams {
    const void *sums;
    int64_t sum_row, sum_batch, sum_part;
    GemmOutput c, d, bias;
    int64_t m, n, batch_y, batches;
    float alpha, beta;
    int32_t parts, is_integer;
    int32_t is_swapped;  // As in ProductParams.
    int32_t vectorised, activation;
    BlockScales a_scale, b_scale;  // Constant along the depth.
};
inline constexpr int kFinishThreads = 256;
const void *finish_kernel();

// At most 16 rows of A, of f32, f16 or bf16, times B of 8 or 4 bits, whose rows along the depth begin at multiples of 16 numbers, and the
// depth is one.
struct FewRowsParams {
    const void *a, *b;
    int64_t a_batch_x, a_batch_y, a_row, a_depth;  // In elements.
    int64_t b_batch_x, b_batch_y, b_row;           // In bytes.
    int64_t m, n, k;
    GemmOutput c, d, bias;
    float alpha, beta;
    int32_t a_dtype, a_quads;  // Of A whether four of a row can be read at a time.
    int32_t activation;
    int32_t warps_k;   // That share a depth: 1, 2, 4 or 8.
    int32_t by_group;  // Scales change along the depth.
    Divider blocks_n, batch_y;
    BlockScales scale, zero;
};
inline constexpr int kFewThreads = 256, kFewWarps = 8, kFewStep = 512, kMostFewRows = 16;
struct FewRowsKernel {
    const void *kernel;
    int rows, columns, most_warps_k;  // Columns of a warp.
};
FewRowsKernel few_rows_kernel(int32_t dtype, int64_t m);

}  // namespace attile::gpu::narrow
