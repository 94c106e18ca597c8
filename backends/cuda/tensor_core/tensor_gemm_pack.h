// SPDX-License-Identifier: Apache-2.0
// Packing: operands that the copy engine cannot reach are copied into rows aligned to 16 bytes first.
#pragma once

#include <cstdint>

namespace attile::tensor_core {

inline constexpr int kPackThreads = 256;
inline constexpr int kPackVector = 8;  // Elements of 16 bits a thread copies at a time.
inline constexpr int kPackPiece = 32 * kPackVector;

struct PackMatrix {
    const uint16_t *from;
    uint16_t *to;                        // Dense but for the padding of rows; 16-byte aligned.
    int64_t batch_x, batch_y, row, col;  // Strides of `from` in elements.
    int64_t to_row;                      // Stride of `to`: a multiple of kPackVector.
    int64_t rows, cols, count_y;         // Extents; the outer batch axis has as many entries as `pieces` makes.
    int64_t across;                      // Pieces of a row: a warp's work, kPackPiece elements each.
    int64_t pieces;                      // All; 0 if there is nothing to copy.
};

struct PackArguments {
    PackMatrix a, b;
};

const void *pack_kernel();

}  // namespace attile::tensor_core
