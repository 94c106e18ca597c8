// SPDX-License-Identifier: Apache-2.0
#include "distributed/device_rows.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <limits>
#include <thread>

#include "distributed/rows.h"
#include "distributed/sums.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

constexpr int64_t kMostUnused = int64_t{2} << 30;
constexpr uint32_t kNumbers = 256;               // marks that can be told apart
constexpr std::chrono::milliseconds kAwake{10};  // then a wait sleeps between two looks
constexpr std::chrono::microseconds kNap{50};

// One entry of a tensor with four axes, as three.
attile_tensor without_entries(const attile_tensor &entry) {
    attile_tensor rest = entry;
    rest.rank = 3;
    std::copy_n(entry.shape + 1, 3, rest.shape);
    std::copy_n(entry.stride + 1, 3, rest.stride);
    return rest;
}

// So many lines of `count` elements each.
attile_tensor lined_up(const attile_tensor &first, int64_t lines, int64_t distance, int64_t count) {
    attile_tensor all = first;
    all.rank = lines == 1 ? 1 : 2;
    all.shape[0] = lines;
    all.stride[0] = distance;
    all.shape[all.rank - 1] = count;
    all.stride[all.rank - 1] = 1;
    return all;
}

}  // namespace

bool is_packed(const attile_tensor &tensor) {
    const int64_t *n = tensor.shape, *s = tensor.stride;
    const int64_t dense[4] = {n[1] * n[3], n[3], n[0] * n[1] * n[3], 1};
    for (int32_t axis = 0; axis < 4; ++axis) {
        if (n[axis] != 1 && s[axis] != dense[axis]) return false;
    }
    return true;
}

int32_t lie_on_device(attile_context *context, std::initializer_list<const attile_tensor *> tensors, bool *all) {
    *all = true;
    for (const attile_tensor *tensor : tensors) {
        int32_t kind = ATTILE_MEMORY_DEVICE;
        if (tensor->data != nullptr && !is_empty(*tensor)) ATTILE_TRY(attile_memory_kind(context, tensor->data, &kind));
        *all = *all && kind == ATTILE_MEMORY_DEVICE;
    }
    return ATTILE_OK;
}

// As they lie on the device.
struct DeviceBlocks::Constants {
    double zero;
    double nothing;
    float narrow_nothing;
    uint32_t numbers[kNumbers];
};

DeviceBlocks::~DeviceBlocks() {
    release();
    const KeptError before;
    (void)attile_free(context_, constants_.memory);
    (void)attile_free(context_, reached_);
    before.put_back();
}

int32_t DeviceBlocks::begin(const char *operation, void *stream) {
    if (begun_) return ATTILE_OK;
    if (reached_ == nullptr) {
        void *pinned = nullptr;
        ATTILE_TRY(attile_alloc(context_, ATTILE_MEMORY_PINNED, 2 * sizeof *reached_, &pinned));
        reached_ = static_cast<uint32_t *>(pinned);
        *reached_ = 0;
    }
    if (constants_.memory == nullptr) ATTILE_TRY(take(operation, sizeof(Constants), &constants_));
    Constants constants{};
    constants.nothing = -std::numeric_limits<double>::infinity();
    constants.narrow_nothing = -std::numeric_limits<float>::infinity();
    for (uint32_t i = 0; i < kNumbers; ++i) constants.numbers[i] = i;
    ATTILE_TRY(attile_copy(context_, constants_.memory, &constants, sizeof constants, stream));
    begun_ = true;
    return ATTILE_OK;
}

void *DeviceBlocks::nothing(int32_t wide) const {
    const size_t at = wide == ATTILE_F64 ? offsetof(Constants, nothing) : offsetof(Constants, narrow_nothing);
    return static_cast<unsigned char *>(constants_.memory) + at;
}

int32_t DeviceBlocks::copy_number(uint32_t number, uint32_t *to, void *stream) {
    const unsigned char *from = static_cast<unsigned char *>(constants_.memory) + offsetof(Constants, numbers);
    return attile_copy(context_, to, from + number % kNumbers * sizeof number, sizeof number, stream);
}

int32_t DeviceBlocks::mark(void *stream, uint32_t *made) {
    *made = ++marks_;
    return copy_number(marks_, reached_, stream);
}

bool DeviceBlocks::is_reached(uint32_t mark) const {
    return (std::atomic_ref(*reached_).load(std::memory_order_acquire) - mark) % kNumbers < kNumbers / 2;
}

int32_t DeviceBlocks::wait_for(uint32_t mark, void *stream) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    Clock::time_point next = begin + kAwake;
    for (uint32_t looks = 1; !is_reached(mark); ++looks) {
        if (looks % 16 == 0) std::this_thread::yield();
        const Clock::time_point now = Clock::now();
        if (now - begin < kAwake) continue;
        std::this_thread::sleep_for(kNap);
        if (now < next) continue;
        // A device that has failed reaches no mark, and says so when more is asked of it.
        ATTILE_TRY(copy_number(0, reached_ + 1, stream));
        next = now + (now - begin);
    }
    return ATTILE_OK;
}

