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
        : RingMethod(problem, problem.ranks + 1, 1),
          gradients_(problem),
          keys_(problem),
          slots_(problem),
          own_(&slots_),
          now_(&slots_),
          before_(&slots_) {}

    int32_t prepare() override {
        ATTILE_TRY(gradients_.take());
        ATTILE_TRY(keys_.take(2));
        ATTILE_TRY(gradients_.take_key_slots(longest_shard(problem_.k_shards), kSlots, &slots_));
        own_.begin(rows_of(problem_.k_shard(problem_.rank)));
        return ATTILE_OK;
    }

  private:
    // Of the own keys, of what is sent and received, and for a call's part. Where rows or keys cannot be joined up to two more are wanted.
    static constexpr int32_t kSlots = 4;

    int32_t start(Link &link, int32_t step) override {
        ATTILE_TRY(keys_.start(link, step));
        return start_sums(link, step);
    }
    void advance() override { std::swap(now_, before_); }
    int32_t finish(Session &session) override { return gradients_.finish(session, &own_); }

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

    // A piece whose sum is received.
    struct Arrival {
        Range rows;
        int32_t slot;
    };

    // Calls then(rows) for the pieces of this step's keys whose sums come with its messages.
    template <class Then>
    int32_t for_each_coming(int32_t step, Then &&then) const {
        const int32_t owner = keys_.owner(step);
        for (const Piece &piece : problem_.k_shard(owner).pieces) {
            if (way_of(owner, piece).goes_on(step - 1)) ATTILE_TRY(then(rows_of(piece)));
        }
        return ATTILE_OK;
    }

    // Likewise for the own pieces whose sums come home.
    template <class Then>
    int32_t for_each_returned(int32_t step, Then &&then) const {
        for (const Piece &piece : problem_.k_shard(problem_.rank).pieces) {
            if (way_of(problem_.rank, piece).ends(step - 1)) ATTILE_TRY(then(rows_of(piece)));
        }
        return ATTILE_OK;
    }

    // Starts what is sent of the sums that the step before gave, and what is received of those for this step's keys, or home. After a
    // failure of this rank's own they are any bytes, and come to slots that nothing else uses then.
    int32_t start_sums(Link &link, int32_t step) {
        const int32_t rank = problem_.rank, ranks = problem_.ranks;
        if (step < 1) return ATTILE_OK;
        const bool is_ready = ready_for_ == step;
        size_t next = 0;
        const auto receive = [&](int32_t slot, int32_t from) {
            return
                [&, slot, from](const Range &rows) { return slots_.receive(link, is_ready ? arrivals_[next++].slot : slot, rows, from); };
        };
        ATTILE_TRY(for_each_coming(step, receive(1, (rank + ranks - 1) % ranks)));
        ATTILE_TRY(for_each_returned(step, receive(2, (rank + step - 1) % ranks)));
        const int32_t owner = keys_.owner(step - 1);
        const std::vector<Piece> &pieces = problem_.k_shard(owner).pieces;
        for (size_t i = 0; i < pieces.size(); ++i) {
            const Way way = way_of(owner, pieces[i]);
            if (!way.goes_on(step - 1) && !way.ends(step - 1)) continue;
            const int32_t slot = is_ready ? before_.slot_of(i) : 0, to = way.ends(step - 1) ? owner : (rank + 1) % ranks;
            ATTILE_TRY(slots_.send(link, slot, rows_of(pieces[i]), to));
        }
        return ATTILE_OK;
    }

    // What came is put into the sums, and what comes next gets its place.
    int32_t take_arrivals(int32_t step) override {
        const Range entries = {0, problem_.batch()};
        before_.begin({});
        size_t next = 0;
        if (step > 0) {
            ATTILE_TRY(for_each_coming(step, [&](const Range &rows) { return now_.add(rows, entries, arrivals_[next++].slot); }));
            ATTILE_TRY(for_each_returned(step, [&](const Range &rows) { return own_.add(rows, entries, arrivals_[next++].slot); }));
        }
        arrivals_.clear();
        if (step == problem_.ranks) return ATTILE_OK;
        const int32_t owner = keys_.owner(step);
        const std::vector<Piece> &pieces = problem_.k_shard(owner).pieces;
        for (size_t i = 0; step > 0 && i < pieces.size(); ++i) {
            const Way way = way_of(owner, pieces[i]);
            if (way.goes_on(step) || way.ends(step)) ATTILE_TRY(now_.close(i));
        }
        const auto find = [&](const Range &rows) {
            arrivals_.push_back({rows, 0});
            return slots_.find(rows, &arrivals_.back().slot);
        };
        ATTILE_TRY(for_each_coming(step + 1, find));
        ATTILE_TRY(for_each_returned(step + 1, find));
        ready_for_ = step + 1;
        return ATTILE_OK;
    }

    int32_t compute(int32_t step) override {
        if (step == problem_.ranks) return ATTILE_OK;
        const Shard &shard = problem_.k_shard(keys_.owner(step));
        if (step > 0) now_.begin(rows_of(shard));
        for (const std::vector<Piece> &run : list_runs(shard.pieces)) {
            const Piece place = place_of(run);
            attile_tensor k, v;
            keys_.view(step, place, &k, &v);
            ATTILE_TRY(gradients_.add(run, k, v, step == 0 ? &own_ : &now_, place.local));
        }
        return ATTILE_OK;
    }

    Gradients gradients_;
    KeyRing keys_;
    SumSlots slots_;
    PlacedSums own_, now_, before_;  // of this rank's keys, of this step's, and of those of the step before
    std::vector<Arrival> arrivals_;  // of the next messages
    int32_t ready_for_ = 0;          // the step whose sums have their places
};

}  // namespace

std::unique_ptr<Method> make_ring_backward(const DistributedAttention &problem) { return std::make_unique<RingBackward>(problem); }

}  // namespace attile::core
