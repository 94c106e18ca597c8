// SPDX-License-Identifier: Apache-2.0
// Gradients by an all-to-all over heads: o, lse and dout go the way of q, each rank computes the gradients of its heads by the local call
// as it is, and dq, dk, dv and rows of dbias go back. Parts of a key head that several ranks used are added up by the keys' owner.
#include "distributed/attention.h"
#include "distributed/heads.h"
#include "distributed/shared_sums.h"
#include "distributed/sums.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

class AllToAllBackward final : public Method {
  public:
    explicit AllToAllBackward(const DistributedAttention &problem) : problem_(problem), heads_(problem), shared_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        const attile_attention_backward_args &gradients = p.gradients;
        HeadExchange &exchange = heads_.exchange();
        ATTILE_TRY(heads_.take());
        ATTILE_TRY(shared_.take());
        attile_tensor lse = p.local.lse;
        lse.rank = 4;
        lse.shape[3] = lse.stride[3] = 1;
        ATTILE_TRY(exchange.take(p.local.o, HeadsOf::kQuery, false, &o_));
        ATTILE_TRY(exchange.take(lse, HeadsOf::kQuery, false, &lse_));
        ATTILE_TRY(exchange.take(gradients.dout, HeadsOf::kQuery, false, &dout_));
        sums_keys_ = exchange.shares_key_heads();
        const int32_t dk_dtype = sums_keys_ ? p.wide() : gradients.dk.dtype, dv_dtype = sums_keys_ ? p.wide() : gradients.dv.dtype;
        ATTILE_TRY(exchange.take(gradients.dq.dtype, HeadsOf::kQuery, false, p.batch(), p.head_dim(), &dq_));
        ATTILE_TRY(exchange.take(dk_dtype, HeadsOf::kKey, true, p.batch(), p.head_dim(), &dk_));
        ATTILE_TRY(exchange.take(dv_dtype, HeadsOf::kKey, true, p.batch(), p.head_dim_v(), &dv_));
        if (!returns_dbias()) return ATTILE_OK;
        const attile_tensor &dbias = gradients.dbias;
        ATTILE_TRY(exchange.take(p.wide(), heads_of_scores(dbias), false, dbias.shape[0], dbias.shape[3], &dbias_));
        clear(dbias_.whole);
        return ATTILE_OK;
    }

    int32_t run(Session &session) override {
        Link &link = session.link();
        HeadExchange &exchange = heads_.exchange();
        ATTILE_TRY(heads_.run(session));
        for (HeadExchange::Input *input : {&o_, &lse_, &dout_}) ATTILE_TRY(exchange.exchange(session, input));
        if (session.sound()) ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        for (HeadExchange::Output *output : {&dq_, &dk_, &dv_}) ATTILE_TRY(exchange.give_back(session, output));
        if (returns_dbias()) ATTILE_TRY(exchange.give_back(session, &dbias_));
        ATTILE_TRY(shared_.exchange(link));
        return session.sound() ? session.take(guarded([&] { return finish(); })) : ATTILE_OK;
    }

  private:
    // Whether dbias has rows, which go back to their ranks.
    bool returns_dbias() const { return !is_absent(problem_.gradients.dbias) && !shared_.has_dbias(); }

    int32_t compute() {
        for (const WholeHeads::Call &call : heads_.calls()) ATTILE_TRY(differentiate(call));
        return ATTILE_OK;
    }

    int32_t differentiate(const WholeHeads::Call &call) {
        const DistributedAttention &p = problem_;
        attile_attention_args forward = heads_.args(call);
        forward.o = heads_.part(o_.whole, o_.kind, call);
        forward.lse = heads_.part(lse_.whole, lse_.kind, call);
        forward.lse.rank = 3;
        attile_attention_backward_args args = p.gradients;
        args.forward = &forward;
        args.dout = heads_.part(dout_.whole, dout_.kind, call);
        args.dq = heads_.part(dq_.whole, dq_.kind, call);
        args.dk = heads_.part(dk_.whole, dk_.kind, call);
        args.dv = heads_.part(dv_.whole, dv_.kind, call);
        if (p.len_q == 0) args.dbias = args.dsinks = {};  // sums over nothing, however many entries there are
        Buffer dbias, dsinks;
        if (!is_absent(args.dbias)) {
            const int64_t *shape = forward.bias.shape;
            const int32_t dtype = forward.bias.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
            ATTILE_TRY(dbias.take(p.operation, product({shape[0], shape[1], shape[2], shape[3]}), element_bytes(dtype)));
            args.dbias = dense_view(dbias.at(), dtype, shape[0], shape[1], shape[2], shape[3]);
        }
        if (!is_absent(args.dsinks)) {
            const int64_t heads = call.heads.count();
            ATTILE_TRY(dsinks.take(p.operation, heads, element_bytes(forward.sinks.dtype)));
            ATTILE_TRY(attile_tensor_init(&args.dsinks, dsinks.at(), forward.sinks.dtype, 1, &heads));
        }
        ATTILE_TRY(attile_attention_backward(p.context, &args));
        if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, args.stream));
        if (!is_absent(args.dsinks)) {
            add_up(with_four_axes(args.dsinks), slice(shared_.dsinks(), 3, call.heads.begin, call.heads.count()));
        }
        if (is_absent(args.dbias)) return ATTILE_OK;
        add_up(args.dbias, returns_dbias() ? heads_.part(dbias_.whole, dbias_.kind, call)
                                           : slice_broadcast(shared_.dbias(), 1, call.heads.begin, call.heads.count()));
        return ATTILE_OK;
    }

    int32_t finish() {
        const attile_attention_backward_args &gradients = problem_.gradients;
        const HeadExchange &exchange = heads_.exchange();
        ATTILE_TRY(exchange.write_returned(dq_, gradients.dq));
        ATTILE_TRY(write_keys(dk_, gradients.dk));
        ATTILE_TRY(write_keys(dv_, gradients.dv));
        if (returns_dbias()) {
            ATTILE_TRY(dbias_.kind == HeadsOf::kAll ? exchange.sum_returned(dbias_, gradients.dbias)
                                                    : exchange.write_returned(dbias_, gradients.dbias));
        }
        return shared_.finish();
    }

    // A key head that no query head uses exists only without any query heads, and has gradients of 0.
    int32_t write_keys(const HeadExchange::Output &output, const attile_tensor &to) {
        const bool sums = sums_keys_ || problem_.heads_q() == 0;
        return sums ? heads_.exchange().sum_returned(output, to) : heads_.exchange().write_returned(output, to);
    }

    const DistributedAttention &problem_;
    WholeHeads heads_;
    SharedSums shared_;
    bool sums_keys_ = false;
    HeadExchange::Input o_, lse_, dout_;
    HeadExchange::Output dq_, dk_, dv_, dbias_;
};

}  // namespace

std::unique_ptr<Method> make_all_to_all_backward(const DistributedAttention &problem) {
    return std::make_unique<AllToAllBackward>(problem);
}

}  // namespace attile::core
