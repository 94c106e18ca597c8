// SPDX-License-Identifier: Apache-2.0
// Sums of what calls give to rows: dq of a rank's rows, or dk and dv of keys. On a device no call of the library adds in place, so a sum
// is made in other memory than what it is made of: sums change places among slots of equal size, and nothing is copied back. A call
// writes its part to a slot, and the first part is the sum. On the host a part is added where the sum lies.
#ifndef ATTILE_CORE_DISTRIBUTED_PLACED_SUMS_H
#define ATTILE_CORE_DISTRIBUTED_PLACED_SUMS_H

#include <array>
#include <vector>

#include "distributed/attention.h"

namespace attile::core {

// Memory for such rows, of which each slot has all, in the wide type, packed as rows travel; and which rows of which slot are in use.
class SumSlots {
  public:
    explicit SumSlots(const DistributedAttention &problem) : problem_(problem), device_(problem.device_work()) {}
    // `widths`: of one tensor, or of two with the same heads. So many slots are made now, others when they are wanted.
    int32_t take(int64_t rows, int64_t heads, std::vector<int64_t> widths, int32_t slots);
    // A slot of which none of these rows is in use; from then on they are.
    int32_t find(const Range &rows, int32_t *slot);
    void hold(int32_t slot, const Range &rows) { held_.push_back({slot, rows}); }
    void drop(int32_t slot, const Range &rows);

    const DistributedAttention &problem() const { return problem_; }
    size_t tensors() const { return widths_.size(); }
    // [batch, heads, rows, width], and some entries of the batch.
    attile_tensor view(int32_t slot, size_t tensor, const Range &rows) const;
    attile_tensor view(int32_t slot, size_t tensor, const Range &rows, const Range &entries) const {
        return slice(view(slot, tensor, rows), 0, entries.begin, entries.count());
    }
    int32_t clear_rows(int32_t slot, const Range &rows) const;
    // Within a device.
    int32_t copy_rows(int32_t from, int32_t to, const Range &rows, const Range &entries) const;
    // As many rows of other slots, from `first` on.
    int32_t copy_from(const SumSlots &other, int32_t from, int64_t first, int32_t to, const Range &rows) const;
    // Of some entries of the batch: to `to` on a device, and to `one` on the host.
    int32_t add_rows(int32_t one, int32_t other, int32_t to, const Range &rows, const Range &entries) const;
    int32_t write_rows(int32_t slot, const Range &rows, size_t tensor, const attile_tensor &to) const;
    // Starts to send or to receive them.
    int32_t send(Link &link, int32_t slot, const Range &rows, int32_t to) const;
    int32_t receive(Link &link, int32_t slot, const Range &rows, int32_t from) const;

  private:
    struct Held {
        int32_t slot;
        Range rows;
    };
    int32_t make_slot();
    int64_t row_bytes(size_t tensor) const;

    const DistributedAttention &problem_;
    DeviceRows device_;
    int64_t rows_ = 0, heads_ = 0;
    std::vector<int64_t> widths_;
    std::vector<std::array<Buffer, 2>> slots_;
    std::vector<Held> held_;
};

// The sums of pieces: each has its slot, or has been given nothing yet.
class PlacedSums {
  public:
    explicit PlacedSums(SumSlots *slots) : slots_(slots) {}
    // Forgets what was held.
    void begin(const std::vector<Range> &pieces);
    // The slot for what a call gives to these rows of these entries of the batch; then that is added.
    int32_t place(const Range &rows, const Range &entries, int32_t *slot);
    int32_t add(const Range &rows, const Range &entries, int32_t slot);
    // A piece that was given nothing is 0.
    int32_t close(size_t piece);
    int32_t close_all();
    const SumSlots &slots() const { return *slots_; }
    int32_t slot_of(size_t piece) const { return sums_[piece].slot; }
    // To where the caller wants the rows of a tensor.
    int32_t write(size_t tensor, const attile_tensor &to) const;

  private:
    static constexpr int32_t kNone = -1;
    struct Sum {
        Range rows;
        int32_t slot = kNone;
    };
    bool all_of(const Sum &sum, const Range &rows, const Range &entries) const;
    // Whether a piece goes on where the one before it ends, in the same slot.
    bool lie_alike(size_t piece) const;
    int32_t add_pieces(const Range &rows, const Range &entries, int32_t part);
    int32_t add_to(int32_t from, int32_t part, const Range &own, const Range &entries, int32_t *to, bool whole);

    SumSlots *slots_;
    std::vector<Sum> sums_;
};

// Where a piece lies in its shard, and where all of them do.
inline Range rows_of(const Piece &piece) { return {piece.local, piece.local + piece.count}; }
std::vector<Range> rows_of(const Shard &shard);

}  // namespace attile::core

#endif
