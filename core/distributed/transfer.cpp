// SPDX-License-Identifier: Apache-2.0
#include "distributed/transfer.h"

#include <algorithm>
#include <cstring>

#include "distributed/sums.h"
#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

// Lines and elements of a block that is turned over: its columns stay in the cache while its rows are written.
constexpr int64_t kTile = 32;

// Two axes, the same extents.
template <typename T>
void copy_typed(const attile_tensor &from, const attile_tensor &to) {
    const int32_t inner = to.stride[0] == 1 ? 0 : 1, outer = 1 - inner;
    const T *const source = static_cast<const T *>(from.data);
    T *const target = static_cast<T *>(to.data);
    const int64_t lines = to.shape[outer], width = to.shape[inner];
    const int64_t from_line = from.stride[outer], from_step = from.stride[inner], to_line = to.stride[outer], to_step = to.stride[inner];
    if (from_step == 1 && to_step == 1) {
        for (int64_t i = 0; i < lines; ++i) {
            std::memcpy(target + i * to_line, source + i * from_line, static_cast<size_t>(width) * sizeof(T));
        }
        return;
    }
    for (int64_t i0 = 0; i0 < lines; i0 += kTile) {
        for (int64_t j0 = 0; j0 < width; j0 += kTile) {
            for (int64_t i = i0; i < std::min(i0 + kTile, lines); ++i) {
                for (int64_t j = j0; j < std::min(j0 + kTile, width); ++j)
                    target[i * to_line + j * to_step] = source[i * from_line + j * from_step];
            }
        }
    }
}

void copy_block(const attile_tensor &from, const attile_tensor &to) {
    switch (element_bytes(to.dtype)) {
        case 2:
            return copy_typed<uint16_t>(from, to);
        case 4:
            return copy_typed<uint32_t>(from, to);
        default:
            return copy_typed<uint64_t>(from, to);
    }
}

// The last axis of `to` innermost where its neighbours are near.
void add_block(attile_tensor from, attile_tensor to) {
    if (to.stride[0] == 1) {
        for (attile_tensor *tensor : {&from, &to}) {
            std::swap(tensor->shape[0], tensor->shape[1]);
            std::swap(tensor->stride[0], tensor->stride[1]);
        }
    }
    add_up(with_four_axes(from), with_four_axes(to));
}

// Runs that lie at equal distances, so that one copy takes all of them.
struct Runs {
    int64_t from, to, count;
    int64_t runs, from_step, to_step;
};

// Those from number `first` on.
Runs equal_runs(const std::vector<Run> &runs, size_t first) {
    const Run &one = runs[first];
    Runs group = {one.from, one.to, one.count, 1, 0, 0};
    for (size_t i = first + 1; i < runs.size() && runs[i].count == one.count; ++i) {
        const int64_t from_step = runs[i].from - runs[i - 1].from, to_step = runs[i].to - runs[i - 1].to;
        if (group.runs > 1 && (from_step != group.from_step || to_step != group.to_step)) break;
        group.from_step = from_step;
        group.to_step = to_step;
        ++group.runs;
    }
    return group;
}

// Of a matrix the elements of these runs, with four axes: runs and lines, the last one along `fast`.
attile_tensor block_of(const attile_tensor &matrix, const int64_t (&first)[2], const int64_t (&step)[2], const Runs *const (&groups)[2],
                       int32_t fast) {
    attile_tensor block = matrix;
    block.rank = 4;
    int64_t offset = 0;
    for (int32_t axis = 0; axis < 2; ++axis) {
        const int32_t outer = axis == fast ? 1 : 0;
        block.shape[outer] = groups[axis]->runs;
        block.stride[outer] = step[axis] * matrix.stride[axis];
        block.shape[2 + outer] = groups[axis]->count;
        block.stride[2 + outer] = matrix.stride[axis];
        offset += first[axis] * matrix.stride[axis];
    }
    block.data = static_cast<unsigned char *>(matrix.data) + offset * element_bytes(matrix.dtype);
    return block;
}

}  // namespace

attile_tensor dense_matrix(void *data, int32_t dtype, const int64_t *shape, int32_t fast) {
    attile_tensor tensor{};
    tensor.data = data;
    tensor.dtype = dtype;
    tensor.rank = 2;
    tensor.shape[0] = shape[0];
    tensor.shape[1] = shape[1];
    tensor.stride[fast] = 1;
    tensor.stride[1 - fast] = std::max<int64_t>(1, shape[fast]);
    return tensor;
}

