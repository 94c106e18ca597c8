// SPDX-License-Identifier: Apache-2.0
// Gradients on a ring: keys and values go round as in the forward call, and behind them, one step later, the sums of dk and dv over the
// ranks that they have passed. The owner's own part is added at the end, so the sums begin at the next rank that sees the keys and go home
// from the last one.
#include <algorithm>
#include <utility>

#include "distributed/attention.h"
#include "distributed/gradients.h"
#include "distributed/key_ring.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class RingBackward final : public RingMethod {
  public:
    // In the last step sums go home. What a step sends of sums is what the step before gave.
    explicit RingBackward(const DistributedAttention &problem)
        : RingMethod(problem, problem.ranks + 1, 1), gradients_(problem), keys_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const int64_t longest = longest_shard(p.k_shards), own = p.k_shard(p.rank).length();
        ATTILE_TRY(gradients_.take(longest));
        ATTILE_TRY(keys_.take(2));
        for (KeySums *sums : {&now_, &before_, &coming_}) ATTILE_TRY(sums->take(p, longest, gradients_.device()));
        ATTILE_TRY(own_.take(p, own, gradients_.device()));
        return returned_.take(p, own, gradients_.device());
    }

  private:
    int32_t start(Link &link, int32_t step) override {
        ATTILE_TRY(keys_.start(link, step));
        return start_sums(link, step);
    }
    void advance() override { std::swap(now_, before_); }
    int32_t finish(Session &session) override { return gradients_.finish(session, own_); }

    // The steps of a piece's way, the owner's own left out, at which a rank sees it. None: 0 and 0.
    struct Way {
        int32_t first = 0, last = 0;
        // Whether the sum goes to the next rank after that step, and whether it goes home.
        bool goes_on(int32_t step) const { return first > 0 && first <= step && step < last; }
        bool ends(int32_t step) const { return first > 0 && step == last; }
    };

    Way way_of(int32_t owner, const Piece &piece) const {
        Way way;
        for (int32_t step = 1; step < problem_.ranks && piece.count > 0; ++step) {
            if (!sees(problem_, (owner + step) % problem_.ranks, piece)) continue;
            if (way.first == 0) way.first = step;
            way.last = step;
        }
        return way;
    }

    // Starts what is sent of the sums that the step before gave, and what is received of those for this step's keys, or home.
    int32_t start_sums(Link &link, int32_t step) {
        const int32_t rank = problem_.rank, ranks = problem_.ranks;
        if (step < 1) return ATTILE_OK;
        const int32_t owner = keys_.owner(step);
        for (const Piece &piece : problem_.k_shard(owner).pieces) {
            if (way_of(owner, piece).goes_on(step - 1)) {
                ATTILE_TRY(coming_.receive(link, piece.local, piece.count, (rank + ranks - 1) % ranks));
            }
        }
        for (const Piece &piece : problem_.k_shard(rank).pieces) {
            if (way_of(rank, piece).ends(step - 1)) {
                ATTILE_TRY(returned_.receive(link, piece.local, piece.count, (rank + step - 1) % ranks));
            }
        }
        const int32_t owner_before = keys_.owner(step - 1);
        for (const Piece &piece : problem_.k_shard(owner_before).pieces) {
            const Way way = way_of(owner_before, piece);
            if (way.goes_on(step - 1)) ATTILE_TRY(before_.send(link, piece.local, piece.count, (rank + 1) % ranks));
            if (way.ends(step - 1)) ATTILE_TRY(before_.send(link, piece.local, piece.count, owner_before));
        }
        return ATTILE_OK;
    }

    // What came is put into the sums.
    int32_t take_arrivals(int32_t step) override {
        const int32_t owner = keys_.owner(step);
        for (const Piece &piece : problem_.k_shard(owner).pieces) {
            if (way_of(owner, piece).goes_on(step - 1)) ATTILE_TRY(now_.add(piece.local, piece.count, coming_, piece.local));
        }
        for (const Piece &piece : problem_.k_shard(problem_.rank).pieces) {
            if (step > 0 && way_of(problem_.rank, piece).ends(step - 1))
                ATTILE_TRY(own_.add(piece.local, piece.count, returned_, piece.local));
        }
        return ATTILE_OK;
    }

    int32_t compute(int32_t step) override {
        if (step == problem_.ranks) return ATTILE_OK;
        for (const std::vector<Piece> &run : list_runs(problem_.k_shard(keys_.owner(step)).pieces)) {
            const Piece place = place_of(run);
            attile_tensor k, v;
            keys_.view(step, place, &k, &v);
            ATTILE_TRY(gradients_.add(run, k, v, step == 0 ? &own_ : &now_, place.local));
        }
        return ATTILE_OK;
    }

    Gradients gradients_;
    KeyRing keys_;
    KeySums now_, before_, coming_;  // of this step's keys, of those of the step before, and what is received for this step's
    KeySums own_, returned_;         // of this rank's keys
};

}  // namespace

std::unique_ptr<Method> make_ring_backward(const DistributedAttention &problem) { return std::make_unique<RingBackward>(problem); }

}  // namespace attile::core
