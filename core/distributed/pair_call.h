// SPDX-License-Identifier: Apache-2.0
// A pair of pieces as a call of one rank: a window from the pair's own corner, and the parts of every operand that belong to it.
#ifndef ATTILE_CORE_DISTRIBUTED_PAIR_CALL_H
#define ATTILE_CORE_DISTRIBUTED_PAIR_CALL_H

#include <vector>

#include "distributed/attention.h"

namespace attile::core {

// What a group of entries has of a pair of pieces, and what is to be computed of that.
struct Meeting {
    const EntryGroup *group = nullptr;
    Piece rows, keys;  // by positions in the group's sequence
    int64_t key = 0;   // of the first key that is computed, in the piece
    Pair pair;
    int64_t batch() const { return group->end - group->begin; }
};
Meeting meet(const EntryGroup &group, const Piece &rows, const Piece &keys);
// Puts the rows of `next` behind those of the meeting, for one call of both, where they lie there and all rows of both see the same keys,
// no matter where rows and keys are. False: they are left.
bool join(const DistributedAttention &problem, const Meeting &next, Meeting *meeting);

// Its rows of a tensor with the rows of the shard on axis 2, and its keys of one with those of the piece there.
attile_tensor rows_of(const attile_tensor &tensor, const Meeting &meeting);
attile_tensor keys_of(const attile_tensor &tensor, const Meeting &meeting);

// Its part of a tensor that broadcasts to [batch, heads_q, rows of the shard, keys of all], or for packed sequences to [sequences, heads_q,
// rows of one, keys of one].
attile_tensor scores_of(const DistributedAttention &problem, const attile_tensor &tensor, const Meeting &meeting);

// The rows of the shard that have results: but for packed sequences all of them.
std::vector<Piece> rows_with_results(const DistributedAttention &problem);

class PairCall {
  public:
    explicit PairCall(const DistributedAttention &problem) : problem_(problem) {}
    int32_t take();
    // Everything of the forward call but o and lse; without sinks. k and v are those of the piece, [batch, heads_kv, count, ..]. Memory of
    // this object is in use until the next call.
    int32_t make(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, attile_attention_args *args);

  private:
    int32_t apply_alibi(const Meeting &meeting, attile_attention_args *args);
    bool widens_bias() const;
    int32_t widen_bias(attile_attention_args *args);
    int32_t bring_distances(int64_t bytes);
    const Buffer &distances() const { return problem_.on_device() ? device_distances_ : distances_; }
    double slope(const EntryGroup &group, int64_t b, int64_t h) const;

    const DistributedAttention &problem_;
    Buffer distances_, device_distances_, slopes_copy_, bias_copy_;
    attile_tensor slopes_{}, bias_{};
};

}  // namespace attile::core

#endif
