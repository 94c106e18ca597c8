// SPDX-License-Identifier: Apache-2.0
// Memory and streams. The context keeps a table of what it gave out, so that a foreign or a second free is an error and not a crash, and
// nothing outlives the context.
#include <attile/attile.h>

#include <cstring>

#include "backend_call.h"
#include "context.h"
#include "guard.h"
#include "log.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr uintptr_t kAlignment = 256;

// Runs one entry of a backend's table and words its failure. A NULL entry is an operation that the backend does not have.
template <typename Entry, typename... Values>
int32_t forward(Context *context, const char *operation, Entry *entry, Values... values) {
    log(ATTILE_LOG_DEBUG, "%s", operation);
    if (entry == nullptr) {
        return fail(ATTILE_ERROR_UNSUPPORTED_OPERATION, "%s: backend '%s' does not have it", operation, context->backend_name);
    }
    std::string why;
    const int32_t status = call_backend(&why, [&] { return entry(context->state, values...); });
    if (status != ATTILE_OK) return fail(status, "%s: backend '%s': %s", operation, context->backend_name, why.c_str());
    return ATTILE_OK;
}

int32_t check_bytes(const char *operation, int64_t bytes) {
    if (bytes >= 0) return ATTILE_OK;
    return fail(ATTILE_ERROR_INVALID_VALUE, "%s: bytes is %lld, expected 0 or more", operation, static_cast<long long>(bytes));
}

bool overlap(const void *a, const void *b, int64_t bytes) {
    const auto x = reinterpret_cast<uintptr_t>(a);
    const auto y = reinterpret_cast<uintptr_t>(b);
    return (x > y ? x - y : y - x) < static_cast<uint64_t>(bytes);
}

// Hands `undo` what the table could not take: without the entry, nobody could ever give it back.
template <typename Insert, typename Undo>
void insert_or_undo(Context *context, Insert &&insert, Undo &&undo) {
    try {
        const std::lock_guard<std::mutex> hold(context->owned);
        insert();
    } catch (...) {
        undo();
        throw;
    }
}

int32_t allocate(attile_context *handle, int32_t kind, int64_t bytes, void **pointer) {
    constexpr const char *kName = "alloc";
    if (pointer == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: pointer is NULL", kName);
    *pointer = nullptr;
    Context *context = nullptr;
    int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK) return status;
    if (kind < ATTILE_MEMORY_HOST || kind > ATTILE_MEMORY_DEVICE) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: kind is %d, expected an ATTILE_MEMORY_ constant, 0 to 3", kName, kind);
    }
    status = check_bytes(kName, bytes);
    if (status != ATTILE_OK || bytes == 0) return status;
    const attile_memory_interface &memory = *context->interfaces.memory;
    // One without the other would give out memory that nobody can give back.
    if (memory.free == nullptr) {
        return fail(ATTILE_ERROR_UNSUPPORTED_OPERATION, "%s: backend '%s' does not have it", kName, context->backend_name);
    }
    void *made = nullptr;
    status = forward(context, kName, memory.alloc, kind, bytes, &made);
    if (status != ATTILE_OK) return status;
    const auto release = [&] { (void)forward(context, kName, memory.free, kind, made); };
    if (made == nullptr || reinterpret_cast<uintptr_t>(made) % kAlignment != 0) {
        if (made != nullptr) release();
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: backend '%s' gave %p, expected a multiple of 256", kName, context->backend_name,
                    made);
    }
    bool is_new = false;
    insert_or_undo(
        context, [&] { is_new = context->allocations.emplace(made, kind).second; }, release);
    if (!is_new) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: backend '%s' gave %p, which is in use", kName, context->backend_name, made);
    }
    *pointer = made;
    return ATTILE_OK;
}

int32_t release(attile_context *handle, void *pointer) {
    constexpr const char *kName = "free";
    Context *context = nullptr;
    const int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK || pointer == nullptr) return status;
    int32_t kind = 0;
    {
        // Out of the table first: of two threads that free the same pointer one gets the error, and none frees it twice.
        const std::lock_guard<std::mutex> hold(context->owned);
        const auto found = context->allocations.find(pointer);
        if (found == context->allocations.end()) {
            return fail(ATTILE_ERROR_UNKNOWN_POINTER, "%s: %p was not given out by this context, or was freed before", kName, pointer);
        }
        kind = found->second;
        context->allocations.erase(found);
    }
    return forward(context, kName, context->interfaces.memory->free, kind, pointer);
}

