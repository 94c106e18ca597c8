// SPDX-License-Identifier: Apache-2.0
#include "this_thread.h"

#include <locale.h>
#include <pthread.h>

#include <bit>

namespace attile::core {
namespace {

pthread_once_t key_once = PTHREAD_ONCE_INIT;
pthread_key_t key;
bool has_key = false;

}  // namespace

uintptr_t this_thread_number() { return std::bit_cast<uintptr_t>(pthread_self()); }

bool forget_at_thread_end(void *memory) {
    pthread_once(&key_once, [] { has_key = pthread_key_create(&key, attile_forget_sentences) == 0; });
    return has_key && pthread_setspecific(key, memory) == 0;
}

void *thread_locale() { return uselocale(static_cast<locale_t>(nullptr)); }
void set_thread_locale(void *locale) { uselocale(static_cast<locale_t>(locale)); }

}  // namespace attile::core
