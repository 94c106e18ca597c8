// SPDX-License-Identifier: Apache-2.0
// Parts of a matrix on their way from one layout to another, whole or a panel at a time. What a rank has of a panel for another is one
// message, in the order of the sender's memory.
#ifndef ATTILE_CORE_DISTRIBUTED_TRANSFER_H
#define ATTILE_CORE_DISTRIBUTED_TRANSFER_H

#include <vector>

#include "distributed/grid_axis.h"
#include "distributed/rows.h"
#include "distributed/session.h"

namespace attile::core {

// What is done with elements that come.
enum class Arrival {
    kCopy,  // each comes from one rank
    kSum,   // each rank that has it gives a part of a sum: they are added in the order of ranks to what is there
};

// A dense matrix with these extents, its neighbours near along `fast`.
attile_tensor dense_matrix(void *data, int32_t dtype, const int64_t *shape, int32_t fast);

class Transfer {
  public:
    // `panel_axis` is the one that is cut into panels. `fast` is of each rank, for its messages. `device`, which outlives this: everything
    // lies in device memory.
    Transfer(const GridLayout &from, const GridLayout &to, int32_t panel_axis, Arrival arrival, const std::vector<uint8_t> &fast,
             DeviceRows *device)
        : from_(from), to_(to), panel_axis_(panel_axis), arrival_(arrival), fast_(fast), device_(device) {}

    // Looks at all panels of this width, and takes the memory that their messages need.
    int32_t prepare(const char *operation, int32_t rank, int32_t ranks, int32_t dtype, int64_t width);

    // Starts the messages of a panel. `from` and `to` are this rank's parts of the panel. Neither is touched until land(), but by the
    // messages.
    int32_t start(Session &session, Range panel, const attile_tensor &from, const attile_tensor &to);
    // When the link has finished: puts in place what came. On the device it is queued.
    int32_t land(Session &session);

    // Whether all that this rank gets of the panel is its own already: then `view` is that part of `from`.
    bool is_local(Range panel, const attile_tensor &from, attile_tensor *view);

    // Bytes that all ranks send.
    static double count_bytes(const GridLayout &from, const GridLayout &to, Arrival arrival, int32_t ranks, int32_t bytes);

  private:
    // Another rank, or this one, and what both have on the axis that is not cut.
    struct Peer {
        int32_t rank = 0;
        std::vector<Run> across;
        int64_t lines = 0;
    };
    bool may_send(int32_t sender, int32_t receiver) const;
    std::vector<Peer> find_peers(int32_t ranks, bool senders) const;
    const std::vector<Run> &along(int32_t sender, int32_t receiver, Range panel);
    int64_t message_bytes(const Peer &peer, int32_t sender, int32_t receiver, Range panel);
    attile_tensor message(unsigned char *data, const Peer &peer, int32_t sender) const;
    bool in_place(const attile_tensor &tensor, const Peer &peer, int32_t sender, bool sending, unsigned char **address) const;
    bool arrives_in_place(const Peer &peer, int64_t number, unsigned char **address) const;
    int32_t move(const Peer &peer, const attile_tensor &from, bool from_packed, const attile_tensor &to, bool to_packed, bool add) const;
    int32_t move_block(const attile_tensor &from, const attile_tensor &to, bool add) const;
    int32_t pack();
    int32_t put_in_place();
    bool adds_terms() const { return device_ != nullptr && arrival_ == Arrival::kSum; }
    bool fills(const Peer &peer, const attile_tensor &tensor) const;
    attile_tensor term(int64_t number) const;
    int32_t add_terms(int64_t terms);

    const GridLayout from_, to_;
    const int32_t panel_axis_;
    const Arrival arrival_;
    const std::vector<uint8_t> &fast_;
    int32_t rank_ = 0, dtype_ = 0;
    std::vector<Peer> senders_, receivers_;
    std::vector<Run> along_;  // of one peer at a time
    DeviceRows *const device_;
    Buffer incoming_, outgoing_;
    Buffer terms_;  // of sums on the device: what is there, and what each sender has for it, each as `to` lies
    Range panel_;
    attile_tensor own_from_{}, own_to_{};
};

}  // namespace attile::core

#endif
