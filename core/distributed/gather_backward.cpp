// SPDX-License-Identifier: Apache-2.0
// Gradients by an all-gather of keys and a reduce-scatter of dk and dv: each rank computes with all keys that it sees, then sends what it
// has of dk and dv to the keys' owners, one rank after the other, and each owner adds up what comes in that order.
#include "distributed/attention.h"
#include "distributed/gradients.h"
#include "distributed/seen_keys.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class GatherBackward final : public Method {
  public:
    explicit GatherBackward(const DistributedAttention &problem) : problem_(problem), gradients_(problem), keys_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const int64_t own = p.k_shard(p.rank).length();
        ATTILE_TRY(keys_.take());
        ATTILE_TRY(gradients_.take(keys_.longest_run()));
        ATTILE_TRY(seen_.take(p, keys_.count(), gradients_.device()));
        ATTILE_TRY(own_.take(p, own, gradients_.device()));
        ATTILE_TRY(coming_.take(p, own, gradients_.device()));
        ATTILE_TRY(own_.clear_rows(0, own));
        return p.settle();
    }

    int32_t run(Session &session) override {
        const DistributedAttention &p = problem_;
        ATTILE_TRY(keys_.exchange(session.link()));
        ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        for (int32_t step = 1; step < p.ranks; ++step) ATTILE_TRY(scatter(session, step));
        return gradients_.finish(session, own_);
    }

  private:
    int32_t compute() {
        for (const SeenKeys::Run &run : keys_.runs()) {
            attile_tensor k, v;
            keys_.view(run, &k, &v);
            ATTILE_TRY(gradients_.add({run.keys}, k, v, &seen_, run.place));
        }
        for (const SeenKeys::Seen &piece : keys_.pieces()) {
            if (piece.owner == problem_.rank) ATTILE_TRY(own_.add(piece.keys.local, piece.keys.count, seen_, piece.place));
        }
        return problem_.settle();
    }

    // To the rank that is so many before this one, and from the one behind. The order of pieces between two ranks is that of the owner's
    // shard, on both sides.
    int32_t scatter(Session &session, int32_t step) {
        const DistributedAttention &p = problem_;
        const int32_t to = (p.rank + p.ranks - step) % p.ranks, from = (p.rank + step) % p.ranks;
        Link &link = session.link();
        for (const Piece &keys : p.k_shard(p.rank).pieces) {
            if (keys.count != 0 && sees(p, from, keys)) ATTILE_TRY(coming_.receive(link, keys.local, keys.count, from));
        }
        for (const Piece &keys : p.k_shard(to).pieces) {
            for (const SeenKeys::Seen &piece : keys_.pieces()) {
                if (piece.owner != to || piece.keys.local != keys.local || keys.count == 0) continue;
                ATTILE_TRY(seen_.send(link, piece.place, keys.count, to));
            }
        }
        ATTILE_TRY(link.finish());
        return session.sound() ? session.take(guarded([&] { return take_sums(from); })) : ATTILE_OK;
    }

    int32_t take_sums(int32_t from) {
        const DistributedAttention &p = problem_;
        for (const Piece &keys : p.k_shard(p.rank).pieces) {
            if (keys.count != 0 && sees(p, from, keys)) ATTILE_TRY(own_.add(keys.local, keys.count, coming_, keys.local));
        }
        return p.settle();
    }

    const DistributedAttention &problem_;
    Gradients gradients_;
    SeenKeys keys_;
    KeySums seen_;          // of all keys that this rank sees, in their places there
    KeySums own_, coming_;  // of this rank's keys
};

}  // namespace

std::unique_ptr<Method> make_gather_backward(const DistributedAttention &problem) { return std::make_unique<GatherBackward>(problem); }

}  // namespace attile::core
