// SPDX-License-Identifier: Apache-2.0
#include "distributed/grid_panels.h"

#include "message.h"

namespace attile::core {

int32_t PanelSource::prepare(int64_t width) {
    const GridGemm &p = problem_;
    ATTILE_TRY(p.bring(matrix_.part, &image_memory_, &image_));
    ATTILE_TRY(transfer_.prepare(p.operation, p.rank, p.ranks, image_.dtype, width));
    const int64_t lines = need_.axis[1 - axis_].count(p.rank);
    for (Buffer &memory : memory_) ATTILE_TRY(p.take(&memory, product({lines, width}), element_bytes(image_.dtype)));
    return ATTILE_OK;
}

// What this rank has of the panel.
attile_tensor PanelSource::own_part(Range panel) const {
    const GridAxis &axis = matrix_.layout.axis[axis_];
    const int64_t first = axis.below(problem_.rank, panel.begin);
    return slice(image_, axis_, first, axis.below(problem_.rank, panel.end) - first);
}

attile_tensor PanelSource::buffer(Range panel) const {
    int64_t shape[2];
    shape[axis_] = panel.count();
    shape[1 - axis_] = need_.axis[1 - axis_].count(problem_.rank);
    return dense_matrix(memory_[filled_].at(), image_.dtype, shape, matrix_.own_fast);
}

int32_t PanelSource::start(Session &session, Range panel) {
    filled_ = 1 - filled_;
    return transfer_.start(session, panel, own_part(panel), buffer(panel));
}

int32_t PanelSource::land(Session &session, Range panel, attile_tensor *landed) {
    if (transfer_.is_local(panel, own_part(panel), landed)) return ATTILE_OK;
    *landed = buffer(panel);
    return transfer_.land(session);
}

}  // namespace attile::core
