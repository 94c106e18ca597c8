// SPDX-License-Identifier: Apache-2.0
// Ranges are taken one by one under a lock; at 512 KB a range the lock is not felt.
#include "host/team.h"

#include <algorithm>
#include <system_error>

namespace attile::gpu {

HostTeam::HostTeam(int32_t threads) : threads_(threads) {}

HostTeam::~HostTeam() {
    {
        const std::lock_guard<std::mutex> guard(lock_);
        is_closing_ = true;
    }
    wake_.notify_all();
    for (std::thread &member : members_) member.join();
}

// There is a task to take a range of; the lock is held but for the work itself.
void HostTeam::do_range(std::unique_lock<std::mutex> &guard) {
    HostTask &task = *first_;
    const int64_t first = task.next, count = std::min(task.grain, task.total - first);
    task.next += count;
    if (task.next == task.total) first_ = task.behind;
    guard.unlock();
    task.work(first, count);
    guard.lock();
    task.left -= count;
    if (task.left == 0) finished_.notify_one();
}

void HostTeam::serve() {
    std::unique_lock<std::mutex> guard(lock_);
    for (;;) {
        wake_.wait(guard, [&] { return is_closing_ || first_ != nullptr; });
        if (is_closing_) return;
        do_range(guard);
    }
}

void HostTeam::begin(HostTask &task) {
    task.next = task.left = 0;
    task.behind = nullptr;
    if (threads_ <= 1 || task.total <= 2 * task.grain) {
        if (task.total > 0) task.work(0, task.total);
        return;
    }
    {
        const std::lock_guard<std::mutex> guard(lock_);
        try {
            while (static_cast<int32_t>(members_.size()) + 1 < threads_) members_.emplace_back([this] { serve(); });
        } catch (const std::system_error &) {
            threads_ = static_cast<int32_t>(members_.size()) + 1;  // The system gives no more threads: those there are suffice.
        }
        task.left = task.total;
        (first_ == nullptr ? first_ : last_->behind) = &task;
        last_ = &task;
    }
    wake_.notify_all();
}

bool HostTeam::is_done(const HostTask &task) {
    const std::lock_guard<std::mutex> guard(lock_);
    return task.left == 0;
}

void HostTeam::finish(HostTask &task) {
    std::unique_lock<std::mutex> guard(lock_);
    while (task.left > 0) {
        if (first_ != nullptr)
            do_range(guard);
        else
            finished_.wait(guard);
    }
}

}  // namespace attile::gpu
