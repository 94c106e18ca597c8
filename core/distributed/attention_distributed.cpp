// SPDX-License-Identifier: Apache-2.0
// attile_attention_distributed: validate, agree with the other ranks, run a method, agree on how it went.
#include <algorithm>
#include <cstdio>
#include <vector>

#include "alias.h"
#include "attention_problem.h"
#include "distributed/agreement.h"
#include "distributed/attention.h"
#include "distributed/comm.h"
#include "log.h"

namespace attile::core {
namespace {

constexpr uint32_t kArgsFirstSize = ATTILE_SIZE_UP_TO(attile_attention_distributed_args, len_k);
constexpr uint32_t kSupportFirst = ATTILE_SIZE_UP_TO(attile_distributed_support, flops);

int32_t check_options(const attile_attention_distributed_args &args) {
    if (args.layout < ATTILE_SHARDS_CONTIGUOUS || args.layout > ATTILE_SHARDS_STRIPED) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: layout is %d; expected an ATTILE_SHARDS_ constant", kDistributed, args.layout);
    }
    if (args.method < ATTILE_METHOD_AUTO || args.method > ATTILE_METHOD_ALL_TO_ALL) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: method is %d; expected an ATTILE_METHOD_ constant, 0 to 3", kDistributed, args.method);
    }
    const struct {
        const char *name;
        int64_t value;
    } lengths[] = {{"len_q", args.len_q}, {"len_k", args.len_k}};
    for (const auto &length : lengths) {
        if (length.value >= 0 && length.value <= kMostPositions) continue;
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is %lld; expected 0 to 2^48", kDistributed, length.name,
                    static_cast<long long>(length.value));
    }
    return ATTILE_OK;
}

int32_t fail_feature(const char *what) {
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: local->%s is not supported over ranks yet", kDistributed, what);
}

int32_t check_features(const attile_attention_args &local) {
    if (!is_absent(local.cu_len_q) || !is_absent(local.cu_len_k)) return fail_feature("cu_len_q or cu_len_k (packed sequences)");
    if (!is_absent(local.block_table)) return fail_feature("block_table (paged keys and values)");
    if (local.workspace != nullptr) return fail_feature("workspace");
    if ((local.flags & ATTILE_FLAG_NO_ALLOC) != 0) return fail_feature("flags (ATTILE_FLAG_NO_ALLOC)");
    return ATTILE_OK;
}

// Length of the whole sequence, and that this rank has of it what the layout says.
int32_t measure(const DistributedAttention &p, const char *name, const char *axis, int64_t given, int64_t own, int64_t *length) {
    if (own > kMostPositions / p.ranks) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: local->%s is %lld; expected at most 2^48 positions in all", kDistributed, axis,
                    static_cast<long long>(own));
    }
    *length = given != 0 ? given : own * p.ranks;
    const int64_t expected = p.layout == ATTILE_SHARDS_CONTIGUOUS ? own : cut_shard(p.layout, *length, p.rank, p.ranks).length();
    if (own == expected && own <= *length) return ATTILE_OK;
    return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: local->%s is %lld; expected %lld, the share of rank %d of %d in %s = %lld", kDistributed,
                axis, static_cast<long long>(own), static_cast<long long>(std::min(expected, *length)), p.rank, p.ranks, name,
                static_cast<long long>(*length));
}

// Bias and mask have the rows of the shard and the keys of all ranks, so the local call's own check is made without them.
int32_t check_scores(const Call &call, const attile_attention_args &local, int64_t len_k) {
    View o, lse;
    ATTILE_TRY(check_tensor(call, "o", local.o, {kFloats, 4, 4, true}, &o));
    ATTILE_TRY(check_optional(call, "lse", local.lse, {kFloats, 3, 3, true}, &lse));
    const DtypeSet wide = dtype_bit(local.q.dtype) | kF32;
    const int64_t extents[4] = {local.q.shape[0], local.q.shape[1], local.q.shape[2], len_k};
    const struct {
        const char *name;
        const attile_tensor &tensor;
        DtypeSet types;
    } rows[] = {{"bias", local.bias, wide}, {"allowed", local.allowed, kU8 | kBool}};
    for (const auto &row : rows) {
        View view;
        ATTILE_TRY(check_optional(call, row.name, row.tensor, {row.types, 1, 4}, &view));
        if (!view.present()) continue;
        ATTILE_TRY(check_broadcast(call, view, extents, 4, "[batch, heads_q, rows of the shard, len_k]"));
        ATTILE_TRY(refuse_overlap(call, o, view));
        ATTILE_TRY(refuse_overlap(call, lse, view));
    }
    return ATTILE_OK;
}

