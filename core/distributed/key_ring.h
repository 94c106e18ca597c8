// SPDX-License-Identifier: Apache-2.0
// Keys and values that go from rank to rank: at step s a rank holds those that began s ranks before it, while they go on to the next rank
// and the next ones come. A piece goes as far as the last rank on its way that sees it. And the steps that both passes have in common.
#ifndef ATTILE_CORE_DISTRIBUTED_KEY_RING_H
#define ATTILE_CORE_DISTRIBUTED_KEY_RING_H

#include <vector>

#include "distributed/attention.h"

namespace attile::core {

class KeyRing {
  public:
    explicit KeyRing(const DistributedAttention &problem) : problem_(problem), device_(problem.device_work()) {}
    // `slots`: for the keys of so many steps.
    int32_t take(int32_t slots);
    // Starts what is sent of the keys of that step, and what is received of those of the next.
    int32_t start(Link &link, int32_t step);
    // Whose keys a rank holds at a step.
    int32_t owner(int32_t step) const { return (problem_.rank + problem_.ranks - step) % problem_.ranks; }
    // A piece of them, [batch, heads_kv, count, ..].
    void view(int32_t step, const Piece &piece, attile_tensor *k, attile_tensor *v) const;

  private:
    struct Slot {
        Buffer k, v;
    };
    const Slot &slot(int32_t step) const { return slots_[static_cast<size_t>(step) % slots_.size()]; }
    bool goes(int32_t owner, int32_t step, const Piece &piece) const;
    int32_t move(Link &link, int32_t owner, int32_t step, unsigned char *k, unsigned char *v, bool sending) const;
    int32_t pack_own();

    const DistributedAttention &problem_;
    DeviceRows device_;
    std::vector<Slot> slots_;
    unsigned char *own_k_ = nullptr, *own_v_ = nullptr;  // of this rank's keys as they are sent
    int64_t k_row_ = 0, v_row_ = 0;                      // bytes
};

// Messages of a step travel while the rank computes. On a device work is queued, so that it is not idle while the host starts the next
// step. Messages come first: those of NCCL take multiprocessors, which they would not get before the end of a long kernel.
class RingMethod : public Method {
  public:
    int32_t run(Session &session) final;

  protected:
    // `lag`: the messages of a step use memory of the work that was queued so many steps before; 1 or 2. Not that of the first step.
    RingMethod(const DistributedAttention &problem, int32_t steps, int32_t lag) : problem_(problem), steps_(steps), lag_(lag) {}
    // The messages of a step, which begin together.
    virtual int32_t start(Link &link, int32_t step) = 0;
    // This rank's work with the keys that it holds.
    virtual int32_t compute(int32_t step) = 0;
    // Its work with what came by the step's messages, if that is not only keys.
    virtual int32_t take_arrivals(int32_t step) = 0;
    virtual void advance() {}
    virtual int32_t finish(Session &session) = 0;

    const DistributedAttention &problem_;

  private:
    int32_t run_step(Session &session, int32_t step);

    const int32_t steps_, lag_;
    uint32_t marks_[2] = {};  // behind the work of the last steps, the even and the odd one
};

}  // namespace attile::core

#endif
