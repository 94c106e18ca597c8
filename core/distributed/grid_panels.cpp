// SPDX-License-Identifier: Apache-2.0
#include "distributed/grid_panels.h"

#include "message.h"

namespace attile::core {

int32_t PanelSource::prepare(int64_t width) {
    const GridGemm &p = problem_;
    ATTILE_TRY(bring_to_host(p.context, p.host_memory, p.local.stream, matrix_.part, &image_memory_, &image_));
    ATTILE_TRY(transfer_.prepare(p.operation, p.rank, p.ranks, image_.dtype, width));
    const int64_t lines = need_.axis[1 - axis_].count(p.rank);
    for (Buffer &memory : memory_) ATTILE_TRY(memory.take(p.operation, product({lines, width}), element_bytes(image_.dtype)));
    return ATTILE_OK;
}

// What this rank has of the panel.
attile_tensor PanelSource::own_part(Range panel) const {
    const GridAxis &axis = matrix_.layout.axis[axis_];
    const int64_t first = axis.below(problem_.rank, panel.begin);
    return slice(image_, axis_, first, axis.below(problem_.rank, panel.end) - first);
}

attile_tensor PanelSource::buffer(Range panel) const {
    attile_tensor tensor{};
    tensor.data = memory_[filled_].at();
    tensor.dtype = image_.dtype;
    tensor.rank = 2;
    tensor.shape[axis_] = panel.count();
    tensor.shape[1 - axis_] = need_.axis[1 - axis_].count(problem_.rank);
    const int32_t fast = matrix_.own_fast;
    tensor.stride[fast] = 1;
    tensor.stride[1 - fast] = std::max<int64_t>(1, tensor.shape[fast]);
    return tensor;
}

int32_t PanelSource::start(Link &link, Range panel) {
    filled_ = 1 - filled_;
    return transfer_.start(link, panel, own_part(panel), buffer(panel));
}

attile_tensor PanelSource::land(Range panel) {
    attile_tensor view;
    if (transfer_.is_local(panel, own_part(panel), &view)) return view;
    transfer_.land();
    return buffer(panel);
}

}  // namespace attile::core
