// SPDX-License-Identifier: Apache-2.0
// Packing: operands that TMA or 16-byte accesses cannot reach are copied into rows aligned to 16 bytes first, and results back from there.
#pragma once

#include <cstdint>

#include "divider.h"

namespace attile::gpu::mma {

inline constexpr int kPackThreads = 256;
// What goes back from a copy is dealt out to warps, a piece of a row each, or several short rows.
constexpr int64_t pack_piece_elements(int64_t element_bytes) { return 32 * 16 / element_bytes; }

struct PackMatrix {
    const void *from;
    void *to;                            // Dense but for the padding of rows; 16-byte aligned.
    int64_t batch_x, batch_y, row, col;  // Strides of `from` in elements.
    int64_t to_row;                      // Stride of `to`: a multiple of 16 bytes.
    int64_t rows, cols, count_y;         // Extents; the outer batch axis has as many entries as `lines` makes.
    int64_t lines;                       // Rows of all batch entries.
    // To the copy: 16 bytes a thread, of all rows one after the other.
    int64_t vectors;                     // All; 0 if there is nothing to copy.
    Divider of_row, of_entry, of_count;  // By a row's vectors, an entry's rows, count_y.
    const char *lowest, *highest;        // Where the elements at `from` begin in memory, and end.
    // Back from it.
    int64_t across;     // Pieces of a row: a warp's work.
    int64_t pieces;     // All.
    int32_t lane_bits;  // A row has 2^lane_bits lanes, so a warp 2^(5 - lane_bits) rows.
};
// Fills in what follows from the extents: `batches` entries of rows x cols elements of `element_bytes` bytes, to_row apart in the copy.
void pack_deal(PackMatrix &matrix, int64_t batches, int64_t element_bytes);

template <int kMatrices>
struct PackArguments {
    PackMatrix matrix[kMatrices];
};
inline constexpr int kMostPacked = 6;

// For elements of 2, 4 or 8 bytes: takes a PackArguments<2>.
const void *pack_kernel(int64_t element_bytes);
// For elements of 1, 2 or 4 bytes: takes a PackArguments<kMostPacked>.
const void *pack_several_kernel(int64_t element_bytes);
// The other way: from the aligned rows at `to` to the elements at `from`, and no further. As pack_several_kernel.
const void *unpack_several_kernel(int64_t element_bytes);

}  // namespace attile::gpu::mma
