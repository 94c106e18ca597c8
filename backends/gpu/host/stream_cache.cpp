// SPDX-License-Identifier: Apache-2.0
// A block goes back to its own stream at once, since work there is ordered; another stream first waits for the event recorded at its
// release.
#include "host/stream_cache.h"

#include "host/status.h"

namespace attile::gpu {

StreamCache::~StreamCache() {
    for (const Block &block : blocks_) {
        device_.event_destroy(block.done);
        device_.free(ATTILE_MEMORY_DEVICE, block.pointer);
    }
}

int32_t StreamCache::make_locked(int64_t bytes, Stream stream, void **pointer) {
    blocks_.reserve(blocks_.size() + 1);  // What is taken below is noted without fail.
    Block block = {nullptr, bytes, stream, nullptr, true};
    int32_t status = device_.alloc(ATTILE_MEMORY_DEVICE, bytes, &block.pointer);
    if (status == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY) {
        trim_locked(0);
        status = device_.alloc(ATTILE_MEMORY_DEVICE, bytes, &block.pointer);
    }
    if (status != ATTILE_OK) return status;
    status = device_.event_create(false, &block.done);
    if (status != ATTILE_OK) {
        device_.free(ATTILE_MEMORY_DEVICE, block.pointer);
        return status;
    }
    blocks_.push_back(block);
    *pointer = block.pointer;
    return ATTILE_OK;
}

int32_t StreamCache::alloc(int64_t bytes, Stream stream, void **pointer) {
    if (device_.capturing(stream)) {
        return fail(ATTILE_ERROR_WORKSPACE_TOO_SMALL,
                    "a capturing stream needs a workspace of %lld bytes from the caller: this driver has no memory pools",
                    static_cast<long long>(bytes));
    }
    const std::lock_guard<std::mutex> guard(lock_);
    Block *best = nullptr;
    for (Block &block : blocks_) {
        if (block.is_taken || block.bytes < bytes || block.bytes > 4 * bytes + (1 << 20)) continue;
        const bool is_closer = best == nullptr || (block.stream == stream) > (best->stream == stream) ||
                               ((block.stream == stream) == (best->stream == stream) && block.bytes < best->bytes);
        if (is_closer) best = &block;
    }
    if (best == nullptr) return make_locked(bytes, stream, pointer);
    if (best->stream != stream) {
        const int32_t status = device_.event_wait(stream, best->done);
        if (status != ATTILE_OK) return status;
    }
    best->is_taken = true;
    best->stream = stream;
    *pointer = best->pointer;
    return ATTILE_OK;
}

int32_t StreamCache::free(void *pointer, Stream stream) {
    const std::lock_guard<std::mutex> guard(lock_);
    for (Block &block : blocks_) {
        if (block.pointer != pointer) continue;
        block.is_taken = false;
        block.stream = stream;
        int32_t status = device_.event_record(block.done, stream);
        // Without the event no other stream could tell when it is done: then all is done when it goes back.
        if (status != ATTILE_OK && device_.synchronize(stream) == ATTILE_OK) status = ATTILE_OK;
        trim_locked(keep_bytes_);
        return status;
    }
    return fail(ATTILE_ERROR_INTERNAL, "a workspace was given back that the cache did not hand out");
}

void StreamCache::keep(int64_t bytes) {
    const std::lock_guard<std::mutex> guard(lock_);
    keep_bytes_ = bytes;
}

void StreamCache::trim_locked(int64_t limit) {
    int64_t unused = 0;
    for (const Block &block : blocks_) unused += block.is_taken ? 0 : block.bytes;
    for (std::size_t i = 0; i < blocks_.size() && unused > limit;) {
        if (blocks_[i].is_taken) {
            ++i;
            continue;
        }
        unused -= blocks_[i].bytes;
        device_.event_synchronize(blocks_[i].done);
        device_.event_destroy(blocks_[i].done);
        device_.free(ATTILE_MEMORY_DEVICE, blocks_[i].pointer);
        blocks_.erase(blocks_.begin() + static_cast<std::ptrdiff_t>(i));
    }
}

}  // namespace attile::gpu
