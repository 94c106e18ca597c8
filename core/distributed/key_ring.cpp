// SPDX-License-Identifier: Apache-2.0
#include "distributed/key_ring.h"

#include <algorithm>

#include "message.h"
#include "status.h"

namespace attile::core {

int32_t KeyRing::take() {
    const DistributedAttention &p = problem_;
    const int64_t bytes = element_bytes(p.local.q.dtype), lines = product({p.batch(), p.heads_kv()});
    k_row_ = product({lines, p.head_dim(), bytes});
    v_row_ = product({lines, p.head_dim_v(), bytes});
    const int64_t longest = longest_shard(p.k_shards);
    for (Slot *slot : {&now_, &next_}) {
        ATTILE_TRY(p.take(&slot->k, longest, k_row_));
        ATTILE_TRY(p.take(&slot->v, longest, v_row_));
    }
    if (p.on_device()) {
        ATTILE_TRY(device_.begin());
        const int32_t dtype = p.local.q.dtype;
        const int64_t own = p.local.k.shape[2];
        ATTILE_TRY(device_.copy(p.local.k, packed_view(now_.k.at(), dtype, own, p.batch(), p.heads_kv(), p.head_dim())));
        ATTILE_TRY(device_.copy(p.local.v, packed_view(now_.v.at(), dtype, own, p.batch(), p.heads_kv(), p.head_dim_v())));
        return p.settle();
    }
    Buffer k_copy, v_copy;
    attile_tensor k, v;
    ATTILE_TRY(p.to_host(p.local.k, &k_copy, &k));
    ATTILE_TRY(p.to_host(p.local.v, &v_copy, &v));
    pack_rows(k, 0, k.shape[2], 0, p.heads_kv(), now_.k.at());
    pack_rows(v, 0, v.shape[2], 0, p.heads_kv(), now_.v.at());
    return ATTILE_OK;
}

int32_t KeyRing::start(Link &link, int32_t step) {
    if (step + 1 >= problem_.ranks) return ATTILE_OK;
    ATTILE_TRY(move(link, owner(step + 1), step + 1, next_, false));
    return move(link, owner(step), step + 1, now_, true);
}

// Whether a piece takes its step number `step`: a rank that it then still comes to sees it.
bool KeyRing::goes(int32_t owner, int32_t step, const Piece &piece) const {
    for (; step < problem_.ranks; ++step) {
        if (sees(problem_, (owner + step) % problem_.ranks, piece)) return true;
    }
    return false;
}

// Starts what is sent or received of an owner's keys for step number `step` of their way.
int32_t KeyRing::move(Link &link, int32_t owner, int32_t step, const Slot &slot, bool sending) const {
    const int32_t ranks = problem_.ranks, peer = (problem_.rank + (sending ? 1 : ranks - 1)) % ranks;
    for (const Piece &piece : problem_.k_shard(owner).pieces) {
        if (piece.count == 0 || !goes(owner, step, piece)) continue;
        unsigned char *k = slot.k.at(piece.local * k_row_), *v = slot.v.at(piece.local * v_row_);
        ATTILE_TRY(sending ? link.send(k, piece.count * k_row_, peer) : link.receive(k, piece.count * k_row_, peer));
        ATTILE_TRY(sending ? link.send(v, piece.count * v_row_, peer) : link.receive(v, piece.count * v_row_, peer));
    }
    return ATTILE_OK;
}

void KeyRing::view(int32_t step, const Piece &piece, attile_tensor *k, attile_tensor *v) const {
    const DistributedAttention &p = problem_;
    if (step == 0) {
        *k = slice(p.local.k, 2, piece.local, piece.count);
        *v = slice(p.local.v, 2, piece.local, piece.count);
        return;
    }
    const int32_t dtype = p.local.q.dtype;
    *k = packed_view(now_.k.at(piece.local * k_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim());
    *v = packed_view(now_.v.at(piece.local * v_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim_v());
}

}  // namespace attile::core
