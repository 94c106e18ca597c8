// SPDX-License-Identifier: Apache-2.0
// The gradients that a rank's rows give: dq and dbias of these rows, and their part in dk and dv of any keys.
#ifndef ATTILE_CORE_DISTRIBUTED_GRADIENTS_H
#define ATTILE_CORE_DISTRIBUTED_GRADIENTS_H

#include "distributed/attention.h"
#include "distributed/pair_call.h"
#include "distributed/placed_sums.h"
#include "distributed/shared_sums.h"

namespace attile::core {

class Gradients {
  public:
    explicit Gradients(const DistributedAttention &problem)
        : problem_(problem), call_(problem), shared_(problem), row_slots_(problem), dq_(&row_slots_) {}
    int32_t take();
    // Slots for dk and dv of so many keys.
    int32_t take_key_slots(int64_t keys, int32_t slots, SumSlots *key_slots) const;
    // All rows against a run of keys, whose k and v are [batch, heads_kv, keys of the run, ..]: what they give to its dk and dv, which
    // begin at `key` of the sums, and to dq and dbias.
    int32_t add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v, PlacedSums *sums, int64_t key);
    // After all keys: what else is exchanged, and the results to dq, dbias, dsinks, and from `own` to dk and dv.
    int32_t finish(Session &session, PlacedSums *own);

  private:
    int32_t add_pair(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, PlacedSums *sums, int64_t key);
    int32_t differentiate_sinks(const Piece &rows);
    int32_t write_results(PlacedSums *own);
    attile_tensor dbias() const;

    const DistributedAttention &problem_;
    PairCall call_;
    SharedSums shared_;
    SumSlots row_slots_;
    PlacedSums dq_;
    Buffer dbias_, pair_dbias_;
};

}  // namespace attile::core

#endif
