// SPDX-License-Identifier: Apache-2.0
#include "distributed/problem.h"

#include <algorithm>

#include "alias.h"
#include "attention_problem.h"
#include "distributed/bias_axes.h"
#include "distributed/taken_rows.h"

namespace attile::core {
namespace {

constexpr uint32_t kArgsFirstSize = ATTILE_SIZE_UP_TO(attile_attention_distributed_args, len_k);
constexpr uint32_t kBackwardArgsFirstSize = ATTILE_SIZE_UP_TO(attile_attention_backward_distributed_args, len_k);

int32_t check_length(const char *operation, const char *name, int64_t value) {
    if (value >= 0 && value <= kMostPositions) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: %s is %lld; expected 0 to 2^48", operation, name, static_cast<long long>(value));
}

// What the structs of both calls have.
template <typename Args>
int32_t take_options(const CommState &comm, const Args &args, DistributedAttention *p) {
    p->context = comm.context;
    p->host_memory = comm.host_memory;
    p->rank = comm.link.rank();
    p->ranks = comm.link.ranks();
    p->layout = args.layout;
    p->method = args.method;
    if (args.layout < ATTILE_SHARDS_CONTIGUOUS || args.layout > ATTILE_SHARDS_STRIPED) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: layout is %d; expected an ATTILE_SHARDS_ constant", p->operation, args.layout);
    }
    const bool known = args.method >= ATTILE_METHOD_AUTO && args.method <= ATTILE_METHOD_ALL_TO_ALL;
    if (!known && (p->backward || args.method != ATTILE_METHOD_TREE)) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: method is %d; expected an ATTILE_METHOD_ constant, 0 to 3%s", p->operation,
                    args.method, p->backward ? "" : " or 5");
    }
    ATTILE_TRY(check_length(p->operation, "len_q", args.len_q));
    return check_length(p->operation, "len_k", args.len_k);
}

// Rows that all ranks have, and the method for them, go together.
int32_t take_rows(const attile_attention_distributed_args &args, DistributedAttention *p) {
    if (args.reserved != 0) {
        return fail(ATTILE_ERROR_STRUCT_TOO_NEW, "%s: reserved is %d; expected 0", p->operation, args.reserved);
    }
    if (args.rows != ATTILE_ROWS_SHARDED && args.rows != ATTILE_ROWS_REPLICATED) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: rows is %d; expected an ATTILE_ROWS_ constant", p->operation, args.rows);
    }
    p->replicated = args.rows == ATTILE_ROWS_REPLICATED;
    if (args.method == ATTILE_METHOD_AUTO || p->replicated == (args.method == ATTILE_METHOD_TREE)) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE,
                "%s: method is %d (%s) and rows is %d; expected ATTILE_METHOD_TREE and ATTILE_ROWS_REPLICATED together", p->operation,
                args.method, method_name(args.method), args.rows);
}

int32_t fail_feature(const DistributedAttention &p, const char *what) {
    return fail(ATTILE_ERROR_UNSUPPORTED_FEATURE, "%s: local->%s is not supported over ranks yet", p.operation, what);
}

// Backward has its own stream, workspace and flags; those of its forward call are not used.
int32_t check_features(const DistributedAttention &p) {
    const attile_attention_args &local = p.local;
    const bool no_alloc = ((p.backward ? p.gradients.flags : local.flags) & ATTILE_FLAG_NO_ALLOC) != 0;
    if (!is_absent(local.block_table)) return fail_feature(p, "block_table (paged keys and values)");
    if (!is_absent(local.key_starts)) return fail_feature(p, "key_starts (left padding)");
    if (!is_absent(local.causal_offset)) return fail_feature(p, "causal_offset");
    if (!is_absent(local.block_mask)) return fail_feature(p, "block_mask");
    if (!is_absent(local.tree_mask)) return fail_feature(p, "tree_mask");
    if (!is_absent(local.k_scale)) return fail_feature(p, "k_scale");
    if (!is_absent(local.v_scale)) return fail_feature(p, "v_scale");
    if (!is_absent(local.q_scale)) return fail_feature(p, "q_scale");
    if (!is_absent(local.o_scale)) return fail_feature(p, "o_scale");
    if ((dtype_bit(local.q.dtype) & kNarrow) != 0) return fail_feature(p, "q.dtype of 8 bits");
    if ((dtype_bit(local.o.dtype) & kNarrow) != 0) return fail_feature(p, "o.dtype of 8 bits");
    if (local.k.dtype != local.q.dtype) return fail_feature(p, "k.dtype other than q's");
    if (local.v.dtype != local.q.dtype) return fail_feature(p, "v.dtype other than q's");
    if (!is_absent(local.bias) && local.bias.dtype != local.q.dtype && local.bias.dtype != ATTILE_F32) {
        return fail_feature(p, "bias.dtype other than f32 and q's");
    }
    if (!is_absent(local.cu_len_q) && is_absent(local.cu_len_k)) return fail_feature(p, "cu_len_q without cu_len_k");
    if (!is_absent(p.gradients.dlse)) return fail_feature(p, "dlse");
    if ((p.backward ? p.gradients.workspace : local.workspace) != nullptr) return fail_feature(p, "workspace");
    if (no_alloc) return fail_feature(p, "flags (ATTILE_FLAG_NO_ALLOC)");
    return ATTILE_OK;
}

