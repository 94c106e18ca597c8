// SPDX-License-Identifier: Apache-2.0
// Copies between strided host memory and a dense image of it, in ranges, so that large tensors pass through small buffers.
#pragma once

#include <cstdint>

namespace attile::gpu {

// The axes of a strided block of memory that have more than one distinct element, outermost first in memory order.
// The dense image has the same axes in the same order without gaps; broadcast axes (stride 0) do not occur in it.
struct StridedBlock {
    int32_t element_bytes = 0;
    int32_t rank = 0;
    int64_t extent[4] = {};
    int64_t stride[4] = {};  // In elements, as the caller has it.
    int64_t run = 1;         // Elements of the innermost axes that are contiguous in both.
    int32_t run_rank = 0;    // How many innermost axes these are.

    int64_t count() const;  // Elements of the dense image.
    bool is_dense() const { return run_rank == rank; }
};

// Describes a block and gives the strides that an operand of the dense image has on the four original axes.
StridedBlock strided_block(const int64_t extent[4], const int64_t stride[4], int32_t element_bytes, int64_t dense_stride[4]);

// dense[0 .. count) = elements [first, first + count) of the block's dense order.
void gather(void *dense, const void *base, const StridedBlock &block, int64_t first, int64_t count);
// The reverse; writes the block's elements alone.
void scatter(void *base, const void *dense, const StridedBlock &block, int64_t first, int64_t count);

}  // namespace attile::gpu
