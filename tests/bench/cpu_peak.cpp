// SPDX-License-Identifier: Apache-2.0
// The processor's peaks: chains of multiply-adds that need no memory, and sums over much of it.
#include "cpu_peak.h"

#include <omp.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <vector>

namespace attile::bench {
namespace {

constexpr int kChains = 12;
bool g_thread_time = false;

// The loops are vectorised to the target's width; twelve chains hide the latency of each.
template <int kLanes>
struct Vector {
    typedef float Type __attribute__((vector_size(kLanes * 4)));
};

#if defined(__x86_64__)
#define ATTILE_BENCH_CHAIN(register_prefix, n) "vfmadd231ps %%" register_prefix "14, %%" register_prefix "15, %%" register_prefix n "\n"
#define ATTILE_BENCH_CHAINS(r)                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "0")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "1")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "2")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "3") ATTILE_BENCH_CHAIN(r, "4") ATTILE_BENCH_CHAIN(r, "5") ATTILE_BENCH_CHAIN(r, "6") ATTILE_BENCH_CHAIN(r, "7") \
        ATTILE_BENCH_CHAIN(r, "8") ATTILE_BENCH_CHAIN(r, "9") ATTILE_BENCH_CHAIN(r, "10") ATTILE_BENCH_CHAIN(r, "11")
#define ATTILE_BENCH_LOOP(r)                                       \
    asm volatile("1:\n" ATTILE_BENCH_CHAINS(r) "dec %0\n jnz 1b\n" \
                 : "+r"(rounds)::"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "cc")
#endif

// Operations done.
double chains(int64_t rounds) {
    const double all = static_cast<double>(rounds) * kChains * 2;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        ATTILE_BENCH_LOOP("zmm");
        return all * 16;
    }
    if (__builtin_cpu_supports("fma")) {
        ATTILE_BENCH_LOOP("ymm");
        return all * 8;
    }
#endif
    Vector<4>::Type acc[kChains] = {}, factor = {1, 1, 1, 1}, term = {1, 1, 1, 1};
    for (; rounds > 0; --rounds) {
        for (auto &a : acc) a = a * factor + term;
    }
    volatile float keep = 0;
    for (const auto &a : acc) keep = keep + a[0];
    return all * 4;
}

}  // namespace

void time_this_thread(bool only) { g_thread_time = only; }

double seconds_now() {
#if defined(CLOCK_THREAD_CPUTIME_ID)
    if (g_thread_time) {
        timespec now{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
    }
#endif
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double fma_peak_f32(int threads) {
    double best = 0;
    for (int turn = 0; turn < 3; ++turn) {
        double operations = 0;
        const double before = seconds_now();
#pragma omp parallel num_threads(threads) reduction(+ : operations)
        operations += chains(400000);
        best = std::max(best, operations / (seconds_now() - before));
    }
    return best;
}

double read_bandwidth(int threads) {
    static const std::vector<uint64_t> memory(size_t{32} << 20, 1);
    double best = 0;
    for (int turn = 0; turn < 2; ++turn) {
        uint64_t sum = 0;
        const double before = seconds_now();
#pragma omp parallel num_threads(threads) reduction(+ : sum)
        {
            const size_t share = memory.size() / static_cast<size_t>(omp_get_num_threads());
            const uint64_t *p = memory.data() + share * static_cast<size_t>(omp_get_thread_num());
            uint64_t lanes[32] = {};
            for (size_t i = 0; i + 32 <= share; i += 32) {
                for (size_t j = 0; j < 32; ++j) lanes[j] += p[i + j];
            }
            for (const uint64_t lane : lanes) sum += lane;
        }
        volatile uint64_t keep = sum;
        static_cast<void>(keep);
        best = std::max(best, static_cast<double>(memory.size() * sizeof(uint64_t)) / (seconds_now() - before));
    }
    return best;
}

}  // namespace attile::bench
