// SPDX-License-Identifier: Apache-2.0
// Status names, the version, and each thread's last error sentence.
#include "status.h"

#include <attile/attile_distributed.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "message.h"
#include "this_thread.h"

namespace attile::core {
namespace {

// What a thread keeps in memory of its own, freed when it ends.
struct Sentences {
    char error[kErrorCapacity];
    char backend[kErrorCapacity];
};

// The thread's variables themselves are few: a library that is loaded late gets little room for them (see AttileCompiler.cmake).
struct ErrorState {
    Sentences *sentences;  // NULL until the first failure, and where there was no memory
    uint64_t count;        // of failures
    bool backend_spoke;
};
constinit thread_local ErrorState state = {};

constexpr const char *kNoRoom = "there was no memory left for a sentence about this failure";

Sentences *make_sentences() {
    Sentences *made = static_cast<Sentences *>(std::malloc(sizeof(Sentences)));
    if (made == nullptr) return nullptr;
    if (!forget_at_thread_end(made)) {
        std::free(made);
        return nullptr;
    }
    made->error[0] = made->backend[0] = '\0';
    return made;
}

Sentences *sentences() {
    if (state.sentences == nullptr) state.sentences = make_sentences();
    return state.sentences;
}

// `text` may be (part of) `target`.
void copy_sentence(const char *text, char *target) {
    const size_t length = text != nullptr ? strnlen(text, kErrorCapacity - 1) : 0;
    if (length > 0) std::memmove(target, text, length);
    target[length] = '\0';
    make_printable(target);
}

}  // namespace

int32_t fail(int32_t status, const char *format, ...) {
    ++state.count;
    Sentences *own = sentences();
    if (own == nullptr) return status;
    va_list arguments;
    va_start(arguments, format);
    if (std::vsnprintf(own->error, sizeof own->error, format, arguments) < 0) own->error[0] = '\0';
    va_end(arguments);
    make_printable(own->error);
    return status;
}

void set_error_text(const char *text) {
    ++state.count;
    if (Sentences *own = sentences()) copy_sentence(text, own->error);
}

const char *error_text() { return state.sentences != nullptr ? state.sentences->error : state.count != 0 ? kNoRoom : ""; }

void set_backend_words(const char *text) {
    state.backend_spoke = false;
    if (text == nullptr || text[0] == '\0') return;
    Sentences *own = sentences();
    if (own == nullptr) return;
    copy_sentence(text, own->backend);
    state.backend_spoke = true;
}

void forget_backend_words() { state.backend_spoke = false; }

const char *backend_words() { return state.backend_spoke ? state.sentences->backend : ""; }

bool is_status_code(int32_t status) { return std::strcmp(attile_status_name(status), "ATTILE_ERROR_UNKNOWN") != 0; }

KeptError::KeptError() : count_(state.count) {
    const char *text = error_text();
    std::memcpy(text_, text, std::strlen(text) + 1);
}

void KeptError::put_back() const {
    if (state.count == count_) return;
    state.count = count_;
    if (state.sentences != nullptr) std::memcpy(state.sentences->error, text_, std::strlen(text_) + 1);
}

}  // namespace attile::core

extern "C" {

void attile_forget_sentences(void *memory) {
    std::free(memory);
    attile::core::state.sentences = nullptr;
}

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
        ATTILE_NAME_CASE(ATTILE_ERROR_INVALID_COMM);
        ATTILE_NAME_CASE(ATTILE_ERROR_RANKS_DISAGREE);
        ATTILE_NAME_CASE(ATTILE_ERROR_RANK_FAILED);
        ATTILE_NAME_CASE(ATTILE_ERROR_RANK_LATE);
        ATTILE_NAME_CASE(ATTILE_ERROR_TRANSPORT);
        ATTILE_NAME_CASE(ATTILE_ERROR_COMM_BROKEN);
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
