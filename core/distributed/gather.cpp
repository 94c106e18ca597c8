// SPDX-License-Identifier: Apache-2.0
// All-gather: each rank gets the pieces of keys that it sees at once, and computes with all of them.
#include "distributed/attention.h"
#include "distributed/partials.h"
#include "distributed/seen_keys.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class Gather final : public Method {
  public:
    explicit Gather(const DistributedAttention &problem) : partials_(problem), keys_(problem) {}

    int32_t prepare() override {
        ATTILE_TRY(partials_.take());
        return keys_.take();
    }

    int32_t run(Session &session) override {
        ATTILE_TRY(keys_.exchange(session.link()));
        return session.take(guarded([&] { return compute(); }));
    }

  private:
    int32_t compute() {
        for (const SeenKeys::Run &run : keys_.runs()) {
            attile_tensor k, v;
            keys_.view(run, &k, &v);
            ATTILE_TRY(partials_.add({run.keys}, k, v));
        }
        return partials_.finish();
    }

    Partials partials_;
    SeenKeys keys_;
};

}  // namespace

std::unique_ptr<Method> make_gather(const DistributedAttention &problem) { return std::make_unique<Gather>(problem); }

}  // namespace attile::core
