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

}  // namespace

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
    ATTILE_TRY(incoming_.take(operation, most_in, 1));
    return outgoing_.take(operation, most_out, 1);
}

// A message, its extents those of the runs in `along_`, dense along the sender's own axis.
attile_tensor Transfer::message(unsigned char *data, const Peer &peer, int32_t sender) const {
    attile_tensor tensor{};
    tensor.data = data;
    tensor.dtype = dtype_;
    tensor.rank = 2;
    tensor.shape[panel_axis_] = count_runs(along_);
    tensor.shape[1 - panel_axis_] = peer.lines;
    const int32_t fast = fast_[static_cast<size_t>(sender)];
    tensor.stride[fast] = 1;
    tensor.stride[1 - fast] = tensor.shape[fast];
    return tensor;
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

void Transfer::move(const Peer &peer, const attile_tensor &from, bool from_packed, const attile_tensor &to, bool to_packed,
                    bool add) const {
    const auto block = [&](const attile_tensor &tensor, int64_t line, int64_t lines, int64_t at, int64_t count) {
        return slice(slice(tensor, 1 - panel_axis_, line, lines), panel_axis_, at, count);
    };
    int64_t line = 0;
    for (const Run &lines : peer.across) {
        int64_t at = 0;
        for (const Run &elements : along_) {
            const attile_tensor source =
                block(from, from_packed ? line : lines.from, lines.count, from_packed ? at : elements.from, elements.count);
            const attile_tensor target = block(to, to_packed ? line : lines.to, lines.count, to_packed ? at : elements.to, elements.count);
            if (add) {
                add_block(source, target);
            } else {
                copy_block(source, target);
            }
            at += elements.count;
        }
        line += lines.count;
    }
}

int32_t Transfer::start(Link &link, Range panel, const attile_tensor &from, const attile_tensor &to) {
    panel_ = panel;
    own_from_ = from;
    own_to_ = to;
    int64_t at = 0;
    for (const Peer &peer : senders_) {
        if (peer.rank == rank_) continue;
        const int64_t bytes = message_bytes(peer, peer.rank, rank_, panel);
        unsigned char *place = incoming_.at(at);
        if (bytes != 0 && arrival_ == Arrival::kCopy) (void)in_place(to, peer, peer.rank, false, &place);
        ATTILE_TRY(link.receive(place, bytes, peer.rank));
        at += bytes;
    }
    at = 0;
    for (const Peer &peer : receivers_) {
        if (peer.rank == rank_) continue;
        const int64_t bytes = message_bytes(peer, rank_, peer.rank, panel);
        unsigned char *place = outgoing_.at(at);
        if (bytes != 0 && !in_place(from, peer, rank_, true, &place)) move(peer, from, false, message(place, peer, rank_), true, false);
        ATTILE_TRY(link.send(place, bytes, peer.rank));
        at += bytes;
    }
    return ATTILE_OK;
}

void Transfer::land() {
    int64_t at = 0;
    for (const Peer &peer : senders_) {
        const int64_t bytes = message_bytes(peer, peer.rank, rank_, panel_);
        if (peer.rank == rank_) {
            if (bytes != 0) move(peer, own_from_, false, own_to_, false, arrival_ == Arrival::kSum);
            continue;
        }
        unsigned char *place = nullptr;
        const bool there = bytes == 0 || (arrival_ == Arrival::kCopy && in_place(own_to_, peer, peer.rank, false, &place));
        if (!there) move(peer, message(incoming_.at(at), peer, peer.rank), true, own_to_, false, arrival_ == Arrival::kSum);
        at += bytes;
    }
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
    std::vector<Run> scratch;
    for (int32_t rank = 0; rank < ranks; ++rank) {
        double own = 1;
        for (int32_t axis = 0; axis < 2; ++axis) own *= static_cast<double>(count_common(from.axis[axis], to.axis[axis], rank, &scratch));
        elements += static_cast<double>(whole.elements(rank)) - own;
    }
    return elements * bytes;
}

}  // namespace attile::core
