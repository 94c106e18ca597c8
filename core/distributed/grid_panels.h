// SPDX-License-Identifier: Apache-2.0
// Panels of an operand as a rank needs them, one after the other.
#ifndef ATTILE_CORE_DISTRIBUTED_GRID_PANELS_H
#define ATTILE_CORE_DISTRIBUTED_GRID_PANELS_H

#include <algorithm>

#include "distributed/grid_gemm.h"
#include "distributed/transfer.h"

namespace attile::core {

// An axis cut into panels of one width, the last one as wide as what is left.
class Panels {
  public:
    Panels(int64_t extent, int64_t width) : extent_(extent), width_(width) {}
    int64_t width() const { return width_; }
    int64_t count() const { return (extent_ + width_ - 1) / width_; }
    Range at(int64_t panel) const { return {panel * width_, std::min((panel + 1) * width_, extent_)}; }

  private:
    int64_t extent_, width_;
};

class PanelSource {
  public:
    // `need` is what each rank computes with: of the cut axis all.
    PanelSource(const GridGemm &problem, const GridMatrix &matrix, const GridLayout &need, int32_t panel_axis, DeviceRows *device)
        : problem_(problem),
          matrix_(matrix),
          need_(need),
          axis_(panel_axis),
          transfer_(matrix.layout, need, panel_axis, Arrival::kCopy, matrix.fast, device) {}

    int32_t prepare(int64_t width);
    // A panel's messages. They write to one of two buffers while the panel before is in the other.
    int32_t start(Session &session, Range panel);
    // When they are there: the panel, [its lines, its elements] in the order of the operand's axes.
    int32_t land(Session &session, Range panel, attile_tensor *landed);

  private:
    attile_tensor own_part(Range panel) const;
    attile_tensor buffer(Range panel) const;

    const GridGemm &problem_;
    const GridMatrix &matrix_;
    const GridLayout need_;
    const int32_t axis_;
    Transfer transfer_;
    attile_tensor image_{};  // the rank's part where messages lie
    Buffer image_memory_, memory_[2];
    int32_t filled_ = 0;  // the buffer of the panel that was started last
};

}  // namespace attile::core

#endif
