// SPDX-License-Identifier: Apache-2.0
// Tensors as they travel: rows of a shard, packed [rows, batch, heads, width] so that any run of rows is one block.
#ifndef ATTILE_CORE_DISTRIBUTED_ROWS_H
#define ATTILE_CORE_DISTRIBUTED_ROWS_H

#include <attile/attile.h>

#include <cstddef>
#include <initializer_list>
#include <memory>

#include "distributed/device_rows.h"

namespace attile::core {

// Of extents; the largest number where it has more than 63 bits.
int64_t product(std::initializer_list<int64_t> extents);

// Indices of an axis.
struct Range {
    int64_t begin = 0, end = 0;
    int64_t count() const { return end - begin; }
};

// Memory of one call, not initialised: the host's, or the device's where its blocks are given, which outlive it.
class Buffer {
  public:
    // `count` elements times `bytes` each; what was held before is given back.
    int32_t take(const char *operation, int64_t count, int64_t bytes, DeviceBlocks *blocks = nullptr);
    unsigned char *at(int64_t byte = 0) const { return memory_.get() + byte; }

  private:
    struct Free {
        void operator()(unsigned char *memory) const;
        DeviceBlocks *blocks;  // NULL: host memory
        int64_t bytes;         // of a block
    };
    std::unique_ptr<unsigned char[], Free> memory_;
};

// Part of a tensor along one axis: `count` indices from `first` on, `step` apart. An extent of 1 that stands for a longer one stays.
attile_tensor slice(attile_tensor tensor, int32_t axis, int64_t first, int64_t count, int64_t step = 1);
attile_tensor slice_broadcast(attile_tensor tensor, int32_t axis, int64_t first, int64_t count, int64_t step = 1);

// The same elements with four axes; those in front have extent 1.
attile_tensor with_four_axes(const attile_tensor &tensor);

// The tensor where this thread can read it: as it is, or in `copy` all the bytes that it spans.
int32_t bring_to_host(attile_context *context, bool readable, void *stream, const attile_tensor &tensor, Buffer *copy,
                      attile_tensor *image);

// One element as a number.
double read_number(const attile_tensor &image, int64_t i0, int64_t i1 = 0, int64_t i2 = 0, int64_t i3 = 0);

// Rows [row, row + rows) and heads [head, head + heads) of a tensor with four axes, packed to `to`. An extent of 1 in place of the rows is
// repeated.
void pack_rows(const attile_tensor &image, int64_t row, int64_t rows, int64_t head, int64_t heads, void *to);

// Packed rows seen as [batch, heads, rows, width].
attile_tensor packed_view(void *data, int32_t dtype, int64_t rows, int64_t batch, int64_t heads, int64_t width);

}  // namespace attile::core

#endif
