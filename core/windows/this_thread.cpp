// SPDX-License-Identifier: Apache-2.0
#include "this_thread.h"

#include <windows.h>

namespace attile::core {
namespace {

void NTAPI forget(void *memory) {
    if (memory != nullptr) attile_forget_sentences(memory);
}

}  // namespace

uintptr_t this_thread_number() { return GetCurrentThreadId(); }

// A fiber's local memory is freed when its thread ends.
bool forget_at_thread_end(void *memory) {
    static const DWORD slot = FlsAlloc(forget);
    return slot != FLS_OUT_OF_INDEXES && FlsSetValue(slot, memory) != 0;
}

void *thread_locale() { return nullptr; }
void set_thread_locale(void *) {}

}  // namespace attile::core
