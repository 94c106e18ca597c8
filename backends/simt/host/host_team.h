// SPDX-License-Identifier: Apache-2.0
// A few threads that copy host memory: one thread does not fill a PCIe link.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace attile::simt {

class HostTeam {
  public:
    explicit HostTeam(int32_t threads);  // Members, the caller counted; started on first use.
    ~HostTeam();
    HostTeam(const HostTeam &) = delete;
    HostTeam &operator=(const HostTeam &) = delete;

    // Calls work(first, count) on disjoint ranges that cover [0, count), in parallel if there is enough to do; returns when all are done.
    // One caller at a time. `work` must not throw.
    void share(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)> &work);

  private:
    void serve();
    bool next_range(int64_t *first, int64_t *count);

    int32_t threads_;
    std::vector<std::thread> members_;
    std::mutex lock_;
    std::condition_variable wake_, finished_;
    const std::function<void(int64_t, int64_t)> *work_ = nullptr;
    int64_t next_ = 0, total_ = 0, grain_ = 1;
    int32_t busy_ = 0;
    bool is_closing_ = false;
};

}  // namespace attile::simt
