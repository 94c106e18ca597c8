// SPDX-License-Identifier: Apache-2.0
#include "host/kept_workspaces.h"

#include <algorithm>

namespace attile::gpu {
namespace {

// What is taken for a call, so that one that wants a little more finds it.
int64_t rounded(int64_t bytes) {
    int64_t size = int64_t{1} << 16;
    while (size < bytes) size *= 2;
    return size;
}

}  // namespace

KeptWorkspaces::~KeptWorkspaces() {
    for (const Place &place : places_) {
        if (place.done_ != nullptr) device_.event_destroy(place.done_);
        if (place.memory_ != nullptr) device_.pool_free(place.memory_, nullptr);
    }
}

// The stream's place, or one that becomes its. Null: another thread has it, there is none, or so many bytes are more than it may have.
KeptWorkspaces::Place *KeptWorkspaces::find_locked(uint64_t number, int64_t bytes) {
    const auto has_room = [&](const Place &x) { return bytes <= std::max(x.bytes_, most_bytes_ - kept_bytes_ + x.bytes_); };
    Place *place = nullptr, *oldest = nullptr;
    for (Place &each : places_) {
        if (each.number_ == number) return each.is_taken_ || !has_room(each) ? nullptr : &each;
        if (place == nullptr && each.number_ == 0) place = &each;
        const bool can_go = each.done_ != nullptr && each.is_recorded_ && !each.is_taken_;
        if (can_go && (oldest == nullptr || each.used_ < oldest->used_)) oldest = &each;
    }
    if (place != nullptr) {
        const bool is_roving = place - places_ >= kSettled;
        if (is_roving && place->done_ == nullptr && device_.event_create(false, &place->done_) != ATTILE_OK) return nullptr;
    } else {
        bool is_done = false;
        if (oldest == nullptr || device_.event_done(oldest->done_, &is_done) != ATTILE_OK || !is_done) return nullptr;
        place = oldest;
    }
    if (!has_room(*place)) return nullptr;  // Who has it keeps it.
    place->number_ = number;
    return place;
}

int32_t KeptWorkspaces::take(int64_t bytes, uint64_t number, Stream stream, Place **place) {
    *place = nullptr;
    if (number == 0 || bytes > kMostBytes) return ATTILE_OK;
    Place *found = nullptr;
    int64_t size = 0;
    {
        const std::lock_guard<std::mutex> guard(lock_);
        found = find_locked(number, bytes);
        if (found == nullptr) return ATTILE_OK;
        if (bytes > found->bytes_) {
            size = std::min(rounded(bytes), most_bytes_ - kept_bytes_ + found->bytes_);
            kept_bytes_ += size - found->bytes_;
        }
        found->is_taken_ = true;
        found->used_ = ++takes_;
    }
    const int32_t status = size > 0 ? grow(*found, size, stream) : ATTILE_OK;
    if (status == ATTILE_OK) {
        *place = found;
        return ATTILE_OK;
    }
    const std::lock_guard<std::mutex> guard(lock_);
    kept_bytes_ += found->bytes_ - size;
    found->is_taken_ = false;
    return status == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY ? ATTILE_OK : status;
}

// The memory before goes back in the stream's order; where there is no room for both, first.
int32_t KeptWorkspaces::grow(Place &place, int64_t bytes, Stream stream) {
    void *memory = nullptr;
    int32_t status = device_.pool_alloc(bytes, stream, &memory);
    if (status == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY && place.memory_ != nullptr) {
        status = drop(place, stream);
        if (status == ATTILE_OK) status = device_.pool_alloc(bytes, stream, &memory);
    }
    if (status != ATTILE_OK) return status;
    status = drop(place, stream);
    if (status != ATTILE_OK) {
        device_.pool_free(memory, stream);
        return status;
    }
    place.memory_ = memory;
    place.bytes_ = bytes;
    return ATTILE_OK;
}

int32_t KeptWorkspaces::drop(Place &place, Stream stream) {
    void *const memory = place.memory_;
    place.memory_ = nullptr;
    place.bytes_ = 0;
    return memory != nullptr ? device_.pool_free(memory, stream) : ATTILE_OK;
}

void KeptWorkspaces::give(Place *place, Stream stream) {
    const bool is_recorded = place->done_ == nullptr || device_.event_record(place->done_, stream) == ATTILE_OK;
    const std::lock_guard<std::mutex> guard(lock_);
    place->is_recorded_ = is_recorded;
    place->is_taken_ = false;
}

void KeptWorkspaces::forget(uint64_t number, Stream stream) {
    if (number == 0) return;
    const std::lock_guard<std::mutex> guard(lock_);
    for (Place &place : places_) {
        if (place.number_ != number || place.is_taken_) continue;
        kept_bytes_ -= place.bytes_;
        place.number_ = 0;
        place.is_recorded_ = true;
        drop(place, stream);
        return;
    }
}

}  // namespace attile::gpu
