// SPDX-License-Identifier: Apache-2.0
// A progress line on stderr for what takes longer than a second: only on a terminal, gone when the work is.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

namespace attile::cli {

class Progress {
  public:
    // `unit` names what is counted ("batches"). Starts no thread unless stderr is a terminal.
    Progress(std::string what, int64_t total, std::string unit);
    ~Progress();
    Progress(const Progress &) = delete;
    Progress &operator=(const Progress &) = delete;

    void advance(int64_t count = 1);
    void label(const std::string &now);  // What is being worked on at the moment.

  private:
    void show_until_stopped();
    std::string line() const;

    const std::string what_;
    const int64_t total_;
    const std::string unit_;
    const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
    std::mutex mutex_;  // Guards what follows.
    std::condition_variable stopped_changed_;
    int64_t done_ = 0;
    std::string label_;
    bool stopped_ = false;
    bool shown_ = false;
    std::thread thread_;  // Last: it uses all the others. A call of the library may take long, so it cannot be this thread that prints.
};

}  // namespace attile::cli
