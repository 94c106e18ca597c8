// SPDX-License-Identifier: Apache-2.0
#include "distributed/heads.h"

#include <algorithm>
#include <cstring>

#include "distributed/sums.h"
#include "guard.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

int64_t line_bytes(const attile_tensor &view) { return view.shape[3] * element_bytes(view.dtype); }

}  // namespace

Range HeadExchange::heads(HeadsOf kind, int32_t rank) const {
    const auto begin = [&](int32_t r) { return static_cast<int64_t>(static_cast<__int128>(problem_.heads_q()) * r / problem_.ranks); };
    const Range heads = {begin(rank), begin(rank + 1)};
    if (kind == HeadsOf::kQuery) return heads;
    if (heads.count() == 0) return {};
    if (kind == HeadsOf::kAll) return {0, 1};
    const int64_t group = problem_.heads_q() / problem_.heads_kv();
    return {heads.begin / group, (heads.end - 1) / group + 1};
}

bool HeadExchange::shares_key_heads() const {
    int64_t end = 0;
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        const Range kv = heads(HeadsOf::kKey, rank);
        if (kv.count() == 0) continue;
        if (kv.begin < end) return true;
        end = kv.end;
    }
    return false;
}

int32_t HeadExchange::take(const attile_tensor &tensor, HeadsOf kind, bool keys, Input *input) const {
    const DistributedAttention &p = problem_;
    input->kind = kind;
    input->keys = keys;
    attile_tensor &image = input->image;
    image = tensor;
    if (!p.on_device()) ATTILE_TRY(p.to_host(tensor, &input->copy, &image));
    const int64_t own_heads = heads(kind, p.rank).count(), rows = length(keys), own = shards(keys)[static_cast<size_t>(p.rank)].length();
    const int64_t line = line_bytes(image);
    int64_t outgoing = 0;
    for (int32_t rank = 0; rank < p.ranks; ++rank) outgoing += heads(kind, rank).count();
    const int64_t lines = product({rows, image.shape[0], own_heads});
    ATTILE_TRY(p.take(&input->memory, lines, line));
    ATTILE_TRY(p.take(&input->incoming, lines, line));
    ATTILE_TRY(p.take(&input->outgoing, product({outgoing, own, image.shape[0]}), line));
    input->whole = packed_view(input->memory.at(), image.dtype, rows, image.shape[0], own_heads, image.shape[3]);
    return ATTILE_OK;
}

// What each rank gets of the rows. On the device this rank's own part goes straight to where others' come; elsewhere the link copies it.
int32_t HeadExchange::pack(const Input &input) const {
    const attile_tensor &image = input.image;
    const int64_t own = shards(input.keys)[static_cast<size_t>(problem_.rank)].length();
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        const Range theirs = heads(input.kind, rank);
        const size_t at = static_cast<size_t>(rank);
        if (product({own, theirs.count()}) == 0) continue;
        if (!problem_.on_device()) {
            pack_rows(image, 0, own, theirs.begin, theirs.count(), input.outgoing.at(out_.offsets[at]));
            continue;
        }
        unsigned char *to = rank == problem_.rank ? input.incoming.at(in_.offsets[at]) : input.outgoing.at(out_.offsets[at]);
        ATTILE_TRY(device_.copy(slice(image, 1, theirs.begin, theirs.count()),
                                packed_view(to, image.dtype, own, image.shape[0], theirs.count(), image.shape[3])));
    }
    return problem_.settle();
}

// Rows of a shard between their places in the whole sequence and one block of them.
int32_t HeadExchange::place(const Shard &shard, const attile_tensor &whole, unsigned char *block, bool to_whole) const {
    const int64_t row_bytes = whole.shape[0] * whole.shape[1] * line_bytes(whole);
    const attile_tensor rows = packed_view(block, whole.dtype, shard.length(), whole.shape[0], whole.shape[1], whole.shape[3]);
    for (const Piece &piece : shard.pieces) {
        if (problem_.on_device()) {
            const attile_tensor in_whole = slice(whole, 2, piece.first, piece.count, piece.stride);
            const attile_tensor in_block = slice(rows, 2, piece.local, piece.count);
            ATTILE_TRY(to_whole ? device_.copy(in_block, in_whole) : device_.copy(in_whole, in_block));
            continue;
        }
        for (int64_t i = 0; i < piece.count; ++i) {
            unsigned char *in_whole = static_cast<unsigned char *>(whole.data) + (piece.first + i * piece.stride) * row_bytes;
            unsigned char *in_block = block + (piece.local + i) * row_bytes;
            std::memcpy(to_whole ? in_whole : in_block, to_whole ? in_block : in_whole, static_cast<size_t>(row_bytes));
        }
    }
    return ATTILE_OK;
}

