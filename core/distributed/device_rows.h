// SPDX-License-Identifier: Apache-2.0
// Rows and matrices in the device's memory, where a transport reaches it: what a communicator keeps there from call to call, and what the
// methods do with it, made of merges (of one part that is a copy, of a part without keys it forgets) and of sums over an axis.
#ifndef ATTILE_CORE_DISTRIBUTED_DEVICE_ROWS_H
#define ATTILE_CORE_DISTRIBUTED_DEVICE_ROWS_H

#include <attile/attile.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <vector>

namespace attile::core {

// Whether all these tensors lie on the device. Those that are absent, have no element, or have no address, as in a query, count as if they
// did.
int32_t lie_on_device(attile_context *context, std::initializer_list<const attile_tensor *> tensors, bool *all);
// What the answer of a query says of it.
inline const char *where_messages_lie(bool on_device) {
    return on_device ? "; messages lie in device memory" : "; messages lie in host memory";
}

// The tensor's rows lie packed as they travel; four axes.
bool is_packed(const attile_tensor &tensor);

// Unused blocks of device memory, constants there, and marks. Of one communicator, so of one call at a time.
class DeviceBlocks {
  public:
    explicit DeviceBlocks(attile_context *context) : context_(context) {}
    ~DeviceBlocks();
    DeviceBlocks(const DeviceBlocks &) = delete;
    DeviceBlocks &operator=(const DeviceBlocks &) = delete;

    struct Block {
        void *memory = nullptr;
        int64_t bytes = 0;  // at least as many as were asked for
    };
    int32_t take(const char *operation, int64_t bytes, Block *block);
    // What was queued on the device with this memory may still be running.
    void give(const Block &block);

    // Goes before what follows. The first call's copy alone waits for the device.
    int32_t begin(const char *operation, void *stream);
    void *zero() const { return constants_.memory; }  // of any type
    void *nothing(int32_t wide) const;                // -inf

    // A mark tells the host how far a stream has come while later work is queued: behind the work a number is copied to pinned memory. At
    // most 100 marks may be under way.
    int32_t mark(void *stream, uint32_t *made);
    bool is_reached(uint32_t mark) const;
    int32_t wait_for(uint32_t mark, void *stream);

  private:
    struct Constants;
    void release();
    int32_t copy_number(uint32_t number, uint32_t *to, void *stream);

    attile_context *const context_;
    std::vector<Block> unused_;
    int64_t unused_bytes_ = 0;
    size_t used_ = 0;
    Block constants_;
    uint32_t *reached_ = nullptr;  // pinned: the mark that was reached last; behind it one that nobody looks at
    uint32_t marks_ = 0;
    bool begun_ = false;
};

// Where the work of a call is done, and with which memory.
struct DeviceWork {
    const char *operation;
    attile_context *context;
    void *stream;
    uint32_t flags;
    int32_t wide;          // the type of sums
    DeviceBlocks *blocks;  // NULL: nothing lies on the device
};

// Of one call. On the stream of the call; nothing here waits for the device but settle(), and a communicator's first begin().
class DeviceRows {
  public:
    explicit DeviceRows(const DeviceWork &work) : work_(work) {}
    DeviceRows(const DeviceRows &) = delete;
    DeviceRows &operator=(const DeviceRows &) = delete;

    int32_t begin() { return work_.blocks != nullptr ? work_.blocks->begin(work_.operation, work_.stream) : ATTILE_OK; }
    DeviceBlocks *blocks() const { return work_.blocks; }
    // What was queued is done: messages may read and write the memory that it used.
    int32_t settle() const;
    // Four axes, rounded to the type there.
    int32_t copy(const attile_tensor &from, const attile_tensor &to) const;
    // Rows of o and lse that have seen no key.
    int32_t forget(const attile_tensor &o, const attile_tensor &lse) const;
    // Four axes.
    int32_t clear(const attile_tensor &tensor) const;
    // Adds up `parts` over axis 0, which `to` lacks. `to` may be of a wider type.
    int32_t sum(const attile_tensor &parts, const attile_tensor &to) const;
    // `to` is the sum of two tensors of the wide type, all with the same extents and strides.
    int32_t add(const attile_tensor &one, const attile_tensor &other, const attile_tensor &to) const;

  private:
    const DeviceWork work_;
};

}  // namespace attile::core

#endif
