// SPDX-License-Identifier: Apache-2.0
// What a device has found out about its kernels, kept so that it is asked of the vendor's runtime once: resources, handles, occupancy, and
// how much dynamic shared memory a kernel has been opted in to. Thread-safe. The device gives each question as a callable that returns a
// status, having set the sentence; a question that failed is asked again.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "device.h"

namespace attile::gpu {

class KernelCache {
  public:
    // `read(KernelResources *)` fills what the compiler made of the kernel.
    template <class Read>
    int32_t resources(const void *kernel, KernelResources *found, Read read) {
        Known &known = find(kernel);
        if (!known.has_resources.load(std::memory_order_acquire)) {
            const std::lock_guard<std::mutex> lock(lock_);
            const int32_t status = known.has_resources.load(std::memory_order_relaxed) ? ATTILE_OK : read(&known.resources);
            if (status != ATTILE_OK) return status;
            known.has_resources.store(true, std::memory_order_release);
        }
        *found = known.resources;
        return ATTILE_OK;
    }

    // `look_up(void **)` fills the vendor's handle of the kernel, never null.
    template <class LookUp>
    int32_t function(const void *kernel, void **found, LookUp look_up) {
        Known &known = find(kernel);
        *found = known.function.load(std::memory_order_acquire);
        if (*found != nullptr) return ATTILE_OK;
        const int32_t status = look_up(found);
        if (status == ATTILE_OK) known.function.store(*found, std::memory_order_release);
        return status;
    }

    // `opt_in()` lets the kernel have `shared` bytes of dynamic shared memory.
    template <class OptIn>
    int32_t allow_shared(const void *kernel, std::size_t shared, OptIn opt_in) {
        // Static and dynamic shared memory count together; opting in a little early does no harm.
        constexpr std::size_t kNoOptIn = 40 * 1024;
        if (shared <= kNoOptIn) return ATTILE_OK;
        Known &known = find(kernel);
        if (known.shared_allowed.load(std::memory_order_acquire) >= shared) return ATTILE_OK;
        const std::lock_guard<std::mutex> lock(lock_);
        if (known.shared_allowed.load(std::memory_order_relaxed) >= shared) return ATTILE_OK;
        const int32_t status = opt_in();
        if (status == ATTILE_OK) known.shared_allowed.store(shared, std::memory_order_release);
        return status;
    }

    // `ask(int *)` fills the blocks that a compute unit holds at once.
    template <class Ask>
    int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit, Ask ask) {
        auto &known = find(kernel).occupancy_of;
        const std::lock_guard<std::mutex> lock(lock_);
        const auto place = known.find({threads, shared});
        if (place != known.end()) {
            *blocks_per_unit = place->second;
            return ATTILE_OK;
        }
        int blocks = 0;
        const int32_t status = ask(&blocks);
        if (status != ATTILE_OK) return status;
        known[{threads, shared}] = blocks;
        *blocks_per_unit = blocks;
        return ATTILE_OK;
    }

  private:
    struct Known {
        const void *kernel = nullptr;
        KernelResources resources;
        std::atomic<bool> has_resources{false};
        std::atomic<void *> function{nullptr};
        std::atomic<std::size_t> shared_allowed{0};                   // Dynamic shared memory opted in to so far.
        std::map<std::pair<int32_t, std::size_t>, int> occupancy_of;  // By threads and dynamic shared memory.
    };

    // What is known of a kernel; stays where it is. A kernel that was asked for lately is found without the lock.
    Known &find(const void *kernel) {
        constexpr uint64_t kFactor = 0x9e3779b97f4a7c15;
        std::atomic<Known *> &place = lately_[(reinterpret_cast<uintptr_t>(kernel) * kFactor) >> (64 - kLatelyBits)];
        Known *known = place.load(std::memory_order_acquire);
        if (known != nullptr && known->kernel == kernel) return *known;
        const std::lock_guard<std::mutex> lock(lock_);
        known = &kernels_[kernel];
        if (known->kernel == nullptr) known->kernel = kernel;
        place.store(known, std::memory_order_release);
        return *known;
    }

    static constexpr int kLatelyBits = 7;
    std::mutex lock_;
    std::unordered_map<const void *, Known> kernels_;
    std::array<std::atomic<Known *>, 1 << kLatelyBits> lately_ = {};
};

}  // namespace attile::gpu
