// SPDX-License-Identifier: Apache-2.0
// A pair of pieces, or rows of several that see the same keys of several, is one call of the local attention with a window from its own
// corner, and a merge.
#include "distributed/partials.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "distributed/sums.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

// A part whose lse is -inf takes no part in a merge, whatever its o holds.
void forget(const attile_tensor &lse) {
    constexpr double kNothing = -std::numeric_limits<double>::infinity();
    for (int64_t b = 0; b < lse.shape[0]; ++b) {
        for (int64_t h = 0; h < lse.shape[1]; ++h) {
            const int64_t line = b * lse.stride[0] + h * lse.stride[1];
            for (int64_t i = 0; i < lse.shape[2]; ++i) store_number(lse.data, lse.dtype, line + i * lse.stride[2], kNothing);
        }
    }
}

}  // namespace

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
    for (Buffer *buffer : {&o_, &next_o_}) ATTILE_TRY(p.take(buffer, rows, bytes * p.head_dim_v()));
    for (Buffer *buffer : {&lse_, &next_lse_}) ATTILE_TRY(p.take(buffer, rows, bytes));
    begun_.assign(p.q_shard().pieces.size() * p.groups.size(), 0);
    ATTILE_TRY(device_.begin());
    return call_.take();
}

int32_t Partials::add(const std::vector<Piece> &run, const attile_tensor &k, const attile_tensor &v) {
    if (problem_.heads_q() == 0) return ATTILE_OK;
    const auto alike = [this](size_t part, size_t other, size_t group) { return begun_of(part, group) == begun_of(other, group); };
    return for_each_meeting(problem_, run, alike, [&](const Meeting &meeting, size_t group, size_t part, size_t end) -> int32_t {
        ATTILE_TRY(add_pair(meeting, begun_of(part, group) != 0, k, v));
        for (size_t joined = part; joined < end; ++joined) begun_of(joined, group) = 1;
        return ATTILE_OK;
    });
}

int32_t Partials::add_pair(const Meeting &meeting, bool begun, const attile_tensor &k, const attile_tensor &v) {
    const attile_tensor o = rows_of(o_view(o_), meeting), lse = rows_of(lse_view(lse_), meeting);
    if (!begun) {
        if (meeting.pair.rows == meeting.rows.count) return attend(meeting, k, v, o, lse);
        ATTILE_TRY(forget_rows(meeting));
    }
    const attile_tensor next_o = rows_of(o_view(next_o_), meeting), next_lse = rows_of(lse_view(next_lse_), meeting);
    ATTILE_TRY(attend(meeting, k, v, next_o, next_lse));
    const attile_tensor o_parts[2] = {o, next_o}, lse_parts[2] = {lse, next_lse};
    return merge_parts(problem_, o_parts, lse_parts, 2, o, lse);
}

int32_t Partials::attend(const Meeting &meeting, const attile_tensor &k, const attile_tensor &v, const attile_tensor &o,
                         const attile_tensor &lse) {
    attile_attention_args args;
    ATTILE_TRY(call_.make(meeting, k, v, &args));
    // What is merged is rounded to o's type in the end.
    const int32_t dtype = problem_.local.q.dtype;
    if ((dtype == ATTILE_F16 || dtype == ATTILE_BF16) && problem_.local.o.dtype == dtype) args.flags |= ATTILE_FLAG_FAST_ACCUMULATION;
    args.o = o;
    args.lse = lse;
    return attile_attention(problem_.context, &args);
}

// All rows that a piece has of a group.
int32_t Partials::forget_rows(Meeting meeting) const {
    meeting.pair.row = 0;
    meeting.pair.rows = meeting.rows.count;
    const attile_tensor lse = rows_of(lse_view(lse_), meeting);
    if (problem_.on_device()) return device_.forget(rows_of(o_view(o_), meeting), lse);
    forget(lse);
    return ATTILE_OK;
}

