// SPDX-License-Identifier: Apache-2.0
// Ring: each rank computes with the keys that it holds while they go on and the next ones come, and merges by the lse.
#include "distributed/attention.h"
#include "distributed/key_ring.h"
#include "distributed/partials.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class Ring final : public Method {
  public:
    explicit Ring(const DistributedAttention &problem) : problem_(problem), partials_(problem), keys_(problem) {}

    int32_t prepare() override {
        ATTILE_TRY(partials_.take());
        return keys_.take();
    }

    int32_t run(Session &session) override {
        for (int32_t step = 0; step < problem_.ranks; ++step) {
            ATTILE_TRY(keys_.start(session.link(), step));
            ATTILE_TRY(session.link().flush());
            // What this rank's own work fails with is first told to the others, by going on if need be.
            const int32_t ended = session.sound() ? session.take(guarded([&] { return compute(step); })) : ATTILE_OK;
            const int32_t moved = session.link().finish();
            if (ended != ATTILE_OK) return session.own().fail_again();  // not what the link says since
            ATTILE_TRY(moved);
            keys_.advance();
        }
        return session.sound() ? session.take(guarded([&] { return partials_.finish(); })) : ATTILE_OK;
    }

  private:
    int32_t compute(int32_t step) {
        for (const std::vector<Piece> &run : list_runs(problem_.k_shard(keys_.owner(step)).pieces)) {
            attile_tensor k, v;
            keys_.view(step, place_of(run), &k, &v);
            ATTILE_TRY(partials_.add(run, k, v));
        }
        return problem_.settle();
    }

    const DistributedAttention &problem_;
    Partials partials_;
    KeyRing keys_;
};

}  // namespace

std::unique_ptr<Method> make_ring(const DistributedAttention &problem) { return std::make_unique<Ring>(problem); }

}  // namespace attile::core
