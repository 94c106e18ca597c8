// SPDX-License-Identifier: Apache-2.0
// The walk over a block's contiguous runs. Runs of one element take a loop of their own, since memcpy of 4 bytes by a run-time size is
// slow.
#include "host/strided_copy.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace attile::gpu {

int64_t StridedBlock::count() const {
    int64_t product = 1;
    for (int32_t axis = 0; axis < rank; ++axis) product *= extent[axis];
    return product;
}

StridedBlock strided_block(const int64_t extent[4], const int64_t stride[4], int32_t element_bytes, int64_t dense_stride[4]) {
    int32_t order[4] = {0, 1, 2, 3};
    std::stable_sort(order, order + 4, [&](int32_t x, int32_t y) { return std::abs(stride[x]) > std::abs(stride[y]); });
    StridedBlock block;
    block.element_bytes = element_bytes;
    int32_t axis_of[4] = {};
    for (const int32_t axis : order) {
        dense_stride[axis] = 0;
        if (extent[axis] == 1 || stride[axis] == 0) continue;
        axis_of[block.rank] = axis;
        block.extent[block.rank] = extent[axis];
        block.stride[block.rank] = stride[axis];
        ++block.rank;
    }
    int64_t dense = 1;
    bool is_run = true;
    for (int32_t i = block.rank - 1; i >= 0; --i) {
        if (is_run && block.stride[i] == dense) {
            ++block.run_rank;
            block.run *= block.extent[i];
        } else {
            is_run = false;
        }
        dense_stride[axis_of[i]] = dense;
        dense *= block.extent[i];
    }
    return block;
}

namespace {

// Calls visit(dense element offset, memory element offset, elements) for each contiguous piece of the range.
template <class Visit>
void for_runs(const StridedBlock &block, int64_t first, int64_t count, Visit visit) {
    const int32_t outer = block.rank - block.run_rank;
    int64_t index[4] = {};
    int64_t rest = first / block.run;
    int64_t within = first % block.run;
    int64_t offset = 0;
    for (int32_t axis = outer - 1; axis >= 0; --axis) {
        index[axis] = rest % block.extent[axis];
        rest /= block.extent[axis];
        offset += index[axis] * block.stride[axis];
    }
    for (int64_t done = 0; done < count;) {
        const int64_t length = std::min(block.run - within, count - done);
        visit(done, offset + within, length);
        done += length;
        within = 0;
        for (int32_t axis = outer - 1; axis >= 0; --axis) {
            offset += block.stride[axis];
            if (++index[axis] < block.extent[axis]) break;
            offset -= block.extent[axis] * block.stride[axis];
            index[axis] = 0;
        }
    }
}

constexpr std::size_t kLongRun = 4096;       // Bytes that are worth a streaming copy,
constexpr int64_t kStreamedImage = 4 << 20;  // of an image that the next reader will hardly find in a cache.

// As memcpy, past the caches: memory that is only written need not be read first, which doubles the rate of several threads.
void stream_copy(void *to, const void *from, std::size_t bytes) {
#if defined(__SSE2__)
    char *target = static_cast<char *>(to);
    const char *source = static_cast<const char *>(from);
    const std::size_t head = -reinterpret_cast<uintptr_t>(target) % 64;
    std::memcpy(target, source, head);
    std::size_t at = head;
    for (; at + 64 <= bytes; at += 64) {
        __m128i line[4];
        for (int i = 0; i < 4; ++i) line[i] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + at) + i);
        for (int i = 0; i < 4; ++i) _mm_stream_si128(reinterpret_cast<__m128i *>(target + at) + i, line[i]);
    }
    _mm_sfence();
    std::memcpy(target + at, source + at, bytes - at);
#else
    std::memcpy(to, from, bytes);
#endif
}

template <int kBytes>
struct Element {
    unsigned char bytes[kBytes];
};

template <int kBytes, bool kToDense>
void copy_elements(void *dense, void *base, const StridedBlock &block, int64_t first, int64_t count) {
    using T = Element<kBytes>;
    T *image = static_cast<T *>(dense);
    T *memory = static_cast<T *>(base);
    const auto bytes = [](int64_t elements) { return static_cast<std::size_t>(elements) * kBytes; };
    const bool is_streamed = !kToDense && block.count() * kBytes >= kStreamedImage;
    for_runs(block, first, count, [&](int64_t at, int64_t offset, int64_t length) {
        if (length == 1) {
            if (kToDense) {
                image[at] = memory[offset];
            } else {
                memory[offset] = image[at];
            }
        } else if (is_streamed && bytes(length) >= kLongRun) {
            stream_copy(memory + offset, image + at, bytes(length));
        } else if (kToDense) {
            std::memcpy(image + at, memory + offset, bytes(length));
        } else {
            std::memcpy(memory + offset, image + at, bytes(length));
        }
    });
}

template <bool kToDense>
void copy_range(void *dense, void *base, const StridedBlock &block, int64_t first, int64_t count) {
    switch (block.element_bytes) {
        case 1:
            return copy_elements<1, kToDense>(dense, base, block, first, count);
        case 2:
            return copy_elements<2, kToDense>(dense, base, block, first, count);
        case 4:
            return copy_elements<4, kToDense>(dense, base, block, first, count);
        default:
            return copy_elements<8, kToDense>(dense, base, block, first, count);
    }
}

}  // namespace

void gather(void *dense, const void *base, const StridedBlock &block, int64_t first, int64_t count) {
    copy_range<true>(dense, const_cast<void *>(base), block, first, count);
}

void scatter(void *base, const void *dense, const StridedBlock &block, int64_t first, int64_t count) {
    copy_range<false>(const_cast<void *>(dense), base, block, first, count);
}

}  // namespace attile::gpu