// Length of the whole sequence, and that this rank has of it what the layout says.
int32_t measure(const DistributedAttention &p, const char *name, const char *axis, int64_t given, int64_t own, bool replicated,
                int64_t *length) {
    if (own > kMostPositions / p.ranks) {
        return fail(ATTILE_ERROR_INVALID_SHAPE, "%s: local->%s is %lld; expected at most 2^48 positions in all", p.operation, axis,
                    static_cast<long long>(own));
    }
    if (replicated) {
        *length = given != 0 ? given : own;
        if (own == *length) return ATTILE_OK;
        return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: local->%s is %lld; expected %s = %lld, since every rank has all rows", p.operation,
                    axis, static_cast<long long>(own), name, static_cast<long long>(*length));
    }
    *length = given != 0 ? given : own * p.ranks;
    const int64_t expected = p.layout == ATTILE_SHARDS_CONTIGUOUS ? own : cut_shard(p.layout, *length, p.rank, p.ranks).length();
    if (own == expected && own <= *length) return ATTILE_OK;
    return fail(ATTILE_ERROR_SHAPE_MISMATCH, "%s: local->%s is %lld; expected %lld, the share of rank %d of %d in %s = %lld", p.operation,
                axis, static_cast<long long>(own), static_cast<long long>(std::min(expected, *length)), p.rank, p.ranks, name,
                static_cast<long long>(*length));
}

template <typename Args>
int32_t measure_both(const Args &args, DistributedAttention *p) {
    ATTILE_TRY(measure(*p, "len_q", "q.shape[2]", args.len_q, p->rows(), p->replicated, &p->len_q));
    return measure(*p, "len_k", "k.shape[2]", args.len_k, p->local.k.shape[2], false, &p->len_k);
}

// Of one packed sequence; 0: as many as there are.
int64_t longest_rows(const DistributedAttention &p) { return p.local.max_len_q != 0 ? p.local.max_len_q : p.len_q; }
int64_t longest_keys(const DistributedAttention &p) { return p.local.max_len_k != 0 ? p.local.max_len_k : p.len_k; }

// Bias and mask have the rows of the shard and the keys of all ranks, so the local call's own check is made without them.
attile_attention_args without_scores(const attile_attention_args &local) {
    attile_attention_args without = local;
    without.bias = without.allowed = {};
    return without;
}

int32_t check_scores(const Call &call, const DistributedAttention &p, View *bias, View *allowed) {
    const attile_attention_args &local = p.local;
    const DtypeSet wide = dtype_bit(local.q.dtype) | kF32;
    const int64_t extents[4] = {p.entries(), p.heads_q(), p.packed ? longest_rows(p) : p.rows(), p.packed ? longest_keys(p) : p.len_k};
    const char *const target = p.packed ? "[sequences, heads_q, max_len_q, max_len_k]" : "[batch, heads_q, rows of the shard, len_k]";
    const struct {
        const char *name;
        const attile_tensor &tensor;
        DtypeSet types;
        View *view;
    } rows[] = {{"bias", local.bias, wide, bias}, {"allowed", local.allowed, kU8 | kBool, allowed}};
    for (const auto &row : rows) {
        ATTILE_TRY(check_optional(call, row.name, row.tensor, {row.types, 1, 4}, row.view));
        if (row.view->present()) ATTILE_TRY(check_broadcast(call, *row.view, extents, 4, target));
    }
    return ATTILE_OK;
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
        group.begin = group.entry = b;
        group.band = make_band(p->local, p->len_q, length(b), p->len_k);
        if (key_lengths.empty()) b = p->batch();
        while (b < p->batch() && std::clamp<int64_t>(length(b), 0, p->len_k) == group.band.keys) ++b;
        group.end = b;
        p->groups.push_back(group);
    }
}

