// SPDX-License-Identifier: Apache-2.0
// What a device has found out about its kernels, kept so that it is asked of the vendor's runtime once: resources, occupancy, and how much
// dynamic shared memory a kernel has been opted in to. Thread-safe. The device gives each question as a callable that returns a status,
// having set the sentence; a question that failed is asked again.
#pragma once

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
        const std::lock_guard<std::mutex> lock(lock_);
        Known &known = kernels_[kernel];
        if (!known.has_resources) {
            const int32_t status = read(&known.resources);
            if (status != ATTILE_OK) return status;
            known.has_resources = true;
        }
        *found = known.resources;
        return ATTILE_OK;
    }

    // `opt_in()` lets the kernel have `shared` bytes of dynamic shared memory.
    template <class OptIn>
    int32_t allow_shared(const void *kernel, std::size_t shared, OptIn opt_in) {
        // Static and dynamic shared memory count together; opting in a little early does no harm.
        constexpr std::size_t kNoOptIn = 40 * 1024;
        if (shared <= kNoOptIn) return ATTILE_OK;
        const std::lock_guard<std::mutex> lock(lock_);
        Known &known = kernels_[kernel];
        if (known.shared_allowed >= shared) return ATTILE_OK;
        const int32_t status = opt_in();
        if (status == ATTILE_OK) known.shared_allowed = shared;
        return status;
    }

    // `ask(int *)` fills the blocks that a compute unit holds at once.
    template <class Ask>
    int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks_per_unit, Ask ask) {
        const std::lock_guard<std::mutex> lock(lock_);
        auto &known = kernels_[kernel].occupancy_of;
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
        KernelResources resources;
        bool has_resources = false;
        std::size_t shared_allowed = 0;                               // Dynamic shared memory opted in to so far.
        std::map<std::pair<int32_t, std::size_t>, int> occupancy_of;  // By threads and dynamic shared memory.
    };

    std::mutex lock_;
    std::unordered_map<const void *, Known> kernels_;
};

}  // namespace attile::gpu
