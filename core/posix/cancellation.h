// SPDX-License-Identifier: Apache-2.0
// Cancelled threads: what guard.h needs to know of them.
#ifndef ATTILE_CORE_POSIX_CANCELLATION_H
#define ATTILE_CORE_POSIX_CANCELLATION_H

#include <cxxabi.h>
#include <pthread.h>

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

}  // namespace attile::core

#endif