int32_t copy(attile_context *handle, void *destination, const void *source, int64_t bytes, void *stream) {
    constexpr const char *kName = "copy";
    Context *context = nullptr;
    int32_t status = find_context(handle, &context);
    if (status == ATTILE_OK) status = check_bytes(kName, bytes);
    if (status != ATTILE_OK || bytes == 0) return status;
    if (destination == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: destination is NULL", kName);
    if (source == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: source is NULL", kName);
    if (overlap(destination, source, bytes)) {
        return fail(ATTILE_ERROR_ALIASING, "%s: %lld bytes at destination %p and at source %p overlap", kName,
                    static_cast<long long>(bytes), destination, source);
    }
    return forward(context, kName, context->interfaces.memory->copy, destination, source, bytes, stream);
}

int32_t prefetch(attile_context *handle, const void *pointer, int64_t bytes, int32_t kind, void *stream) {
    constexpr const char *kName = "prefetch";
    Context *context = nullptr;
    int32_t status = find_context(handle, &context);
    if (status == ATTILE_OK) status = check_bytes(kName, bytes);
    if (status != ATTILE_OK) return status;
    if (kind != ATTILE_MEMORY_DEVICE && kind != ATTILE_MEMORY_HOST) {
        return fail(ATTILE_ERROR_INVALID_VALUE, "%s: kind is %d, expected ATTILE_MEMORY_DEVICE (3) or ATTILE_MEMORY_HOST (0)", kName, kind);
    }
    if (bytes == 0) return ATTILE_OK;
    if (pointer == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: pointer is NULL", kName);
    return forward(context, kName, context->interfaces.memory->prefetch, pointer, bytes, kind, stream);
}

int32_t memory_kind(attile_context *handle, const void *pointer, int32_t *kind) {
    constexpr const char *kName = "memory_kind";
    Context *context = nullptr;
    int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK) return status;
    if (kind == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: kind is NULL", kName);
    int32_t found = ATTILE_MEMORY_HOST;
    status = forward(context, kName, context->interfaces.memory->memory_kind, pointer, &found);
    if (status != ATTILE_OK) return status;
    if (found < ATTILE_MEMORY_HOST || found > ATTILE_MEMORY_DEVICE) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: backend '%s' answered %d, expected an ATTILE_MEMORY_ constant, 0 to 3", kName,
                    context->backend_name, found);
    }
    *kind = found;
    return ATTILE_OK;
}

int32_t stream_create(attile_context *handle, void **stream) {
    constexpr const char *kName = "stream_create";
    if (stream == nullptr) return fail(ATTILE_ERROR_NULL_ARGUMENT, "%s: stream is NULL", kName);
    *stream = nullptr;
    Context *context = nullptr;
    int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK) return status;
    const attile_device_interface &device = *context->interfaces.device;
    // One without the other would make streams that nobody can end.
    if (device.stream_destroy == nullptr) {
        return fail(ATTILE_ERROR_UNSUPPORTED_OPERATION, "%s: backend '%s' does not have it", kName, context->backend_name);
    }
    void *made = nullptr;
    status = forward(context, kName, device.stream_create, &made);
    if (status != ATTILE_OK) return status;
    if (made == nullptr) return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: backend '%s' gave a NULL stream", kName, context->backend_name);
    bool is_new = false;
    insert_or_undo(
        context, [&] { is_new = context->streams.insert(made).second; },
        [&] { (void)forward(context, kName, device.stream_destroy, made); });
    if (!is_new) {
        return fail(ATTILE_ERROR_BACKEND_CONTRACT, "%s: backend '%s' gave %p, which is in use", kName, context->backend_name, made);
    }
    *stream = made;
    return ATTILE_OK;
}

int32_t stream_destroy(attile_context *handle, void *stream) {
    constexpr const char *kName = "stream_destroy";
    Context *context = nullptr;
    const int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK || stream == nullptr) return status;
    {
        const std::lock_guard<std::mutex> hold(context->owned);
        if (context->streams.erase(stream) == 0) {
            return fail(ATTILE_ERROR_UNKNOWN_POINTER, "%s: %p is not a stream of this context, or was destroyed before", kName, stream);
        }
    }
    return forward(context, kName, context->interfaces.device->stream_destroy, stream);
}

int32_t synchronize(attile_context *handle, void *stream) {
    Context *context = nullptr;
    const int32_t status = find_context(handle, &context);
    if (status != ATTILE_OK) return status;
    return forward(context, "synchronize", context->interfaces.device->synchronize, stream);
}

}  // namespace
}  // namespace attile::core

extern "C" {

int32_t attile_alloc(attile_context *context, int32_t kind, int64_t bytes, void **pointer) {
    return attile::core::guarded([&] { return attile::core::allocate(context, kind, bytes, pointer); });
}

int32_t attile_free(attile_context *context, void *pointer) {
    return attile::core::guarded([&] { return attile::core::release(context, pointer); });
}

int32_t attile_copy(attile_context *context, void *destination, const void *source, int64_t bytes, void *stream) {
    return attile::core::guarded([&] { return attile::core::copy(context, destination, source, bytes, stream); });
}

int32_t attile_prefetch(attile_context *context, const void *pointer, int64_t bytes, int32_t kind, void *stream) {
    return attile::core::guarded([&] { return attile::core::prefetch(context, pointer, bytes, kind, stream); });
}

int32_t attile_memory_kind(attile_context *context, const void *pointer, int32_t *kind) {
    return attile::core::guarded([&] { return attile::core::memory_kind(context, pointer, kind); });
}

int32_t attile_stream_create(attile_context *context, void **stream) {
    return attile::core::guarded([&] { return attile::core::stream_create(context, stream); });
}

int32_t attile_stream_destroy(attile_context *context, void *stream) {
    return attile::core::guarded([&] { return attile::core::stream_destroy(context, stream); });
}

int32_t attile_synchronize(attile_context *context, void *stream) {
    return attile::core::guarded([&] { return attile::core::synchronize(context, stream); });
}

}  // extern "C"
