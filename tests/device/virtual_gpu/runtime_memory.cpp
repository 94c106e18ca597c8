// SPDX-License-Identifier: Apache-2.0
// The runtime's memory: kernels may touch all that is dealt out here, whatever its kind.
#include <cstring>
#include <map>
#include <mutex>

#include "runtime.h"

struct CUmemPoolHandle_st {};

namespace attile::virtual_gpu {
namespace {

struct Piece {
    std::size_t bytes;
    int kind;
};
// Never destroyed, as dealt_memory.cpp's table.
struct Pieces {
    std::mutex lock;
    std::map<const unsigned char *, Piece> by_begin;
    std::size_t used = 0;  // Of the device's.

    // The piece that the pointer is in; null: the host's own.
    const Piece *find(const void *pointer, const unsigned char **begin) {
        auto next = by_begin.upper_bound(static_cast<const unsigned char *>(pointer));
        if (next == by_begin.begin()) return nullptr;
        --next;
        *begin = next->first;
        return static_cast<const unsigned char *>(pointer) - next->first < static_cast<std::ptrdiff_t>(next->second.bytes) ? &next->second
                                                                                                                           : nullptr;
    }
};
Pieces &pieces() {
    static Pieces &made = *new Pieces;
    return made;
}
bool is_the_devices(int kind) { return kind != cudaMemoryTypeHost; }

cudaError_t take(void **pointer, std::size_t bytes, int kind) {
    *pointer = nullptr;
    if (bytes == 0) return cudaSuccess;
    const std::lock_guard<std::mutex> guard(pieces().lock);
    if (is_the_devices(kind) && bytes > memory_bytes() - pieces().used) return cudaErrorMemoryAllocation;
    void *const memory = allocate(bytes);
    if (memory == nullptr) return cudaErrorMemoryAllocation;
    pieces().by_begin[static_cast<unsigned char *>(memory)] = {bytes, kind};
    if (is_the_devices(kind)) pieces().used += bytes;
    *pointer = memory;
    test::FailingCalls::instance().born();
    return cudaSuccess;
}

// Whether all bytes are of one piece, where the pointer is in any; `may_be_host`: or the host's.
bool is_whole(const void *pointer, std::size_t bytes, bool may_be_host) {
    const std::lock_guard<std::mutex> guard(pieces().lock);
    const unsigned char *begin = nullptr;
    const Piece *const piece = pieces().find(pointer, &begin);
    if (piece == nullptr) return may_be_host && pointer != nullptr;
    return piece->bytes - static_cast<std::size_t>(static_cast<const unsigned char *>(pointer) - begin) >= bytes;
}

cudaError_t copy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
    if (bytes == 0) return cudaSuccess;
    const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice,
               from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (!is_whole(to, bytes, !to_device) || !is_whole(from, bytes, !from_device)) return cudaErrorInvalidValue;
    return submit(stream, [=] { std::memmove(to, from, bytes); });
}

cudaError_t fill(void *to, int value, std::size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return cudaSuccess;
    if (!is_whole(to, bytes, false)) return cudaErrorInvalidValue;
    return submit(stream, [=] { std::memset(to, value, bytes); });
}

}  // namespace

int kind_of(const void *pointer) {
    const std::lock_guard<std::mutex> guard(pieces().lock);
    const unsigned char *begin = nullptr;
    const Piece *const piece = pieces().find(pointer, &begin);
    return piece != nullptr ? piece->kind : cudaMemoryTypeUnregistered;
}

bool take_back(void *pointer, int kind) {
    const std::lock_guard<std::mutex> guard(pieces().lock);
    const auto found = pieces().by_begin.find(static_cast<const unsigned char *>(pointer));
    if (found == pieces().by_begin.end() || (kind >= 0 && is_the_devices(kind) != is_the_devices(found->second.kind))) return false;
    if (is_the_devices(found->second.kind)) pieces().used -= found->second.bytes;
    pieces().by_begin.erase(found);
    test::FailingCalls::instance().dead();
    return release(pointer);
}

}  // namespace attile::virtual_gpu

using namespace attile::virtual_gpu;

