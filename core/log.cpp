// SPDX-License-Identifier: Apache-2.0
// Where log lines go: the receiver of attile_set_log(), else ATTILE_LOG_FILE, else standard error; and how many, by ATTILE_LOG.
#include "log.h"

#include <attile/attile.h>
#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "environment.h"
#include "guard.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr const char *kLevelNames[] = {"off", "error", "warn", "info", "debug", "trace"};
constexpr int32_t kUnread = -1;

struct Sink {
    attile_log_fn fn = nullptr;
    void *user = nullptr;
    int file = -1;  // of the environment's choice; opened once and left open
};

// Constant-initialised and of trivial destruction: usable from the first instruction of the process to the last.
std::atomic<int32_t> current_level{kUnread};
constinit std::mutex sink_lock;
constinit Sink sink;

// An unknown word means silence: a library does not speak up in its host over a misspelt variable.
int32_t level_of_environment() {
    const char *text = environment("ATTILE_LOG");
    if (text == nullptr) return ATTILE_LOG_OFF;
    for (int32_t level = ATTILE_LOG_OFF; level <= ATTILE_LOG_TRACE; ++level) {
        if (std::strcmp(text, kLevelNames[level]) == 0) return level;
    }
    return ATTILE_LOG_OFF;
}

// With the lock held.
int file_of_environment() {
    if (sink.file >= 0) return sink.file;
    const char *path = environment("ATTILE_LOG_FILE");
    if (path != nullptr && path[0] != '\0') {
        sink.file = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    }
    if (sink.file < 0) sink.file = STDERR_FILENO;
    return sink.file;
}

void write_line(int file, int32_t level, const char *text) {
    char line[1200];
    int length = std::snprintf(line, sizeof line, "attile %s: %s\n", kLevelNames[level], text);
    if (length < 0) return;
    if (length >= static_cast<int>(sizeof line)) {
        length = static_cast<int>(sizeof line) - 1;
        line[length - 1] = '\n';
    }
    const char *rest = line;  // one write() a line in all but freak cases, so lines of several threads do not mix
    while (length > 0) {
        const ssize_t done = write(file, rest, static_cast<size_t>(length));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return;
        rest += done;
        length -= static_cast<int>(done);
    }
}

}  // namespace

int32_t log_level() {
    int32_t level = current_level.load(std::memory_order_relaxed);
    if (level != kUnread) return level;
    const int32_t wanted = level_of_environment();
    return current_level.compare_exchange_strong(level, wanted, std::memory_order_relaxed) ? wanted : level;
}

void log_text(int32_t level, const char *text) {
    if (level <= ATTILE_LOG_OFF || level > ATTILE_LOG_TRACE || level > log_level() || text == nullptr) return;
    const int saved_errno = errno;
    try {
        Sink now;
        {
            const std::lock_guard<std::mutex> hold(sink_lock);
            if (sink.fn == nullptr) file_of_environment();
            now = sink;
        }
        if (now.fn != nullptr) {
            now.fn(now.user, level, text);  // outside the lock: a receiver may take its time
        } else {
            write_line(now.file, level, text);
        }
    } catch (...) {
        // A receiver that throws loses its line; the call that logged goes on.
    }
    errno = saved_errno;
}

void log(int32_t level, const char *format, ...) {
    if (level > log_level()) return;
    char text[1024];
    va_list values;
    va_start(values, format);
    const int length = std::vsnprintf(text, sizeof text, format, values);
    va_end(values);
    if (length >= 0) log_text(level, text);
}

}  // namespace attile::core

extern "C" int32_t attile_set_log(attile_log_fn fn, void *user, int32_t level) {
    using namespace attile::core;
    return guarded([&]() -> int32_t {
        if (level < ATTILE_LOG_OFF || level > ATTILE_LOG_TRACE) {
            return fail(ATTILE_ERROR_INVALID_VALUE, "attile_set_log: level is %d, expected 0 (off) to 5 (trace)", level);
        }
        const std::lock_guard<std::mutex> hold(sink_lock);
        sink.fn = fn;
        sink.user = user;
        current_level.store(fn != nullptr ? level : level_of_environment(), std::memory_order_relaxed);
        return ATTILE_OK;
    });
}
