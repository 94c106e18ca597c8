// SPDX-License-Identifier: Apache-2.0
// A pair of pieces, or rows of several that see the same keys of several, is one call of the local gradients. lse and o are those of all
// keys, so what the calls give is added up.
#include "distributed/gradients.h"

#include "distributed/sums.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {

int32_t Gradients::take() {
    const DistributedAttention &p = problem_;
    ATTILE_TRY(call_.take());
    ATTILE_TRY(shared_.take());
    ATTILE_TRY(row_slots_.take(p.rows(), p.heads_q(), {p.head_dim()}, p.on_device() ? 3 : 2));
    dq_.begin(rows_of(p.q_shard()));
    if (p.on_device() || is_absent(p.gradients.dbias) || shared_.has_dbias()) return ATTILE_OK;
    const int64_t *shape = p.gradients.dbias.shape;
    ATTILE_TRY(dbias_.take(p.operation, product({shape[0], shape[1], shape[2], shape[3]}), element_bytes(p.wide())));
    clear(dbias());
    return ATTILE_OK;
}

int32_t Gradients::take_key_slots(int64_t keys, int32_t slots, SumSlots *key_slots) const {
    return key_slots->take(keys, problem_.heads_kv(), {problem_.head_dim(), problem_.head_dim_v()}, slots);
}

attile_tensor Gradients::dbias() const {
    const int64_t *shape = problem_.gradients.dbias.shape;
    return shared_.has_dbias() ? shared_.dbias() : dense_view(dbias_.at(), problem_.wide(), shape[0], shape[1], shape[2], shape[3]);
}

int32_t Gradients::add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v, PlacedSums *sums, int64_t key) {
    if (problem_.heads_q() == 0) return ATTILE_OK;
    const auto alike = [](size_t, size_t, size_t) { return true; };
    return for_each_meeting(problem_, run, alike,
                            [&](const Meeting &meeting, size_t, size_t, size_t) { return add_pair(meeting, k, v, sums, key); });
}

int32_t Gradients::add_pair(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, PlacedSums *sums, int64_t key) {
    const DistributedAttention &p = problem_;
    const int64_t row = meeting.rows.local + meeting.pair.row, first_key = key + meeting.key;
    const Range entries = {meeting.group->begin, meeting.group->end}, rows = {row, row + meeting.pair.rows},
                keys = {first_key, first_key + meeting.pair.keys};
    int32_t row_slot = 0, key_slot = 0;
    ATTILE_TRY(dq_.place(rows, entries, &row_slot));
    ATTILE_TRY(sums->place(keys, entries, &key_slot));
    attile_attention_args forward;
    ATTILE_TRY(call_.make(meeting, k, v, &forward));
    forward.o = rows_of(p.local.o, meeting);
    forward.lse = rows_of(p.local.lse, meeting);
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.flags = p.gradients.flags;
    args.stream = p.gradients.stream;
    args.forward = &forward;
    args.dout = rows_of(p.gradients.dout, meeting);
    args.dq = row_slots_.view(row_slot, 0, rows, entries);
    args.dk = sums->slots().view(key_slot, 0, keys, entries);
    args.dv = sums->slots().view(key_slot, 1, keys, entries);
    const bool has_dbias = !is_absent(p.gradients.dbias);
    if (has_dbias) {
        // The bias of the call has every axis where distances were added to it.
        const int64_t *shape = forward.bias.shape;
        const int32_t dtype = forward.bias.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        ATTILE_TRY(pair_dbias_.take(p.operation, product({shape[0], shape[1], shape[2], shape[3]}), element_bytes(dtype)));
        args.dbias = dense_view(pair_dbias_.at(), dtype, shape[0], shape[1], shape[2], shape[3]);
    }
    ATTILE_TRY(attile_attention_backward(p.context, &args));
    if (!p.on_device() && !p.host_memory) ATTILE_TRY(attile_synchronize(p.context, p.gradients.stream));
    ATTILE_TRY(dq_.add(rows, entries, row_slot));
    ATTILE_TRY(sums->add(keys, entries, key_slot));
    if (has_dbias) add_up(args.dbias, scores_of(p, dbias(), meeting));
    return ATTILE_OK;
}

// dsinks of some of this rank's rows, by a call without keys.
int32_t Gradients::differentiate_sinks(const Piece &rows) {
    const DistributedAttention &p = problem_;
    if (!shared_.has_dsinks() || rows.count == 0 || p.batch() == 0 || p.heads_q() == 0) return ATTILE_OK;
    const auto own = [&](const attile_tensor &tensor) { return slice(tensor, 2, rows.local, rows.count, rows.step); };
    attile_attention_args forward;
    attile_attention_init(&forward, sizeof forward);
    forward.q = own(p.local.q);
    forward.k = slice(p.local.k, 2, 0, 0);
    forward.v = slice(p.local.v, 2, 0, 0);
    forward.o = own(p.local.o);
    forward.lse = own(p.local.lse);
    forward.scale = p.local.scale;
    forward.sinks = p.local.sinks;
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.flags = p.gradients.flags;
    args.stream = p.gradients.stream;
    args.forward = &forward;
    args.dout = own(p.gradients.dout);
    const Range places = rows_of(rows);
    int32_t slot = 0;
    ATTILE_TRY(row_slots_.find(places, &slot));
    args.dq = row_slots_.view(slot, 0, places);
    row_slots_.drop(slot, places);
    args.dk = dense_view(args.dq.data, p.wide(), p.batch(), p.heads_kv(), 0, p.head_dim());
    args.dv = dense_view(args.dq.data, p.wide(), p.batch(), p.heads_kv(), 0, p.head_dim_v());
    const int32_t dtype = p.local.sinks.dtype;
    Buffer memory;
    ATTILE_TRY(memory.take(p.operation, p.heads_q(), element_bytes(dtype)));
    ATTILE_TRY(attile_tensor_init(&args.dsinks, memory.at(), dtype, 1, p.local.q.shape + 1));
    ATTILE_TRY(attile_attention_backward(p.context, &args));
    if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, p.gradients.stream));
    add_up(with_four_axes(args.dsinks), shared_.dsinks());
    return ATTILE_OK;
}

int32_t Gradients::write_results(PlacedSums *own) {
    const DistributedAttention &p = problem_;
    ATTILE_TRY(dq_.close_all());
    ATTILE_TRY(own->close_all());
    ATTILE_TRY(dq_.write(0, p.gradients.dq));
    ATTILE_TRY(own->write(0, p.gradients.dk));
    ATTILE_TRY(own->write(1, p.gradients.dv));
    if (p.on_device()) return p.settle();
    if (!is_absent(p.gradients.dbias) && !shared_.has_dbias()) ATTILE_TRY(write_out(p, dbias(), p.gradients.dbias));
    return shared_.finish();
}

int32_t Gradients::finish(Session &session, PlacedSums *own) {
    if (session.sound()) {
        const auto sinks = [&]() -> int32_t {
            for (const Piece &rows : rows_with_results(problem_)) ATTILE_TRY(differentiate_sinks(rows));
            return ATTILE_OK;
        };
        ATTILE_TRY(session.take(guarded(sinks)));
    }
    ATTILE_TRY(shared_.exchange(session.link()));
    return session.sound() ? session.take(guarded([&] { return write_results(own); })) : ATTILE_OK;
}

}  // namespace attile::core