// `unsupported`: what this rank's arguments ask for is right and not to be had; a query answers with it.
int32_t read_problem(const CommState &comm, const attile_attention_distributed_args *given, bool query, DistributedAttention *problem,
                     bool *unsupported) {
    *unsupported = false;
    attile_attention_distributed_args args;
    ATTILE_TRY(read_args(kDistributed, "args", kArgsFirstSize, 0, given, &args));
    DistributedAttention &p = *problem;
    p.context = comm.context;
    p.host_memory = comm.host_memory;
    p.rank = comm.link.rank();
    p.ranks = comm.link.ranks();
    p.layout = args.layout;
    p.method = args.method;
    ATTILE_TRY(check_options(args));
    ATTILE_TRY(read_args(kDistributed, "args->local", kAttentionFirstSize, kAttentionFlags, args.local, &p.local));
    const int32_t features = check_features(p.local);
    if (features != ATTILE_OK) {
        *unsupported = true;
        return features;
    }
    attile_attention_args without = p.local, full;
    without.bias = without.allowed = {};
    const Call call = {kDistributed, query, "local->"};
    attile_attention_problem normalised;
    bool nothing_to_do = false;
    ATTILE_TRY(read_attention(call, &without, &full, &normalised, &nothing_to_do));
    ATTILE_TRY(measure(p, "len_q", "q.shape[2]", args.len_q, p.rows(), &p.len_q));
    ATTILE_TRY(measure(p, "len_k", "k.shape[2]", args.len_k, p.local.k.shape[2], &p.len_k));
    return check_scores(call, p.local, p.len_k);
}

// Numbers of a tensor in any memory; empty for an absent one.
int32_t read_numbers(const DistributedAttention &p, const attile_tensor &tensor, std::vector<double> *numbers) {
    if (is_absent(tensor)) return ATTILE_OK;
    Buffer copy;
    attile_tensor image;
    ATTILE_TRY(p.to_host(tensor, &copy, &image));
    const int64_t inner = tensor.rank == 2 ? tensor.shape[1] : 1;
    for (int64_t i = 0; i < tensor.shape[0]; ++i) {
        for (int64_t j = 0; j < inner; ++j) numbers->push_back(read_number(image, i, j));
    }
    return ATTILE_OK;
}

// Entries that follow each other with one key length are computed in one call.
void group_entries(const std::vector<double> &key_lengths, DistributedAttention *p) {
    const auto length = [&](int64_t b) {
        return key_lengths.empty() ? p->len_k : static_cast<int64_t>(key_lengths[static_cast<size_t>(b)]);
    };
    for (int64_t b = 0; b < p->batch();) {
        EntryGroup group;
        group.begin = b;
        group.band = make_band(p->local, p->len_q, length(b), p->len_k);
        if (key_lengths.empty()) b = p->batch();
        while (b < p->batch() && std::clamp<int64_t>(length(b), 0, p->len_k) == group.band.keys) ++b;
        group.end = b;
        p->groups.push_back(group);
    }
}

int64_t broadcast_axes(const attile_tensor &tensor) {
    if (is_absent(tensor)) return 0;
    const attile_tensor wide = with_four_axes(tensor);
    return (wide.shape[0] == 1 ? 1 : 0) | (wide.shape[1] == 1 ? 2 : 0) | (wide.shape[3] == 1 ? 4 : 0);
}

int64_t contents(const std::vector<double> &numbers) { return hash_bytes(numbers.data(), numbers.size() * sizeof(double)); }

