// SPDX-License-Identifier: Apache-2.0
// Gradients of what all ranks have alike: dsinks, and a dbias that is one for all rows. Each rank adds up its own; then all ranks' are
// added up in the order of ranks, on each.
#ifndef ATTILE_CORE_DISTRIBUTED_SHARED_SUMS_H
#define ATTILE_CORE_DISTRIBUTED_SHARED_SUMS_H

#include "distributed/attention.h"
#include "tensor.h"

namespace attile::core {

class SharedSums {
  public:
    explicit SharedSums(const DistributedAttention &problem) : problem_(problem) {}
    int32_t take();
    bool has_dsinks() const { return !is_absent(problem_.gradients.dsinks); }
    bool has_dbias() const { return problem_.sums_bias_rows; }
    // This rank's own, 0 at first, in the wide type: [1, 1, 1, heads_q], and the shape of dbias, with one row also where this rank's has
    // none.
    attile_tensor dsinks() const { return dsinks_of(own_); }
    attile_tensor dbias() const { return dbias_of(own_); }
    int32_t exchange(Link &link);
    // The sums over all ranks to the outputs.
    int32_t finish();

  private:
    attile_tensor dsinks_of(const Buffer &buffer, int64_t rank = 0) const;
    attile_tensor dbias_of(const Buffer &buffer, int64_t rank = 0) const;

    int64_t dbias_rows() const { return problem_.packed ? problem_.gradients.dbias.shape[2] : 1; }

    const DistributedAttention &problem_;
    Buffer own_, all_;
    int64_t sinks_ = 0, elements_ = 0;  // of one rank
};

}  // namespace attile::core

#endif
