// SPDX-License-Identifier: Apache-2.0
// The pool: a few blocks, the smallest that fits is handed out. A block's size lies in front of it.
#include "pool.h"

#include "block.h"
#include "size.h"

namespace attile::cpu {
namespace {

constexpr int64_t kHeader = kBlockAlignment;

int64_t &size_of(void *pointer) { return *reinterpret_cast<int64_t *>(static_cast<char *>(pointer) - kHeader); }
void release(void *pointer) { free_block(static_cast<char *>(pointer) - kHeader); }

}  // namespace

Pool::~Pool() {
    for (void *slot : slots_) {
        if (slot != nullptr) release(slot);
    }
}

void *Pool::take(int64_t bytes) {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        int best = -1;
        for (int i = 0; i < kSlots; ++i) {
            if (slots_[i] == nullptr || size_of(slots_[i]) < bytes) continue;
            if (best < 0 || size_of(slots_[i]) < size_of(slots_[best])) best = i;
        }
        if (best >= 0) {
            void *found = slots_[best];
            slots_[best] = nullptr;
            kept_ -= size_of(found);
            return found;
        }
    }
    // Rounded up generously: calls of nearly the same shape share a block.
    int64_t rounded = (bytes + bytes / 8 + 0xffff) & ~int64_t{0xffff};
    if (rounded >= kHugePage) rounded = round_up(rounded + kHeader, kHugePage) - kHeader;
    void *block = allocate_block(rounded + kHeader);
    if (block == nullptr) return nullptr;
    void *pointer = static_cast<char *>(block) + kHeader;
    size_of(pointer) = rounded;
    return pointer;
}

void Pool::give(void *pointer) {
    if (pointer == nullptr) return;
    void *unwanted = pointer;
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        const int64_t size = size_of(pointer);
        int slot = -1;
        for (int i = 0; i < kSlots; ++i) {
            if (slots_[i] == nullptr) slot = i;
        }
        if (slot >= 0 && kept_ + size <= limit_) {
            slots_[slot] = pointer;
            kept_ += size;
            unwanted = nullptr;
        }
    }
    if (unwanted != nullptr) release(unwanted);
}

}  // namespace attile::cpu
