// SPDX-License-Identifier: Apache-2.0
// All-to-all over heads (Ulysses): ranks exchange rows for heads, each computes whole sequences of its heads by the local call as it is,
// and the results go back.
#include "distributed/attention.h"
#include "distributed/heads.h"
#include "distributed/pair_call.h"
#include "distributed/sums.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

class AllToAll final : public Method {
  public:
    explicit AllToAll(const DistributedAttention &problem) : problem_(problem), heads_(problem) {}

    int32_t prepare() override {
        const DistributedAttention &p = problem_;
        ATTILE_TRY(heads_.take());
        // A merge of float64 parts takes their lse in float64 alone.
        const int32_t o_dtype = p.wide() == ATTILE_F64 ? ATTILE_F64 : p.local.o.dtype;
        ATTILE_TRY(heads_.exchange().take(o_dtype, HeadsOf::kQuery, false, p.batch(), p.head_dim_v(), &o_));
        return heads_.exchange().take(p.wide(), HeadsOf::kQuery, false, p.batch(), 1, &lse_);
    }

    int32_t run(Session &session) override {
        ATTILE_TRY(heads_.run(session));
        if (session.sound()) ATTILE_TRY(session.take(guarded([&] { return compute(); })));
        ATTILE_TRY(heads_.exchange().give_back(session, &o_));
        ATTILE_TRY(heads_.exchange().give_back(session, &lse_));
        return session.sound() ? session.take(guarded([&] { return finish(); })) : ATTILE_OK;
    }

  private:
    int32_t compute() {
        if (problem_.len_q == 0) return ATTILE_OK;
        for (const WholeHeads::Call &call : heads_.calls()) {
            attile_attention_args args = heads_.args(call);
            args.o = heads_.part(o_.whole, o_.kind, call);
            args.lse = heads_.part(lse_.whole, lse_.kind, call);
            args.lse.rank = 3;
            ATTILE_TRY(attile_attention(problem_.context, &args));
        }
        return ATTILE_OK;
    }

    // A merge of one part is a copy of o and lse, to memory of any kind and layout.
    int32_t finish() {
        const DistributedAttention &p = problem_;
        if (p.rows() == 0 || p.batch() == 0) return ATTILE_OK;
        for (int32_t rank = 0; rank < p.ranks; ++rank) {
            const Range heads = heads_.exchange().heads(HeadsOf::kQuery, rank);
            if (heads.count() == 0) continue;
            const attile_tensor o_part = heads_.exchange().returned(o_, rank);
            attile_tensor lse_part = heads_.exchange().returned(lse_, rank), lse{};
            lse_part.rank = 3;
            if (!is_absent(p.local.lse)) lse = slice(p.local.lse, 1, heads.begin, heads.count());
            for (const Piece &rows : rows_with_results(p)) {
                const auto own = [&](const attile_tensor &tensor) { return slice(tensor, 2, rows.local, rows.count, rows.step); };
                const attile_tensor o = own(o_part), statistics = own(lse_part);
                ATTILE_TRY(merge_parts(p, &o, &statistics, 1, own(slice(p.local.o, 1, heads.begin, heads.count())),
                                       is_absent(lse) ? lse : own(lse)));
            }
        }
        return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
    }

    const DistributedAttention &problem_;
    WholeHeads heads_;
    HeadExchange::Output o_, lse_;
};

}  // namespace

std::unique_ptr<Method> make_all_to_all(const DistributedAttention &problem) { return std::make_unique<AllToAll>(problem); }

}  // namespace attile::core
