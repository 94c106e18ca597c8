// SPDX-License-Identifier: Apache-2.0
// Error sentences and log lines, composed in a fixed buffer so that reporting out of memory needs none.
#include "host/status.h"

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstring>

namespace attile::gpu {
namespace {

std::atomic<const attile_host_v1 *> the_host{nullptr};
thread_local FailureWatch *watching = nullptr;  // The innermost.

bool is_of_the_device(int32_t code) { return (code / 1000 == 4 || code / 1000 == 5) && code != ATTILE_ERROR_DEVICE_LAUNCH; }

}  // namespace

void set_host(const attile_host_v1 *host) { the_host.store(host, std::memory_order_release); }
const attile_host_v1 *host() { return the_host.load(std::memory_order_acquire); }
const char *environment(const char *variable) {
    const attile_host_v1 *const asked = host();
    return asked != nullptr ? asked->environment(variable) : nullptr;
}

int32_t fail(int32_t code, const char *format, ...) {
    const attile_host_v1 *listener = host();
    if (listener == nullptr) return code;
    char line[kLineBytes];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    listener->set_error(line);
    if (watching != nullptr && watching->code_ == ATTILE_OK && is_of_the_device(code)) {
        watching->code_ = code;
        std::memcpy(watching->sentence_, line, sizeof watching->sentence_);
    }
    return code;
}

FailureWatch::FailureWatch() : outer_(watching) { watching = this; }
FailureWatch::~FailureWatch() { watching = outer_; }
int32_t FailureWatch::status_of(int32_t status) const {
    if (code_ == ATTILE_OK) return status;
    if (const attile_host_v1 *listener = host()) listener->set_error(sentence_);
    return code_;
}

int32_t unsupported(attile_support *support, int32_t code, const char *format, ...) {
    support->level = ATTILE_SUPPORT_NONE;
    support->status = code;
    support->workspace_bytes = 0;
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(support->text, sizeof support->text, format, arguments);
    va_end(arguments);
    return ATTILE_OK;
}

void log_line(int32_t level, const char *format, ...) {
    const attile_host_v1 *listener = host();
    if (listener == nullptr || level > listener->log_level()) return;
    char line[kLineBytes];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    listener->log(level, line);
}

}  // namespace attile::gpu
