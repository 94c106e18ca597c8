// SPDX-License-Identifier: Apache-2.0
// A gpu::Device made of ordinary memory, so that gpu's host code is tested on machines without a GPU. Everything happens at once and in
// order; what it allocates as device memory counts as such, all else as the host's. called() is where a test lets a call fail; what ends
// something's life ends it all the same, as a vendor's runtime does that has an earlier call's error to tell.
#pragma once

#include <cstring>
#include <map>
#include <new>

#include "device.h"

namespace attile::test {

class MemoryDevice : public gpu::Device {
  public:
    explicit MemoryDevice(int64_t capacity) : capacity_(capacity) {
        properties_.compute_units = 4;
        properties_.memory_total = capacity;
    }
    ~MemoryDevice() override {
        for (const auto &[pointer, block] : blocks_) ::operator delete(pointer, kAlignment);
    }

    int64_t peak() const { return peak_; }
    std::size_t blocks() const { return blocks_.size(); }
    int events() const { return events_; }
    void fail_copies_from(int number) { failing_copy_ = number; }

    int32_t enter(bool) override { return called("enter"); }
    void leave() override {}
    int32_t launch(const void *, gpu::Dim3, gpu::Dim3, std::size_t, void **, gpu::Stream) override { return called("launch"); }
    int32_t resources(const void *, gpu::KernelResources *) override { return called("resources"); }
    int32_t occupancy(const void *, int32_t, std::size_t, int32_t *) override { return called("occupancy"); }

    int32_t alloc(int32_t kind, int64_t bytes, void **pointer) override {
        if (const int32_t status = called("alloc"); status != ATTILE_OK) return status;
        if (kind == ATTILE_MEMORY_DEVICE) {
            if (used_ + bytes > capacity_) return ATTILE_ERROR_OUT_OF_DEVICE_MEMORY;
            used_ += bytes;
            peak_ = used_ > peak_ ? used_ : peak_;
        }
        *pointer = ::operator new(static_cast<std::size_t>(bytes), kAlignment);
        std::memset(*pointer, 0xff, static_cast<std::size_t>(bytes));
        blocks_[*pointer] = {kind, bytes};
        lives(1);
        return ATTILE_OK;
    }
    int32_t free(int32_t, void *pointer) override {
        const auto found = blocks_.find(pointer);
        if (found == blocks_.end()) return ATTILE_ERROR_INTERNAL;
        if (found->second.kind == ATTILE_MEMORY_DEVICE) used_ -= found->second.bytes;
        ::operator delete(pointer, kAlignment);
        blocks_.erase(found);
        lives(-1);
        return called("free");
    }
    int32_t memory_kind(const void *pointer, int32_t *kind) override {
        if (const int32_t status = called("memory_kind"); status != ATTILE_OK) return status;
        *kind = ATTILE_MEMORY_HOST;
        for (const auto &[start, block] : blocks_) {
            const char *first = static_cast<const char *>(start);
            if (pointer >= first && pointer < first + block.bytes) *kind = block.kind;
        }
        return ATTILE_OK;
    }
    int32_t memory_free(int64_t *bytes) override {
        *bytes = capacity_ - used_;
        return called("memory_free");
    }
    int32_t copy(void *destination, const void *source, int64_t bytes, gpu::Stream) override {
        if (--failing_copy_ == 0) return ATTILE_ERROR_DEVICE_FAULT;
        if (const int32_t status = called("copy"); status != ATTILE_OK) return status;
        std::memcpy(destination, source, static_cast<std::size_t>(bytes));
        return ATTILE_OK;
    }
    int32_t fill_zero(void *destination, int64_t bytes, gpu::Stream) override {
        if (const int32_t status = called("fill_zero"); status != ATTILE_OK) return status;
        std::memset(destination, 0, static_cast<std::size_t>(bytes));
        return ATTILE_OK;
    }
    int32_t prefetch(const void *, int64_t, int32_t, gpu::Stream) override { return called("prefetch"); }
    int32_t pool_alloc(int64_t bytes, gpu::Stream, void **pointer) override { return alloc(ATTILE_MEMORY_DEVICE, bytes, pointer); }
    int32_t pool_free(void *pointer, gpu::Stream) override { return free(ATTILE_MEMORY_DEVICE, pointer); }
    int32_t pool_keep(int64_t) override { return called("pool_keep"); }
    int32_t stream_create(gpu::Stream *stream) override {
        if (const int32_t status = called("stream_create"); status != ATTILE_OK) return status;
        *stream = ::operator new(1);  // an address of its own
        lives(1);
        return ATTILE_OK;
    }
    int32_t stream_destroy(gpu::Stream stream) override {
        ::operator delete(stream);
        lives(-1);
        return called("stream_destroy");
    }
    int32_t synchronize(gpu::Stream) override { return called("synchronize"); }
    int32_t synchronize_all() override { return called("synchronize_all"); }
    bool capturing(gpu::Stream) override { return is_capturing; }
    int32_t event_create(bool, gpu::Event *event) override {
        if (const int32_t status = called("event_create"); status != ATTILE_OK) return status;
        *event = this;
        lives(1);
        ++events_;
        return ATTILE_OK;
    }
    int32_t event_destroy(gpu::Event) override {
        --events_;
        lives(-1);
        return called("event_destroy");
    }
    int32_t event_record(gpu::Event, gpu::Stream) override { return called("event_record"); }
    int32_t event_wait(gpu::Stream, gpu::Event) override {
        ++waits;
        return called("event_wait");
    }
    int32_t event_synchronize(gpu::Event) override { return called("event_synchronize"); }
    int32_t event_done(gpu::Event, bool *is_done) override {
        *is_done = ++asked_ % (1 + times_not_done) == 0;
        return called("event_done");
    }
    int32_t event_elapsed(gpu::Event, gpu::Event, float *milliseconds) override {
        *milliseconds = 0;
        return called("event_elapsed");
    }

    bool is_capturing = false;
    int waits = 0;
    int times_not_done = 0;  // So often event_done() says no, before it says yes once.

  protected:
    virtual int32_t called(const char *name) {
        static_cast<void>(name);
        return ATTILE_OK;
    }
    virtual void lives(int more) { static_cast<void>(more); }  // Blocks, streams and events, that many more.

  private:
    static constexpr std::align_val_t kAlignment{256};
    struct Block {
        int32_t kind;
        int64_t bytes;
    };
    int64_t capacity_, used_ = 0, peak_ = 0;
    int events_ = 0, failing_copy_ = 0, asked_ = 0;
    std::map<void *, Block> blocks_;
};

}  // namespace attile::test
