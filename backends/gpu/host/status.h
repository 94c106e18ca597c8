// SPDX-License-Identifier: Apache-2.0
// Error sentences and log lines of GPU backends: printf-like fronts of the host's callbacks.
#pragma once

#include <attile/attile_backend.h>

#include <cstdint>

#if defined(__GNUC__)
#define ATTILE_GPU_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define ATTILE_GPU_PRINTF(text, first)
#endif

namespace attile::gpu {

// Of a sentence or a log line.
inline constexpr int kLineBytes = 1024;

// The host that loaded the backend. Set once by the entry, before anything else runs; may stay unset in unit tests.
void set_host(const attile_host_v1 *host);
const attile_host_v1 *host();
// The environment's variable, as the host reads it; null if it is not set.
const char *environment(const char *variable);

// Sets the calling thread's error sentence and returns `code`.
int32_t fail(int32_t code, const char *format, ...) ATTILE_GPU_PRINTF(2, 3);

// Plans ask a device questions, and go on without an answer where it fails: to another plan, perhaps, than the one whose workspace was
// taken. While one of these lives, the thread's first failure is kept, for the call to fail with. Not one of ATTILE_ERROR_DEVICE_LAUNCH:
// that the device does not take a kernel is an answer.
class FailureWatch {
  public:
    FailureWatch();
    ~FailureWatch();
    FailureWatch(const FailureWatch &) = delete;
    FailureWatch &operator=(const FailureWatch &) = delete;
    // The failure if there was one, its sentence set again; else the status.
    int32_t status_of(int32_t status) const;

  private:
    friend int32_t fail(int32_t code, const char *format, ...);
    FailureWatch *outer_;
    int32_t code_ = ATTILE_OK;
    char sentence_[kLineBytes];  // Of a failure: not cleared for calls, of which nearly all succeed.
};

// Fills a support answer with level NONE, `code` and the sentence; returns ATTILE_OK, as a query does.
int32_t unsupported(attile_support *support, int32_t code, const char *format, ...) ATTILE_GPU_PRINTF(3, 4);

// Writes a log line if anybody listens at `level`.
void log_line(int32_t level, const char *format, ...) ATTILE_GPU_PRINTF(2, 3);

}  // namespace attile::gpu
