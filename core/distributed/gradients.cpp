// SPDX-License-Identifier: Apache-2.0
// A pair of pieces, or rows of several that see the same keys of several, is one call of the local gradients. lse and o are those of all
// keys, so what the calls give is added up.
#include "distributed/gradients.h"

#include <algorithm>

#include "distributed/sums.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {

int32_t KeySums::take(const DistributedAttention &problem, int64_t keys, DeviceRows *device) {
    problem_ = &problem;
    device_ = device;
    const int64_t bytes = element_bytes(problem.wide()), lines = product({problem.batch(), problem.heads_kv()});
    dk_row_ = product({lines, problem.head_dim(), bytes});
    dv_row_ = product({lines, problem.head_dim_v(), bytes});
    ATTILE_TRY(problem.take(&dk_, keys, dk_row_));
    return problem.take(&dv_, keys, dv_row_);
}

attile_tensor KeySums::dk(int64_t key, int64_t count) const {
    const DistributedAttention &p = *problem_;
    return packed_view(dk_.at(key * dk_row_), p.wide(), count, p.batch(), p.heads_kv(), p.head_dim());
}

attile_tensor KeySums::dv(int64_t key, int64_t count) const {
    const DistributedAttention &p = *problem_;
    return packed_view(dv_.at(key * dv_row_), p.wide(), count, p.batch(), p.heads_kv(), p.head_dim_v());
}

int32_t KeySums::send(Link &link, int64_t key, int64_t count, int32_t to) const {
    ATTILE_TRY(link.send(dk_.at(key * dk_row_), count * dk_row_, to));
    return link.send(dv_.at(key * dv_row_), count * dv_row_, to);
}

int32_t KeySums::receive(Link &link, int64_t key, int64_t count, int32_t from) {
    ATTILE_TRY(link.receive(dk_.at(key * dk_row_), count * dk_row_, from));
    return link.receive(dv_.at(key * dv_row_), count * dv_row_, from);
}

int32_t KeySums::clear_rows(int64_t key, int64_t count) {
    if (problem_->on_device()) {
        ATTILE_TRY(device_->clear(dk(key, count)));
        return device_->clear(dv(key, count));
    }
    clear(dk(key, count));
    clear(dv(key, count));
    return ATTILE_OK;
}

int32_t KeySums::add(int64_t key, int64_t count, const KeySums &other, int64_t other_key) {
    if (problem_->on_device()) {
        ATTILE_TRY(device_->add(other.dk(other_key, count), dk(key, count)));
        return device_->add(other.dv(other_key, count), dv(key, count));
    }
    add_up(other.dk(other_key, count), dk(key, count));
    add_up(other.dv(other_key, count), dv(key, count));
    return ATTILE_OK;
}

int32_t Gradients::take(int64_t keys) {
    const DistributedAttention &p = problem_;
    const int64_t bytes = element_bytes(p.wide());
    const int64_t rows = product({p.batch(), p.heads_q(), p.rows()}), lines = product({p.batch(), p.heads_kv(), keys});
    ATTILE_TRY(call_.take());
    ATTILE_TRY(shared_.take());
    ATTILE_TRY(device_.begin());
    for (Buffer *buffer : {&dq_, &pair_dq_}) ATTILE_TRY(p.take(buffer, rows, bytes * p.head_dim()));
    ATTILE_TRY(p.take(&pair_dk_, lines, bytes * p.head_dim()));
    ATTILE_TRY(p.take(&pair_dv_, lines, bytes * p.head_dim_v()));
    if (p.on_device()) return device_.clear(dq_of(dq_));
    clear(dq_of(dq_));
    if (is_absent(p.gradients.dbias) || shared_.has_dbias()) return ATTILE_OK;
    const int64_t *shape = p.gradients.dbias.shape;
    ATTILE_TRY(dbias_.take(p.operation, product({shape[0], shape[1], shape[2], shape[3]}), bytes));
    clear(dbias());
    return ATTILE_OK;
}

attile_tensor Gradients::dq_of(const Buffer &buffer) const {
    const DistributedAttention &p = problem_;
    return dense_view(buffer.at(), p.wide(), p.batch(), p.heads_q(), p.rows(), p.head_dim());
}

attile_tensor Gradients::dbias() const {
    const int64_t *shape = problem_.gradients.dbias.shape;
    return shared_.has_dbias() ? shared_.dbias() : dense_view(dbias_.at(), problem_.wide(), shape[0], shape[1], shape[2], shape[3]);
}

