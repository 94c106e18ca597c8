// SPDX-License-Identifier: Apache-2.0
// Ranges are taken one by one under a lock; at 512 KB a range the lock is not felt.
#include "host_team.h"

#include <algorithm>
#include <system_error>

namespace attile::simt {

HostTeam::HostTeam(int32_t threads) : threads_(threads) {}

HostTeam::~HostTeam() {
    {
        const std::lock_guard<std::mutex> guard(lock_);
        is_closing_ = true;
    }
    wake_.notify_all();
    for (std::thread &member : members_) member.join();
}

bool HostTeam::next_range(int64_t *first, int64_t *count) {
    const std::lock_guard<std::mutex> guard(lock_);
    if (next_ >= total_) return false;
    *first = next_;
    *count = std::min(grain_, total_ - next_);
    next_ += *count;
    return true;
}

void HostTeam::serve() {
    std::unique_lock<std::mutex> guard(lock_);
    for (;;) {
        wake_.wait(guard, [&] { return is_closing_ || next_ < total_; });
        if (is_closing_) return;
        ++busy_;
        const std::function<void(int64_t, int64_t)> *work = work_;
        guard.unlock();
        int64_t first = 0, count = 0;
        while (next_range(&first, &count)) (*work)(first, count);
        guard.lock();
        if (--busy_ == 0) finished_.notify_one();
    }
}

void HostTeam::share(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)> &work) {
    if (threads_ <= 1 || count <= 2 * grain) {
        work(0, count);
        return;
    }
    {
        const std::lock_guard<std::mutex> guard(lock_);
        try {
            while (static_cast<int32_t>(members_.size()) + 1 < threads_) members_.emplace_back([this] { serve(); });
        } catch (const std::system_error &) {
            threads_ = static_cast<int32_t>(members_.size()) + 1;  // The system gives no more threads: those there are suffice.
        }
        work_ = &work;
        next_ = 0;
        total_ = count;
        grain_ = grain;
    }
    wake_.notify_all();
    int64_t first = 0, range = 0;
    while (next_range(&first, &range)) work(first, range);
    std::unique_lock<std::mutex> guard(lock_);
    finished_.wait(guard, [&] { return busy_ == 0; });
    total_ = 0;
    next_ = 0;
}

}  // namespace attile::simt
