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

// Pieces of a shard with rows, in runs of those that lie side by side there.
std::vector<std::vector<Piece>> list_runs(const std::vector<Piece> &pieces);
// The place of a run in its shard, as that of one piece.
Piece place_of(const std::vector<Piece> &run);
// What rows have of a run of keys, in the order of the keys, whose places are counted from the run's first. Where all of these rows see all
// keys of pieces side by side, no matter where rows and keys are, that is one call.
std::vector<Meeting> meet_run(const DistributedAttention &problem, const EntryGroup &group, const Piece &rows,
                              const std::vector<Piece> &run);
// Puts the rows of `next` behind those of the meetings, for one call of both each, where they lie there and all rows of both see the same
// keys. False: they are left.
bool join_rows(const DistributedAttention &problem, const std::vector<Meeting> &next, std::vector<Meeting> *meetings);

// Calls add(meeting, group, part, end) for all rows of this rank with a run of keys; the meeting is of its row pieces from `part` up to
// `end`. Of two pieces for which alike(part, other, group) is false no rows are joined.
template <class Alike, class Add>
int32_t for_each_meeting(const DistributedAttention &problem, const std::vector<Piece> &run, Alike &&alike, Add &&add) {
    const std::vector<Piece> &rows = problem.q_shard().pieces;
    for (size_t group = 0; group < problem.groups.size(); ++group) {
        const auto meetings_of = [&](size_t part) { return meet_run(problem, problem.groups[group], rows[part], run); };
        for (size_t part = 0, end = 0; part < rows.size(); part = end) {
            std::vector<Meeting> meetings = meetings_of(part);
            for (end = part + 1; end < rows.size() && alike(part, end, group) && join_rows(problem, meetings_of(end), &meetings);) ++end;
            for (const Meeting &meeting : meetings) ATTILE_TRY(add(meeting, group, part, end));
        }
    }
    return ATTILE_OK;
}

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
