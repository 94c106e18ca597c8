// SPDX-License-Identifier: Apache-2.0
// This rank's part of D while it is computed: each element on one rank, in the type of sums, and at the end as the caller wants it.
#ifndef ATTILE_CORE_DISTRIBUTED_GRID_RESULT_H
#define ATTILE_CORE_DISTRIBUTED_GRID_RESULT_H

#include "distributed/grid_gemm.h"
#include "distributed/transfer.h"

namespace attile::core {

class GridResult {
  public:
    explicit GridResult(const GridGemm &problem);

    // D's layout, but that what several ranks have is cut among them.
    const GridLayout &layout() const { return layout_; }
    // `one_product`: the whole result comes from one local call.
    int32_t prepare(bool one_product);

    // Part of the sum: the first one begins it with beta C, the last one ends it with bias and activation. Absent a and b: no product.
    int32_t add_product(const attile_tensor &a, const attile_tensor &b, bool first, bool last);
    // The same for sums of parts that come from elsewhere: begin, add to sums(), end.
    int32_t begin_sums() { return add_product({}, {}, true, false); }
    int32_t end_sums();
    const attile_tensor &sums() const { return sums_; }
    // Of the whole call, from prepare() on. NULL: everything lies in host memory.
    DeviceRows *device() { return problem_.on_device() ? &device_ : nullptr; }

    // The rest of the call, when this rank's sums are complete: rounds them, spreads D over the ranks that have it all, and writes it to
    // where the caller wants it.
    int32_t finish(Session &session);

  private:
    bool is_empty() const { return sums_.shape[0] == 0 || sums_.shape[1] == 0; }
    attile_tensor own_rows_and_columns(const attile_tensor &part) const;
    int32_t take_image();
    int32_t take_sums();
    int32_t widen(const attile_tensor &from, const attile_tensor &to) const;

    const GridGemm &problem_;
    const GridLayout layout_;
    bool shared_;  // D is on several ranks
    DeviceRows device_;
    attile_tensor image_{};       // D's part where messages lie
    attile_tensor sums_{};        // of `layout_`: in the image, or in float32 beside it
    attile_tensor c_{}, bias_{};  // of `layout_`
    Buffer image_memory_, sums_memory_, c_memory_, bias_memory_, wide_bias_memory_;
    Transfer spread_;
};

}  // namespace attile::core

#endif
