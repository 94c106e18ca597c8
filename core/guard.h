// SPDX-License-Identifier: Apache-2.0
// The border that no exception crosses: every public function runs its body inside guarded().
#ifndef ATTILE_CORE_GUARD_H
#define ATTILE_CORE_GUARD_H

#include <cstdint>
#include <exception>
#include <new>

#include "status.h"

namespace attile::core {

// Runs `body`, which returns a status, and turns whatever it throws into one.
template <typename Body>
int32_t guarded(Body &&body) noexcept {
    try {
        return body();
    } catch (const std::bad_alloc &) {
        return fail(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "out of host memory");
    } catch (const std::exception &error) {
        return fail(ATTILE_ERROR_INTERNAL, "unexpected exception: %s", error.what());
    } catch (...) {
        return fail(ATTILE_ERROR_INTERNAL, "unexpected exception of an unknown type");
    }
}

}  // namespace attile::core

#endif
