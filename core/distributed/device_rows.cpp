// SPDX-License-Identifier: Apache-2.0
#include "distributed/device_rows.h"

#include <algorithm>
#include <limits>

#include "distributed/rows.h"
#include "distributed/sums.h"
#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

constexpr int64_t kMostUnused = int64_t{2} << 30;

bool is_packed(const attile_tensor &tensor) {
    const int64_t *n = tensor.shape, *s = tensor.stride;
    const int64_t dense[4] = {n[1] * n[3], n[3], n[0] * n[1] * n[3], 1};
    for (int32_t axis = 0; axis < 4; ++axis) {
        if (n[axis] != 1 && s[axis] != dense[axis]) return false;
    }
    return true;
}

// One entry of a tensor with four axes, as three.
attile_tensor without_entries(const attile_tensor &entry) {
    attile_tensor rest = entry;
    rest.rank = 3;
    std::copy_n(entry.shape + 1, 3, rest.shape);
    std::copy_n(entry.stride + 1, 3, rest.stride);
    return rest;
}

}  // namespace

int32_t lie_on_device(attile_context *context, std::initializer_list<const attile_tensor *> tensors, bool *all) {
    *all = true;
    for (const attile_tensor *tensor : tensors) {
        int32_t kind = ATTILE_MEMORY_DEVICE;
        if (tensor->data != nullptr && !is_empty(*tensor)) ATTILE_TRY(attile_memory_kind(context, tensor->data, &kind));
        *all = *all && kind == ATTILE_MEMORY_DEVICE;
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

DeviceRows::~DeviceRows() {
    for (const DeviceBlocks::Block &block : {constants_, sums_}) {
        if (block.memory != nullptr) work_.blocks->give(block);
    }
}

int32_t DeviceRows::begin() {
    if (work_.blocks == nullptr) return ATTILE_OK;
    double constants[2];
    constants[0] = 0;  // the bytes of a float's, too
    store_number(constants + 1, work_.wide, 0, -std::numeric_limits<double>::infinity());
    ATTILE_TRY(work_.blocks->take(work_.operation, sizeof constants, &constants_));
    return attile_copy(work_.context, constants_.memory, constants, sizeof constants, work_.stream);
}

int32_t DeviceRows::settle() const { return work_.blocks == nullptr ? ATTILE_OK : attile_synchronize(work_.context, work_.stream); }

int32_t DeviceRows::copy(const attile_tensor &from, const attile_tensor &to) const {
    const int64_t bytes = product({to.shape[0], to.shape[1], to.shape[2], to.shape[3], element_bytes(to.dtype)});
    if (bytes == 0) return ATTILE_OK;
    if (from.dtype == to.dtype && is_packed(from) && is_packed(to))
        return attile_copy(work_.context, to.data, from.data, bytes, work_.stream);
    attile_tensor lse{};
    lse.data = constants_.memory;
    lse.dtype = from.dtype == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
    lse.rank = 3;
    std::copy_n(to.shape, 3, lse.shape);
    return merge_parts(work_, &from, &lse, 1, to, {});
}

int32_t DeviceRows::clear(const attile_tensor &tensor) const {
    attile_tensor zero = tensor;
    zero.data = constants_.memory;
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

int32_t DeviceRows::add(const attile_tensor &part, const attile_tensor &to) {
    int64_t below = 0, above = 0;
    if (product({to.shape[0], to.shape[1], to.shape[2], to.shape[3]}) == 0) return ATTILE_OK;
    if (!measure_tensor(to, &below, &above)) return fail(ATTILE_ERROR_OVERFLOW, "%s: sums span more than 63 bits", work_.operation);
    if (sums_.bytes < above) {
        if (sums_.memory != nullptr) work_.blocks->give(sums_);
        sums_ = {};
        ATTILE_TRY(work_.blocks->take(work_.operation, above, &sums_));
    }
    attile_tensor sums = to;
    sums.data = sums_.memory;
    const int64_t distance = static_cast<const char *>(part.data) - static_cast<const char *>(to.data);
    for (int64_t entry = 0; entry < to.shape[0]; ++entry) {
        attile_tensor both = slice(to, 0, entry, 1);
        both.shape[0] = 2;
        both.stride[0] = distance / element_bytes(to.dtype);
        ATTILE_TRY(sum(both, without_entries(slice(sums, 0, entry, 1))));
    }
    return copy(sums, to);
}

int32_t DeviceRows::forget(const attile_tensor &o, const attile_tensor &lse) const {
    attile_tensor o_part = o, lse_part = lse;
    o_part.data = constants_.memory;
    lse_part.data = static_cast<double *>(constants_.memory) + 1;
    std::fill_n(o_part.stride, 4, 0);
    std::fill_n(lse_part.stride, 3, 0);
    return merge_parts(work_, &o_part, &lse_part, 1, o, lse);
}

}  // namespace attile::core
