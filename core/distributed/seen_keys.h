// SPDX-License-Identifier: Apache-2.0
// The keys and values that a rank sees, straight from their owners, in the order of their positions. Pieces that continue one another are
// then one piece, so that few calls are made of them.
#ifndef ATTILE_CORE_DISTRIBUTED_SEEN_KEYS_H
#define ATTILE_CORE_DISTRIBUTED_SEEN_KEYS_H

#include "distributed/attention.h"

namespace attile::core {

class SeenKeys {
  public:
    struct Seen {
        int32_t owner;
        Piece keys;
        int64_t place;  // of its first row among all that this rank sees
    };

    explicit SeenKeys(const DistributedAttention &problem) : problem_(problem), device_(problem.device_work()) {}
    int32_t take();
    int32_t exchange(Link &link);
    int64_t count() const;
    int64_t longest_run() const;
    const std::vector<Seen> &pieces() const { return seen_; }

    // Pieces that were put together.
    struct Run {
        Piece keys;
        int64_t place;
    };
    std::vector<Run> runs() const;
    // Of a run, [batch, heads_kv, count, ..].
    void view(const Run &run, attile_tensor *k, attile_tensor *v) const;

  private:
    void list_pieces();
    int32_t take_from_device();

    const DistributedAttention &problem_;
    DeviceRows device_;
    std::vector<Seen> seen_;
    Buffer k_, v_, own_k_, own_v_;
    int64_t k_row_ = 0, v_row_ = 0;  // bytes
};

}  // namespace attile::core

#endif
