// SPDX-License-Identifier: Apache-2.0
// Small messages of one group that lie in host memory: a piece of pinned memory and a block of device memory for all of them, so that the
// group has one copy to the device before it and one back behind it, and none that the host waits for.
#ifndef ATTILE_COMM_NCCL_STAGE_H
#define ATTILE_COMM_NCCL_STAGE_H

#include <attile/attile_comm_plugin.h>

#include <cstdint>
#include <cstring>

namespace attile::nccl {

class Stage {
  public:
    static constexpr int64_t kMostBytes = 16 << 10;  // of a message
    static constexpr int64_t kNone = -1;

    int32_t prepare(const attile_comm_device &device) {
        const int32_t status = allocate(device, ATTILE_MEMORY_PINNED, &host_);
        return status == ATTILE_OK ? allocate(device, ATTILE_MEMORY_DEVICE, &block_) : status;
    }
    void release(const attile_comm_device &device) {
        (void)device.free(device.context, block_);
        (void)device.free(device.context, host_);
    }

    // The place of a message that was sent in this group before, its bytes and all: an all-gather sends the same to each rank.
    int64_t find_sent(const void *data, int64_t bytes) {
        if (!open_ || users_ == 0 || data != sent_data_ || bytes != sent_bytes_) return kNone;
        ++users_;
        return sent_place_;
    }
    // A place for a message of the group that has yet to be sent off; kNone if there is no room, or a group that was sent off has it all.
    int64_t take(bool sending, const void *data, int64_t bytes) {
        if (users_ == 0) begin();
        const int64_t room = (bytes + kAlignment - 1) / kAlignment * kAlignment;
        if (!open_ || room > back_ - front_) return kNone;
        ++users_;
        if (!sending) return back_ -= room;
        sent_data_ = data;
        sent_bytes_ = bytes;
        sent_place_ = front_;
        std::memcpy(host_ + front_, data, static_cast<size_t>(bytes));
        front_ += room;
        return sent_place_;
    }
    void give() { --users_; }

    void *device_memory(int64_t place) const { return block_ + place; }
    const void *host_memory(int64_t place) const { return host_ + place; }

    // Around the group, on its stream. bring_back() is behind NCCL's work.
    int32_t send_off(const attile_comm_device &device, void *stream) {
        if (!open_) return ATTILE_OK;
        open_ = false;
        comes_back_ = users_ > 0 && back_ < kBytes;
        return users_ > 0 && front_ > 0 ? device.copy(device.context, block_, host_, front_, stream) : ATTILE_OK;
    }
    int32_t bring_back(const attile_comm_device &device, void *stream) {
        if (!comes_back_) return ATTILE_OK;
        comes_back_ = false;
        return device.copy(device.context, host_ + back_, block_ + back_, kBytes - back_, stream);
    }

  private:
    static constexpr int64_t kBytes = 256 << 10, kAlignment = 64;

    void begin() {
        front_ = 0;
        back_ = kBytes;
        open_ = true;
        comes_back_ = false;
        sent_data_ = nullptr;
    }
    static int32_t allocate(const attile_comm_device &device, int32_t kind, unsigned char **memory) {
        void *made = nullptr;
        const int32_t status = device.alloc(device.context, kind, kBytes, &made);
        *memory = static_cast<unsigned char *>(made);
        return status;
    }

    unsigned char *host_ = nullptr, *block_ = nullptr;
    int64_t front_ = 0, back_ = kBytes;  // what is sent lies below, what is received above
    int64_t users_ = 0;                  // messages that have yet to end
    bool open_ = true;                   // the group has yet to be sent off
    bool comes_back_ = false;
    const void *sent_data_ = nullptr;  // of the last message that took a place
    int64_t sent_bytes_ = 0, sent_place_ = 0;
};

}  // namespace attile::nccl

#endif