bool Transfer::may_send(int32_t sender, int32_t receiver) const {
    if (arrival_ == Arrival::kSum) return true;
    // Of ranks that have the same, one in the receiver's own row or column of the grid.
    return std::all_of(from_.axis, from_.axis + 2,
                       [&](const GridAxis &axis) { return !axis.replicated() || axis.coordinate(sender) == axis.coordinate(receiver); });
}

std::vector<Transfer::Peer> Transfer::find_peers(int32_t ranks, bool senders) const {
    const int32_t across = 1 - panel_axis_;
    std::vector<Peer> peers;
    for (int32_t other = 0; other < ranks; ++other) {
        const int32_t sender = senders ? other : rank_, receiver = senders ? rank_ : other;
        if (!may_send(sender, receiver)) continue;
        Peer peer;
        peer.rank = other;
        common_runs(from_.axis[across], sender, to_.axis[across], receiver, {0, from_.axis[across].extent}, &peer.across);
        peer.lines = count_runs(peer.across);
        if (peer.lines != 0) peers.push_back(std::move(peer));
    }
    return peers;
}

const std::vector<Run> &Transfer::along(int32_t sender, int32_t receiver, Range panel) {
    const GridAxis &from = from_.axis[panel_axis_], &to = to_.axis[panel_axis_];
    common_runs(from, sender, to, receiver, panel, &along_);
    const int64_t from_base = from.below(sender, panel.begin), to_base = to.below(receiver, panel.begin);
    for (Run &run : along_) {
        run.from -= from_base;
        run.to -= to_base;
    }
    return along_;
}

int64_t Transfer::message_bytes(const Peer &peer, int32_t sender, int32_t receiver, Range panel) {
    return product({peer.lines, count_runs(along(sender, receiver, panel)), element_bytes(dtype_)});
}

int32_t Transfer::prepare(const char *operation, int32_t rank, int32_t ranks, int32_t dtype, int64_t width) {
    rank_ = rank;
    dtype_ = dtype;
    senders_ = find_peers(ranks, true);
    receivers_ = find_peers(ranks, false);
    // Each rank begins with the one behind it, so that not all send to the same one first.
    std::stable_partition(receivers_.begin(), receivers_.end(), [&](const Peer &peer) { return peer.rank > rank; });
    int64_t most_in = 0, most_out = 0;
    const int64_t extent = from_.axis[panel_axis_].extent;
    for (int64_t begin = 0; begin < extent; begin += width) {
        const Range panel = {begin, std::min(begin + width, extent)};
        int64_t in = 0, out = 0;
        for (const Peer &peer : senders_) in += std::min(message_bytes(peer, peer.rank, rank, panel), INT64_MAX - in);
        for (const Peer &peer : receivers_) out += std::min(message_bytes(peer, rank, peer.rank, panel), INT64_MAX - out);
        most_in = std::max(most_in, in);
        most_out = std::max(most_out, out);
    }
    DeviceBlocks *const blocks = device_ != nullptr ? device_->blocks() : nullptr;
    ATTILE_TRY(incoming_.take(operation, most_in, 1, blocks));
    ATTILE_TRY(outgoing_.take(operation, most_out, 1, blocks));
    if (!adds_terms()) return ATTILE_OK;
    const int64_t most = std::min(width, to_.axis[panel_axis_].count(rank)), lines = to_.axis[1 - panel_axis_].count(rank);
    return terms_.take(operation, product({static_cast<int64_t>(senders_.size()) + 1, lines, most}), element_bytes(dtype), blocks);
}

// A message, its extents those of the runs in `along_`, dense along the sender's own axis.
attile_tensor Transfer::message(unsigned char *data, const Peer &peer, int32_t sender) const {
    int64_t shape[2];
    shape[panel_axis_] = count_runs(along_);
    shape[1 - panel_axis_] = peer.lines;
    return dense_matrix(data, dtype_, shape, fast_[static_cast<size_t>(sender)]);
}

// Whether what travels is one block of the tensor, as dense as the message.
bool Transfer::in_place(const attile_tensor &tensor, const Peer &peer, int32_t sender, bool sending, unsigned char **address) const {
    if (peer.across.size() != 1 || along_.size() != 1) return false;
    const attile_tensor packed = message(nullptr, peer, sender);
    for (int32_t axis = 0; axis < 2; ++axis) {
        if (packed.shape[axis] != 1 && tensor.stride[axis] != packed.stride[axis]) return false;
    }
    const Run &lines = peer.across[0], &elements = along_[0];
    const attile_tensor block = slice(slice(tensor, 1 - panel_axis_, sending ? lines.from : lines.to, lines.count), panel_axis_,
                                      sending ? elements.from : elements.to, elements.count);
    *address = static_cast<unsigned char *>(block.data);
    return true;
}

