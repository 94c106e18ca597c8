// SPDX-License-Identifier: Apache-2.0
// Ring: at step s a rank computes with the keys that began s ranks before it, while they go on to the next rank and the next ones come. A
// piece goes as far as the last rank on its way that sees it.
#include <algorithm>
#include <utility>

#include "distributed/attention.h"
#include "guard.h"
#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

class Ring final : public Method {
  public:
    explicit Ring(const DistributedAttention &problem) : problem_(problem), partials_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const int64_t bytes = element_bytes(p.local.q.dtype), lines = product({p.batch(), p.heads_kv()});
        k_row_ = product({lines, p.head_dim(), bytes});
        v_row_ = product({lines, p.head_dim_v(), bytes});
        int64_t longest = 0;
        for (const Shard &shard : p.k_shards) longest = std::max(longest, shard.length());
        ATTILE_TRY(partials_.take());
        for (Slot *slot : {&now_, &next_}) {
            ATTILE_TRY(slot->k.take(kDistributed, longest, k_row_));
            ATTILE_TRY(slot->v.take(kDistributed, longest, v_row_));
        }
        Buffer k_copy, v_copy;
        attile_tensor k, v;
        ATTILE_TRY(p.to_host(p.local.k, &k_copy, &k));
        ATTILE_TRY(p.to_host(p.local.v, &v_copy, &v));
        pack_rows(k, 0, k.shape[2], 0, p.heads_kv(), now_.k.at());
        pack_rows(v, 0, v.shape[2], 0, p.heads_kv(), now_.v.at());
        return ATTILE_OK;
    }

    int32_t run(Session &session) override {
        const int32_t rank = problem_.rank, ranks = problem_.ranks;
        for (int32_t step = 0; step < ranks; ++step) {
            const int32_t owner = (rank + ranks - step) % ranks, coming = (rank + 2 * ranks - step - 1) % ranks;
            if (step + 1 < ranks) {
                ATTILE_TRY(move(session.link(), coming, step + 1, next_, false));
                ATTILE_TRY(move(session.link(), owner, step + 1, now_, true));
            }
            // What this rank's own work fails with is first told to the others, by going on if need be.
            const int32_t ended = session.sound() ? session.take(guarded([&] { return compute(owner, step == 0); })) : ATTILE_OK;
            const int32_t moved = session.link().finish();
            if (ended != ATTILE_OK) return session.own().fail_again();  // not what the link says since
            ATTILE_TRY(moved);
            std::swap(now_, next_);
        }
        return session.sound() ? session.take(guarded([&] { return partials_.finish(); })) : ATTILE_OK;
    }

  private:
    struct Slot {
        Buffer k, v;
    };

    // Whether a piece takes its step number `step`: a rank that it then still comes to sees it.
    bool goes(int32_t owner, int32_t step, const Piece &piece) const {
        for (; step < problem_.ranks; ++step) {
            if (sees(problem_, (owner + step) % problem_.ranks, piece)) return true;
        }
        return false;
    }

    // Starts what is sent or received of an owner's keys for step number `step` of their way.
    int32_t move(Link &link, int32_t owner, int32_t step, const Slot &slot, bool sending) {
        const int32_t ranks = problem_.ranks, peer = (problem_.rank + (sending ? 1 : ranks - 1)) % ranks;
        for (const Piece &piece : problem_.k_shard(owner).pieces) {
            if (piece.count == 0 || !goes(owner, step, piece)) continue;
            unsigned char *k = slot.k.at(piece.local * k_row_), *v = slot.v.at(piece.local * v_row_);
            ATTILE_TRY(sending ? link.send(k, piece.count * k_row_, peer) : link.receive(k, piece.count * k_row_, peer));
            ATTILE_TRY(sending ? link.send(v, piece.count * v_row_, peer) : link.receive(v, piece.count * v_row_, peer));
        }
        return ATTILE_OK;
    }

    int32_t compute(int32_t owner, bool own) {
        const DistributedAttention &p = problem_;
        const int32_t dtype = p.local.q.dtype;
        for (const Piece &piece : p.k_shard(owner).pieces) {
            if (piece.count == 0) continue;
            attile_tensor k, v;
            if (own) {
                k = slice(p.local.k, 2, piece.local, piece.count);
                v = slice(p.local.v, 2, piece.local, piece.count);
            } else {
                k = packed_view(now_.k.at(piece.local * k_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim());
                v = packed_view(now_.v.at(piece.local * v_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim_v());
            }
            ATTILE_TRY(partials_.add(piece, k, v));
        }
        return ATTILE_OK;
    }

    const DistributedAttention &problem_;
    Partials partials_;
    Slot now_, next_;
    int64_t k_row_ = 0, v_row_ = 0;  // bytes
};

}  // namespace

std::unique_ptr<Method> make_ring(const DistributedAttention &problem) { return std::make_unique<Ring>(problem); }

}  // namespace attile::core
