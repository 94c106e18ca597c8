// SPDX-License-Identifier: Apache-2.0
// Copies of operands of four axes whose rows lie at multiples of 16 bytes: where they lie, and the launches that make them and bring
// results back.
#pragma once

#include <attile/attile_backend.h>

#include "device.h"
#include "host/workspace.h"
#include "mma/pack.h"

namespace attile::gpu::mma {

struct AlignedCopy {
    int64_t extent[4] = {};  // Of what is copied: 1 on axes that are broadcast, and stay so.
    int64_t stride[4] = {};  // Of the copy, in elements.
    int64_t element_bytes = 0;

    bool is_made() const { return element_bytes != 0; }
    int64_t bytes() const { return extent[0] * extent[1] * extent[2] * stride[2] * element_bytes; }  // 0: no copy is made.
};

// The copy of an operand with these extents, in rows of `columns` elements or a few more; those past the operand's are zero. Batch entries
// and heads that are broadcast are copied once.
AlignedCopy aligned_copy(const attile_operand &operand, int64_t batch, int64_t heads, int64_t rows, int64_t columns);

// Says in a plan's name and text that operands are copied; `names`: which, as "q k".
void name_copies(attile_support &support, const char *names);

// Copies of a call: placed in its workspace, then made, all of a direction in one launch for each size of element.
class AlignedCopies {
  public:
    // Where there is a copy, it takes the operand's place; false: the workspace is too small.
    bool place(const AlignedCopy &copy, attile_operand &operand, Workspace &workspace, bool is_result);
    int32_t pack(Device &device, Stream stream) { return launch(device, stream, false); }
    int32_t unpack(Device &device, Stream stream) { return launch(device, stream, true); }

  private:
    int32_t launch(Device &device, Stream stream, bool back) const;

    static constexpr int kMost = 2 * kMostPacked;
    struct One {
        PackMatrix matrix;
        int64_t element_bytes;
        bool is_result;
    };
    One one_[kMost];
    int count_ = 0;
};

}  // namespace attile::gpu::mma
