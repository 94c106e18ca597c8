// SPDX-License-Identifier: Apache-2.0
// How many threads a context uses unless it is told.
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "state.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int kMostThreads = 1024;

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
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online < 1 ? 1 : static_cast<int>(online);
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
            const int whole = share < 1 ? 1 : share > kMostThreads ? kMostThreads : static_cast<int>(share + 0.5);
            if (whole < granted) granted = whole;
        }
        char *const last = std::strrchr(name, '/');
        if (last == nullptr) return granted;
        *last = 0;
    }
}

// A variable's number of threads; of a list, as OpenMP has one for each level, the first. 0: it does not say, or not sensibly.
int threads_of_variable(const char *name) {
    if (g_host == nullptr || g_host->environment == nullptr) return 0;
    const char *text = g_host->environment(name);
    if (text == nullptr) return 0;
    while (*text == ' ' || *text == '\t') ++text;
    int64_t threads = 0;
    for (; *text >= '0' && *text <= '9'; ++text) threads = least(kMostThreads, 10 * threads + (*text - '0'));
    while (*text == ' ' || *text == '\t') ++text;
    return *text == 0 || *text == ',' ? static_cast<int>(threads) : 0;
}

}  // namespace

int processors_available() {
    const int allowed = processors_of_affinity_mask(), granted = processors_of_control_group();
    return allowed < granted ? allowed : granted;
}

int default_threads() {
    for (const char *name : {"ATTILE_NUM_THREADS", "OMP_NUM_THREADS"}) {
        const int threads = threads_of_variable(name);
        if (threads > 0) return threads;
    }
    return static_cast<int>(least(kMostThreads, processors_available()));
}

}  // namespace attile::cpu
