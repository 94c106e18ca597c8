// SPDX-License-Identifier: Apache-2.0
// The border of every public function: no exception crosses it, and no thread is cancelled inside.
#ifndef ATTILE_CORE_GUARD_H
#define ATTILE_CORE_GUARD_H

#include <cxxabi.h>
#include <pthread.h>

#include <cstdint>
#include <exception>
#include <new>

#include "status.h"

// Goes before a catch (...). glibc ends a thread (pthread_exit, which a program's log receiver may call) by an exception that must not be
// kept: it passes, and what it passes is left in order by destructors.
#ifdef __GLIBCXX__
#define ATTILE_LET_THREADS_END             \
    catch (const abi::__forced_unwind &) { \
        throw;                             \
    }
#else
#define ATTILE_LET_THREADS_END
#endif

namespace attile::core {

// Cancellation waits until a call is over, so that none is left half done. What is pending then takes effect at the program's own next
// cancellation point.
class NoCancellation {
  public:
    NoCancellation() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
    // A thread that asked for asynchronous cancellation may end right here.
    ~NoCancellation() noexcept(false) {
        int disabled = 0;
        pthread_setcancelstate(before_, &disabled);
    }
    NoCancellation(const NoCancellation &) = delete;
    NoCancellation &operator=(const NoCancellation &) = delete;

  private:
    int before_ = PTHREAD_CANCEL_ENABLE;
};

// Runs `body`, which returns a status, and turns whatever it throws into one. Every public function that does more than copy runs in here.
template <typename Body>
int32_t guarded(Body &&body) {
    const NoCancellation whole;
    try {
        return body();
    }
    ATTILE_LET_THREADS_END
    catch (const std::bad_alloc &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    }
    catch (const std::exception &error) {
        return fail(ATTILE_ERROR_INTERNAL, "unexpected exception: %s", error.what());
    }
    catch (...) {
        return fail(ATTILE_ERROR_INTERNAL, "unexpected exception of an unknown type");
    }
}

}  // namespace attile::core

#endif
