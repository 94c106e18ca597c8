// SPDX-License-Identifier: Apache-2.0
// What this backend asks of the operating system: the folders posix and windows have it, each its own way.
#ifndef ATTILE_CPU_SYSTEM_H
#define ATTILE_CPU_SYSTEM_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace attile::cpu {

// ---- The machine (machine.cpp). What the system does not tell is 0.

int64_t memory_total();
int64_t memory_free();
int processors_online();
// Bytes of a data cache of the first processor: levels 1 to 3.
int64_t cache_bytes(int level);
// The clock that the system says is the highest.
double clock_hz();
// The processor as it calls itself. False, and nothing written, if the system does not tell.
bool processor_model(char *buffer, int capacity);
// Whether AArch64's processors have FEAT_DotProd, FEAT_I8MM; false where the system does not tell.
bool has_dot_products();
bool has_matrix_products();
// Processors' worth of time that this process may use: its affinity mask, and limits that a container has.
int processors_granted();

// ---- Memory (machine.cpp)

// Not initialised; NULL if there is none. `bytes` is a multiple of `alignment`, a power of two.
void *allocate_aligned(size_t alignment, size_t bytes);
void free_aligned(void *memory);
// Asks for huge pages behind this, which begins with one.
void want_huge_pages(void *memory, size_t bytes);

// ---- Threads (threads.cpp)

using Word = std::atomic<uint32_t>;
static_assert(sizeof(Word) == 4);

// Sleeps until the word is woken or differs from `seen`, or for no reason. nanoseconds > 0: so long at most.
void wait_for_change(Word *word, uint32_t seen, int64_t nanoseconds);
void wake(Word *word, int count);
int64_t now_nanoseconds();
// The calling thread's processor time, so that what other programs take does not count; the clock where the system counts that too
// coarsely.
double thread_seconds();
uint32_t current_processor();
// A thread that nobody waits for. Signals of the program's do not reach it. False if the system has none.
bool start_thread(void *(*body)(void *), void *argument, size_t stack_bytes);

// Zeros that a forked child finds wiped if *wiped becomes true; NULL: no memory.
void *make_wiped(size_t bytes, bool *wiped);
void free_wiped(void *memory, size_t bytes);
// Differs in a forked child; never 0.
uint32_t process_number();

// The calling thread is not cancelled until release_cancellation() has what this returned.
int hold_cancellation();
void release_cancellation(int before);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_SYSTEM_H
