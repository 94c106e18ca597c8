// SPDX-License-Identifier: Apache-2.0
#include "distributed/placed_sums.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "distributed/sums.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

// Of the pieces of a shard as a rule; so that rows are held between messages without taking memory.
constexpr size_t kMostHeld = 16;

Range common(const Range &one, const Range &other) { return {std::max(one.begin, other.begin), std::min(one.end, other.end)}; }

}  // namespace

int32_t SumSlots::take(int64_t rows, int64_t heads, std::vector<int64_t> widths, int32_t slots) {
    rows_ = rows;
    heads_ = heads;
    widths_ = std::move(widths);
    held_.reserve(kMostHeld);
    ATTILE_TRY(device_.begin());
    while (static_cast<int32_t>(slots_.size()) < slots) ATTILE_TRY(make_slot());
    return ATTILE_OK;
}

int64_t SumSlots::row_bytes(size_t tensor) const {
    return product({problem_.batch(), heads_, widths_[tensor], element_bytes(problem_.wide())});
}

int32_t SumSlots::make_slot() {
    std::array<Buffer, 2> slot;
    for (size_t i = 0; i < widths_.size(); ++i) ATTILE_TRY(problem_.take(&slot[i], rows_, row_bytes(i)));
    slots_.push_back(std::move(slot));
    return ATTILE_OK;
}

int32_t SumSlots::find(const Range &rows, int32_t *slot) {
    const auto is_used = [&](int32_t one) {
        return std::any_of(held_.begin(), held_.end(),
                           [&](const Held &held) { return held.slot == one && common(held.rows, rows).count() > 0; });
    };
    for (*slot = 0; is_used(*slot);) ++*slot;
    if (static_cast<size_t>(*slot) == slots_.size()) ATTILE_TRY(make_slot());
    hold(*slot, rows);
    return ATTILE_OK;
}

void SumSlots::drop(int32_t slot, const Range &rows) {
    const auto is_it = [&](const Held &held) { return held.slot == slot && held.rows.begin == rows.begin && held.rows.end == rows.end; };
    const auto held = std::find_if(held_.begin(), held_.end(), is_it);
    if (held != held_.end()) held_.erase(held);
}

attile_tensor SumSlots::view(int32_t slot, size_t tensor, const Range &rows) const {
    return packed_view(slots_[static_cast<size_t>(slot)][tensor].at(rows.begin * row_bytes(tensor)), problem_.wide(), rows.count(),
                       problem_.batch(), heads_, widths_[tensor]);
}

int32_t SumSlots::clear_rows(int32_t slot, const Range &rows) const {
    for (size_t i = 0; i < tensors(); ++i) {
        const attile_tensor cleared = view(slot, i, rows);
        if (problem_.on_device()) {
            ATTILE_TRY(device_.clear(cleared));
        } else {
            clear(cleared);
        }
    }
    return ATTILE_OK;
}

int32_t SumSlots::copy_rows(int32_t from, int32_t to, const Range &rows, const Range &entries) const {
    for (size_t i = 0; i < tensors(); ++i) {
        ATTILE_TRY(device_.copy(view(from, i, rows, entries), view(to, i, rows, entries)));
    }
    return ATTILE_OK;
}

int32_t SumSlots::copy_from(const SumSlots &other, int32_t from, int64_t first, int32_t to, const Range &rows) const {
    for (size_t i = 0; i < tensors(); ++i) {
        const attile_tensor source = other.view(from, i, {first, first + rows.count()}), target = view(to, i, rows);
        if (problem_.on_device()) {
            ATTILE_TRY(device_.copy(source, target));
        } else {
            std::memcpy(target.data, source.data, static_cast<size_t>(rows.count() * row_bytes(i)));
        }
    }
    return ATTILE_OK;
}

int32_t SumSlots::add_rows(int32_t one, int32_t other, int32_t to, const Range &rows, const Range &entries) const {
    for (size_t i = 0; i < tensors(); ++i) {
        const attile_tensor sum = view(one, i, rows, entries), part = view(other, i, rows, entries);
        if (problem_.on_device()) {
            ATTILE_TRY(device_.add(sum, part, view(to, i, rows, entries)));
        } else {
            add_up(part, sum);
        }
    }
    return ATTILE_OK;
}

int32_t SumSlots::write_rows(int32_t slot, const Range &rows, size_t tensor, const attile_tensor &to) const {
    const attile_tensor from = view(slot, tensor, rows);
    return problem_.on_device() ? device_.copy(from, to) : write_out(problem_, from, to);
}

int32_t SumSlots::send(Link &link, int32_t slot, const Range &rows, int32_t to) const {
    for (size_t i = 0; i < tensors(); ++i) ATTILE_TRY(link.send(view(slot, i, rows).data, rows.count() * row_bytes(i), to));
    return ATTILE_OK;
}