int32_t Transfer::move_block(const attile_tensor &from, const attile_tensor &to, bool add) const {
    if (from.data == to.data) return ATTILE_OK;  // a rank's own, in its place
    if (device_ != nullptr) return device_->copy(from, to);
    const auto matrix = [](const attile_tensor &block, int64_t i, int64_t j) {
        attile_tensor one = block;
        one.rank = 2;
        one.data = static_cast<unsigned char *>(block.data) + (i * block.stride[0] + j * block.stride[1]) * element_bytes(block.dtype);
        for (int32_t axis = 0; axis < 2; ++axis) {
            one.shape[axis] = block.shape[2 + axis];
            one.stride[axis] = block.stride[2 + axis];
        }
        return one;
    };
    for (int64_t i = 0; i < to.shape[0]; ++i) {
        for (int64_t j = 0; j < to.shape[1]; ++j) {
            if (add) {
                add_block(matrix(from, i, j), matrix(to, i, j));
            } else {
                copy_block(matrix(from, i, j), matrix(to, i, j));
            }
        }
    }
    return ATTILE_OK;
}

int32_t Transfer::move(const Peer &peer, const attile_tensor &from, bool from_packed, const attile_tensor &to, bool to_packed,
                       bool add) const {
    const int32_t across = 1 - panel_axis_, fast = to.stride[0] == 1 ? 0 : 1;
    int64_t line = 0;
    for (size_t i = 0; i < peer.across.size();) {
        const Runs lines = equal_runs(peer.across, i);
        int64_t at = 0;
        for (size_t j = 0; j < along_.size();) {
            const Runs elements = equal_runs(along_, j);
            const Runs *groups[2];
            groups[across] = &lines;
            groups[panel_axis_] = &elements;
            const auto block = [&](const attile_tensor &matrix, bool packed, bool source) {
                int64_t first[2], step[2];
                for (int32_t axis = 0; axis < 2; ++axis) {
                    const Runs &runs = *groups[axis];
                    first[axis] = packed ? (axis == across ? line : at) : source ? runs.from : runs.to;
                    step[axis] = packed ? runs.count : source ? runs.from_step : runs.to_step;
                }
                return block_of(matrix, first, step, groups, fast);
            };
            ATTILE_TRY(move_block(block(from, from_packed, true), block(to, to_packed, false), add));
            at += elements.runs * elements.count;
            j += static_cast<size_t>(elements.runs);
        }
        line += lines.runs * lines.count;
        i += static_cast<size_t>(lines.runs);
    }
    return ATTILE_OK;
}

// The messages of a panel.
int32_t Transfer::pack() {
    int64_t at = 0;
    for (const Peer &peer : receivers_) {
        if (peer.rank == rank_) continue;
        const int64_t bytes = message_bytes(peer, rank_, peer.rank, panel_);
        unsigned char *place = outgoing_.at(at);
        if (bytes != 0 && !in_place(own_from_, peer, rank_, true, &place))
            ATTILE_TRY(move(peer, own_from_, false, message(place, peer, rank_), true, false));
        at += bytes;
    }
    return device_ != nullptr ? device_->settle() : ATTILE_OK;
}

// Where one of the terms of sums on the device lies.
attile_tensor Transfer::term(int64_t number) const {
    const int64_t bytes = own_to_.shape[0] * own_to_.shape[1] * element_bytes(dtype_);
    return dense_matrix(terms_.at(number * bytes), dtype_, own_to_.shape, fast_[static_cast<size_t>(rank_)]);
}

// Whether a message has an element for each of the tensor's.
bool Transfer::fills(const Peer &peer, const attile_tensor &tensor) const {
    return peer.lines == tensor.shape[1 - panel_axis_] && count_runs(along_) == tensor.shape[panel_axis_];
}

// Whether a message is received where it belongs. Of the peer whose runs are in `along_`; `number` counts those that send anything, from 1.
bool Transfer::arrives_in_place(const Peer &peer, int64_t number, unsigned char **address) const {
    if (arrival_ == Arrival::kCopy) return in_place(own_to_, peer, peer.rank, false, address);
    return adds_terms() && fills(peer, own_to_) && in_place(term(number), peer, peer.rank, false, address);
}

