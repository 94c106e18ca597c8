// SPDX-License-Identifier: Apache-2.0
// A rank's end of the transport, as operations use it: messages that were started are over when it says so, collectives are made of
// messages where the transport has none, and failures have their sentence.
#ifndef ATTILE_CORE_DISTRIBUTED_LINK_H
#define ATTILE_CORE_DISTRIBUTED_LINK_H

#include <atomic>
#include <vector>

#include "distributed/transport.h"

namespace attile::core {

// What a failed call means for the other ranks.
enum class Fallout {
    kUntold,  // they do not know of it yet
    kShared,  // each of them comes to it by itself, from what all have exchanged
    kNone,    // nothing has gone wrong between the ranks
};

class Link {
  public:
    // Owns the transport from here on, unless it throws.
    Link(const Transport &transport, const char *kind, int32_t rank, int32_t ranks, double timeout);
    ~Link();
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    int32_t rank() const { return rank_; }
    int32_t ranks() const { return ranks_; }
    double timeout() const { return timeout_; }
    const char *kind() const { return kind_; }
    double transport_seconds() const { return static_cast<double>(nanoseconds_.load()) * 1e-9; }

    // The words before the colon of every sentence.
    void serve(const char *operation) { operation_ = operation; }

    // Start a message. One without bytes does not travel. The memory is in use until finish(), or until one of these functions fails, which
    // ends all of them. At most kMostMessages for each rank may be under way.
    int32_t send(const void *data, int64_t bytes, int32_t to);
    int32_t receive(void *data, int64_t bytes, int32_t from);
    // Sends off what was started, where the transport would else do so in finish(). On failure all of it is ended.
    int32_t flush();
    // Waits for everything that was started. On failure the rest is ended too: afterwards nobody uses the memory.
    int32_t finish();

    // Ends what is under way where a scope is left by an exception, a thread's own end included: goes behind the memory of messages.
    class Ending {
      public:
        explicit Ending(Link &link) : link_(link) {}
        ~Ending() { link_.end_started(); }
        Ending(const Ending &) = delete;
        Ending &operator=(const Ending &) = delete;

      private:
        Link &link_;
    };

    int32_t all_gather(const void *own, void *all, int64_t bytes);
    // Sizes and offsets in bytes, one of each for each rank.
    int32_t all_to_all(const void *send, const int64_t *send_bytes, const int64_t *send_offsets, void *receive,
                       const int64_t *receive_bytes, const int64_t *receive_offsets);

    // Ends the waits of the others, if the transport can.
    void give_up(int32_t status, const char *why) const;
    // Whether they then hear the reason.
    bool tells_why() const { return transport_.tells_why; }
    // Whether messages may lie in the memory of the context's device.
    bool reaches_device() const { return transport_.reaches_device; }

  private:
    struct Started {
        void *request;
        int32_t peer;
        bool sending;
    };
    template <typename Function>
    int32_t invoke(Function &&function) const;
    int32_t fail_link(const char *what, int32_t peer, int32_t answer) const;
    template <typename Function>
    int32_t start(int32_t peer, bool sending, Function &&function);
    void end_started();

    const Transport transport_;
    const char *const kind_;
    const int32_t rank_, ranks_;
    const double timeout_;
    const char *operation_ = "comm";
    mutable std::atomic<int64_t> nanoseconds_{0};  // in the transport's functions
    std::vector<Started> started_;
};

}  // namespace attile::core

#endif
