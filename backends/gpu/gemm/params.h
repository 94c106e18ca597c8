// SPDX-License-Identifier: Apache-2.0
// What a GEMM kernel is told, by value. The host has normalised the problem: D's contiguous axis is its columns (a column-major D is
// computed as its transpose, with A and B exchanged), and each input has an outer axis (rows of A, columns of B) and a depth axis (k).
#pragma once

#include <cstdint>

namespace attile::gpu {

// A or B. Strides in elements.
struct GemmInput {
    const void *data;
    int64_t batch_x, batch_y;
    int64_t outer, depth;
    int32_t along_depth;  // Neighbouring threads read neighbours along depth, else along outer.
    int32_t chunk_bytes;  // From a chunk of depth to the next, where that fits.
};

// C, D or bias. data is null if absent.
struct GemmOutput {
    void *data;
    int64_t batch_x, batch_y;
    int64_t row, col;
    int32_t dtype;  // ATTILE_ constant.
    int32_t reserved;
};

struct GemmParams {
    GemmInput a, b;
    GemmOutput c, d, bias;
    int64_t m, n, k;
    int64_t batch_y;      // Extent of the inner batch axis.
    int64_t first_batch;  // Batch entry of the first block, x * batch_y + y.
    int64_t split_depth;  // Depth a block sums; splits * split_depth covers k.
    int64_t d_split;      // From one split's partial result to the next, in elements.
    int64_t columns;      // Columns that may be written: n, or more where the rows of a partial result are padded to whole vectors.
    double alpha, beta;
    uint32_t splits;
    uint32_t tiles_m, tiles_n;
    uint32_t raster;     // Rows of tiles that are walked together, so that neighbours in time share panels in the L2 cache.
    int32_t vectorised;  // C and D have unit column stride and rows of whole vectors.
    int32_t activation;  // ATTILE_ACTIVATION_ constant.
    int32_t reserved[2];
};

// The sum of `splits` partial results and the epilogue: a kernel of its own, in a fixed order, so that results repeat.
struct GemmCombineParams {
    const void *partial;
    int64_t partial_split, partial_batch, partial_row;  // In elements.
    GemmOutput c, d, bias;
    int64_t m, n;
    int64_t batch_y;
    int64_t batches;
    double alpha, beta;
    int32_t splits;
    int32_t ways;  // Threads that share the splits of an output: 1 or kGemmCombineWays.
    int32_t vectorised;
    int32_t activation;
};

}  // namespace attile::gpu
