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
    explicit GatherBackward(const DistributedAttention &problem)
        : problem_(problem),
          gradients_(problem),
          keys_(problem),
          seen_slots_(problem),
          own_slots_(problem),
          seen_(&seen_slots_),
          own_(&own_slots_) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        ATTILE_TRY(keys_.take());
        ATTILE_TRY(gradients_.take());
        ATTILE_TRY(gradients_.take_key_slots(keys_.count(), 2, &seen_slots_));
        ATTILE_TRY(gradients_.take_key_slots(p.k_shard(p.rank).length(), kOwnSlots, &own_slots_));
        std::vector<Range> seen;
        for (const SeenKeys::Seen &piece : keys_.pieces()) seen.push_back({piece.place, piece.place + piece.keys.count});
        seen_.begin(seen);
        own_.begin(rows_of(p.k_shard(p.rank)));
        arrivals_.reserve(p.k_shard(p.rank).pieces.size());
        return p.settle();
    }

    int32_t run(Session &session) override {
        const DistributedAttention &p = problem_;
        ATTILE_TRY(keys_.exchange(session.link()));
        ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        for (int32_t step = 1; step < p.ranks; ++step) ATTILE_TRY(scatter(session, step));
        return gradients_.finish(session, &own_);
    }

  private:
    // The sum, what comes, and their sum.
    static constexpr int32_t kOwnSlots = 3;

    int32_t compute() {
        for (const SeenKeys::Run &run : keys_.runs()) {
            attile_tensor k, v;
            keys_.view(run, &k, &v);
            ATTILE_TRY(gradients_.add({run.keys}, k, v, &seen_, run.place));
        }
        ATTILE_TRY(seen_.close_all());
        for (size_t i = 0; i < keys_.pieces().size(); ++i) {
            const SeenKeys::Seen &piece = keys_.pieces()[i];
            if (piece.owner != problem_.rank) continue;
            const Range rows = rows_of(piece.keys);
            int32_t slot = 0;
            ATTILE_TRY(own_.place(rows, entries(), &slot));
            ATTILE_TRY(own_slots_.copy_from(seen_slots_, seen_.slot_of(i), piece.place, slot, rows));
            ATTILE_TRY(own_.add(rows, entries(), slot));
        }
        return problem_.settle();
    }

    struct Arrival {
        Range rows;
        int32_t slot;
    };

    // To the rank that is so many before this one, and from the one behind. The order of pieces between two ranks is that of the owner's
    // shard, on both sides.
    int32_t scatter(Session &session, int32_t step) {
        const DistributedAttention &p = problem_;
        const int32_t to = (p.rank + p.ranks - step) % p.ranks, from = (p.rank + step) % p.ranks;
        Link &link = session.link();
        arrivals_.clear();
        for (const Piece &keys : p.k_shard(p.rank).pieces) {
            if (keys.count == 0 || !sees(p, from, keys)) continue;
            Arrival one = {rows_of(keys), 0};
            ATTILE_TRY(own_.place(one.rows, entries(), &one.slot));
            ATTILE_TRY(own_slots_.receive(link, one.slot, one.rows, from));
            arrivals_.push_back(one);
        }
        for (const Piece &keys : p.k_shard(to).pieces) {
            for (size_t i = 0; i < keys_.pieces().size(); ++i) {
                const SeenKeys::Seen &piece = keys_.pieces()[i];
                if (piece.owner != to || piece.keys.local != keys.local || keys.count == 0) continue;
                // After a failure of this rank's own it sends any bytes.
                const int32_t slot = session.sound() ? seen_.slot_of(i) : 0;
                ATTILE_TRY(seen_slots_.send(link, slot, {piece.place, piece.place + keys.count}, to));
            }
        }
        ATTILE_TRY(link.finish());
        if (session.sound()) return session.take(guarded([&] { return take_sums(); }));
        for (const Arrival &one : arrivals_) own_slots_.drop(one.slot, one.rows);
        return ATTILE_OK;
    }

    int32_t take_sums() {
        for (const Arrival &one : arrivals_) ATTILE_TRY(own_.add(one.rows, entries(), one.slot));
        return problem_.settle();
    }

    Range entries() const { return {0, problem_.batch()}; }

    const DistributedAttention &problem_;
    Gradients gradients_;
    SeenKeys keys_;
    SumSlots seen_slots_, own_slots_;
    PlacedSums seen_;  // of all keys that this rank sees, in their places there
    PlacedSums own_;   // of this rank's keys
    std::vector<Arrival> arrivals_;
};

}  // namespace

std::unique_ptr<Method> make_gather_backward(const DistributedAttention &problem) { return std::make_unique<GatherBackward>(problem); }

}  // namespace attile::core
