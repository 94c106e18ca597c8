// SPDX-License-Identifier: Apache-2.0
// Workspace that a context keeps for its streams, so that a call like the one before it takes nothing from the driver.
//
// A stream's work is done in order: its next call may use the memory as soon as the kernels of the call before are queued. From take() to
// give() memory is one call's alone. Another thread that calls on the same stream meanwhile gets none, and neither does a stream that is
// captured: a graph may run at any time, so its memory has to be its own. Who gets none takes memory from the device's pool.
//
// The first kSettled streams keep their memory until forget(). The next kRoving also record an event at the end of each call. When a new
// stream comes, it gets the memory of the one of them that was used least recently, if that one's work is done. Nobody waits.
#pragma once

#include <cstdint>
#include <mutex>

#include "device.h"

namespace attile::gpu {

class KeptWorkspaces {
  public:
    static constexpr int kSettled = 8, kRoving = 8;
    static constexpr int64_t kMostBytes = int64_t{32} << 20;  // For a stream. Calls that want more run for longer than a pool takes.

    // Keeps at most `most_bytes` in all.
    KeptWorkspaces(Device &device, int64_t most_bytes) : device_(device), most_bytes_(most_bytes) {}
    ~KeptWorkspaces();  // The device is current and idle.
    KeptWorkspaces(const KeptWorkspaces &) = delete;
    KeptWorkspaces &operator=(const KeptWorkspaces &) = delete;

    class Place {
      public:
        void *memory() const { return memory_; }

      private:
        friend class KeptWorkspaces;
        uint64_t number_ = 0;  // Of the stream that it is kept for; 0: of none.
        uint64_t used_ = 0;    // When it was taken last; grows from take to take.
        void *memory_ = nullptr;
        int64_t bytes_ = 0;
        Event done_ = nullptr;     // Of roving places: recorded after the last use,
        bool is_recorded_ = true;  // if that did not fail.
        bool is_taken_ = false;
    };

    // At least `bytes` for a call on `stream`, whose Device::stream_number() is `number`. `*place` is null where the context keeps none for
    // it, or the device has no memory for as much as would be kept: there may be enough for the call.
    int32_t take(int64_t bytes, uint64_t number, Stream stream, Place **place);
    // The call's kernels are queued. What fails here only keeps the place from going to another stream.
    void give(Place *place, Stream stream);
    // Frees the memory of a stream that goes; its work is done.
    void forget(uint64_t number, Stream stream);

  private:
    Place *find_locked(uint64_t number, int64_t bytes);
    int32_t grow(Place &place, int64_t bytes, Stream stream);
    int32_t drop(Place &place, Stream stream);

    Device &device_;
    const int64_t most_bytes_;
    std::mutex lock_;  // Of all but what a taken place holds.
    int64_t kept_bytes_ = 0;
    uint64_t takes_ = 0;
    Place places_[kSettled + kRoving];
};

}  // namespace attile::gpu
