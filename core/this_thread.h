// SPDX-License-Identifier: Apache-2.0
// What the system keeps for each thread.
#ifndef ATTILE_CORE_THIS_THREAD_H
#define ATTILE_CORE_THIS_THREAD_H

#include <cstdint>

// Frees what a thread had in memory of its own. Defined by status.cpp.
extern "C" void attile_forget_sentences(void *memory);

namespace attile::core {

// Differs from that of every other thread of the process that lives.
uintptr_t this_thread_number();

// Has attile_forget_sentences() called with this when the calling thread ends. False if the system cannot; the memory is then the caller's.
bool forget_at_thread_end(void *memory);

// The locale that the thread has for itself; NULL where threads have none but what setlocale() sets.
void *thread_locale();
void set_thread_locale(void *locale);

}  // namespace attile::core

#endif