// The messages of the sizes that were set.
int32_t HeadExchange::travel(Session &session, const Buffer &from, const Buffer &to) {
    const size_t own = static_cast<size_t>(problem_.rank);
    if (problem_.on_device()) out_.bytes[own] = in_.bytes[own] = 0;
    return session.link().all_to_all(from.at(), out_.bytes.data(), out_.offsets.data(), to.at(), in_.bytes.data(), in_.offsets.data());
}

int32_t HeadExchange::exchange(Session &session, Input *input) {
    const attile_tensor &image = input->image;
    const std::vector<Shard> &all = shards(input->keys);
    const int64_t own = all[static_cast<size_t>(problem_.rank)].length(), line = image.shape[0] * line_bytes(image);
    const int64_t own_heads = heads(input->kind, problem_.rank).count();
    out_.end = in_.end = 0;
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        out_.set(rank, own * heads(input->kind, rank).count() * line);
        in_.set(rank, all[static_cast<size_t>(rank)].length() * own_heads * line);
    }
    if (session.sound()) ATTILE_TRY(session.take(guarded([&] { return pack(*input); })));
    ATTILE_TRY(travel(session, input->outgoing, input->incoming));
    const auto arrange = [&]() -> int32_t {
        for (int32_t rank = 0; rank < problem_.ranks && own_heads * line != 0; ++rank) {
            const size_t at = static_cast<size_t>(rank);
            ATTILE_TRY(place(all[at], input->whole, input->incoming.at(in_.offsets[at]), true));
        }
        return ATTILE_OK;
    };
    return session.sound() ? session.take(guarded(arrange)) : ATTILE_OK;
}

int32_t HeadExchange::take(int32_t dtype, HeadsOf kind, bool keys, int64_t batch, int64_t width, Output *output) const {
    const DistributedAttention &p = problem_;
    output->kind = kind;
    output->keys = keys;
    const int64_t own_heads = heads(kind, p.rank).count(), lines = product({length(keys), batch, own_heads});
    const int64_t line = width * element_bytes(dtype);
    int64_t incoming = 0;
    for (int32_t rank = 0; rank < p.ranks; ++rank) incoming += heads(kind, rank).count();
    const int64_t own = shards(keys)[static_cast<size_t>(p.rank)].length();
    ATTILE_TRY(p.take(&output->memory, lines, line));
    ATTILE_TRY(p.take(&output->blocks, lines, line));
    ATTILE_TRY(p.take(&output->back, product({own, batch, incoming}), line));
    output->whole = packed_view(output->memory.at(), dtype, length(keys), batch, own_heads, width);
    return ATTILE_OK;
}

// The rows of each rank go home; they come from each rank as a block of its heads.
int32_t HeadExchange::give_back(Session &session, Output *output) {
    const std::vector<Shard> &all = shards(output->keys);
    const attile_tensor &whole = output->whole;
    const int64_t line = whole.shape[0] * line_bytes(whole), row = whole.shape[1] * line;
    const int64_t own = all[static_cast<size_t>(problem_.rank)].length();
    out_.end = in_.end = 0;
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        out_.set(rank, all[static_cast<size_t>(rank)].length() * row);
        in_.set(rank, own * heads(output->kind, rank).count() * line);
    }
    const auto arrange = [&]() -> int32_t {
        for (int32_t rank = 0; rank < problem_.ranks && row != 0; ++rank) {
            const size_t at = static_cast<size_t>(rank);
            const bool stays = problem_.on_device() && rank == problem_.rank;
            ATTILE_TRY(place(all[at], whole, stays ? output->back.at(in_.offsets[at]) : output->blocks.at(out_.offsets[at]), false));
        }
        return problem_.settle();
    };
    if (session.sound()) ATTILE_TRY(session.take(guarded(arrange)));
    return travel(session, output->blocks, output->back);
}

attile_tensor HeadExchange::returned(const Output &output, int32_t rank) const {
    const attile_tensor &whole = output.whole;
    const int64_t own = shards(output.keys)[static_cast<size_t>(problem_.rank)].length();
    int64_t before = 0;
    for (int32_t r = 0; r < rank; ++r) before += heads(output.kind, r).count();
    return packed_view(output.back.at(before * own * whole.shape[0] * line_bytes(whole)), whole.dtype, own, whole.shape[0],
                       heads(output.kind, rank).count(), whole.shape[3]);
}

