// SPDX-License-Identifier: Apache-2.0
// Where log lines go: the receiver of attile_set_log(), else ATTILE_LOG_FILE, else standard error; and how many, by ATTILE_LOG.
#include "log.h"

#include <attile/attile.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>

#include "environment.h"
#include "fork.h"
#include "guard.h"
#include "log_sink.h"
#include "message.h"
#include "status.h"

namespace attile::core {
namespace {

constexpr const char *kLevelNames[] = {"off", "error", "warn", "info", "debug", "trace"};
constexpr int32_t kUnread = -1;

struct Receiver {
    attile_log_fn fn = nullptr;
    void *user = nullptr;
};

// Constant-initialised and of trivial destruction: usable from the first instruction of the process to the last. The receiver is guarded
// by locks.log, and so is a change of the level, which is read without.
constinit std::atomic<int32_t> current_level{kUnread};
constinit Receiver receiver;

// An unknown word means silence: a library does not speak up in its host over a misspelt variable.
int32_t level_of_environment() {
    const char *text = environment("ATTILE_LOG");
    if (text == nullptr) return ATTILE_LOG_OFF;
    for (int32_t level = ATTILE_LOG_OFF; level <= ATTILE_LOG_TRACE; ++level) {
        if (std::strcmp(text, kLevelNames[level]) == 0) return level;
    }
    return ATTILE_LOG_OFF;
}

void write_line(const LogFile &file, int32_t level, const char *text) {
    if (file.descriptor < 0) return;
    char line[1200];
    int length = std::snprintf(line, sizeof line, "attile %s: %s\n", kLevelNames[level], text);
    if (length < 0) return;
    if (length >= static_cast<int>(sizeof line)) {
        length = static_cast<int>(sizeof line) - 1;
        line[length - 1] = '\n';
    }
    write_log_line(file, line, length);
}

// `text` has been made printable.
void deliver(int32_t level, const char *text) {
    Receiver now;
    LogFile file;
    const char *complaint = nullptr;
    {
        const std::lock_guard<std::mutex> hold(locks.log);
        if (level > log_level()) return;  // attile_set_log() came between
        now = receiver;
        if (now.fn == nullptr) file = log_file(&complaint);
    }
    if (complaint != nullptr) {
        char words[256];
        std::snprintf(words, sizeof words, "ATTILE_LOG_FILE is not used: %s", complaint);
        write_line(file, ATTILE_LOG_WARN, words);
    }
    if (now.fn != nullptr) {
        now.fn(now.user, level, text);  // outside the lock: a receiver may take its time
    } else {
        write_line(file, level, text);
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
    char line[1024];
    std::snprintf(line, sizeof line, "%s", text);
    make_printable(line);
    try {
        deliver(level, line);
    }
    ATTILE_LET_THREADS_END
    catch (...) {
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
        const std::lock_guard<std::mutex> hold(locks.log);
        receiver = {fn, user};
        current_level.store(fn != nullptr ? level : level_of_environment(), std::memory_order_relaxed);
        return ATTILE_OK;
    });
}
