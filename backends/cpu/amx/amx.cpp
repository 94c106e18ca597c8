// SPDX-License-Identifier: Apache-2.0
#include "amx/amx.h"

#if defined(ATTILE_CPU_HAS_AMX)
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#endif

namespace attile::cpu {

#if defined(ATTILE_CPU_HAS_AMX)

bool amx_is_built() { return true; }

namespace {

constexpr int kUnasked = 0, kGranted = 1, kSmallStack = 2, kRefused = 3;

int ask() {
    constexpr long kRequest = 0x1023, kTileData = 18;  // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
    const int before = errno;
    const bool granted = syscall(SYS_arch_prctl, kRequest, kTileData) == 0;
    const int why = errno;
    errno = before;
    return granted ? kGranted : why == ENOSPC ? kSmallStack : kRefused;
}

// Threads that ask at the same time get the same answer, but for a signal stack that changes meanwhile: the first one counts.
std::atomic<int> answer{kUnasked};

}  // namespace

const char *amx_refusal() {
    int known = answer.load(std::memory_order_acquire);
    if (known == kUnasked) {
        const int mine = ask();
        if (answer.compare_exchange_strong(known, mine, std::memory_order_acq_rel)) known = mine;
    }
    if (known == kGranted) return nullptr;
    return known == kSmallStack ? "no AMX: a thread's alternate signal stack is too small for tiles (see getauxval(AT_MINSIGSTKSZ))"
                                : "no AMX: the system does not grant it to this process";
}

#else

bool amx_is_built() { return false; }
const char *amx_refusal() { return "no AMX: not in this build"; }

#endif

}  // namespace attile::cpu