int32_t HeadExchange::write_returned(const Output &output, const attile_tensor &to) const {
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        const Range theirs = heads(output.kind, rank);
        const attile_tensor from = returned(output, rank), part = slice(to, 1, theirs.begin, theirs.count());
        ATTILE_TRY(problem_.on_device() ? device_.copy(from, part) : write_out(problem_, from, part));
    }
    return problem_.settle();
}

int32_t HeadExchange::sum_returned(const Output &output, const attile_tensor &to) const {
    Buffer memory;
    const int64_t *shape = to.shape;
    const int32_t dtype = output.whole.dtype;
    ATTILE_TRY(memory.take(problem_.operation, product({shape[0], shape[1], shape[2], shape[3]}), element_bytes(dtype)));
    const attile_tensor sum = dense_view(memory.at(), dtype, shape[0], shape[1], shape[2], shape[3]);
    clear(sum);
    for (int32_t rank = 0; rank < problem_.ranks; ++rank) {
        const Range theirs = heads(output.kind, rank);
        add_up(returned(output, rank), slice(sum, 1, theirs.begin, theirs.count()));
    }
    return write_out(problem_, sum, to);
}

int32_t WholeHeads::take() {
    const attile_attention_args &local = problem_.local;
    ATTILE_TRY(exchange_.begin());
    ATTILE_TRY(exchange_.take(local.q, HeadsOf::kQuery, false, &q_));
    ATTILE_TRY(exchange_.take(local.k, HeadsOf::kKey, true, &k_));
    ATTILE_TRY(exchange_.take(local.v, HeadsOf::kKey, true, &v_));
    if (problem_.packed) return ATTILE_OK;  // bias and mask go by rows of sequences, and every rank has them whole
    if (!is_absent(local.bias)) {
        const attile_tensor bias = with_four_axes(local.bias);
        ATTILE_TRY(exchange_.take(bias, heads_of_scores(bias), false, &bias_));
    }
    if (is_absent(local.allowed)) return ATTILE_OK;
    const attile_tensor allowed = with_four_axes(local.allowed);
    return exchange_.take(allowed, heads_of_scores(allowed), false, &allowed_);
}

int32_t WholeHeads::run(Session &session) {
    for (HeadExchange::Input *input : {&q_, &k_, &v_, &bias_, &allowed_}) {
        if (input->present()) ATTILE_TRY(exchange_.exchange(session, input));
    }
    return ATTILE_OK;
}

std::vector<WholeHeads::Call> WholeHeads::calls() const {
    std::vector<Call> calls;
    const Range heads = exchange_.heads(HeadsOf::kQuery, problem_.rank);
    if (heads.count() == 0) return calls;
    const int64_t group = problem_.heads_q() / problem_.heads_kv();
    for (int64_t head = heads.begin; head < heads.end;) {
        const int64_t left = heads.end - head;
        const int64_t count = head % group == 0 && left >= group ? left / group * group : std::min(left, group - head % group);
        calls.push_back({{head, head + count}, {head / group, (head + count - 1) / group + 1}});
        head += count;
    }
    return calls;
}

attile_tensor WholeHeads::part(const attile_tensor &whole, HeadsOf kind, const Call &call) const {
    if (kind == HeadsOf::kAll) return whole;
    const Range &wanted = kind == HeadsOf::kKey ? call.kv : call.heads;
    return slice(whole, 1, wanted.begin - exchange_.heads(kind, problem_.rank).begin, wanted.count());
}

attile_attention_args WholeHeads::args(const Call &call) const {
    attile_attention_args args = problem_.local;
    args.q = part(q_.whole, q_.kind, call);
    args.k = part(k_.whole, k_.kind, call);
    args.v = part(v_.whole, v_.kind, call);
    for (attile_tensor *scores : {&args.bias, &args.allowed}) {
        if (!is_absent(*scores)) *scores = slice_broadcast(with_four_axes(*scores), 1, call.heads.begin, call.heads.count());
    }
    if (bias_.present()) args.bias = part(bias_.whole, bias_.kind, call);
    if (allowed_.present()) args.allowed = part(allowed_.whole, allowed_.kind, call);
    if (!is_absent(args.alibi_slopes)) {
        args.alibi_slopes = slice(args.alibi_slopes, args.alibi_slopes.rank - 1, call.heads.begin, call.heads.count());
    }
    if (!is_absent(args.sinks)) args.sinks = slice(args.sinks, 0, call.heads.begin, call.heads.count());
    return args;
}

}  // namespace attile::core
