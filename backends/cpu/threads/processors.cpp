// SPDX-License-Identifier: Apache-2.0
// How many threads a context uses unless it is told.
#include "state.h"
#include "system.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int kMostThreads = 1024;

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
    const int granted = processors_granted();
    return granted < 1 ? 1 : granted;
}

int default_threads() {
    for (const char *name : {"ATTILE_NUM_THREADS", "OMP_NUM_THREADS"}) {
        const int threads = threads_of_variable(name);
        if (threads > 0) return threads;
    }
    return static_cast<int>(least(kMostThreads, processors_available()));
}

}  // namespace attile::cpu
