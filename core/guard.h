// SPDX-License-Identifier: Apache-2.0
// The border of every public function: no exception crosses it, and no thread is cancelled inside.
#ifndef ATTILE_CORE_GUARD_H
#define ATTILE_CORE_GUARD_H

#include <cstdint>
#include <exception>
#include <new>

#include "cancellation.h"  // of the folder posix or windows
#include "status.h"

namespace attile::core {

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
