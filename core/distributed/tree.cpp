// SPDX-License-Identifier: Apache-2.0
// Tree, for rows that every rank has: each computes them with its own keys, then pairs of ranks exchange results and merge them, at twice
// the distance in each step. Both of a pair merge in the order of ranks, so all come to the same bits. Ranks beyond the largest power of
// two give theirs to one below it first, and get the whole from there at the end.
#include "distributed/attention.h"
#include "distributed/partials.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

class Tree final : public Method {
  public:
    explicit Tree(const DistributedAttention &problem) : problem_(problem), partials_(problem) {}

    int32_t prepare() override {
        ATTILE_TRY(partials_.take());
        return partials_.clear_results();
    }

    int32_t run(Session &session) override {
        Link &link = session.link();
        ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        const int32_t rank = problem_.rank, ranks = problem_.ranks;
        int32_t power = 1;
        while (2 * power <= ranks) power *= 2;
        const bool beyond = rank >= power;
        const int32_t helper = beyond ? rank - power : rank + power;  // the other one of the first and the last step
        const bool helped = helper < ranks;
        if (helped) {
            ATTILE_TRY(beyond ? send(link, helper) : receive(link, helper));
            ATTILE_TRY(link.finish());
            if (!beyond) ATTILE_TRY(merge(session, helper));
        }
        for (int32_t distance = 1; distance < power && !beyond; distance *= 2) {
            const int32_t peer = rank ^ distance;
            ATTILE_TRY(receive(link, peer));
            ATTILE_TRY(send(link, peer));
            ATTILE_TRY(link.finish());
            ATTILE_TRY(merge(session, peer));
        }
        if (helped) {
            ATTILE_TRY(beyond ? receive(link, helper) : send(link, helper));
            ATTILE_TRY(link.finish());
        }
        if (!session.sound()) return ATTILE_OK;
        if (beyond) partials_.replace_by_received();
        return session.take(guarded([&] { return partials_.finish(); }));
    }

  private:
    int32_t compute() {
        const DistributedAttention &p = problem_;
        for (const std::vector<Piece> &run : list_runs(p.k_shard(p.rank).pieces)) {
            const Piece place = place_of(run);
            ATTILE_TRY(partials_.add(run, slice(p.local.k, 2, place.local, place.count), slice(p.local.v, 2, place.local, place.count)));
        }
        ATTILE_TRY(partials_.close());
        // What was computed on a device is sent from here on.
        return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
    }

    int32_t merge(Session &session, int32_t peer) {
        if (!session.sound()) return ATTILE_OK;
        return session.take(guarded([&]() -> int32_t {
            ATTILE_TRY(partials_.take_received(peer < problem_.rank));
            return problem_.host_memory ? ATTILE_OK : attile_synchronize(problem_.context, problem_.local.stream);
        }));
    }

    int32_t send(Link &link, int32_t to) const {
        const Partials::Parts parts = partials_.own();
        ATTILE_TRY(link.send(parts.o, parts.o_bytes, to));
        return link.send(parts.lse, parts.lse_bytes, to);
    }

    int32_t receive(Link &link, int32_t from) const {
        const Partials::Parts parts = partials_.received();
        ATTILE_TRY(link.receive(parts.o, parts.o_bytes, from));
        return link.receive(parts.lse, parts.lse_bytes, from);
    }

    const DistributedAttention &problem_;
    Partials partials_;
};

}  // namespace

std::unique_ptr<Method> make_tree(const DistributedAttention &problem) { return std::make_unique<Tree>(problem); }

}  // namespace attile::core
