// SPDX-License-Identifier: Apache-2.0
// A pair of pieces is one call of the local attention with a window from the pair's own corner, and a merge.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "distributed/attention.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

void store(void *to, int32_t dtype, int64_t index, double value) {
    if (dtype == ATTILE_F64) {
        static_cast<double *>(to)[index] = value;
    } else {
        static_cast<float *>(to)[index] = static_cast<float>(value);
    }
}

attile_tensor entries(const attile_tensor &tensor, const EntryGroup &group) {
    return slice(tensor, 0, group.begin, group.end - group.begin);
}

// Part of a bias or mask that broadcasts to [batch, heads_q, rows of the shard, keys of all].
attile_tensor scores(const attile_tensor &tensor, const EntryGroup &group, const Piece &rows, const Piece &keys, const Pair &pair) {
    attile_tensor part = with_four_axes(tensor);
    part = slice_broadcast(part, 0, group.begin, group.end - group.begin);
    part = slice_broadcast(part, 2, rows.local + pair.row, pair.rows);
    return slice_broadcast(part, 3, keys.first + keys.stride * pair.key, pair.keys, keys.stride);
}

void set_window(const Pair &pair, attile_attention_args *args) {
    if (pair.left < 0 && pair.right < 0) {
        args->mask = ATTILE_MASK_NONE;
    } else if (pair.left < 0 && pair.right == 0) {
        args->mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    } else {
        args->mask = ATTILE_MASK_WINDOW_TOP_LEFT;
        args->window_left = pair.left;
        args->window_right = pair.right;
    }
}

// Parts put together by the rank's own call.
int32_t merge_parts(const DistributedAttention &p, const attile_tensor *o_parts, const attile_tensor *lse_parts, int64_t parts,
                    const attile_tensor &o, const attile_tensor &lse) {
    attile_attention_merge_args merge;
    attile_attention_merge_init(&merge, sizeof merge);
    merge.flags = p.local.flags & ATTILE_FLAG_BATCH_INVARIANT;
    merge.stream = p.local.stream;
    merge.o_parts = o_parts;
    merge.lse_parts = lse_parts;
    merge.parts = parts;
    merge.o = o;
    merge.lse = lse;
    return attile_attention_merge(p.context, &merge);
}

}  // namespace

bool sees(const DistributedAttention &problem, int32_t rank, const Piece &keys) {
    for (const Piece &rows : problem.q_shards[static_cast<size_t>(rank)].pieces) {
        for (const EntryGroup &group : problem.groups) {
            if (!make_pair(rows, keys, group.band).hidden) return true;
        }
    }
    return false;
}

attile_tensor Partials::o_view(const Buffer &buffer) const {
    const DistributedAttention &p = problem_;
    attile_tensor view{};
    const int64_t shape[4] = {p.batch(), p.heads_q(), p.rows(), p.head_dim_v()};
    (void)attile_tensor_init(&view, buffer.at(), p.wide(), 4, shape);
    return view;
}

attile_tensor Partials::lse_view(const Buffer &buffer) const {
    const DistributedAttention &p = problem_;
    attile_tensor view{};
    const int64_t shape[3] = {p.batch(), p.heads_q(), p.rows()};
    (void)attile_tensor_init(&view, buffer.at(), p.wide(), 3, shape);
    return view;
}

int32_t Partials::take() {
    const DistributedAttention &p = problem_;
    const int64_t bytes = element_bytes(p.wide());
    const int64_t rows = product({p.batch(), p.heads_q(), p.rows()});
    for (Buffer *buffer : {&o_, &next_o_}) ATTILE_TRY(buffer->take(kDistributed, rows, bytes * p.head_dim_v()));
    for (Buffer *buffer : {&lse_, &next_lse_}) ATTILE_TRY(buffer->take(kDistributed, rows, bytes));
    begun_.assign(p.q_shard().pieces.size() * p.groups.size(), 0);
    if (!is_absent(p.local.alibi_slopes)) {
        ATTILE_TRY(p.to_host(p.local.alibi_slopes, &slopes_copy_, &slopes_));
        if (!is_absent(p.local.bias)) ATTILE_TRY(p.to_host(p.local.bias, &bias_copy_, &bias_));
    }
    return ATTILE_OK;
}

