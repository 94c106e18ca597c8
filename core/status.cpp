// SPDX-License-Identifier: Apache-2.0
// Status names, the version, and each thread's last error sentence.
#include "status.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace attile::core {
namespace {

// Plain data, so that a thread that ends runs no destructor of ours: the library may be gone from the host program's mind by then.
struct ErrorState {
    uint64_t count;
    char text[kErrorCapacity];
};
thread_local ErrorState error_state = {};

void note_failure() { ++error_state.count; }

}  // namespace

int32_t fail(int32_t status, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    if (std::vsnprintf(error_state.text, sizeof error_state.text, format, arguments) < 0) error_state.text[0] = '\0';
    va_end(arguments);
    note_failure();
    return status;
}

void set_error_text(const char *text) {
    // The text may be (part of) what error_text() gave out.
    const size_t length = text != nullptr ? strnlen(text, sizeof error_state.text - 1) : 0;
    if (length > 0) std::memmove(error_state.text, text, length);
    error_state.text[length] = '\0';
    note_failure();
}

const char *error_text() { return error_state.text; }

uint64_t error_count() { return error_state.count; }

KeptError::KeptError() : count_(error_state.count) { std::memcpy(text_, error_state.text, std::strlen(error_state.text) + 1); }

void KeptError::put_back() const {
    if (error_state.count != count_) std::memcpy(error_state.text, text_, std::strlen(text_) + 1);
}

}  // namespace attile::core

extern "C" {

int32_t attile_version(void) { return ATTILE_VERSION_MAJOR * 1000000 + ATTILE_VERSION_MINOR * 1000 + ATTILE_VERSION_PATCH; }

const char *attile_status_name(int32_t status) {
#define ATTILE_NAME_CASE(code) \
    case code:                 \
        return #code
    switch (status) {
        ATTILE_NAME_CASE(ATTILE_OK);
        ATTILE_NAME_CASE(ATTILE_ERROR_NULL_ARGUMENT);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_VALUE);
        ATTILE_NAME_CASE(ATTILE_ERROR_STRUCT_TOO_NEW);
        ATTILE_NAME_CASE(ATTILE_ERROR_STRUCT_SIZE);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_DTYPE);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_RANK);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_SHAPE);
        ATTILE_NAME_CASE(ATTILE_ERROR_SHAPE_MISMATCH);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_STRIDE);
        ATTILE_NAME_CASE(ATTILE_ERROR_OVERFLOW);
        ATTILE_NAME_CASE(ATTILE_ERROR_ALIASING);
        ATTILE_NAME_CASE(ATTILE_ERROR_MISALIGNED);
        ATTILE_NAME_CASE(ATTILE_ERROR_WORKSPACE_TOO_SMALL);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_FLAGS);
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_CONTEXT);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNSUPPORTED_OPERATION);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNSUPPORTED_DTYPE);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNSUPPORTED_FEATURE);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNSUPPORTED_SHAPE);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNSUPPORTED_MEMORY);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_NOT_FOUND);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_LOAD);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_INCOMPATIBLE);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_REFUSED);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_SELECTION);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_CONTRACT);
        ATTILE_NAME_CASE(ATTILE_ERROR_BACKEND_EXISTS);
        ATTILE_NAME_CASE(ATTILE_ERROR_OUT_OF_HOST_MEMORY);
        ATTILE_NAME_CASE(ATTILE_ERROR_OUT_OF_DEVICE_MEMORY);
        ATTILE_NAME_CASE(ATTILE_ERROR_UNKNOWN_POINTER);
        ATTILE_NAME_CASE(ATTILE_ERROR_DEVICE_FAULT);
        ATTILE_NAME_CASE(ATTILE_ERROR_DEVICE_LAUNCH);
        ATTILE_NAME_CASE(ATTILE_ERROR_DEVICE_RUNTIME);
        ATTILE_NAME_CASE(ATTILE_ERROR_AFTER_FORK);
        ATTILE_NAME_CASE(ATTILE_ERROR_INTERNAL);
        default:
            return "ATTILE_ERROR_UNKNOWN";
    }
#undef ATTILE_NAME_CASE
}

int64_t attile_last_error(char *buffer, int64_t capacity) {
    const char *text = attile::core::error_text();
    const int64_t length = static_cast<int64_t>(std::strlen(text));
    if (buffer != nullptr && capacity > 0) {
        const int64_t copied = length < capacity ? length : capacity - 1;
        std::memcpy(buffer, text, static_cast<size_t>(copied));
        buffer[copied] = '\0';
    }
    return length + 1;
}

}  // extern "C"