int32_t SumSlots::receive(Link &link, int32_t slot, const Range &rows, int32_t from) const {
    for (size_t i = 0; i < tensors(); ++i) ATTILE_TRY(link.receive(view(slot, i, rows).data, rows.count() * row_bytes(i), from));
    return ATTILE_OK;
}

void PlacedSums::begin(const std::vector<Range> &pieces) {
    for (const Sum &piece : sums_) {
        if (piece.slot != kNone) slots_->drop(piece.slot, piece.rows);
    }
    sums_.clear();
    for (const Range &rows : pieces) sums_.push_back({rows});
}

bool PlacedSums::all_of(const Sum &piece, const Range &rows, const Range &entries) const {
    return rows.begin <= piece.rows.begin && piece.rows.end <= rows.end && entries.begin == 0 && entries.end == slots_->problem().batch();
}

bool PlacedSums::lie_alike(size_t piece) const {
    const Sum &before = sums_[piece - 1], &one = sums_[piece];
    return one.slot == before.slot && one.rows.begin == before.rows.end;
}

// A piece of which a call computes only some is 0 before.
int32_t PlacedSums::place(const Range &rows, const Range &entries, int32_t *slot) {
    for (size_t i = 0; i < sums_.size(); ++i) {
        if (common(sums_[i].rows, rows).count() > 0 && !all_of(sums_[i], rows, entries)) ATTILE_TRY(close(i));
    }
    return slots_->find(rows, slot);
}

int32_t PlacedSums::add(const Range &rows, const Range &entries, int32_t slot) {
    const int32_t status = add_pieces(rows, entries, slot);
    slots_->drop(slot, rows);
    return status;
}

// Pieces side by side whose sums lie in the same slot are added up at once.
int32_t PlacedSums::add_pieces(const Range &rows, const Range &entries, int32_t part) {
    for (size_t begin = 0, end = 0; begin < sums_.size(); begin = end) {
        end = begin + 1;
        const bool whole = all_of(sums_[begin], rows, entries);
        Range own = common(sums_[begin].rows, rows);
        if (own.count() <= 0) continue;
        while (whole && end < sums_.size() && lie_alike(end) && all_of(sums_[end], rows, entries)) own.end = sums_[end++].rows.end;
        const int32_t from = sums_[begin].slot;
        int32_t to = part;
        if (from != kNone) ATTILE_TRY(add_to(from, part, own, entries, &to, whole));
        if (!whole || to == from) continue;
        for (size_t i = begin; i < end; ++i) {
            if (from != kNone) slots_->drop(from, sums_[i].rows);
            slots_->hold(to, sums_[i].rows);
            sums_[i].slot = to;
        }
    }
    return ATTILE_OK;
}

// `to`: where the sum of whole pieces lies.
int32_t PlacedSums::add_to(int32_t from, int32_t part, const Range &own, const Range &entries, int32_t *to, bool whole) {
    *to = from;
    if (!slots_->problem().on_device()) return slots_->add_rows(from, part, from, own, entries);
    int32_t free = kNone;
    ATTILE_TRY(slots_->find(own, &free));
    slots_->drop(free, own);
    ATTILE_TRY(slots_->add_rows(from, part, free, own, entries));
    if (!whole) return slots_->copy_rows(free, from, own, entries);
    *to = free;
    return ATTILE_OK;
}

int32_t PlacedSums::close(size_t piece) {
    Sum &one = sums_[piece];
    if (one.slot != kNone || one.rows.count() == 0) return ATTILE_OK;
    ATTILE_TRY(slots_->find(one.rows, &one.slot));
    return slots_->clear_rows(one.slot, one.rows);
}

int32_t PlacedSums::close_all() {
    for (size_t i = 0; i < sums_.size(); ++i) ATTILE_TRY(close(i));
    return ATTILE_OK;
}

int32_t PlacedSums::write(size_t tensor, const attile_tensor &to) const {
    for (size_t begin = 0, end = 0; begin < sums_.size(); begin = end) {
        for (end = begin + 1; end < sums_.size() && lie_alike(end);) ++end;
        const Range rows = {sums_[begin].rows.begin, sums_[end - 1].rows.end};
        if (rows.count() == 0) continue;
        ATTILE_TRY(slots_->write_rows(sums_[begin].slot, rows, tensor, slice(to, 2, rows.begin, rows.count())));
    }
    return ATTILE_OK;
}

std::vector<Range> rows_of(const Shard &shard) {
    std::vector<Range> rows;
    for (const Piece &piece : shard.pieces) rows.push_back(rows_of(piece));
    return rows;
}

}  // namespace attile::core