// A part whose lse is -inf takes no part in a merge, whatever its o holds.
void Partials::forget(const attile_tensor &lse) const {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    for (int64_t b = 0; b < lse.shape[0]; ++b) {
        for (int64_t h = 0; h < lse.shape[1]; ++h) {
            const int64_t line = b * lse.stride[0] + h * lse.stride[1];
            for (int64_t i = 0; i < lse.shape[2]; ++i) store(lse.data, lse.dtype, line + i, kNothing);
        }
    }
}

int32_t Partials::add(const Piece &keys, const attile_tensor &k, const attile_tensor &v) {
    if (problem_.heads_q() == 0) return ATTILE_OK;
    for (size_t part = 0; part < problem_.q_shard().pieces.size(); ++part) {
        for (size_t group = 0; group < problem_.groups.size(); ++group) ATTILE_TRY(add_pair(part, group, keys, k, v));
    }
    return ATTILE_OK;
}

int32_t Partials::add_pair(size_t part, size_t group_number, const Piece &keys, const attile_tensor &k, const attile_tensor &v) {
    const EntryGroup &group = problem_.groups[group_number];
    const Piece &rows = problem_.q_shard().pieces[part];
    const Pair pair = make_pair(rows, keys, group.band);
    if (pair.hidden) return ATTILE_OK;
    char &begun = begun_[part * problem_.groups.size() + group_number];
    const int64_t first = rows.local + pair.row;
    const attile_tensor o = slice(entries(o_view(o_), group), 2, first, pair.rows);
    const attile_tensor lse = slice(entries(lse_view(lse_), group), 2, first, pair.rows);
    if (begun == 0) {
        begun = 1;
        if (pair.rows == rows.count) return attend(group, rows, keys, pair, k, v, o, lse);
        forget(slice(entries(lse_view(lse_), group), 2, rows.local, rows.count));
    }
    const attile_tensor next_o = slice(entries(o_view(next_o_), group), 2, first, pair.rows);
    const attile_tensor next_lse = slice(entries(lse_view(next_lse_), group), 2, first, pair.rows);
    ATTILE_TRY(attend(group, rows, keys, pair, k, v, next_o, next_lse));
    const attile_tensor o_parts[2] = {o, next_o}, lse_parts[2] = {lse, next_lse};
    return merge_parts(problem_, o_parts, lse_parts, 2, o, lse);
}

int32_t Partials::attend(const EntryGroup &group, const Piece &rows, const Piece &keys, const Pair &pair, const attile_tensor &k,
                         const attile_tensor &v, const attile_tensor &o, const attile_tensor &lse) {
    const attile_attention_args &local = problem_.local;
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.flags = local.flags;
    args.stream = local.stream;
    args.scale = local.scale;
    args.softcap = local.softcap;
    args.q = slice(entries(local.q, group), 2, rows.local + pair.row, pair.rows);
    args.k = slice(entries(k, group), 2, pair.key, pair.keys);
    args.v = slice(entries(v, group), 2, pair.key, pair.keys);
    args.o = o;
    args.lse = lse;
    set_window(pair, &args);
    if (!is_absent(local.allowed)) args.allowed = scores(local.allowed, group, rows, keys, pair);
    if (!is_absent(local.bias)) args.bias = scores(local.bias, group, rows, keys, pair);
    if (!is_absent(local.alibi_slopes)) {
        if (!is_absent(local.bias)) args.bias = scores(bias_, group, rows, keys, pair);
        ATTILE_TRY(apply_alibi(group, keys, pair, &args));
    }
    return attile_attention(problem_.context, &args);
}