// The rows that each packed sequence has, a group for each run of them. Offsets and lengths are clamped to what there is, as a local call
// does. Where offsets decrease, rows that several sequences have belong to the first one; what a row sees goes by its whole sequence.
void group_sequences(const std::vector<double> &cu_len_q, const std::vector<double> &cu_len_k, const std::vector<double> &key_lengths,
                     DistributedAttention *p) {
    const auto segment = [](const std::vector<double> &offsets, size_t b, int64_t total, int64_t longest) {
        const int64_t first = std::clamp<int64_t>(static_cast<int64_t>(offsets[b]), 0, total);
        const int64_t end = std::clamp<int64_t>(static_cast<int64_t>(offsets[b + 1]), first, total);
        return Segment{first, first + std::min(end - first, longest), first};
    };
    TakenRows taken;
    for (int64_t b = 0; b < p->entries(); ++b) {
        const size_t at = static_cast<size_t>(b);
        EntryGroup group;
        group.end = 1;
        group.entry = b;
        const Segment whole = segment(cu_len_q, at, p->len_q, longest_rows(*p));
        group.keys = segment(cu_len_k, at, p->len_k, longest_keys(*p));
        const int64_t rows = whole.end - whole.first, keys = group.keys.end - group.keys.first;
        group.band = make_band(p->local, rows, key_lengths.empty() ? keys : static_cast<int64_t>(key_lengths[at]), keys);
        taken.take({whole.first, whole.end}, [&](const Range &own) {
            group.rows = {own.begin, own.end, whole.origin};
            p->groups.push_back(group);
        });
    }
}

int64_t contents(const std::vector<double> &numbers) { return hash_bytes(numbers.data(), numbers.size() * sizeof(double)); }

int32_t check_sum(const DistributedAttention &p, const char *name, const std::vector<int64_t> &lengths, int64_t length) {
    int64_t sum = 0;
    for (const int64_t one : lengths) sum += one;
    if (sum == length) return ATTILE_OK;
    return fail(ATTILE_ERROR_RANKS_DISAGREE, "%s: ranks disagree: their shards have %lld positions in all, and %s is %lld", p.operation,
                static_cast<long long>(sum), name, static_cast<long long>(length));
}

std::vector<Shard> cut_shards(const DistributedAttention &p, int64_t length) {
    std::vector<Shard> shards;
    shards.reserve(static_cast<size_t>(p.ranks));
    for (int32_t rank = 0; rank < p.ranks; ++rank) shards.push_back(cut_shard(p.layout, length, rank, p.ranks));
    return shards;
}

}  // namespace

int32_t read_problem(const CommState &comm, const attile_attention_distributed_args *given, bool query, DistributedAttention *problem,
                     bool *unsupported) {
    *unsupported = false;
    DistributedAttention &p = *problem;
    p.operation = kDistributed;
    attile_attention_distributed_args args;
    ATTILE_TRY(read_args(p.operation, "args", kArgsFirstSize, 0, given, &args));
    ATTILE_TRY(take_options(comm, args, &p));
    ATTILE_TRY(take_rows(args, &p));
    ATTILE_TRY(read_args(p.operation, "args->local", kAttentionFirstSize, kAttentionFlags, args.local, &p.local));
    p.packed = !is_absent(p.local.cu_len_q);
    const int32_t features = check_features(p);
    *unsupported = features != ATTILE_OK;
    ATTILE_TRY(features);
    const attile_attention_args without = without_scores(p.local);
    attile_attention_args full;
    const Call call = {p.operation, query, "local->"};
    attile_attention_problem normalised;
    bool nothing_to_do = false;
    ATTILE_TRY(read_attention(call, &without, &full, &normalised, &nothing_to_do));
    ATTILE_TRY(measure_both(args, &p));
    View o, lse, bias, allowed;
    ATTILE_TRY(check_tensor(call, "o", p.local.o, {kFloats, 4, 4, true}, &o));
    ATTILE_TRY(check_optional(call, "lse", p.local.lse, {kFloats, 3, 3, true}, &lse));
    ATTILE_TRY(check_scores(call, p, &bias, &allowed));
    for (const View *output : {&o, &lse}) {
        ATTILE_TRY(refuse_overlap(call, *output, bias));
        ATTILE_TRY(refuse_overlap(call, *output, allowed));
    }
    return ATTILE_OK;
}