int32_t Partials::close() {
    const DistributedAttention &p = problem_;
    if (empty()) return ATTILE_OK;
    const std::vector<Piece> &pieces = p.q_shard().pieces;
    for (size_t part = 0; part < pieces.size(); ++part) {
        for (size_t group = 0; group < p.groups.size(); ++group) {
            char &begun = begun_of(part, group);
            if (begun == 0) ATTILE_TRY(forget_rows(meet(p.groups[group], pieces[part], {})));
            begun = 1;
        }
    }
    return ATTILE_OK;
}

Partials::Parts Partials::parts(const Buffer &o, const Buffer &lse) const {
    const int64_t rows = problem_.batch() * problem_.heads_q() * problem_.rows(), bytes = element_bytes(problem_.wide());
    return {o.at(), lse.at(), rows * problem_.head_dim_v() * bytes, rows * bytes};
}

int32_t Partials::clear_results() {
    if (problem_.on_device()) return device_.forget(o_view(o_), lse_view(lse_));
    clear(o_view(o_));
    clear(with_four_axes(lse_view(lse_)));
    return ATTILE_OK;
}

int32_t Partials::take_received(bool first) {
    if (empty()) return ATTILE_OK;
    const attile_tensor o = o_view(o_), lse = lse_view(lse_);
    attile_tensor o_parts[2] = {o, o_view(next_o_)}, lse_parts[2] = {lse, lse_view(next_lse_)};
    if (first) {
        std::swap(o_parts[0], o_parts[1]);
        std::swap(lse_parts[0], lse_parts[1]);
    }
    return merge_parts(problem_, o_parts, lse_parts, 2, o, lse);
}

// A sink is one more part, of no key: its o is 0 and its lse the sink. Both come in the shape of results, and point to `memory` then.
int32_t Partials::take_sinks(Buffer *memory, attile_tensor *o, attile_tensor *lse) const {
    const DistributedAttention &p = problem_;
    const int64_t heads = p.heads_q(), bytes = element_bytes(p.wide());
    Buffer copy, host;
    attile_tensor image;
    ATTILE_TRY(p.to_host(p.local.sinks, &copy, &image));
    ATTILE_TRY(host.take(p.operation, heads + 1, bytes));
    for (int64_t h = 0; h < heads; ++h) store_number(host.at(), p.wide(), h, read_number(image, h));
    store_number(host.at(), p.wide(), heads, 0.0);
    ATTILE_TRY(p.take(memory, heads + 1, bytes));
    if (p.on_device()) {
        ATTILE_TRY(attile_copy(p.context, memory->at(), host.at(), (heads + 1) * bytes, p.local.stream));
    } else {
        std::swap(*memory, host);
    }
    o->data = memory->at(heads * bytes);
    std::fill_n(o->stride, 4, 0);
    lse->data = memory->at();
    lse->stride[0] = lse->stride[2] = 0;
    lse->stride[1] = 1;
    return ATTILE_OK;
}

int32_t Partials::finish() {
    const DistributedAttention &p = problem_;
    if (empty()) return ATTILE_OK;
    ATTILE_TRY(close());
    attile_tensor o_parts[2] = {o_view(o_), {}}, lse_parts[2] = {lse_view(lse_), {}};
    int64_t parts = 1;
    Buffer sinks;
    if (!is_absent(p.local.sinks)) {
        o_parts[1] = o_parts[0];
        lse_parts[1] = lse_parts[0];
        ATTILE_TRY(take_sinks(&sinks, &o_parts[1], &lse_parts[1]));
        parts = 2;
    }
    for (const Piece &rows : rows_with_results(p)) {
        const auto own = [&](const attile_tensor &tensor) { return slice(tensor, 2, rows.local, rows.count, rows.step); };
        const attile_tensor o[2] = {own(o_parts[0]), own(o_parts[1])}, lse[2] = {own(lse_parts[0]), own(lse_parts[1])};
        ATTILE_TRY(merge_parts(p, o, lse, parts, own(p.local.o), is_absent(p.local.lse) ? p.local.lse : own(p.local.lse)));
    }
    return p.host_memory ? ATTILE_OK : attile_synchronize(p.context, p.local.stream);
}

}  // namespace attile::core
