// SPDX-License-Identifier: Apache-2.0
#include "distributed/shared_sums.h"

#include "distributed/sums.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {

int32_t SharedSums::take() {
    const DistributedAttention &p = problem_;
    const int64_t *shape = p.gradients.dbias.shape;
    sinks_ = has_dsinks() ? p.heads_q() : 0;
    elements_ = sinks_ + (has_dbias() ? product({shape[0], shape[1], dbias_rows(), shape[3]}) : 0);
    ATTILE_TRY(own_.take(p.operation, elements_, element_bytes(p.wide())));
    ATTILE_TRY(all_.take(p.operation, product({elements_, p.ranks}), element_bytes(p.wide())));
    clear(dense_view(own_.at(), p.wide(), 1, 1, 1, elements_));
    return ATTILE_OK;
}

attile_tensor SharedSums::dsinks_of(const Buffer &buffer, int64_t rank) const {
    const DistributedAttention &p = problem_;
    return dense_view(buffer.at(rank * elements_ * element_bytes(p.wide())), p.wide(), 1, 1, 1, sinks_);
}

attile_tensor SharedSums::dbias_of(const Buffer &buffer, int64_t rank) const {
    const DistributedAttention &p = problem_;
    const int64_t *shape = p.gradients.dbias.shape;
    return dense_view(buffer.at((rank * elements_ + sinks_) * element_bytes(p.wide())), p.wide(), shape[0], shape[1], dbias_rows(),
                      shape[3]);
}

int32_t SharedSums::exchange(Link &link) { return link.all_gather(own_.at(), all_.at(), elements_ * element_bytes(problem_.wide())); }

int32_t SharedSums::finish() {
    const DistributedAttention &p = problem_;
    for (int32_t rank = 1; rank < p.ranks; ++rank) {
        add_up(dense_view(all_.at(rank * elements_ * element_bytes(p.wide())), p.wide(), 1, 1, 1, elements_),
               dense_view(all_.at(), p.wide(), 1, 1, 1, elements_));
    }
    if (has_dsinks()) ATTILE_TRY(write_out(p, dsinks_of(all_), p.gradients.dsinks));
    return has_dbias() && !is_empty(p.gradients.dbias) ? write_out(p, dbias_of(all_), p.gradients.dbias) : ATTILE_OK;
}

}  // namespace attile::core
