// SPDX-License-Identifier: Apache-2.0
// The C++ runtime's memory of the exceptions that a thread is handling, in place of the static libstdc++'s or libc++abi's own. That one is reached through
// __tls_get_addr(), which takes memory at a thread's first use and ends the process where there is none. This one lies where every thread
// has it from its start (initial-exec). The Itanium C++ ABI fixes names and layout. Not with ATTILE_DYNAMIC_TLS: one such variable would
// have all thread-local variables of the library lie there.
#include <features.h>

#if defined(__GLIBC__) && !defined(__ARM_EABI_UNWINDER__) && !defined(ATTILE_DYNAMIC_TLS)

namespace __cxxabiv1 {

struct __cxa_eh_globals {
    void *caught_exceptions;
    unsigned int uncaught_exceptions;
};

namespace {
constinit thread_local __attribute__((tls_model("initial-exec"))) __cxa_eh_globals globals = {nullptr, 0};
}

extern "C" {

__attribute__((visibility("hidden"))) __cxa_eh_globals *__cxa_get_globals() noexcept;
__attribute__((visibility("hidden"))) __cxa_eh_globals *__cxa_get_globals_fast() noexcept;

__cxa_eh_globals *__cxa_get_globals() noexcept { return &globals; }
__cxa_eh_globals *__cxa_get_globals_fast() noexcept { return &globals; }

}  // extern "C"

}  // namespace __cxxabiv1

#endif
