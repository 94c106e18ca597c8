// SPDX-License-Identifier: Apache-2.0
// Threads by Windows, and what sleeps and wakes them: WaitOnAddress(), of Windows 8 and later.
#include <windows.h>

#include <new>

#include "system.h"

namespace attile::cpu {
namespace {

struct Start {
    void *(*body)(void *);
    void *argument;
};

DWORD WINAPI begin(void *memory) {
    const Start start = *static_cast<Start *>(memory);
    delete static_cast<Start *>(memory);
    start.body(start.argument);
    return 0;
}

int64_t ticks() {
    LARGE_INTEGER now;
    QueryPerformanceCounter(&now);
    return now.QuadPart;
}

int64_t ticks_per_second() {
    static constinit std::atomic<int64_t> known{0};
    int64_t rate = known.load(std::memory_order_relaxed);
    if (rate == 0) {
        LARGE_INTEGER frequency;
        QueryPerformanceFrequency(&frequency);
        rate = frequency.QuadPart;
        known.store(rate, std::memory_order_relaxed);
    }
    return rate;
}

}  // namespace

void wait_for_change(Word *word, uint32_t seen, int64_t nanoseconds) {
    const DWORD milliseconds = nanoseconds > 0 ? static_cast<DWORD>((nanoseconds + 999999) / 1000000) : INFINITE;
    WaitOnAddress(reinterpret_cast<volatile void *>(word), &seen, sizeof seen, milliseconds);
}

void wake(Word *word, int count) {
    if (count > 4) {
        WakeByAddressAll(word);
        return;
    }
    for (; count > 0; --count) WakeByAddressSingle(word);
}

int64_t now_nanoseconds() {
    const int64_t rate = ticks_per_second(), now = ticks();
    return now / rate * 1000000000 + now % rate * 1000000000 / rate;
}

// A thread's own time is counted in steps of 15 ms.
double thread_seconds() { return static_cast<double>(ticks()) / static_cast<double>(ticks_per_second()); }

uint32_t current_processor() {
    PROCESSOR_NUMBER number;
    GetCurrentProcessorNumberEx(&number);
    return uint32_t{number.Group} << 8 | number.Number;
}

bool start_thread(void *(*body)(void *), void *argument, size_t stack_bytes) {
    Start *start = new (std::nothrow) Start{body, argument};
    if (start == nullptr) return false;
    const HANDLE thread = CreateThread(nullptr, stack_bytes, begin, start, STACK_SIZE_PARAM_IS_A_RESERVATION, nullptr);
    if (thread == nullptr) {
        delete start;
        return false;
    }
    CloseHandle(thread);
    return true;
}

// Processes do not fork: there is nothing to be wiped.
void *make_wiped(size_t bytes, bool *wiped) {
    *wiped = true;
    return VirtualAlloc(nullptr, bytes, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
}

void free_wiped(void *memory, size_t) { VirtualFree(memory, 0, MEM_RELEASE); }

uint32_t process_number() { return GetCurrentProcessId(); }

// Threads are not cancelled.
int hold_cancellation() { return 0; }
void release_cancellation(int) {}

}  // namespace attile::cpu
