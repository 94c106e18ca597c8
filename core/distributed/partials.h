// SPDX-License-Identifier: Apache-2.0
// Partial results of a rank's rows.
#ifndef ATTILE_CORE_DISTRIBUTED_PARTIALS_H
#define ATTILE_CORE_DISTRIBUTED_PARTIALS_H

#include <utility>
#include <vector>

#include "distributed/attention.h"
#include "distributed/pair_call.h"

namespace attile::core {

// The results of this rank's rows over the keys that were taken so far, in the wide type, so that sums of 16 bits are rounded once.
class Partials {
  public:
    explicit Partials(const DistributedAttention &problem) : problem_(problem), call_(problem), device_(problem.device_work()) {}
    int32_t take();
    // All rows against a run of keys, whose k and v are [batch, heads_kv, keys of the run, ..].
    int32_t add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v);
    // Rows that saw no key have their result, too: nothing is added any more, but what other ranks have of the same rows.
    int32_t close();
    // Sinks, and the results to o and lse.
    int32_t finish();

    // The bytes of what was closed, and where those of another rank are received.
    struct Parts {
        void *o, *lse;
        int64_t o_bytes, lse_bytes;
    };
    Parts own() const { return parts(o_, lse_); }
    Parts received() const { return parts(next_o_, next_lse_); }
    // Rows that nothing was computed of are sent as well, so that they hold numbers. Goes before the first add().
    int32_t clear_results();
    // Takes the received results in; `first`: they stand before the own ones in the merge.
    int32_t take_received(bool first);
    void replace_by_received() {
        std::swap(o_, next_o_);
        std::swap(lse_, next_lse_);
    }

  private:
    char &begun_of(size_t part, size_t group) { return begun_[part * problem_.groups.size() + group]; }
    int32_t add_pair(const Meeting &meeting, bool begun, const attile_tensor &k, const attile_tensor &v);
    int32_t attend(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, const attile_tensor &o,
                   const attile_tensor &lse);
    int32_t forget_rows(Meeting meeting) const;
    int32_t take_sinks(Buffer *memory, attile_tensor *o, attile_tensor *lse) const;
    attile_tensor o_view(const Buffer &buffer) const;
    attile_tensor lse_view(const Buffer &buffer) const;
    Parts parts(const Buffer &o, const Buffer &lse) const;
    bool empty() const { return problem_.rows() == 0 || problem_.batch() == 0 || problem_.heads_q() == 0; }

    const DistributedAttention &problem_;
    PairCall call_;
    DeviceRows device_;
    Buffer o_, lse_, next_o_, next_lse_;
    std::vector<char> begun_;  // by part and group: whether o_ and lse_ hold anything
};

}  // namespace attile::core

#endif