void DeviceBlocks::release() {
    const KeptError before;
    for (const Block &block : unused_) (void)attile_free(context_, block.memory);
    before.put_back();
    unused_.clear();
    unused_bytes_ = 0;
}

int32_t DeviceBlocks::take(const char *operation, int64_t bytes, Block *block) {
    Block *fits = nullptr;
    for (Block &one : unused_) {
        if (one.bytes >= bytes && one.bytes / 2 <= bytes && (fits == nullptr || one.bytes < fits->bytes)) fits = &one;
    }
    if (fits != nullptr) {
        ++used_;
        *block = *fits;
        unused_bytes_ -= fits->bytes;
        *fits = unused_.back();
        unused_.pop_back();
        return ATTILE_OK;
    }
    unused_.reserve(unused_.size() + used_ + 1);  // so that giving blocks back takes no memory
    void *memory = nullptr;
    int32_t status = attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory);
    if (status == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY && !unused_.empty()) {
        release();
        status = attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &memory);
    }
    if (status == ATTILE_ERROR_OUT_OF_DEVICE_MEMORY) {
        return fail(status, "%s: no device memory for %lld bytes", operation, static_cast<long long>(bytes));
    }
    ATTILE_TRY(status);
    ++used_;
    *block = {memory, bytes};
    return ATTILE_OK;
}

void DeviceBlocks::give(const Block &block) {
    --used_;
    if (unused_bytes_ + block.bytes <= kMostUnused) {
        unused_.push_back(block);
        unused_bytes_ += block.bytes;
        return;
    }
    const KeptError before;
    (void)attile_free(context_, block.memory);
    before.put_back();
}

int32_t DeviceRows::settle() const { return work_.blocks == nullptr ? ATTILE_OK : attile_synchronize(work_.context, work_.stream); }

int32_t DeviceRows::copy(const attile_tensor &from, const attile_tensor &to) const {
    const int64_t bytes = product({to.shape[0], to.shape[1], to.shape[2], to.shape[3], element_bytes(to.dtype)});
    if (bytes == 0) return ATTILE_OK;
    if (from.dtype == to.dtype && is_packed(from) && is_packed(to))
        return attile_copy(work_.context, to.data, from.data, bytes, work_.stream);
    attile_tensor lse{};
    lse.data = work_.blocks->zero();
    lse.dtype = from.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    lse.rank = 3;
    std::copy_n(to.shape, 3, lse.shape);
    return merge_parts(work_, &from, &lse, 1, to, {});
}

int32_t DeviceRows::clear(const attile_tensor &tensor) const {
    attile_tensor zero = tensor;
    zero.data = work_.blocks->zero();
    std::fill_n(zero.stride, 4, 0);
    return copy(zero, tensor);
}

int32_t DeviceRows::sum(const attile_tensor &parts, const attile_tensor &to) const {
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    args.stream = work_.stream;
    args.x = parts;
    args.y = to;
    args.y.rank = parts.rank;
    args.y.shape[0] = 1;
    args.y.stride[0] = 0;
    std::copy_n(to.shape, to.rank, args.y.shape + 1);
    std::copy_n(to.stride, to.rank, args.y.stride + 1);
    args.op = ATTILE_REDUCE_SUM;
    return attile_reduce(work_.context, &args);
}

int32_t DeviceRows::add(const attile_tensor &one, const attile_tensor &other, const attile_tensor &to) const {
    const int64_t count = product({to.shape[0], to.shape[1], to.shape[2], to.shape[3]});
    if (count == 0) return ATTILE_OK;
    const int64_t distance = (static_cast<const char *>(other.data) - static_cast<const char *>(one.data)) / element_bytes(to.dtype);
    if (is_packed(to)) return sum(lined_up(one, 2, distance, count), lined_up(to, 1, 0, count));
    for (int64_t entry = 0; entry < to.shape[0]; ++entry) {
        attile_tensor both = slice(one, 0, entry, 1);
        both.shape[0] = 2;
        both.stride[0] = distance;
        ATTILE_TRY(sum(both, without_entries(slice(to, 0, entry, 1))));
    }
    return ATTILE_OK;
}

int32_t DeviceRows::forget(const attile_tensor &o, const attile_tensor &lse) const {
    attile_tensor o_part = o, lse_part = lse;
    o_part.data = work_.blocks->zero();
    lse_part.data = work_.blocks->nothing(work_.wide);
    std::fill_n(o_part.stride, 4, 0);
    std::fill_n(lse_part.stride, 3, 0);
    return merge_parts(work_, &o_part, &lse_part, 1, o, lse);
}

}  // namespace attile::core
