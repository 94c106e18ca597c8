// SPDX-License-Identifier: Apache-2.0
// Keys and values that go from rank to rank: at step s a rank holds those that began s ranks before it, while they go on to the next rank
// and the next ones come. A piece goes as far as the last rank on its way that sees it.
#ifndef ATTILE_CORE_DISTRIBUTED_KEY_RING_H
#define ATTILE_CORE_DISTRIBUTED_KEY_RING_H

#include <utility>

#include "distributed/attention.h"

namespace attile::core {

class KeyRing {
  public:
    explicit KeyRing(const DistributedAttention &problem) : problem_(problem), device_(problem.device_work()) {}
    int32_t take();
    // Starts what is sent of the keys of that step, and what is received of those of the next.
    int32_t start(Link &link, int32_t step);
    // The next step's keys are there.
    void advance() { std::swap(now_, next_); }

    // Whose keys a rank holds at a step.
    int32_t owner(int32_t step) const { return (problem_.rank + problem_.ranks - step) % problem_.ranks; }
    // A piece of them, [batch, heads_kv, count, ..].
    void view(int32_t step, const Piece &piece, attile_tensor *k, attile_tensor *v) const;

  private:
    struct Slot {
        Buffer k, v;
    };
    bool goes(int32_t owner, int32_t step, const Piece &piece) const;
    int32_t move(Link &link, int32_t owner, int32_t step, const Slot &slot, bool sending) const;

    const DistributedAttention &problem_;
    DeviceRows device_;
    Slot now_, next_;
    int64_t k_row_ = 0, v_row_ = 0;  // bytes
};

}  // namespace attile::core

#endif
