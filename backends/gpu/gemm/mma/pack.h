// SPDX-License-Identifier: Apache-2.0
// Packing: operands that TMA cannot reach are copied into rows aligned to 16 bytes first.
#pragma once

#include <cstdint>

namespace attile::gpu::mma {

inline constexpr int kPackThreads = 256;
// A thread copies 16 bytes at a time, and a warp a piece of a row.
constexpr int64_t pack_piece_elements(int64_t element_bytes) { return 32 * 16 / element_bytes; }

struct PackMatrix {
    const void *from;
    void *to;                            // Dense but for the padding of rows; 16-byte aligned.
    int64_t batch_x, batch_y, row, col;  // Strides of `from` in elements.
    int64_t to_row;                      // Stride of `to`: a multiple of 16 bytes.
    int64_t rows, cols, count_y;         // Extents; the outer batch axis has as many entries as `pieces` makes.
    int64_t across;                      // Pieces of a row: a warp's work.
    int64_t pieces;                      // All; 0 if there is nothing to copy.
};

struct PackArguments {
    PackMatrix a, b;
};

// For elements of 2 or 4 bytes.
const void *pack_kernel(int64_t element_bytes);

}  // namespace attile::gpu::mma
