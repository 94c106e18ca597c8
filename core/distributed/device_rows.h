// SPDX-License-Identifier: Apache-2.0
// Rows in the device's memory, where a transport reaches it: blocks that a communicator keeps from call to call, and what the methods do
// with rows, made of merges (of one part that is a copy, of a part without keys it forgets) and of sums over an axis.
#ifndef ATTILE_CORE_DISTRIBUTED_DEVICE_ROWS_H
#define ATTILE_CORE_DISTRIBUTED_DEVICE_ROWS_H

#include <attile/attile.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace attile::core {

struct DistributedAttention;

// Unused blocks of device memory. Of one communicator, so of one call at a time.
class DeviceBlocks {
  public:
    explicit DeviceBlocks(attile_context *context) : context_(context) {}
    ~DeviceBlocks() { release(); }
    DeviceBlocks(const DeviceBlocks &) = delete;
    DeviceBlocks &operator=(const DeviceBlocks &) = delete;

    struct Block {
        void *memory = nullptr;
        int64_t bytes = 0;  // at least as many as were asked for
    };
    int32_t take(const char *operation, int64_t bytes, Block *block);
    // What was queued on the device with this memory may still be running.
    void give(const Block &block);

  private:
    void release();

    attile_context *const context_;
    std::vector<Block> unused_;
    int64_t unused_bytes_ = 0;
    size_t used_ = 0;
};

// Of one call. On the stream of the call; nothing here waits for the device but begin().
class DeviceRows {
  public:
    explicit DeviceRows(const DistributedAttention &problem) : problem_(problem) {}
    ~DeviceRows();
    DeviceRows(const DeviceRows &) = delete;
    DeviceRows &operator=(const DeviceRows &) = delete;

    int32_t begin();
    // Four axes, rounded to the type there.
    int32_t copy(const attile_tensor &from, const attile_tensor &to) const;
    // Rows of o and lse that have seen no key.
    int32_t forget(const attile_tensor &o, const attile_tensor &lse) const;
    // Four axes, of the wide type.
    int32_t clear(const attile_tensor &tensor) const;
    // Adds a tensor of the wide type with the same extents and strides.
    int32_t add(const attile_tensor &part, const attile_tensor &to);

  private:
    const DistributedAttention &problem_;
    DeviceBlocks::Block constants_;  // 0 of any type, and -inf of the wide one, 8 bytes each
    DeviceBlocks::Block sums_;       // of what is added, until it is copied to its place
};

}  // namespace attile::core

#endif
