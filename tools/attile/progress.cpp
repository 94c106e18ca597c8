// SPDX-License-Identifier: Apache-2.0
// The progress line.
#include "progress.h"

#include <cstdio>
#include <utility>

#include "cli.h"
#include "system.h"
#include "table.h"

namespace attile::cli {

Progress::Progress(std::string what, int64_t total, std::string unit) : what_(std::move(what)), total_(total), unit_(std::move(unit)) {
    if (stderr_is_terminal()) thread_ = std::thread(&Progress::show_until_stopped, this);
}

Progress::~Progress() {
    if (!thread_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        stopped_ = true;
    }
    stopped_changed_.notify_all();
    thread_.join();
    if (shown_) std::fputs("\r\033[K", stderr);
}

void Progress::advance(int64_t count) {
    const std::lock_guard lock(mutex_);
    done_ += count;
}

void Progress::label(const std::string &now) {
    const std::lock_guard lock(mutex_);
    label_ = now;
}

std::string Progress::line() const {
    const double elapsed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    std::string result = what_ + text(": %lld of %lld ", static_cast<long long>(done_), static_cast<long long>(total_)) + unit_;
    if (total_ > 0) result += text(" (%.0f %%)", 100.0 * static_cast<double>(done_) / static_cast<double>(total_));
    result += text(", %.0f s", elapsed);
    if (done_ > 0 && done_ < total_)
        result += text(", about %.0f s left", elapsed * static_cast<double>(total_ - done_) / static_cast<double>(done_));
    if (!label_.empty()) result += "  " + label_;
    const size_t columns = static_cast<size_t>(terminal_columns());
    // A line that wraps could not be taken back.
    if (columns > 1 && result.size() >= columns) result.resize(columns - 1);
    return result;
}

void Progress::show_until_stopped() {
    using namespace std::chrono_literals;
    std::unique_lock lock(mutex_);
    if (stopped_changed_.wait_for(lock, 1s, [this] { return stopped_; })) return;
    while (!stopped_) {
        std::fprintf(stderr, "\r%s\033[K", line().c_str());
        std::fflush(stderr);
        shown_ = true;
        stopped_changed_.wait_for(lock, 250ms, [this] { return stopped_; });
    }
}

}  // namespace attile::cli
