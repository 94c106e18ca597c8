// SPDX-License-Identifier: Apache-2.0
// attile_attention_distributed and its backward call: validate, agree with the other ranks, run a method, agree on how it went.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "distributed/agreement.h"
#include "distributed/attention.h"
#include "distributed/comm.h"
#include "distributed/problem.h"
#include "log.h"
#include "operation.h"

namespace attile::core {
namespace {

template <typename Args>
constexpr const char *kOperationOf = kDistributed;
template <>
constexpr const char *kOperationOf<attile_attention_backward_distributed_args> = kDistributedBackward;

std::unique_ptr<Method> make_method(int32_t method, const DistributedAttention &problem) {
    switch (method) {
        case ATTILE_METHOD_ALL_GATHER:
            return problem.backward ? make_gather_backward(problem) : make_gather(problem);
        case ATTILE_METHOD_ALL_TO_ALL:
            return problem.backward ? make_all_to_all_backward(problem) : make_all_to_all(problem);
        case ATTILE_METHOD_TREE:
            return make_tree(problem);
        default:
            return problem.backward ? make_ring_backward(problem) : make_ring(problem);
    }
}

int32_t run_alone(DistributedAttention *problem) {
    DistributedAttention &p = *problem;
    p.gradients.forward = &p.local;
    ATTILE_TRY(p.backward ? attile_attention_backward(p.context, &p.gradients) : attile_attention(p.context, &p.local));
    return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
}

// Where messages and partial results lie: on the device if the transport and the method reach that, and all that they touch is there.
int32_t choose_memory(const CommState &comm, int32_t method, DistributedAttention *p, std::string *reason) {
    if (p->host_memory || p->ranks == 1) return ATTILE_OK;
    const attile_attention_args &local = p->local;
    const attile_attention_backward_args &g = p->gradients;
    bool reached = comm.device_blocks != nullptr && is_absent(g.dbias) && is_absent(g.dsinks);
    if (method == ATTILE_METHOD_ALL_TO_ALL) {
        // Not yet: rows of a bias or mask, which travel with it, and sums of key heads that several ranks have.
        const bool has_scores = !p->packed && (!is_absent(local.bias) || !is_absent(local.allowed));
        const bool divides = p->heads_q() % p->ranks == 0 && p->heads_kv() % p->ranks == 0;
        reached = reached && !has_scores && p->heads_q() != 0 && (!p->backward || divides);
    }
    const auto all = {&local.q, &local.k, &local.v, &local.o, &local.lse, &g.dout, &g.dq, &g.dk, &g.dv};
    if (reached) ATTILE_TRY(lie_on_device(p->context, all, &reached));
    if (reached) p->device_blocks = comm.device_blocks.get();
    reason->append(where_messages_lie(reached));
    return ATTILE_OK;
}

// The method of a problem whose shards are known.
int32_t choose(const CommState &comm, DistributedAttention *problem, std::unique_ptr<Method> *method) {
    std::string reason;
    int64_t bytes = 0;
    const int32_t chosen = choose_method(*problem, &reason, &bytes);
    ATTILE_TRY(choose_memory(comm, chosen, problem, &reason));
    *method = make_method(chosen, *problem);
    log(ATTILE_LOG_DEBUG, "%s: rank %d of %d, %s", problem->operation, comm.link.rank(), comm.link.ranks(), reason.c_str());
    return ATTILE_OK;
}

template <typename Args>
int32_t run(CommState &comm, const Args *args, Fallout *fallout) {
    DistributedAttention problem;
    bool unsupported = false;
    return run_over_ranks(
        comm, kOperationOf<Args>, [&] { return read_problem(comm, args, false, &problem, &unsupported); },
        [&] { return run_alone(&problem); }, [&](Announcement *announcement) { return describe(&problem, announcement); },
        [&](std::unique_ptr<Method> *method) -> int32_t {
            // Where messages lie in host memory an exchange takes little time.
            if (comm.device_blocks == nullptr || !foresee_shards(&problem)) return ATTILE_OK;
            ATTILE_TRY(choose(comm, &problem, method));
            if (!problem.on_device()) method->reset();
            return ATTILE_OK;
        },
        [&](std::unique_ptr<Method> *method) -> int32_t {
            ATTILE_TRY(spread(comm.agreement, &problem));
            return choose(comm, &problem, method);
        },
        fallout);
}

// The local call that a method makes most of, for its query.
attile_attention_args typical_call(const DistributedAttention &p, int32_t method) {
    attile_attention_args args = p.local;
    if (method == ATTILE_METHOD_LOCAL) return args;
    const auto shaped = [](attile_tensor *tensor, int32_t dtype, int64_t heads, int64_t rows) {
        const int64_t shape[4] = {tensor->shape[0], heads, rows, tensor->shape[3]};
        (void)attile_tensor_init(tensor, nullptr, dtype, 4, shape);
    };
    const bool whole = method == ATTILE_METHOD_ALL_TO_ALL;
    const int64_t kv = whole ? std::max<int64_t>(p.heads_kv() / p.ranks, 1) : p.heads_kv();
    const int64_t heads = p.heads_kv() == 0 ? 0 : p.heads_q() / p.heads_kv() * kv, rows = whole ? p.len_q : p.rows();
    const int64_t keys = whole || method == ATTILE_METHOD_ALL_GATHER ? p.len_k : p.local.k.shape[2];
    shaped(&args.q, p.local.q.dtype, heads, rows);
    shaped(&args.k, p.local.q.dtype, std::min(kv, p.heads_kv()), keys);
    shaped(&args.v, p.local.q.dtype, std::min(kv, p.heads_kv()), keys);
    shaped(&args.o, whole ? p.local.o.dtype : p.wide(), heads, rows);
    const int64_t lines[3] = {p.batch(), heads, rows};
    (void)attile_tensor_init(&args.lse, nullptr, p.wide(), 3, lines);
    const bool packed = p.packed && whole;
    for (attile_tensor *scores : {&args.bias, &args.allowed}) {
        if (is_absent(*scores)) continue;
        const int64_t shape[4] = {packed ? p.entries() : p.batch(), heads, packed && args.max_len_q != 0 ? args.max_len_q : rows,
                                  packed && args.max_len_k != 0 ? args.max_len_k : keys};
        (void)attile_tensor_init(scores, nullptr, scores->dtype, 4, shape);
    }
    if (!whole) {
        args.sinks = args.key_lengths = args.cu_len_q = args.cu_len_k = {};
        args.max_len_q = args.max_len_k = 0;
        if (args.alibi_slopes.rank == 2) args.alibi_slopes.shape[0] = p.batch();
    }
    for (attile_tensor *numbers : {&args.alibi_slopes, &args.sinks}) {
        if (!is_absent(*numbers)) numbers->shape[numbers->rank - 1] = heads;
    }
    return args;
}

// How the backend runs that call, or its gradients.
int32_t ask_local(const DistributedAttention &p, int32_t method, attile_support *support) {
    const attile_attention_args call = typical_call(p, method);
    if (!p.backward) return attile_attention_query(p.context, &call, support);
    attile_attention_backward_args gradients = p.gradients;
    gradients.forward = &call;
    if (method != ATTILE_METHOD_LOCAL) {
        const auto like = [&](attile_tensor *tensor, const attile_tensor &of, int32_t dtype) {
            (void)attile_tensor_init(tensor, nullptr, dtype, of.rank, of.shape);
        };
        like(&gradients.dout, call.o, gradients.dout.dtype);
        like(&gradients.dq, call.q, p.wide());
        like(&gradients.dk, call.k, p.wide());
        like(&gradients.dv, call.v, p.wide());
        if (!is_absent(gradients.dbias)) like(&gradients.dbias, call.bias, call.bias.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32);
        gradients.dsinks = {};
    }
    return attile_attention_backward_query(p.context, &gradients, support);
}

template <typename Args>
int32_t query(const CommState &comm, const Args *args, attile_distributed_support *support) {
    DistributedAttention p;
    bool unsupported = false;
    const KeptError before;
    const int32_t status = read_problem(comm, args, true, &p, &unsupported);
    if (status != ATTILE_OK && !unsupported) return status;
    const std::string why_not = unsupported ? error_text() : "";
    ATTILE_TRY(check_output(p.operation, "support", kDistributedSupportFirstSize, support));
    attile_distributed_support full{};
    full.struct_size = sizeof full;
    if (unsupported) {
        before.put_back();
        full.status = status;
        std::snprintf(full.text, sizeof full.text, "%s", why_not.c_str());
        write_output(full, support);
        return ATTILE_OK;
    }
    std::string reason;
    full.method = choose_method(p, &reason, &full.bytes_sent);
    ATTILE_TRY(choose_memory(comm, full.method, &p, &reason));
    attile_support local{};
    local.struct_size = sizeof local;
    ATTILE_TRY(ask_local(p, full.method, &local));
    full.level = local.level;
    full.status = local.status;
    std::snprintf(full.kernel, sizeof full.kernel, "%s", local.kernel);
    std::snprintf(full.text, sizeof full.text, "%s", local.level == ATTILE_SUPPORT_NONE ? local.text : reason.c_str());
    // Scores and results; or scores again, dp, dv, dq and dk.
    const double d = static_cast<double>(p.head_dim()), dv = static_cast<double>(p.head_dim_v());
    full.flops = 2.0 * static_cast<double>(p.batch()) * static_cast<double>(p.heads_q()) * static_cast<double>(p.len_q) *
                 static_cast<double>(p.len_k) * (p.backward ? 3 * d + 2 * dv : d + dv);
    write_output(full, support);
    return ATTILE_OK;
}

template <typename Args>
int32_t run_call(attile_comm *comm, const Args *args) {
    return on_comm(kOperationOf<Args>, comm, [&](CommState &state, Fallout *fallout) { return run(state, args, fallout); });
}

template <typename Args>
int32_t query_call(attile_comm *comm, const Args *args, attile_distributed_support *support) {
    return guarded([&]() -> int32_t {
        std::shared_ptr<CommState> state;
        ATTILE_TRY(find_comm(kOperationOf<Args>, comm, &state));
        return query(*state, args, support);
    });
}

}  // namespace

}  // namespace attile::core

using namespace attile::core;

extern "C" {

void attile_attention_distributed_init(attile_attention_distributed_args *args, uint64_t size) { init_struct(args, size); }

void attile_distributed_support_init(attile_distributed_support *support, uint64_t size) { init_struct(support, size); }

int32_t attile_attention_distributed(attile_comm *comm, const attile_attention_distributed_args *args) { return run_call(comm, args); }

int32_t attile_attention_distributed_query(attile_comm *comm, const attile_attention_distributed_args *args,
                                           attile_distributed_support *support) {
    return query_call(comm, args, support);
}

void attile_attention_backward_distributed_init(attile_attention_backward_distributed_args *args, uint64_t size) {
    init_struct(args, size);
}

int32_t attile_attention_backward_distributed(attile_comm *comm, const attile_attention_backward_distributed_args *args) {
    return run_call(comm, args);
}

int32_t attile_attention_backward_distributed_query(attile_comm *comm, const attile_attention_backward_distributed_args *args,
                                                    attile_distributed_support *support) {
    return query_call(comm, args, support);
}

}  // extern "C"
