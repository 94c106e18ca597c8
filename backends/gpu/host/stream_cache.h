// SPDX-License-Identifier: Apache-2.0
// Workspace for drivers without memory pools: blocks are kept and handed out again in stream order.
#pragma once

#include <mutex>
#include <vector>

#include "device.h"

namespace attile::gpu {

class StreamCache {
  public:
    explicit StreamCache(Device &device) : device_(device) {}
    ~StreamCache();  // The device is current and idle.
    StreamCache(const StreamCache &) = delete;
    StreamCache &operator=(const StreamCache &) = delete;

    int32_t alloc(int64_t bytes, Stream stream, void **pointer);
    int32_t free(void *pointer, Stream stream);
    void keep(int64_t bytes);

  private:
    struct Block {
        void *pointer;
        int64_t bytes;
        Stream stream;  // Where it was last used,
        Event done;     // and what tells that this use is over.
        bool is_taken;
    };
    void trim_locked(int64_t limit);
    int32_t make_locked(int64_t bytes, Stream stream, void **pointer);

    Device &device_;
    std::mutex lock_;
    std::vector<Block> blocks_;
    int64_t keep_bytes_ = 0;
};

}  // namespace attile::gpu
