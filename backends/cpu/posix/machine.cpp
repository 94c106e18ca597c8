// SPDX-License-Identifier: Apache-2.0
// The machine by POSIX, and by the files in which Linux tells more.
#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#endif

#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "system.h"

namespace attile::cpu {
namespace {

constexpr int kMostProcessors = 1024;

// Of a machine with more processors than a cpu_set_t has bits too.
int processors_of_affinity_mask() {
    for (int bits = 1024; bits <= 1 << 18; bits *= 2) {
        cpu_set_t *set = CPU_ALLOC(bits);
        if (set == nullptr) break;
        const size_t bytes = CPU_ALLOC_SIZE(bits);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        const bool too_short = !known && errno == EINVAL;
        const int count = known ? CPU_COUNT_S(bytes, set) : 0;
        CPU_FREE(set);
        if (count > 0) return count;
        if (!too_short) break;
    }
    return processors_online();
}

// The first line of a file; false if there is none.
bool first_line(const char *path, char *line, int capacity) {
    std::FILE *file = std::fopen(path, "re");
    if (file == nullptr) return false;
    const bool read = std::fgets(line, capacity, file) != nullptr;
    std::fclose(file);
    return read;
}

// Processors' worth of time that version 2's control group of this process and those around it grant; INT_MAX: no limit is known.
int processors_of_control_group() {
    char group[512], path[640], line[64];
    if (!first_line("/proc/self/cgroup", group, sizeof group) || std::strncmp(group, "0::/", 4) != 0) return INT_MAX;
    char *const name = group + 3;
    name[std::strcspn(name, "\n")] = 0;
    int granted = INT_MAX;
    for (;;) {
        std::snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", name);
        double quota = 0, period = 0;
        if (first_line(path, line, sizeof line) && std::sscanf(line, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0) {
            const double share = quota / period;
            const int whole = share < 1 ? 1 : share > kMostProcessors ? kMostProcessors : static_cast<int>(share + 0.5);
            if (whole < granted) granted = whole;
        }
        char *const last = std::strrchr(name, '/');
        if (last == nullptr) return granted;
        *last = 0;
    }
}

// Of the first processor as Linux counts it: glibc's number is that of a whole AMD package, whose cores share it in groups.
int64_t shared_cache_bytes() {
    char line[64];
    if (!first_line("/sys/devices/system/cpu/cpu0/cache/index3/size", line, sizeof line) || std::strchr(line, 'K') == nullptr) return 0;
    return std::strtoll(line, nullptr, 10) << 10;
}

int64_t not_negative(int64_t x) { return x > 0 ? x : 0; }

}  // namespace

int64_t memory_total() { return not_negative(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE); }

int64_t memory_free() {
#if defined(_SC_AVPHYS_PAGES)
    return not_negative(sysconf(_SC_AVPHYS_PAGES)) * sysconf(_SC_PAGESIZE);
#else
    return 0;
#endif
}

int processors_online() {
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : static_cast<int>(online);
}

int64_t cache_bytes(int level) {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
    if (level == 1) return not_negative(sysconf(_SC_LEVEL1_DCACHE_SIZE));
    if (level == 2) return not_negative(sysconf(_SC_LEVEL2_CACHE_SIZE));
    const int64_t shared = shared_cache_bytes();
    return shared > 0 ? shared : not_negative(sysconf(_SC_LEVEL3_CACHE_SIZE));
#else
    static_cast<void>(level);
    return 0;
#endif
}

double clock_hz() {
    char line[64];
    double khz = 0;
    if (!first_line("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", line, sizeof line) || std::sscanf(line, "%lf", &khz) != 1)
        return 0;
    return khz * 1e3;
}

bool processor_model(char *buffer, int capacity) {
    std::FILE *file = std::fopen("/proc/cpuinfo", "re");
    if (file == nullptr) return false;
    char line[256];
    bool found = false;
    while (!found && std::fgets(line, sizeof line, file) != nullptr) {
        if (std::strncmp(line, "model name", 10) != 0) continue;
        const char *value = std::strchr(line, ':');
        if (value == nullptr) break;
        value += value[1] == ' ' ? 2 : 1;
        std::snprintf(buffer, static_cast<size_t>(capacity), "%.*s", static_cast<int>(std::strcspn(value, "\n")), value);
        found = true;
    }
    std::fclose(file);
    return found;
}

#if defined(__aarch64__) && defined(__linux__)  // HWCAP_ASIMDDP and HWCAP2_I8MM, which old headers do not have.
bool has_dot_products() { return (getauxval(AT_HWCAP) >> 20 & 1) != 0; }
bool has_matrix_products() { return (getauxval(AT_HWCAP2) >> 13 & 1) != 0; }
#else
bool has_dot_products() { return false; }
bool has_matrix_products() { return false; }
#endif

int processors_granted() {
    const int allowed = processors_of_affinity_mask(), granted = processors_of_control_group();
    return allowed < granted ? allowed : granted;
}

void *allocate_aligned(size_t alignment, size_t bytes) { return std::aligned_alloc(alignment, bytes); }
void free_aligned(void *memory) { std::free(memory); }

void want_huge_pages(void *memory, size_t bytes) {
#if defined(MADV_HUGEPAGE)
    madvise(memory, bytes, MADV_HUGEPAGE);
#else
    static_cast<void>(memory);
    static_cast<void>(bytes);
#endif
}

}  // namespace attile::cpu
