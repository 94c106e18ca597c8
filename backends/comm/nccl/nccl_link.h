// SPDX-License-Identifier: Apache-2.0
// One rank's end of a group of ranks of NCCL. Messages that are started together are one group of NCCL's, on a stream of the link's own.
// Device memory is sent and received in place, all other memory by way of device memory: small messages by a stage, others by a block each.
// A message that does not come to its end ends the communicator: after an abort nothing reads or writes the caller's memory any more.
#ifndef ATTILE_COMM_NCCL_LINK_H
#define ATTILE_COMM_NCCL_LINK_H

#include <atomic>
#include <cstdint>

#include "nccl/nccl_split.h"
#include "nccl/nccl_stage.h"

namespace attile::nccl {

// How a message's bytes come to NCCL.
enum class Way {
    kInPlace,  // device memory
    kStage,
    kCopied,  // ordinary host memory, copied to or from a block while the caller waits
    kQueued,  // pinned or managed memory, copied to or from a block on the stream
};

// A message under way.
struct Message {
    Message *next;  // of its group, or of those that are not used
    bool sending;
    Way way;
    int32_t peer;
    int64_t bytes;
    uint64_t group;  // number of its group; 0: none yet
    void *data;      // the caller's
    int64_t place;   // in the stage
    void *block;     // of device memory, `capacity` bytes, or NULL
    int64_t capacity;
};

class Link {
  public:
    Link(const Library &library, const attile_comm_device &device, int32_t rank, int32_t ranks)
        : library_(library), device_(device), rank_(rank), ranks_(ranks) {}
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    // The link's own memory and streams.
    int32_t prepare();
    int32_t join(Comm parent, bool takes_part, double seconds);
    int32_t start(bool sending, void *data, int64_t bytes, int32_t peer, Message **message);
    int32_t flush(double seconds);
    int32_t wait(Message *message, double seconds);
    void give_up() { gave_up_.store(true); }
    // Gives back all that the link has.
    void leave();

  private:
    int32_t choose_way(bool sending, const void *data, int64_t bytes, Way *way, int64_t *place);
    int32_t take(int64_t bytes, bool has_block, Message **message);
    void give(Message *message);
    void release(Message *messages) const;
    void *memory_of(const Message &message) const;
    int32_t bring_back();
    int32_t enqueue(Message *messages);
    int32_t advance();
    int32_t wait_for_launch(double seconds);
    int32_t end(int32_t status);
    int32_t refuse_ended() const;
    bool finalize();

    const Library &library_;
    const attile_comm_device device_;
    const int32_t rank_, ranks_;
    Comm comm_ = nullptr;
    void *stream_ = nullptr, *copies_ = nullptr;
    unsigned char *numbers_ = nullptr;  // on the device: those that a stream writes to `reached_`, one after the other
    uint32_t *reached_ = nullptr;       // pinned: the group that ended last, by its lowest bits
    uint64_t launched_ = 0, over_ = 0;  // groups
    bool launching_ = false;            // NCCL has yet to put the last group on the stream
    Message *last_group_ = nullptr;     // its messages, while that is so
    Stage stage_;
    Message *pending_ = nullptr, **last_pending_ = &pending_;
    Message *unused_ = nullptr;
    int64_t unused_bytes_ = 0;
    int32_t ended_ = ATTILE_OK;  // why there is no communicator any more
    bool is_stuck_ = false;      // the stream did not come to its end after an abort
    std::atomic<bool> gave_up_{false};
};

}  // namespace attile::nccl

#endif
