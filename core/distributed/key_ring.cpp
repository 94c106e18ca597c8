// SPDX-License-Identifier: Apache-2.0
#include "distributed/key_ring.h"

#include <algorithm>

#include "guard.h"
#include "message.h"
#include "status.h"

namespace attile::core {

int32_t KeyRing::take(int32_t slots) {
    const DistributedAttention &p = problem_;
    const int64_t bytes = element_bytes(p.local.q.dtype), lines = product({p.batch(), p.heads_kv()});
    k_row_ = product({lines, p.head_dim(), bytes});
    v_row_ = product({lines, p.head_dim_v(), bytes});
    const int64_t longest = longest_shard(p.k_shards);
    slots_.resize(static_cast<size_t>(slots));
    for (Slot &slot : slots_) {
        ATTILE_TRY(p.take(&slot.k, longest, k_row_));
        ATTILE_TRY(p.take(&slot.v, longest, v_row_));
    }
    own_k_ = slot(0).k.at();
    own_v_ = slot(0).v.at();
    if (p.on_device()) return pack_own();
    Buffer k_copy, v_copy;
    attile_tensor k, v;
    ATTILE_TRY(p.to_host(p.local.k, &k_copy, &k));
    ATTILE_TRY(p.to_host(p.local.v, &v_copy, &v));
    pack_rows(k, 0, k.shape[2], 0, p.heads_kv(), own_k_);
    pack_rows(v, 0, v.shape[2], 0, p.heads_kv(), own_v_);
    return ATTILE_OK;
}

// On the device. What lies packed there already is sent from its place.
int32_t KeyRing::pack_own() {
    const DistributedAttention &p = problem_;
    ATTILE_TRY(device_.begin());
    bool copies = false;
    const auto pack = [&](const attile_tensor &tensor, unsigned char **own) -> int32_t {
        if (is_packed(tensor)) {
            *own = static_cast<unsigned char *>(tensor.data);
            return ATTILE_OK;
        }
        copies = true;
        return device_.copy(tensor, packed_view(*own, tensor.dtype, tensor.shape[2], p.batch(), p.heads_kv(), tensor.shape[3]));
    };
    ATTILE_TRY(pack(p.local.k, &own_k_));
    ATTILE_TRY(pack(p.local.v, &own_v_));
    return copies ? p.settle() : ATTILE_OK;
}

int32_t KeyRing::start(Link &link, int32_t step) {
    if (step + 1 >= problem_.ranks) return ATTILE_OK;
    const Slot &now = slot(step), &next = slot(step + 1);
    ATTILE_TRY(move(link, owner(step + 1), step + 1, next.k.at(), next.v.at(), false));
    return move(link, owner(step), step + 1, step == 0 ? own_k_ : now.k.at(), step == 0 ? own_v_ : now.v.at(), true);
}

// Whether a piece takes its step number `step`: a rank that it then still comes to sees it.
bool KeyRing::goes(int32_t owner, int32_t step, const Piece &piece) const {
    for (; step < problem_.ranks; ++step) {
        if (sees(problem_, (owner + step) % problem_.ranks, piece)) return true;
    }
    return false;
}

// Starts what is sent or received of an owner's keys, which lie at `k` and `v`, for step number `step` of their way.
int32_t KeyRing::move(Link &link, int32_t owner, int32_t step, unsigned char *k, unsigned char *v, bool sending) const {
    const int32_t ranks = problem_.ranks, peer = (problem_.rank + (sending ? 1 : ranks - 1)) % ranks;
    const auto start = [&](const Range &rows, unsigned char *first, int64_t row) {
        unsigned char *const at = first + rows.begin * row;
        return sending ? link.send(at, rows.count() * row, peer) : link.receive(at, rows.count() * row, peer);
    };
    const auto start_both = [&](const Range &rows) -> int32_t {
        ATTILE_TRY(start(rows, k, k_row_));
        return start(rows, v, v_row_);
    };
    Range rows;  // of pieces side by side, which are one message
    for (const Piece &piece : problem_.k_shard(owner).pieces) {
        if (piece.count == 0 || !goes(owner, step, piece)) continue;
        if (piece.local != rows.end) {
            ATTILE_TRY(start_both(rows));
            rows.begin = piece.local;
        }
        rows.end = piece.local + piece.count;
    }
    return start_both(rows);
}

void KeyRing::view(int32_t step, const Piece &piece, attile_tensor *k, attile_tensor *v) const {
    const DistributedAttention &p = problem_;
    if (step == 0) {
        *k = slice(p.local.k, 2, piece.local, piece.count);
        *v = slice(p.local.v, 2, piece.local, piece.count);
        return;
    }
    const int32_t dtype = p.local.q.dtype;
    *k = packed_view(slot(step).k.at(piece.local * k_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim());
    *v = packed_view(slot(step).v.at(piece.local * v_row_), dtype, piece.count, p.batch(), p.heads_kv(), p.head_dim_v());
}

int32_t RingMethod::run(Session &session) {
    // Nothing that was queued uses the caller's memory behind the call.
    struct Settled {
        const DistributedAttention &problem;
        bool already = false;
        ~Settled() {
            if (already) return;
            const KeptError before;
            (void)problem.settle();
            before.put_back();
        }
    } settled{problem_};
    for (int32_t step = 0; step < steps_; ++step) ATTILE_TRY(run_step(session, step));
    ATTILE_TRY(finish(session));
    settled.already = session.sound();
    return ATTILE_OK;
}

int32_t RingMethod::run_step(Session &session, int32_t step) {
    Link &link = session.link();
    DeviceBlocks *const blocks = problem_.device_blocks;
    void *const stream = problem_.local.stream;
    int32_t ended = ATTILE_OK;
    const auto work = [&](auto &&body) {
        if (session.sound()) ended = session.take(guarded(body));
    };
    const auto has_mark = [&](int32_t one) { return blocks != nullptr && one > 0 && one + lag_ < steps_; };
    if (has_mark(step - lag_)) work([&] { return blocks->wait_for(marks_[(step - lag_) % 2], stream); });
    if (ended != ATTILE_OK) return session.own().fail_again();
    ATTILE_TRY(start(link, step));
    ATTILE_TRY(link.flush());
    // What this rank's own work fails with is first told to the others, by going on if need be.
    work([&] { return compute(step); });
    const int32_t moved = link.finish();
    if (ended != ATTILE_OK) return session.own().fail_again();  // not what the link says since
    ATTILE_TRY(moved);
    work([&]() -> int32_t {
        ATTILE_TRY(take_arrivals(step));
        return has_mark(step) ? blocks->mark(stream, &marks_[step % 2]) : ATTILE_OK;
    });
    if (ended != ATTILE_OK) return session.own().fail_again();
    advance();
    return ATTILE_OK;
}

}  // namespace attile::core
