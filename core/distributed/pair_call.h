// SPDX-License-Identifier: Apache-2.0
// A pair of pieces as a call of one rank: a window from the pair's own corner, and the parts of every operand that belong to it.
#ifndef ATTILE_CORE_DISTRIBUTED_PAIR_CALL_H
#define ATTILE_CORE_DISTRIBUTED_PAIR_CALL_H

#include "distributed/attention.h"

namespace attile::core {

attile_tensor entries(const attile_tensor &tensor, const EntryGroup &group);

// A pair's rows of a tensor with the rows of the shard on axis 2.
attile_tensor pair_rows(const attile_tensor &tensor, const EntryGroup &group, const Piece &rows, const Pair &pair);

// A pair's part of a tensor that broadcasts to [batch, heads_q, rows of the shard, keys of all].
attile_tensor pair_scores(const attile_tensor &tensor, const EntryGroup &group, const Piece &rows, const Piece &keys, const Pair &pair);

class PairCall {
  public:
    explicit PairCall(const DistributedAttention &problem) : problem_(problem) {}
    int32_t take();
    // Everything of the forward call but o and lse; without sinks. k and v are those of the piece, [batch, heads_kv, count, ..]. Memory of
    // this object is in use until the next call.
    int32_t make(const EntryGroup &group, const Piece &rows, const Piece &keys, const Pair &pair, const attile_tensor &k,
                 const attile_tensor &v, attile_attention_args *args);

  private:
    int32_t apply_alibi(const EntryGroup &group, const Piece &keys, const Pair &pair, attile_attention_args *args);
    double slope(const EntryGroup &group, int64_t b, int64_t h) const;

    const DistributedAttention &problem_;
    Buffer distances_, slopes_copy_, bias_copy_;
    attile_tensor slopes_{}, bias_{};
};

}  // namespace attile::core

#endif
