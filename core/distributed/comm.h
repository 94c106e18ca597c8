// SPDX-License-Identifier: Apache-2.0
// A communicator: a rank's context, its link to the others, and whether it still works.
#ifndef ATTILE_CORE_DISTRIBUTED_COMM_H
#define ATTILE_CORE_DISTRIBUTED_COMM_H

#include <atomic>
#include <memory>
#include <mutex>

#include "distributed/agreement.h"
#include "distributed/device_rows.h"
#include "distributed/link.h"
#include "guard.h"
#include "handle_table.h"
#include "status.h"

namespace attile::core {

struct CommState {
    CommState(const Transport &transport, const char *kind, const TransportSetup &setup)
        : agreement(setup.ranks), link(transport, kind, setup.rank, setup.ranks, setup.timeout) {}

    attile_context *context = nullptr;
    uint32_t flags = 0;
    char backend[32] = "";
    bool host_memory = true;                      // whether this thread can read whatever the context's tensors point to
    std::unique_ptr<DeviceBlocks> device_blocks;  // NULL: messages lie in host memory
    Agreement agreement;
    Link link;
    std::atomic<bool> busy{false};
    std::atomic<int64_t> calls{0};

    // Why it refuses work. The first reason stays.
    void break_off(int32_t status, const char *why);
    int32_t broken(char *why, size_t capacity);

  private:
    std::mutex lock_;
    int32_t status_ = ATTILE_OK;
    char why_[512] = "";
};

struct Comm : Handled<Comm> {
    std::atomic<uint64_t> process{0};  // process_generation() at creation: in a forked child nothing else is looked at
    std::mutex lock;                   // guards `state`, which a call keeps alive
    std::shared_ptr<CommState> state;
};

// ATTILE_OK and what stands behind the handle, or the failure to return.
int32_t find_comm(const char *operation, attile_comm *handle, std::shared_ptr<CommState> *state);

// While it lives this call, and no other, uses the communicator. A call that does not get to its end, because a function of the program's
// ended its thread, is a failure of this rank.
class CommUse {
  public:
    explicit CommUse(CommState &state) : state_(state), first_(!state.busy.exchange(true)) {}
    ~CommUse() {
        if (!first_) return;
        if (!over_) {
            constexpr const char *kEnded = "its thread was ended during a call";
            state_.link.give_up(ATTILE_ERROR_INTERNAL, kEnded);
            state_.break_off(ATTILE_ERROR_INTERNAL, kEnded);
        }
        state_.busy.store(false);
    }
    CommUse(const CommUse &) = delete;
    CommUse &operator=(const CommUse &) = delete;
    bool first() const { return first_; }
    void end() { over_ = true; }

  private:
    CommState &state_;
    const bool first_;
    bool over_ = false;
};

// The body of a public function that works with the other ranks. Whatever it fails with ends the communicator's work, unless it has no
// fallout.
template <typename Body>
int32_t on_comm(const char *operation, attile_comm *handle, Body &&body) {
    return guarded([&]() -> int32_t {
        std::shared_ptr<CommState> state;
        ATTILE_TRY(find_comm(operation, handle, &state));
        CommUse use(*state);
        if (!use.first()) return fail(ATTILE_ERROR_INVALID_COMM, "%s: another call is using this communicator", operation);
        char why[512];
        if (state->broken(why, sizeof why) != ATTILE_OK) {
            use.end();
            return fail(ATTILE_ERROR_COMM_BROKEN, "%s: the communicator refuses work since an earlier call failed: %s", operation, why);
        }
        state->link.serve(operation);
        Fallout fallout = Fallout::kUntold;
        const int32_t status = guarded([&] { return body(*state, &fallout); });
        if (status != ATTILE_OK && fallout != Fallout::kNone) {
            // Ranks that are about to find out by themselves are not to be cut off before they do.
            if (fallout == Fallout::kUntold) state->link.give_up(status, error_text());
            state->break_off(status, error_text());
        }
        use.end();
        return status;
    });
}

}  // namespace attile::core

#endif