int32_t Transfer::start(Session &session, Range panel, const attile_tensor &from, const attile_tensor &to) {
    Link &link = session.link();
    panel_ = panel;
    own_from_ = from;
    own_to_ = to;
    // Messages go on when this rank's own work has failed.
    if (device_ == nullptr || session.sound()) ATTILE_TRY(session.take(guarded([&] { return pack(); })));
    int64_t at = 0, terms = 1;
    for (const Peer &peer : senders_) {
        const int64_t bytes = message_bytes(peer, peer.rank, rank_, panel);
        if (peer.rank != rank_) {
            unsigned char *place = incoming_.at(at);
            if (bytes != 0) (void)arrives_in_place(peer, terms, &place);
            ATTILE_TRY(link.receive(place, bytes, peer.rank));
            at += bytes;
        }
        if (bytes != 0) ++terms;
    }
    at = 0;
    for (const Peer &peer : receivers_) {
        if (peer.rank == rank_) continue;
        const int64_t bytes = message_bytes(peer, rank_, peer.rank, panel);
        unsigned char *place = outgoing_.at(at);
        if (bytes != 0) (void)in_place(from, peer, rank_, true, &place);
        ATTILE_TRY(link.send(place, bytes, peer.rank));
        at += bytes;
    }
    return ATTILE_OK;
}

int32_t Transfer::put_in_place() {
    int64_t at = 0, terms = 1;
    for (const Peer &peer : senders_) {
        const int64_t bytes = message_bytes(peer, peer.rank, rank_, panel_);
        if (bytes == 0) continue;
        const bool own = peer.rank == rank_, add = arrival_ == Arrival::kSum && !adds_terms();
        const attile_tensor to = adds_terms() ? term(terms) : own_to_;
        unsigned char *place = nullptr;
        if (own || !arrives_in_place(peer, terms, &place)) {
            if (adds_terms() && !fills(peer, to)) ATTILE_TRY(device_->clear(with_four_axes(to)));
            const attile_tensor from = own ? own_from_ : message(incoming_.at(at), peer, peer.rank);
            ATTILE_TRY(move(peer, from, !own, to, false, add));
        }
        if (!own) at += bytes;
        ++terms;
    }
    return adds_terms() && terms > 1 ? add_terms(terms) : ATTILE_OK;
}

// What is there is the first of the terms.
int32_t Transfer::add_terms(int64_t terms) {
    const attile_tensor first = term(0);
    ATTILE_TRY(device_->copy(with_four_axes(own_to_), with_four_axes(first)));
    attile_tensor all = first;
    all.rank = 3;
    all.shape[0] = terms;
    all.stride[0] = first.shape[0] * first.shape[1];
    std::copy_n(first.shape, 2, all.shape + 1);
    std::copy_n(first.stride, 2, all.stride + 1);
    return device_->sum(all, own_to_);
}

int32_t Transfer::land(Session &session) {
    if (device_ != nullptr && !session.sound()) return ATTILE_OK;
    return session.take(guarded([&] { return put_in_place(); }));
}

bool Transfer::is_local(Range panel, const attile_tensor &from, attile_tensor *view) {
    const int32_t across = 1 - panel_axis_;
    for (const Peer &peer : senders_) {
        if (peer.rank != rank_) continue;
        const std::vector<Run> &runs = along(rank_, rank_, panel);
        const GridAxis &axis = to_.axis[panel_axis_];
        const int64_t length = axis.below(rank_, panel.end) - axis.below(rank_, panel.begin);
        if (peer.across.size() != 1 || runs.size() != 1) return false;
        if (peer.lines != to_.axis[across].count(rank_) || runs[0].count != length) return false;
        *view = slice(slice(from, across, peer.across[0].from, peer.lines), panel_axis_, runs[0].from, length);
        return true;
    }
    return false;
}

double Transfer::count_bytes(const GridLayout &from, const GridLayout &to, Arrival arrival, int32_t ranks, int32_t bytes) {
    // Of sums every rank that has part of one sends it to whoever has the place; of copies each element comes once.
    const GridLayout &whole = arrival == Arrival::kSum ? from : to;
    double elements = 0;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        double own = 1;
        for (int32_t axis = 0; axis < 2; ++axis) own *= static_cast<double>(count_common(from.axis[axis], to.axis[axis], rank));
        elements += static_cast<double>(whole.elements(rank)) - own;
    }
    return elements * bytes;
}

}  // namespace attile::core
