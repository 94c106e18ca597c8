// SPDX-License-Identifier: Apache-2.0
// A few threads that copy host memory: one thread does not fill a PCIe link.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attile::gpu {

// Work on [0, total) that may be done in ranges, at any time and by any thread. It stays where it is until it is done.
struct HostTask {
    std::function<void(int64_t first, int64_t count)> work;  // Must not throw.
    int64_t total = 0, grain = 1;                            // A range is this long.

  private:
    friend class HostTeam;
    int64_t next = 0, left = 0;  // The first element not handed out; how many are not done.
    HostTask *behind = nullptr;
};

class HostTeam {
  public:
    explicit HostTeam(int32_t threads);  // Members, the caller counted; started on first use.
    ~HostTeam();
    HostTeam(const HostTeam &) = delete;
    HostTeam &operator=(const HostTeam &) = delete;

    // One caller at a time. Tasks are taken up in the order in which they were begun; a short one is done at once, by the caller.
    void begin(HostTask &task);
    bool is_done(const HostTask &task);
    void finish(HostTask &task);  // Takes part until the task is done.

  private:
    void serve();
    void do_range(std::unique_lock<std::mutex> &guard);

    int32_t threads_;
    std::vector<std::thread> members_;
    std::mutex lock_;
    std::condition_variable wake_, finished_;
    HostTask *first_ = nullptr, *last_ = nullptr;  // Tasks of which ranges are still to be handed out.
    bool is_closing_ = false;
};

}  // namespace attile::gpu
