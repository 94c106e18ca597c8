// SPDX-License-Identifier: Apache-2.0
// Memory for the fuzzer's calls: slots with pages on both sides that nobody may touch, so that an access one byte beyond a buffer that lies
// at a slot's end ends the process.
#ifndef ATTILE_TESTS_FUZZ_MEMORY_H
#define ATTILE_TESTS_FUZZ_MEMORY_H

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "fuzz_input.h"

namespace attile_test {

class FuzzMemory {
  public:
    static constexpr int64_t kSlots = 64, kSlotBytes = 16384, kGuardBytes = 16384, kWorkspaceBytes = 1 << 22;

    static FuzzMemory &instance() {
        static FuzzMemory memory;
        return memory;
    }

    unsigned char *slot(int64_t index) const { return base_ + kGuardBytes + index * (kSlotBytes + kGuardBytes); }
    unsigned char *slot_end(int64_t index) const { return slot(index) + kSlotBytes; }

    // A workspace of so many bytes that ends where its room does, rounded up to its alignment; filled with NaN.
    unsigned char *workspace(int64_t bytes) const {
        const int64_t room = (bytes + 255) / 256 * 256;
        unsigned char *at = slot(kSlots) + kWorkspaceBytes - room;
        std::memset(at, 0xff, static_cast<size_t>(room));
        return at;
    }

    // The slot that holds all of [first, first + bytes), or -1.
    int64_t slot_of(uintptr_t first, int64_t bytes) const {
        const uintptr_t base = reinterpret_cast<uintptr_t>(base_);
        if (first < base + kGuardBytes || bytes < 0 || bytes > kSlotBytes) return -1;
        const uintptr_t index = (first - base - kGuardBytes) / (kSlotBytes + kGuardBytes);
        if (index >= static_cast<uintptr_t>(kSlots)) return -1;
        const uintptr_t begin = reinterpret_cast<uintptr_t>(slot(static_cast<int64_t>(index)));
        return first + static_cast<uintptr_t>(bytes) <= begin + kSlotBytes ? static_cast<int64_t>(index) : -1;
    }

    // Bytes that are numbers of all sizes, infinities and NaN among them, the same for the same address.
    void fill(unsigned char *first, unsigned char *end) const {
        for (unsigned char *at = first; at < end; ++at) *at = static_cast<unsigned char>((at - base_) * 37 % 251);
    }

  private:
    FuzzMemory() {
        const int64_t bytes = kSlots * (kSlotBytes + kGuardBytes) + kGuardBytes + kWorkspaceBytes + kGuardBytes;
        void *all = mmap(nullptr, static_cast<size_t>(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ATTILE_FUZZ_CHECK(all != MAP_FAILED);
        base_ = static_cast<unsigned char *>(all);
        for (int64_t i = 0; i < kSlots; ++i) ATTILE_FUZZ_CHECK(mprotect(slot(i), kSlotBytes, PROT_READ | PROT_WRITE) == 0);
        ATTILE_FUZZ_CHECK(mprotect(slot(kSlots), kWorkspaceBytes, PROT_READ | PROT_WRITE) == 0);
    }

    unsigned char *base_ = nullptr;
};

}  // namespace attile_test

#endif
