// SPDX-License-Identifier: Apache-2.0
// All-gather: each rank gets the pieces of keys that it sees straight from their owners, in the order of their positions. Pieces that
// continue one another are then one piece, so that few calls are made of them.
#include <algorithm>

#include "distributed/attention.h"
#include "guard.h"
#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

class Gather final : public Method {
  public:
    explicit Gather(const DistributedAttention &problem) : problem_(problem), partials_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const int64_t bytes = element_bytes(p.local.q.dtype), lines = product({p.batch(), p.heads_kv()});
        k_row_ = product({lines, p.head_dim(), bytes});
        v_row_ = product({lines, p.head_dim_v(), bytes});
        ATTILE_TRY(partials_.take());
        list_pieces();
        int64_t seen = 0;
        for (const Seen &piece : seen_) seen += piece.keys.count;
        ATTILE_TRY(k_.take(kDistributed, seen, k_row_));
        ATTILE_TRY(v_.take(kDistributed, seen, v_row_));
        const int64_t own = p.local.k.shape[2];
        ATTILE_TRY(own_k_.take(kDistributed, own, k_row_));
        ATTILE_TRY(own_v_.take(kDistributed, own, v_row_));
        Buffer k_copy, v_copy;
        attile_tensor k, v;
        ATTILE_TRY(p.to_host(p.local.k, &k_copy, &k));
        ATTILE_TRY(p.to_host(p.local.v, &v_copy, &v));
        pack_rows(k, 0, own, 0, p.heads_kv(), own_k_.at());
        pack_rows(v, 0, own, 0, p.heads_kv(), own_v_.at());
        for (const Seen &piece : seen_) {
            if (piece.owner != p.rank) continue;
            pack_rows(k, piece.keys.local, piece.keys.count, 0, p.heads_kv(), k_.at(piece.place * k_row_));
            pack_rows(v, piece.keys.local, piece.keys.count, 0, p.heads_kv(), v_.at(piece.place * v_row_));
        }
        return ATTILE_OK;
    }

    int32_t run(Session &session) override {
        const DistributedAttention &p = problem_;
        Link &link = session.link();
        // The order of pieces between two ranks is that of the owner's shard, on both sides.
        for (int32_t step = 1; step < p.ranks; ++step) {
            const int32_t from = (p.rank + p.ranks - step) % p.ranks;
            for (const Piece &keys : p.k_shard(from).pieces) {
                for (const Seen &piece : seen_) {
                    if (piece.owner != from || piece.keys.local != keys.local || keys.count == 0) continue;
                    ATTILE_TRY(link.receive(k_.at(piece.place * k_row_), keys.count * k_row_, from));
                    ATTILE_TRY(link.receive(v_.at(piece.place * v_row_), keys.count * v_row_, from));
                }
            }
        }
        for (int32_t step = 1; step < p.ranks; ++step) {
            const int32_t to = (p.rank + step) % p.ranks;
            for (const Piece &keys : p.k_shard(p.rank).pieces) {
                if (keys.count == 0 || !sees(p, to, keys)) continue;
                ATTILE_TRY(link.send(own_k_.at(keys.local * k_row_), keys.count * k_row_, to));
                ATTILE_TRY(link.send(own_v_.at(keys.local * v_row_), keys.count * v_row_, to));
            }
        }
        ATTILE_TRY(link.finish());
        return session.take(guarded([&] { return compute(); }));
    }

  private:
    struct Seen {
        int32_t owner;
        Piece keys;
        int64_t place;  // of its first row among all that this rank sees
    };

    void list_pieces() {
        for (int32_t owner = 0; owner < problem_.ranks; ++owner) {
            for (const Piece &keys : problem_.k_shard(owner).pieces) {
                if (keys.count != 0 && sees(problem_, problem_.rank, keys)) seen_.push_back({owner, keys, 0});
            }
        }
        std::sort(seen_.begin(), seen_.end(), [](const Seen &a, const Seen &b) { return a.keys.first < b.keys.first; });
        int64_t place = 0;
        for (Seen &piece : seen_) {
            piece.place = place;
            place += piece.keys.count;
        }
    }

    int32_t compute() {
        const DistributedAttention &p = problem_;
        const int32_t dtype = p.local.q.dtype;
        for (size_t i = 0; i < seen_.size();) {
            Piece run = seen_[i].keys;
            const int64_t place = seen_[i].place;
            for (++i; i < seen_.size() && run.stride == 1 && seen_[i].keys.first == run.first + run.count; ++i) {
                run.count += seen_[i].keys.count;
            }
            const attile_tensor k = packed_view(k_.at(place * k_row_), dtype, run.count, p.batch(), p.heads_kv(), p.head_dim());
            const attile_tensor v = packed_view(v_.at(place * v_row_), dtype, run.count, p.batch(), p.heads_kv(), p.head_dim_v());
            ATTILE_TRY(partials_.add(run, k, v));
        }
        return partials_.finish();
    }

    const DistributedAttention &problem_;
    Partials partials_;
    std::vector<Seen> seen_;
    Buffer k_, v_, own_k_, own_v_;
    int64_t k_row_ = 0, v_row_ = 0;  // bytes
};

}  // namespace

std::unique_ptr<Method> make_gather(const DistributedAttention &problem) { return std::make_unique<Gather>(problem); }

}  // namespace attile::core
