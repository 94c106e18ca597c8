// SPDX-License-Identifier: Apache-2.0
// Workspace memory that a context keeps between calls, so that a call does not fault in fresh pages each time.
#ifndef ATTILE_CPU_POOL_H
#define ATTILE_CPU_POOL_H

#include <cstdint>
#include <mutex>

namespace attile::cpu {

class Pool {
  public:
    Pool() = default;
    ~Pool();
    Pool(const Pool &) = delete;
    Pool &operator=(const Pool &) = delete;

    void set_limit(int64_t bytes) { limit_ = bytes; }
    // At least `bytes`, 256-byte aligned, not initialised; NULL when memory is exhausted.
    void *take(int64_t bytes);
    void give(void *pointer);

  private:
    static constexpr int kSlots = 32;
    std::mutex mutex_;
    void *slots_[kSlots] = {};
    int64_t kept_ = 0;
    int64_t limit_ = int64_t{256} << 20;
};

}  // namespace attile::cpu

#endif  // ATTILE_CPU_POOL_H