ATTILE_EXPORT cudaError_t cudaMalloc(void **pointer, std::size_t bytes) {
    return answer(ATTILE_CALLER, [&] { return take(pointer, bytes, cudaMemoryTypeDevice); });
}
ATTILE_EXPORT cudaError_t cudaMallocManaged(void **pointer, std::size_t bytes, unsigned int) {
    return answer(ATTILE_CALLER, [&] { return take(pointer, bytes, cudaMemoryTypeManaged); });
}
ATTILE_EXPORT cudaError_t cudaHostAlloc(void **pointer, std::size_t bytes, unsigned int) {
    return answer(ATTILE_CALLER, [&] { return take(pointer, bytes, cudaMemoryTypeHost); });
}
ATTILE_EXPORT cudaError_t cudaFree(void *pointer) {
    return answer_ending(ATTILE_CALLER, [&] {
        return pointer == nullptr || take_back(pointer, cudaMemoryTypeDevice) ? cudaSuccess : cudaErrorInvalidValue;
    });
}
ATTILE_EXPORT cudaError_t cudaFreeHost(void *pointer) {
    return answer_ending(
        ATTILE_CALLER, [&] { return pointer == nullptr || take_back(pointer, cudaMemoryTypeHost) ? cudaSuccess : cudaErrorInvalidValue; });
}
ATTILE_EXPORT cudaError_t cudaMemGetInfo(std::size_t *free_bytes, std::size_t *all_bytes) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::mutex> guard(pieces().lock);
        *free_bytes = memory_bytes() - pieces().used;
        *all_bytes = memory_bytes();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaPointerGetAttributes(cudaPointerAttributes *attributes, const void *pointer) {
    return answer(ATTILE_CALLER, [&] {
        const std::lock_guard<std::mutex> guard(pieces().lock);
        const unsigned char *begin = nullptr;
        const Piece *const piece = pieces().find(pointer, &begin);
        *attributes = cudaPointerAttributes();
        attributes->type = piece != nullptr ? static_cast<cudaMemoryType>(piece->kind) : cudaMemoryTypeUnregistered;
        attributes->device = piece != nullptr ? 0 : -2;
        attributes->hostPointer = piece == nullptr || piece->kind != cudaMemoryTypeDevice ? const_cast<void *>(pointer) : nullptr;
        attributes->devicePointer = piece != nullptr ? const_cast<void *>(pointer) : nullptr;
        return cudaSuccess;
    });
}

ATTILE_EXPORT cudaError_t cudaMemcpy(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind) {
    return answer(ATTILE_CALLER, [&] { return copy(to, from, bytes, kind, nullptr); });
}
ATTILE_EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] { return copy(to, from, bytes, kind, stream); });
}
ATTILE_EXPORT cudaError_t cudaMemset(void *to, int value, std::size_t bytes) {
    return answer(ATTILE_CALLER, [&] { return fill(to, value, bytes, nullptr); });
}
ATTILE_EXPORT cudaError_t cudaMemsetAsync(void *to, int value, std::size_t bytes, cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] { return fill(to, value, bytes, stream); });
}
#if CUDART_VERSION >= 13000
ATTILE_EXPORT cudaError_t cudaMemPrefetchAsync(const void *pointer, std::size_t bytes, cudaMemLocation, unsigned int, cudaStream_t) {
#else
ATTILE_EXPORT cudaError_t cudaMemPrefetchAsync(const void *pointer, std::size_t bytes, int, cudaStream_t) {
#endif
    return answer(ATTILE_CALLER, [&] { return is_whole(pointer, bytes, false) ? cudaSuccess : cudaErrorInvalidValue; });
}

// A pool keeps nothing: each piece begins as NaN.
ATTILE_EXPORT cudaError_t cudaMemPoolCreate(cudaMemPool_t *pool, const cudaMemPoolProps *) {
    return answer(ATTILE_CALLER, [&] {
        *pool = new CUmemPoolHandle_st;
        attile::test::FailingCalls::instance().born();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool) {
    return answer_ending(ATTILE_CALLER, [&] {
        delete pool;
        attile::test::FailingCalls::instance().dead();
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void *) {
    return answer(ATTILE_CALLER, [] { return cudaSuccess; });
}
ATTILE_EXPORT cudaError_t cudaMallocFromPoolAsync(void **pointer, std::size_t bytes, cudaMemPool_t, cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] {
        std::shared_ptr<Recording> recording;
        cudaError_t error = recording_of(stream, &recording);
        if (error == cudaSuccess) error = take(pointer, bytes, cudaMemoryTypeDevice);
        if (error == cudaSuccess && recording != nullptr) recording->memory.push_back(*pointer);
        return error;
    });
}
ATTILE_EXPORT cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) {
    return answer_ending(ATTILE_CALLER, [&] {
        std::shared_ptr<Recording> recording;
        const cudaError_t error = recording_of(stream, &recording);
        if (error != cudaSuccess || recording != nullptr) return error;
        return take_back(pointer, cudaMemoryTypeDevice) ? cudaSuccess : cudaErrorInvalidValue;
    });
}
