// SPDX-License-Identifier: Apache-2.0
// The calling thread's last error sentence and the way every failure is made: fail(code, "sentence").
#ifndef ATTILE_CORE_STATUS_H
#define ATTILE_CORE_STATUS_H

#include <attile/attile.h>

#include <cstdint>

// Returns from the calling function if a step of it failed.
#define ATTILE_TRY(step)                                              \
    do {                                                              \
        const int32_t attile_try_status = (step);                     \
        if (attile_try_status != ATTILE_OK) return attile_try_status; \
    } while (false)

namespace attile::core {

// Sets the calling thread's error sentence and returns `status`, so that a check reads `return fail(...)`. Allocates nothing: it must
// also work when memory has run out.
int32_t fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

// The same for a sentence that is ready made, e.g. a backend's. NULL counts as empty.
void set_error_text(const char *text);

// The sentence as it stands; "" if there is none yet. Valid until this thread's next failure.
const char *error_text();

// Counts the sentences this thread has set. Comparing it before and after a call into a backend tells whether the backend explained itself.
uint64_t error_count();

inline constexpr int32_t kErrorCapacity = 1024;  // bytes of a sentence, its terminating zero counted

// A call that succeeds leaves the last error as it is, whatever was said on the way: keeps a copy, which put_back() makes current again.
class KeptError {
  public:
    KeptError();
    void put_back() const;

  private:
    uint64_t count_;
    char text_[kErrorCapacity];
};

}  // namespace attile::core

#endif
