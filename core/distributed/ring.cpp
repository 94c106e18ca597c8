// SPDX-License-Identifier: Apache-2.0
// Ring: each rank computes with the keys that it holds while they go on and the next ones come, and merges by the lse.
#include <algorithm>

#include "distributed/attention.h"
#include "distributed/key_ring.h"
#include "distributed/partials.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class Ring final : public RingMethod {
  public:
    explicit Ring(const DistributedAttention &problem) : RingMethod(problem, problem.ranks, kLag), partials_(problem), keys_(problem) {}

    int32_t prepare() override {
        ATTILE_TRY(partials_.take());
        // On a device keys come to a slot while work with those of two steps may be queued; on the host a step's work ends with the step.
        return keys_.take(problem_.on_device() ? std::min(problem_.ranks, kLag + 1) : 2);
    }

  private:
    static constexpr int32_t kLag = 2;

    int32_t start(Link &link, int32_t step) override { return keys_.start(link, step); }

    int32_t compute(int32_t step) override {
        for (const std::vector<Piece> &run : list_runs(problem_.k_shard(keys_.owner(step)).pieces)) {
            attile_tensor k, v;
            keys_.view(step, place_of(run), &k, &v);
            ATTILE_TRY(partials_.add(run, k, v));
        }
        return ATTILE_OK;
    }

    int32_t take_arrivals(int32_t /*step*/) override { return ATTILE_OK; }

    int32_t finish(Session &session) override {
        return session.sound() ? session.take(guarded([&] { return partials_.finish(); })) : ATTILE_OK;
    }

    Partials partials_;
    KeyRing keys_;
};

}  // namespace

std::unique_ptr<Method> make_ring(const DistributedAttention &problem) { return std::make_unique<Ring>(problem); }

}  // namespace attile::core
