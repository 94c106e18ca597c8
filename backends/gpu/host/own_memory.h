// SPDX-License-Identifier: Apache-2.0
// Device memory that a context itself gave its caller: of a pointer into it the driver need not be asked. Nobody waits, and nothing is
// allocated: what finds no room in the table is asked for as any other memory.
//
// A call looks memory up that lives as long as the call; what is given back meanwhile is not the call's.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attile::gpu {

class OwnMemory {
  public:
    static constexpr std::size_t kMost = 64;

    void add(const void *memory, int64_t bytes) {
        for (std::size_t i = 0; i < kMost; ++i) {
            uintptr_t none = 0;
            if (!ranges_[i].begin.compare_exchange_strong(none, address_of(memory), std::memory_order_acq_rel)) continue;
            ranges_[i].end.store(address_of(memory) + static_cast<uintptr_t>(bytes), std::memory_order_release);
            std::size_t used = used_.load(std::memory_order_relaxed);
            while (used <= i && !used_.compare_exchange_weak(used, i + 1, std::memory_order_release, std::memory_order_relaxed)) continue;
            return;
        }
    }
    // Before the memory is given back.
    void remove(const void *memory) {
        const std::size_t used = used_.load(std::memory_order_acquire);
        for (std::size_t i = 0; i < used; ++i) {
            if (ranges_[i].begin.load(std::memory_order_acquire) != address_of(memory)) continue;
            ranges_[i].end.store(0, std::memory_order_release);
            ranges_[i].begin.store(0, std::memory_order_release);
            return;
        }
    }
    bool has(const void *pointer) const {
        const std::size_t used = used_.load(std::memory_order_acquire);
        const uintptr_t address = address_of(pointer);
        for (std::size_t i = 0; i < used; ++i) {
            // The end is 0 while the place changes hands.
            const uintptr_t end = ranges_[i].end.load(std::memory_order_acquire), begin = ranges_[i].begin.load(std::memory_order_acquire);
            if (address >= begin && address < end && ranges_[i].end.load(std::memory_order_relaxed) == end) return true;
        }
        return false;
    }

  private:
    static uintptr_t address_of(const void *memory) { return reinterpret_cast<uintptr_t>(memory); }
    struct Range {
        std::atomic<uintptr_t> begin{0}, end{0};
    };
    std::array<Range, kMost> ranges_;
    std::atomic<std::size_t> used_{0};  // Places beyond were never taken.
};

}  // namespace attile::gpu