// ALiBi goes by positions. Where the local call's own distances are those, it takes the slopes. Else the distances are a bias: one line of
// them a head holds all, since they depend on j - i alone, and strides of 1 and -1 make the matrix of it. Only together with a bias of the
// caller's is the sum of both written out.
int32_t Partials::apply_alibi(const EntryGroup &group, const Piece &keys, const Pair &pair, attile_attention_args *args) {
    const bool each = slopes_.rank == 2;
    if (keys.stride == 1 && (pair.diagonal == 0 || (args->mask == ATTILE_MASK_NONE && pair.diagonal == pair.keys - pair.rows))) {
        args->alibi_slopes = each ? entries(problem_.local.alibi_slopes, group) : problem_.local.alibi_slopes;
        if (args->mask == ATTILE_MASK_NONE && pair.diagonal == 0) {
            args->mask = ATTILE_MASK_WINDOW_TOP_LEFT;  // whose distances begin at this corner
            args->window_left = args->window_right = -1;
        }
        return ATTILE_OK;
    }
    const int32_t dtype = problem_.wide();
    const int64_t heads = problem_.heads_q();
    const auto slope = [&](int64_t b, int64_t h) { return each ? read_number(slopes_, group.begin + b, h) : read_number(slopes_, h); };
    const auto value = [&](double factor, int64_t steps) {
        return -factor * std::abs(static_cast<double>(keys.stride * steps - pair.diagonal));
    };
    if (is_absent(args->bias)) {
        const int64_t line = pair.rows + pair.keys - 1, batch = each ? group.end - group.begin : 1;
        ATTILE_TRY(distances_.take(kDistributed, batch * heads * line, element_bytes(dtype)));
        for (int64_t b = 0; b < batch; ++b) {
            for (int64_t h = 0; h < heads; ++h) {
                const double factor = slope(b, h);
                for (int64_t t = 0; t < line; ++t) {
                    store(distances_.at(), dtype, (b * heads + h) * line + t, value(factor, t - (pair.rows - 1)));
                }
            }
        }
        attile_tensor &bias = args->bias;
        bias.data = distances_.at((pair.rows - 1) * element_bytes(dtype));
        bias.dtype = dtype;
        bias.rank = 4;
        const int64_t shape[4] = {batch, heads, pair.rows, pair.keys}, stride[4] = {heads * line, line, -1, 1};
        std::copy_n(shape, 4, bias.shape);
        std::copy_n(stride, 4, bias.stride);
        return ATTILE_OK;
    }
    const attile_tensor given = args->bias;
    const int64_t shape[4] = {group.end - group.begin, heads, pair.rows, pair.keys};
    ATTILE_TRY(distances_.take(kDistributed, shape[0] * shape[1] * shape[2], shape[3] * element_bytes(dtype)));
    ATTILE_TRY(attile_tensor_init(&args->bias, distances_.at(), dtype, 4, shape));
    const auto index = [&](int32_t axis, int64_t i) { return given.shape[axis] == 1 ? 0 : i; };
    int64_t at = 0;
    for (int64_t b = 0; b < shape[0]; ++b) {
        for (int64_t h = 0; h < shape[1]; ++h) {
            const double factor = slope(b, h);
            for (int64_t i = 0; i < shape[2]; ++i) {
                for (int64_t j = 0; j < shape[3]; ++j, ++at) {
                    const double own = read_number(given, index(0, b), index(1, h), index(2, i), index(3, j));
                    store(distances_.at(), dtype, at, own + value(factor, j - i));
                }
            }
        }
    }
    return ATTILE_OK;
}

int32_t Partials::finish() {
    const DistributedAttention &p = problem_;
    if (p.rows() == 0 || p.batch() == 0 || p.heads_q() == 0) return ATTILE_OK;
    const std::vector<Piece> &pieces = p.q_shard().pieces;
    for (size_t part = 0; part < pieces.size(); ++part) {
        for (size_t group = 0; group < p.groups.size(); ++group) {
            if (begun_[part * p.groups.size() + group] != 0) continue;
            forget(slice(entries(lse_view(lse_), p.groups[group]), 2, pieces[part].local, pieces[part].count));
        }
    }
    attile_tensor o_parts[2] = {o_view(o_), {}}, lse_parts[2] = {lse_view(lse_), {}};
    int64_t parts = 1;
    // A sink is one more part, of no key: its o is 0 and its lse the sink.
    double zero = 0;
    Buffer sinks, copy;
    if (!is_absent(p.local.sinks)) {
        attile_tensor image;
        ATTILE_TRY(p.to_host(p.local.sinks, &copy, &image));
        ATTILE_TRY(sinks.take(kDistributed, p.heads_q(), element_bytes(p.wide())));
        for (int64_t h = 0; h < p.heads_q(); ++h) store(sinks.at(), p.wide(), h, read_number(image, h));
        o_parts[1] = o_parts[0];
        o_parts[1].data = &zero;
        std::fill_n(o_parts[1].stride, 4, 0);
        lse_parts[1] = lse_parts[0];
        lse_parts[1].data = sinks.at();
        lse_parts[1].stride[0] = lse_parts[1].stride[2] = 0;
        lse_parts[1].stride[1] = 1;
        parts = 2;
    }
    ATTILE_TRY(merge_parts(p, o_parts, lse_parts, parts, p.local.o, p.local.lse));
    return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
}

}  // namespace attile::core
