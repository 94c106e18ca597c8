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

// Sets the calling thread's error sentence and returns `status`, so that a check reads `return fail(...)`. A thread's first failure takes
// memory for its sentences; where there is none a constant stands for the sentence.
int32_t fail(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3), cold));

// The same for a sentence that is ready made. NULL counts as empty.
void set_error_text(const char *text);

// Whether the number is ATTILE_OK or one of the codes of attile.h.
bool is_status_code(int32_t status);

// The sentence as it stands; "" if there is none yet. Valid until this thread's next failure.
const char *error_text();

// What a backend says on this thread. It becomes the thread's sentence only if the call fails: one that succeeds leaves the last error as
// it is. forget_backend_words() goes before each call; backend_words() is "" if nothing was said since.
void set_backend_words(const char *text);
void forget_backend_words();
const char *backend_words();

inline constexpr int32_t kErrorCapacity = 1024;  // bytes of a sentence, its terminating zero counted

// Keeps a copy of the last error, which put_back() makes current again: for calls that succeed though a step of them failed.
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