// Everything that must be the same on all ranks. Reads lengths, slopes and sinks, wherever they lie.
int32_t describe(DistributedAttention *problem, Announcement *announcement) {
    DistributedAttention &p = *problem;
    const attile_attention_args &local = p.local;
    if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, local.stream));
    std::vector<double> lengths, slopes, sinks;
    ATTILE_TRY(read_numbers(p, local.key_lengths, &lengths));
    ATTILE_TRY(read_numbers(p, local.alibi_slopes, &slopes));
    ATTILE_TRY(read_numbers(p, local.sinks, &sinks));
    group_entries(lengths, &p);
    announcement->len_q = p.rows();
    announcement->len_k = local.k.shape[2];
    const auto number = [&](const char *name, int64_t value) { announcement->matters.push_back({name, Shown::kNumber, value}); };
    const auto given = [&](const char *name, const attile_tensor &tensor) {
        announcement->matters.push_back({name, Shown::kPresence, is_absent(tensor) ? 0 : 1});
    };
    number("layout", p.layout);
    number("method", p.method);
    announcement->matters.push_back({"local->q.dtype", Shown::kDtype, local.q.dtype});
    announcement->matters.push_back({"local->o.dtype", Shown::kDtype, local.o.dtype});
    announcement->matters.push_back({"local->bias.dtype", Shown::kDtype, local.bias.dtype});
    announcement->matters.push_back({"local->allowed.dtype", Shown::kDtype, local.allowed.dtype});
    number("batch", p.batch());
    number("heads_q", p.heads_q());
    number("heads_kv", p.heads_kv());
    number("head_dim", p.head_dim());
    number("head_dim_v", p.head_dim_v());
    number("len_q", p.len_q);
    number("len_k", p.len_k);
    number("local->flags", local.flags);
    announcement->matters.push_back({"local->scale", Shown::kReal, real_bits(local.scale)});
    announcement->matters.push_back({"local->softcap", Shown::kReal, real_bits(local.softcap)});
    number("local->mask", local.mask);
    number("local->window_left", local.window_left);
    number("local->window_right", local.window_right);
    number("the set of axes that local->bias broadcasts", broadcast_axes(local.bias));
    number("the set of axes that local->allowed broadcasts", broadcast_axes(local.allowed));
    given("local->alibi_slopes", local.alibi_slopes);
    given("local->sinks", local.sinks);
    given("local->key_lengths", local.key_lengths);
    announcement->matters.push_back({"local->alibi_slopes", Shown::kContents, contents(slopes)});
    announcement->matters.push_back({"local->sinks", Shown::kContents, contents(sinks)});
    announcement->matters.push_back({"local->key_lengths", Shown::kContents, contents(lengths)});
    return ATTILE_OK;
}

int32_t check_sum(const char *name, const std::vector<int64_t> &lengths, int64_t length) {
    int64_t sum = 0;
    for (const int64_t one : lengths) sum += one;
    if (sum == length) return ATTILE_OK;
    return fail(ATTILE_ERROR_RANKS_DISAGREE, "%s: ranks disagree: their shards have %lld positions in all, and %s is %lld", kDistributed,
                static_cast<long long>(sum), name, static_cast<long long>(length));
}

int32_t spread(const Agreement &agreement, DistributedAttention *p) {
    if (p->layout == ATTILE_SHARDS_CONTIGUOUS) {
        std::vector<int64_t> q, k;
        for (int32_t rank = 0; rank < p->ranks; ++rank) {
            q.push_back(agreement.len_q(rank));
            k.push_back(agreement.len_k(rank));
        }
        ATTILE_TRY(check_sum("len_q", q, p->len_q));
        ATTILE_TRY(check_sum("len_k", k, p->len_k));
        p->q_shards = contiguous_shards(q);
        p->k_shards = contiguous_shards(k);
        return ATTILE_OK;
    }
    for (int32_t rank = 0; rank < p->ranks; ++rank) {
        p->q_shards.push_back(cut_shard(p->layout, p->len_q, rank, p->ranks));
        p->k_shards.push_back(cut_shard(p->layout, p->len_k, rank, p->ranks));
    }
    return ATTILE_OK;
}

std::unique_ptr<Method> make_method(int32_t method, const DistributedAttention &problem) {
    if (method == ATTILE_METHOD_ALL_GATHER) return make_gather(problem);
    return method == ATTILE_METHOD_ALL_TO_ALL ? make_all_to_all(problem) : make_ring(problem);
}

