// SPDX-License-Identifier: Apache-2.0
// Windows has no cancelled threads: what guard.h asks for is empty here.
#ifndef ATTILE_CORE_WINDOWS_CANCELLATION_H
#define ATTILE_CORE_WINDOWS_CANCELLATION_H

#define ATTILE_LET_THREADS_END

namespace attile::core {

class NoCancellation {
  public:
    NoCancellation() {}
    NoCancellation(const NoCancellation &) = delete;
    NoCancellation &operator=(const NoCancellation &) = delete;
};

}  // namespace attile::core

#endif
