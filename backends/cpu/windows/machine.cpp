// SPDX-License-Identifier: Apache-2.0
// The machine by Windows.
#include <windows.h>

#include <malloc.h>

#include <bit>
#include <cstring>
#include <memory>
#include <new>

#include "system.h"

namespace attile::cpu {
namespace {

constexpr const char *kFirstProcessor = "HARDWARE\\DESCRIPTION\\System\\CentralProcessor\\0";

MEMORYSTATUSEX memory_status() {
    MEMORYSTATUSEX status{};
    status.dwLength = sizeof status;
    return GlobalMemoryStatusEx(&status) != 0 ? status : MEMORYSTATUSEX{};
}

}  // namespace

int64_t memory_total() { return static_cast<int64_t>(memory_status().ullTotalPhys); }
int64_t memory_free() { return static_cast<int64_t>(memory_status().ullAvailPhys); }

int processors_online() {
    const DWORD online = GetActiveProcessorCount(ALL_PROCESSOR_GROUPS);
    return online < 1 ? 1 : static_cast<int>(online);
}

int64_t cache_bytes(int level) {
    using Entry = SYSTEM_LOGICAL_PROCESSOR_INFORMATION;
    DWORD bytes = 0;
    GetLogicalProcessorInformation(nullptr, &bytes);
    const size_t count = bytes / sizeof(Entry);
    const std::unique_ptr<Entry[]> entries(new (std::nothrow) Entry[count]);
    if (entries == nullptr || GetLogicalProcessorInformation(entries.get(), &bytes) == 0) return 0;
    for (size_t i = 0; i < count; ++i) {
        const CACHE_DESCRIPTOR &cache = entries[i].Cache;
        if (entries[i].Relationship == RelationCache && cache.Level == level && cache.Type != CacheInstruction) return cache.Size;
    }
    return 0;
}

double clock_hz() {
    DWORD megahertz = 0, bytes = sizeof megahertz;
    return RegGetValueA(HKEY_LOCAL_MACHINE, kFirstProcessor, "~MHz", RRF_RT_REG_DWORD, nullptr, &megahertz, &bytes) == 0 ? 1e6 * megahertz
                                                                                                                         : 0;
}

bool processor_model(char *buffer, int capacity) {
    char name[256];
    DWORD bytes = sizeof name;
    if (RegGetValueA(HKEY_LOCAL_MACHINE, kFirstProcessor, "ProcessorNameString", RRF_RT_REG_SZ, nullptr, name, &bytes) != 0) return false;
    size_t length = std::strlen(name);
    while (length > 0 && name[length - 1] == ' ') --length;
    const size_t room = static_cast<size_t>(capacity) - 1;
    if (length > room) length = room;
    std::memcpy(buffer, name, length);
    buffer[length] = 0;
    return length > 0;
}

bool has_dot_products() { return false; }
bool has_matrix_products() { return false; }

// The mask is that of one group of processors, and 0 where the process uses several.
int processors_granted() {
    DWORD_PTR mine = 0, all = 0;
    if (GetProcessAffinityMask(GetCurrentProcess(), &mine, &all) == 0 || mine == 0) return processors_online();
    return std::popcount(mine);
}

void *allocate_aligned(size_t alignment, size_t bytes) { return _aligned_malloc(bytes > 0 ? bytes : alignment, alignment); }
void free_aligned(void *memory) { _aligned_free(memory); }

// Windows gives them to those with a privilege alone, and never later.
void want_huge_pages(void *, size_t) {}

}  // namespace attile::cpu