int32_t read_problem(const CommState &comm, const attile_attention_backward_distributed_args *given, bool query,
                     DistributedAttention *problem, bool *unsupported) {
    *unsupported = false;
    DistributedAttention &p = *problem;
    p.operation = kDistributedBackward;
    p.backward = true;
    attile_attention_backward_distributed_args args;
    ATTILE_TRY(read_args(p.operation, "args", kBackwardArgsFirstSize, 0, given, &args));
    ATTILE_TRY(take_options(comm, args, &p));
    ATTILE_TRY(read_args(p.operation, "args->local", kBackwardFirstSize, kBackwardFlags, args.local, &p.gradients));
    ATTILE_TRY(read_args(p.operation, "args->local->forward", kAttentionFirstSize, kAttentionFlags, p.gradients.forward, &p.local));
    p.packed = !is_absent(p.local.cu_len_q);
    const int32_t features = check_features(p);
    *unsupported = features != ATTILE_OK;
    ATTILE_TRY(features);
    const Call call = {p.operation, query, "local->"}, forward_call = {p.operation, query, "local->forward->"};
    attile_launch launch;
    ATTILE_TRY(make_launch(call, p.gradients.stream, nullptr, p.gradients.workspace_bytes, p.gradients.flags, &launch));
    const attile_attention_args without = without_scores(p.local);
    AttentionViews views;
    attile_attention_problem normalised;
    ATTILE_TRY(normalise_attention(forward_call, without, AttentionPass::kBackward, &views, &normalised));
    ATTILE_TRY(measure_both(args, &p));
    ATTILE_TRY(check_scores(forward_call, p, &views.bias, &views.allowed));
    GradientViews gradients;
    ATTILE_TRY(check_gradients(call, p.gradients, p.local, &gradients));
    ATTILE_TRY(check_gradient_aliasing(call, views, gradients, launch));
    p.dbias_rank = p.gradients.dbias.rank;
    name_sums(&p);
    p.gradients.forward = nullptr;
    p.local.stream = p.gradients.stream;
    p.local.workspace = nullptr;
    p.local.workspace_bytes = 0;
    p.local.flags = p.gradients.flags & kAttentionFlags;
    return ATTILE_OK;
}

