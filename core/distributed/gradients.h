// SPDX-License-Identifier: Apache-2.0
// The gradients that a rank's rows give: dq and dbias of these rows, and their part in dk and dv of any keys.
#ifndef ATTILE_CORE_DISTRIBUTED_GRADIENTS_H
#define ATTILE_CORE_DISTRIBUTED_GRADIENTS_H

#include "distributed/attention.h"
#include "distributed/pair_call.h"
#include "distributed/shared_sums.h"

namespace attile::core {

// dk and dv of some keys in the wide type, packed as keys travel.
class KeySums {
  public:
    int32_t take(const DistributedAttention &problem, int64_t keys, DeviceRows *device);
    // Of `count` keys from that one on, [batch, heads_kv, count, ..].
    attile_tensor dk(int64_t key, int64_t count) const;
    attile_tensor dv(int64_t key, int64_t count) const;
    // Starts to send or to receive them.
    int32_t send(Link &link, int64_t key, int64_t count, int32_t to) const;
    int32_t receive(Link &link, int64_t key, int64_t count, int32_t from);
    int32_t clear_rows(int64_t key, int64_t count);
    int32_t add(int64_t key, int64_t count, const KeySums &other, int64_t other_key);

  private:
    const DistributedAttention *problem_ = nullptr;
    DeviceRows *device_ = nullptr;
    Buffer dk_, dv_;
    int64_t dk_row_ = 0, dv_row_ = 0;  // bytes
};

class Gradients {
  public:
    explicit Gradients(const DistributedAttention &problem)
        : problem_(problem), call_(problem), device_(problem.device_work()), shared_(problem) {}
    // `keys`: of the longest run.
    int32_t take(int64_t keys);
    // After take().
    DeviceRows *device() { return &device_; }
    // All rows against a run of keys, whose k and v are [batch, heads_kv, keys of the run, ..]: what they give to its dk and dv, which
    // begin at `key` of the sums, and to dq and dbias.
    int32_t add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v, KeySums *sums, int64_t key);
    // After all keys: what else is exchanged, and the results to dq, dbias, dsinks, and from `own` to dk and dv.
    int32_t finish(Session &session, const KeySums &own);

  private:
    int32_t add_pair(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, const attile_tensor &dk,
                     const attile_tensor &dv);
    int32_t differentiate_sinks(const Piece &rows);
    int32_t write_results(const KeySums &own);
    attile_tensor dq_of(const Buffer &buffer) const;
    attile_tensor dbias() const;

    const DistributedAttention &problem_;
    PairCall call_;
    DeviceRows device_;
    SharedSums shared_;
    Buffer dq_, dbias_, pair_dq_, pair_dk_, pair_dv_, pair_dbias_;
};

}  // namespace attile::core

#endif