int32_t run(CommState &comm, const attile_attention_distributed_args *args, Fallout *fallout) {
    DistributedAttention problem;
    Announcement announcement;
    bool unsupported = false;
    OwnStatus own;
    own.take(guarded([&] { return read_problem(comm, args, false, &problem, &unsupported); }));
    Link &link = comm.link;
    announcement.call = ++comm.calls;
    if (link.ranks() == 1) {
        *fallout = Fallout::kNone;
        if (!own.sound()) return own.status();
        ATTILE_TRY(attile_attention(comm.context, &problem.local));
        return problem.host_memory ? ATTILE_OK : attile_synchronize(comm.context, problem.local.stream);
    }
    if (own.sound()) own.take(guarded([&] { return describe(&problem, &announcement); }));
    announcement.status = own.status();
    announcement.why = own.why();
    announcement.backend = (comm.flags & ATTILE_COMM_ALLOW_MIXED_BACKENDS) != 0 ? "" : comm.backend;
    ATTILE_TRY(comm.agreement.agree(link, kDistributed, announcement, fallout));
    *fallout = Fallout::kUntold;

    // From here on every failure of this rank's own reaches the others through conclude(), at the latest.
    std::unique_ptr<Method> method;
    Session session(link);
    own.take(guarded([&] {
        ATTILE_TRY(spread(comm.agreement, &problem));
        std::string reason;
        int64_t bytes = 0;
        method = make_method(choose_method(problem, &reason, &bytes), problem);
        log(ATTILE_LOG_DEBUG, "%s: rank %d of %d, %s", kDistributed, link.rank(), link.ranks(), reason.c_str());
        return method->prepare();
    }));
    ATTILE_TRY(comm.agreement.conclude(link, kDistributed, own, fallout));
    *fallout = Fallout::kUntold;
    const Link::Ending ending(link);
    ATTILE_TRY(method->run(session));
    return comm.agreement.conclude(link, kDistributed, session.own(), fallout);
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
    for (attile_tensor *scores : {&args.bias, &args.allowed}) {
        if (is_absent(*scores)) continue;
        const int64_t shape[4] = {p.batch(), heads, rows, keys};
        (void)attile_tensor_init(scores, nullptr, scores->dtype, 4, shape);
    }
    if (!whole) args.sinks = args.key_lengths = {};
    for (attile_tensor *numbers : {&args.alibi_slopes, &args.sinks}) {
        if (!is_absent(*numbers)) numbers->shape[numbers->rank - 1] = heads;
    }
    return args;
}

int32_t query(const CommState &comm, const attile_attention_distributed_args *args, attile_distributed_support *support) {
    DistributedAttention p;
    bool unsupported = false;
    const KeptError before;
    const int32_t status = read_problem(comm, args, true, &p, &unsupported);
    if (status != ATTILE_OK && !unsupported) return status;
    const std::string why_not = unsupported ? error_text() : "";
    ATTILE_TRY(check_output(kDistributed, "support", kSupportFirst, support));
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
    const attile_attention_args call = typical_call(p, full.method);
    attile_support local{};
    local.struct_size = sizeof local;
    ATTILE_TRY(attile_attention_query(p.context, &call, &local));
    full.level = local.level;
    full.status = local.status;
    std::snprintf(full.kernel, sizeof full.kernel, "%s", local.kernel);
    std::snprintf(full.text, sizeof full.text, "%s", local.level == ATTILE_SUPPORT_NONE ? local.text : reason.c_str());
    full.flops = 2.0 * static_cast<double>(p.batch()) * static_cast<double>(p.heads_q()) * static_cast<double>(p.len_q) *
                 static_cast<double>(p.len_k) * static_cast<double>(p.head_dim() + p.head_dim_v());
    write_output(full, support);
    return ATTILE_OK;
}

}  // namespace

int32_t Session::take(int32_t status) {
    own_.take(status);
    if (status == ATTILE_OK || !link_.tells_why()) return ATTILE_OK;
    link_.give_up(status, own_.why());
    return status;
}

}  // namespace attile::core

using namespace attile::core;

extern "C" {

void attile_attention_distributed_init(attile_attention_distributed_args *args, uint64_t size) { init_struct(args, size); }

void attile_distributed_support_init(attile_distributed_support *support, uint64_t size) { init_struct(support, size); }

int32_t attile_attention_distributed(attile_comm *comm, const attile_attention_distributed_args *args) {
    return on_comm(kDistributed, comm, [&](CommState &state, Fallout *fallout) { return run(state, args, fallout); });
}

int32_t attile_attention_distributed_query(attile_comm *comm, const attile_attention_distributed_args *args,
                                           attile_distributed_support *support) {
    return guarded([&]() -> int32_t {
        std::shared_ptr<CommState> state;
        ATTILE_TRY(find_comm(kDistributed, comm, &state));
        return query(*state, args, support);
    });
}

}  // extern "C"