int32_t describe(DistributedAttention *problem, Announcement *announcement) {
    DistributedAttention &p = *problem;
    const attile_attention_args &local = p.local;
    if (!p.host_memory) ATTILE_TRY(attile_synchronize(p.context, local.stream));
    std::vector<double> lengths, slopes, sinks, cu_len_q, cu_len_k;
    ATTILE_TRY(read_numbers(p, local.key_lengths, &lengths));
    ATTILE_TRY(read_numbers(p, local.alibi_slopes, &slopes));
    ATTILE_TRY(read_numbers(p, local.sinks, &sinks));
    ATTILE_TRY(read_numbers(p, local.cu_len_q, &cu_len_q));
    ATTILE_TRY(read_numbers(p, local.cu_len_k, &cu_len_k));
    if (p.packed) {
        group_sequences(cu_len_q, cu_len_k, lengths, &p);
    } else {
        group_entries(lengths, &p);
    }
    announcement->len_q = p.rows();
    announcement->len_k = local.k.shape[2];
    describe_sums(p, announcement);
    std::vector<Matter> &matters = announcement->matters;
    const auto number = [&](const char *name, int64_t value) { matters.push_back({name, Shown::kNumber, value}); };
    const auto dtype = [&](const char *name, const attile_tensor &tensor) { matters.push_back({name, Shown::kDtype, tensor.dtype}); };
    const auto given = [&](const char *name, const attile_tensor &tensor) {
        matters.push_back({name, Shown::kPresence, is_absent(tensor) ? 0 : 1});
    };
    number("layout", p.layout);
    number("rows", p.replicated ? ATTILE_ROWS_REPLICATED : ATTILE_ROWS_SHARDED);
    number("method", p.method);
    dtype("local->q.dtype", local.q);
    dtype("local->o.dtype", local.o);
    dtype("local->bias.dtype", local.bias);
    dtype("local->allowed.dtype", local.allowed);
    given("local->cu_len_q", local.cu_len_q);
    number("batch", p.entries());
    number("heads_q", p.heads_q());
    number("heads_kv", p.heads_kv());
    number("head_dim", p.head_dim());
    number("head_dim_v", p.head_dim_v());
    number("len_q", p.len_q);
    number("len_k", p.len_k);
    number("local->max_len_q", local.max_len_q);
    number("local->max_len_k", local.max_len_k);
    number("local->flags", p.backward ? p.gradients.flags : local.flags);
    matters.push_back({"local->scale", Shown::kReal, real_bits(local.scale)});
    matters.push_back({"local->softcap", Shown::kReal, real_bits(local.softcap)});
    number("local->mask", local.mask);
    number("local->window_left", local.window_left);
    number("local->window_right", local.window_right);
    dtype("local->dbias.dtype", p.gradients.dbias);
    // Beside dbias a rank may say nothing of them: then agree_on_sums() compares.
    number("the set of axes that local->bias broadcasts", is_absent(p.gradients.dbias) ? broadcast_axes(p, local.bias) : 0);
    number("the set of axes that local->allowed broadcasts", broadcast_axes(p, local.allowed));
    given("local->alibi_slopes", local.alibi_slopes);
    given("local->sinks", local.sinks);
    given("local->key_lengths", local.key_lengths);
    matters.push_back({"local->alibi_slopes", Shown::kContents, contents(slopes)});
    matters.push_back({"local->sinks", Shown::kContents, contents(sinks)});
    matters.push_back({"local->key_lengths", Shown::kContents, contents(lengths)});
    matters.push_back({"local->cu_len_q", Shown::kContents, contents(cu_len_q)});
    matters.push_back({"local->cu_len_k", Shown::kContents, contents(cu_len_k)});
    if (!p.backward) return ATTILE_OK;
    dtype("local->dout.dtype", p.gradients.dout);
    dtype("local->dq.dtype", p.gradients.dq);
    dtype("local->dk.dtype", p.gradients.dk);
    dtype("local->dv.dtype", p.gradients.dv);
    given("local->dsinks", p.gradients.dsinks);
    return ATTILE_OK;
}

bool foresee_shards(DistributedAttention *problem) {
    DistributedAttention &p = *problem;
    const size_t ranks = static_cast<size_t>(p.ranks);
    const int64_t rows = p.rows(), keys = p.local.k.shape[2];
    if (p.layout != ATTILE_SHARDS_CONTIGUOUS) {
        p.k_shards = cut_shards(p, p.len_k);
        p.q_shards = cut_shards(p, p.len_q);
    } else if (keys * p.ranks == p.len_k && (p.replicated || rows * p.ranks == p.len_q)) {
        p.k_shards = contiguous_shards(std::vector<int64_t>(ranks, keys));
        p.q_shards = contiguous_shards(std::vector<int64_t>(ranks, rows));
    } else {
        return false;
    }
    if (p.replicated) p.q_shards.assign(ranks, whole_shard(p.layout, p.len_q, p.ranks));
    return true;
}

int32_t spread(const Agreement &agreement, DistributedAttention *problem) {
    DistributedAttention &p = *problem;
    std::vector<int64_t> q, k;
    for (int32_t rank = 0; rank < p.ranks; ++rank) {
        q.push_back(agreement.len_q(rank));
        k.push_back(agreement.len_k(rank));
    }
    const bool contiguous = p.layout == ATTILE_SHARDS_CONTIGUOUS;
    if (contiguous) ATTILE_TRY(check_sum(p, "len_k", k, p.len_k));
    p.k_shards = contiguous ? contiguous_shards(k) : cut_shards(p, p.len_k);
    if (p.replicated) {
        p.q_shards.assign(static_cast<size_t>(p.ranks), whole_shard(p.layout, p.len_q, p.ranks));
    } else {
        if (contiguous) ATTILE_TRY(check_sum(p, "len_q", q, p.len_q));
        p.q_shards = contiguous ? contiguous_shards(q) : cut_shards(p, p.len_q);
    }
    return p.backward ? agree_on_sums(agreement, &p) : ATTILE_OK;
}

}  // namespace attile::core