int32_t Gradients::add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v, KeySums *sums, int64_t key) {
    const int64_t count = place_of(run).count;
    ATTILE_TRY(sums->clear_rows(key, count));
    if (problem_.heads_q() == 0) return ATTILE_OK;
    const attile_tensor dk = sums->dk(key, count), dv = sums->dv(key, count);
    const auto alike = [](size_t, size_t, size_t) { return true; };
    return for_each_meeting(problem_, run, alike,
                            [&](const Meeting &meeting, size_t, size_t, size_t) { return add_pair(meeting, k, v, dk, dv); });
}

int32_t Gradients::add_pair(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, const attile_tensor &dk,
                            const attile_tensor &dv) {
    const DistributedAttention &p = problem_;
    attile_attention_args forward;
    ATTILE_TRY(call_.make(meeting, k, v, &forward));
    forward.o = rows_of(p.local.o, meeting);
    forward.lse = rows_of(p.local.lse, meeting);
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.flags = p.gradients.flags;
    args.stream = p.gradients.stream;
    args.forward = &forward;
    const auto like = [&](const attile_tensor &sums, const Buffer &buffer) {
        attile_tensor part = sums;
        part.data = buffer.at();
        return part;
    };
    const attile_tensor dq = rows_of(dq_of(dq_), meeting);
    args.dout = rows_of(p.gradients.dout, meeting);
    args.dq = like(dq, pair_dq_);
    args.dk = like(keys_of(dk, meeting), pair_dk_);
    args.dv = like(keys_of(dv, meeting), pair_dv_);
    const bool has_dbias = !is_absent(p.gradients.dbias);
    if (has_dbias) {
        // The bias of the call has every axis where distances were added to it.
        const int64_t *shape = forward.bias.shape;
        const int32_t dtype = forward.bias.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        ATTILE_TRY(pair_dbias_.take(p.operation, product({shape[0], shape[1], shape[2], shape[3]}), element_bytes(dtype)));
        args.dbias = dense_view(pair_dbias_.at(), dtype, shape[0], shape[1], shape[2], shape[3]);
    }
    ATTILE_TRY(attile_attention_backward(p.context, &args));
    if (p.on_device()) {
        ATTILE_TRY(device_.add(args.dq, dq));
        ATTILE_TRY(device_.add(args.dk, keys_of(dk, meeting)));
        return device_.add(args.dv, keys_of(dv, meeting));
    }
    if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, p.gradients.stream));
    add_up(args.dq, dq);
    add_up(args.dk, keys_of(dk, meeting));
    add_up(args.dv, keys_of(dv, meeting));
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
    args.dq = dense_view(pair_dq_.at(), p.wide(), p.batch(), p.heads_q(), rows.count, p.head_dim());
    args.dk = dense_view(pair_dk_.at(), p.wide(), p.batch(), p.heads_kv(), 0, p.head_dim());
    args.dv = dense_view(pair_dv_.at(), p.wide(), p.batch(), p.heads_kv(), 0, p.head_dim_v());
    const int32_t dtype = p.local.sinks.dtype;
    Buffer memory;
    ATTILE_TRY(memory.take(p.operation, p.heads_q(), element_bytes(dtype)));
    ATTILE_TRY(attile_tensor_init(&args.dsinks, memory.at(), dtype, 1, p.local.q.shape + 1));
    ATTILE_TRY(attile_attention_backward(p.context, &args));
    if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, p.gradients.stream));
    add_up(with_four_axes(args.dsinks), shared_.dsinks());
    return ATTILE_OK;
}

int32_t Gradients::write_results(const KeySums &own) {
    const DistributedAttention &p = problem_;
    const int64_t keys = p.local.k.shape[2];
    if (p.on_device()) {
        ATTILE_TRY(device_.copy(dq_of(dq_), p.gradients.dq));
        ATTILE_TRY(device_.copy(own.dk(0, keys), p.gradients.dk));
        ATTILE_TRY(device_.copy(own.dv(0, keys), p.gradients.dv));
        return p.settle();
    }
    ATTILE_TRY(write_out(p, dq_of(dq_), p.gradients.dq));
    ATTILE_TRY(write_out(p, own.dk(0, keys), p.gradients.dk));
    ATTILE_TRY(write_out(p, own.dv(0, keys), p.gradients.dv));
    if (!is_absent(p.gradients.dbias) && !shared_.has_dbias()) ATTILE_TRY(write_out(p, dbias(), p.gradients.dbias));
    return shared_.finish();
}

int32_t Gradients::finish(Session &session, const KeySums &own) {
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
