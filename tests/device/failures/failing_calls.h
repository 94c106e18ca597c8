// SPDX-License-Identifier: Apache-2.0
// For what stands in for a device's runtime (tests/hip, tests/device/virtual_gpu, tests/device/emulation): counts its calls, lets one of
// them fail, and knows what is alive. device_failures_test.cpp speaks to it through the C functions at the end, which the stand-in exports.
#pragma once

#include <atomic>
#include <cstdio>
#include <mutex>
#include <string>

namespace attile::test {

enum class Failure : int {
    kNone,
    kMemory,   // This call alone: there is no memory.
    kOnce,     // This call alone: something else.
    kLasting,  // This call and all after it, as after a fault of the device.
};

// One for the whole process, never destroyed.
class FailingCalls {
  public:
    static FailingCalls &instance() {
        static FailingCalls &made = *new FailingCalls;
        return made;
    }

    // A call of the runtime. What it shall give; what ends something's life does its work all the same.
    Failure call(const char *name) {
        const std::lock_guard<std::mutex> guard(lock_);
        ++calls_;
        if (writes_down_) (written_ += name) += ' ';
        if (kind_ == Failure::kNone) return Failure::kNone;
        if (calls_ == nth_) {
            std::snprintf(name_, sizeof name_, "%s", name);
            return kind_;
        }
        return kind_ == Failure::kLasting && calls_ > nth_ ? kind_ : Failure::kNone;
    }
    // The nth call from now fails.
    void begin(int nth, Failure kind) {
        const std::lock_guard<std::mutex> guard(lock_);
        calls_ = 0;
        nth_ = nth;
        kind_ = kind;
        name_[0] = '\0';
    }
    // From now on the names of calls are written down, or no more.
    void write_down(bool on) {
        const std::lock_guard<std::mutex> guard(lock_);
        writes_down_ = on;
        if (on) written_.clear();
    }
    // In order, a space after each.
    const char *written() const { return written_.c_str(); }
    // Which call it was; empty if it did not come to it.
    const char *failed() const { return name_; }
    // Streams, events, memory, pools: whatever is made and has to be destroyed.
    void born() { ++alive_; }
    void dead() { --alive_; }
    int alive() const { return alive_.load(); }
    // What was never made, or is gone, was to be destroyed: as bad as if something were left.
    void misused() { alive_ += 1000000; }

  private:
    std::mutex lock_;
    int calls_ = 0, nth_ = 0;
    Failure kind_ = Failure::kNone;
    char name_[64] = {};
    bool writes_down_ = false;
    std::string written_;
    std::atomic<int> alive_{0};
};

}  // namespace attile::test

extern "C" {
__attribute__((visibility("default"), used)) inline void attile_failures_begin(int nth, int kind) {
    attile::test::FailingCalls::instance().begin(nth, static_cast<attile::test::Failure>(kind));
}
__attribute__((visibility("default"), used)) inline const char *attile_failures_failed() {
    return attile::test::FailingCalls::instance().failed();
}
__attribute__((visibility("default"), used)) inline void attile_failures_write_down(int on) {
    attile::test::FailingCalls::instance().write_down(on != 0);
}
__attribute__((visibility("default"), used)) inline const char *attile_failures_written() {
    return attile::test::FailingCalls::instance().written();
}
__attribute__((visibility("default"), used)) inline int attile_failures_alive() { return attile::test::FailingCalls::instance().alive(); }
}
