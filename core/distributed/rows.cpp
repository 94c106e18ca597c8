// SPDX-License-Identifier: Apache-2.0
#include "distributed/rows.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <new>

#include "message.h"
#include "status.h"
#include "tensor.h"

namespace attile::core {
namespace {

constexpr std::align_val_t kBufferAlignment{64};

const unsigned char *address(const attile_tensor &image, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const int64_t index[4] = {i0, i1, i2, i3};
    int64_t offset = 0;
    for (int32_t axis = 0; axis < image.rank; ++axis) offset += index[axis] * image.stride[axis];
    return static_cast<const unsigned char *>(image.data) + offset * element_bytes(image.dtype);
}

double half_to_double(uint16_t bits) {
    const int exponent = bits >> 10 & 31;
    const double fraction = bits & 1023;
    double value = 0;
    if (exponent == 31) {
        value = fraction != 0 ? std::nan("") : HUGE_VAL;
    } else {
        value = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
    }
    return (bits & 0x8000) != 0 ? -value : value;
}

}  // namespace

int64_t product(std::initializer_list<int64_t> extents) {
    int64_t whole = 1;
    bool overflow = false;
    for (const int64_t extent : extents) {
        if (extent == 0) return 0;
        overflow |= __builtin_mul_overflow(whole, extent, &whole);
    }
    return overflow ? INT64_MAX : whole;
}

void Buffer::Free::operator()(unsigned char *memory) const {
    if (blocks != nullptr) return blocks->give({memory, bytes});
    ::operator delete(memory, kBufferAlignment);
}

int32_t Buffer::take(const char *operation, int64_t count, int64_t bytes, DeviceBlocks *blocks) {
    memory_.reset();
    int64_t whole = 0;
    void *memory = nullptr;
    const bool possible = !__builtin_mul_overflow(count, bytes, &whole) && whole < INT64_MAX / 2;
    if (possible && blocks != nullptr) {
        DeviceBlocks::Block block;
        ATTILE_TRY(blocks->take(operation, whole + 1, &block));
        memory_ = {static_cast<unsigned char *>(block.memory), Free{blocks, block.bytes}};
        return ATTILE_OK;
    }
    if (possible) memory = ::operator new(static_cast<size_t>(whole) + 1, kBufferAlignment, std::nothrow);
    if (memory == nullptr) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "%s: no host memory for %lld elements of %lld bytes", operation,
                    static_cast<long long>(count), static_cast<long long>(bytes));
    }
    memory_ = {static_cast<unsigned char *>(memory), Free{nullptr, 0}};
    return ATTILE_OK;
}

attile_tensor slice(attile_tensor tensor, int32_t axis, int64_t first, int64_t count, int64_t step) {
    // Nothing of an empty part is looked at, its address neither.
    if (tensor.data != nullptr && count > 0) {
        tensor.data = static_cast<unsigned char *>(tensor.data) + first * tensor.stride[axis] * element_bytes(tensor.dtype);
    }
    tensor.shape[axis] = count;
    tensor.stride[axis] *= step;
    return tensor;
}

attile_tensor slice_broadcast(attile_tensor tensor, int32_t axis, int64_t first, int64_t count, int64_t step) {
    return tensor.shape[axis] == 1 ? tensor : slice(tensor, axis, first, count, step);
}

attile_tensor with_four_axes(const attile_tensor &tensor) {
    attile_tensor wide = tensor;
    const int32_t missing = 4 - tensor.rank;
    for (int32_t axis = 0; axis < 4; ++axis) {
        wide.shape[axis] = axis < missing ? 1 : tensor.shape[axis - missing];
        wide.stride[axis] = axis < missing ? 0 : tensor.stride[axis - missing];
    }
    wide.rank = 4;
    return wide;
}

int32_t bring_to_host(attile_context *context, bool readable, void *stream, const attile_tensor &tensor, Buffer *copy,
                      attile_tensor *image) {
    *image = tensor;
    if (readable || tensor.data == nullptr || is_empty(tensor)) return ATTILE_OK;
    int32_t kind = ATTILE_MEMORY_HOST;
    ATTILE_TRY(attile_memory_kind(context, tensor.data, &kind));
    if (kind != ATTILE_MEMORY_DEVICE) return ATTILE_OK;
    int64_t below = 0, above = 0;
    if (!measure_tensor(tensor, &below, &above)) return fail(ATTILE_ERROR_OVERFLOW, "a tensor spans more than 63 bits of bytes");
    ATTILE_TRY(copy->take("copy", below + above, 1));
    ATTILE_TRY(attile_copy(context, copy->at(), static_cast<unsigned char *>(tensor.data) - below, below + above, stream));
    image->data = copy->at(below);
    return ATTILE_OK;
}

double read_number(const attile_tensor &image, int64_t i0, int64_t i1, int64_t i2, int64_t i3) {
    const unsigned char *from = address(image, i0, i1, i2, i3);
    if (image.dtype == ATTILE_F64) {
        double value = 0;
        std::memcpy(&value, from, sizeof value);
        return value;
    }
    if (image.dtype == ATTILE_F16) {
        uint16_t bits = 0;
        std::memcpy(&bits, from, sizeof bits);
        return half_to_double(bits);
    }
    uint32_t bits = 0;
    std::memcpy(&bits, from, static_cast<size_t>(element_bytes(image.dtype)));
    if (image.dtype == ATTILE_I32) return static_cast<int32_t>(bits);
    if (image.dtype == ATTILE_BF16) bits <<= 16;
    float value = 0;
    std::memcpy(&value, &bits, sizeof value);
    return static_cast<double>(value);
}

void pack_rows(const attile_tensor &image, int64_t row, int64_t rows, int64_t head, int64_t heads, void *to) {
    const int64_t width = image.shape[3];
    const size_t bytes = static_cast<size_t>(element_bytes(image.dtype));
    const bool dense = image.stride[3] == 1 || width == 1;
    unsigned char *target = static_cast<unsigned char *>(to);
    for (int64_t i = row; i < row + rows; ++i) {
        const int64_t from_row = image.shape[2] == 1 ? 0 : i;
        for (int64_t b = 0; b < image.shape[0]; ++b) {
            for (int64_t h = head; h < head + heads; ++h) {
                const unsigned char *from = address(image, b, h, from_row, 0);
                if (dense) {
                    std::memcpy(target, from, static_cast<size_t>(width) * bytes);
                    target += static_cast<size_t>(width) * bytes;
                    continue;
                }
                const int64_t step = image.stride[3] * static_cast<int64_t>(bytes);
                for (int64_t x = 0; x < width; ++x, target += bytes) std::memcpy(target, from + x * step, bytes);
            }
        }
    }
}

attile_tensor packed_view(void *data, int32_t dtype, int64_t rows, int64_t batch, int64_t heads, int64_t width) {
    attile_tensor view{};
    view.data = data;
    view.dtype = dtype;
    view.rank = 4;
    const int64_t shape[4] = {batch, heads, rows, width}, stride[4] = {heads * width, width, batch * heads * width, 1};
    for (int32_t axis = 0; axis < 4; ++axis) {
        view.shape[axis] = shape[axis];
        view.stride[axis] = stride[axis];
    }
    return view;
}

}  // namespace attile::core
