// SPDX-License-Identifier: Apache-2.0
// The processor's peaks: chains of multiply-adds that need no memory, and sums over much of it.
#include "cpu_peak.h"

#include <omp.h>
#include <time.h>

#include <chrono>

namespace attile::bench {
namespace {

constexpr int kChains = 12;
bool g_thread_time = false;
#if defined(__x86_64__)
const float kOne = 1;
#endif

// The loops are vectorised to the target's width; twelve chains hide the latency of each.
template <int kLanes>
struct Vector {
    typedef float Type __attribute__((vector_size(kLanes * 4)));
};

#if defined(__x86_64__)
// clang-format breaks these lines otherwise each time.
// clang-format off
#define ATTILE_BENCH_CHAIN(register_prefix, n) "vfmadd231ps %%" register_prefix "14, %%" register_prefix "15, %%" register_prefix n "\n"
#define ATTILE_BENCH_CHAINS(r)                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "0")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "1")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "2")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "3")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "4")                                                                                                             \
    ATTILE_BENCH_CHAIN(r, "5") ATTILE_BENCH_CHAIN(r, "6") ATTILE_BENCH_CHAIN(r, "7") ATTILE_BENCH_CHAIN(r, "8") ATTILE_BENCH_CHAIN(r, "9") \
        ATTILE_BENCH_CHAIN(r, "10") ATTILE_BENCH_CHAIN(r, "11")
// Every register begins at 1: what is left in them by others may be subnormal, which takes a hundred times as long.
#define ATTILE_BENCH_ONE(r, n) "vbroadcastss %1, %%" r n "\n"
#define ATTILE_BENCH_ONES(r)                                                                                                     \
    ATTILE_BENCH_ONE(r, "0")                                                                                                     \
    ATTILE_BENCH_ONE(r, "1")                                                                                                     \
    ATTILE_BENCH_ONE(r, "2")                                                                                                     \
    ATTILE_BENCH_ONE(r, "3")                                                                                                     \
    ATTILE_BENCH_ONE(r, "4") ATTILE_BENCH_ONE(r, "5") ATTILE_BENCH_ONE(r, "6") ATTILE_BENCH_ONE(r, "7") ATTILE_BENCH_ONE(r, "8") \
        ATTILE_BENCH_ONE(r, "9") ATTILE_BENCH_ONE(r, "10") ATTILE_BENCH_ONE(r, "11") ATTILE_BENCH_ONE(r, "14") ATTILE_BENCH_ONE(r, "15")
// clang-format on
#define ATTILE_BENCH_LOOP(r)                                                                                                           \
    asm volatile(ATTILE_BENCH_ONES(r) "1:\n" ATTILE_BENCH_CHAINS(r) "dec %0\n jnz 1b\n"                                                \
                 : "+r"(rounds)                                                                                                        \
                 : "m"(kOne)                                                                                                           \
                 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm14", "xmm15", \
                   "cc")
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

double fma_burst(int threads) {
    double operations = 0;
#pragma omp parallel num_threads(threads) reduction(+ : operations)
    operations += chains(400000);
    return operations;
}

namespace {

inline __attribute__((always_inline)) uint64_t sum_of(const uint64_t *p, size_t count) {
    uint64_t lanes[64] = {};
    for (size_t i = 0; i + 64 <= count; i += 64) {
        for (size_t j = 0; j < 64; ++j) lanes[j] += p[i + j];
    }
    uint64_t sum = 0;
    for (const uint64_t lane : lanes) sum += lane;
    return sum;
}

#if defined(__x86_64__)
// Fewer, wider loads let a core have more lines under way. (Clang knows this only as an option for a whole file.)
#if defined(__clang__)
#define PREFER_512
#else
#define PREFER_512 ",prefer-vector-width=512"
#endif
__attribute__((target("avx512f" PREFER_512))) uint64_t sum_avx512(const uint64_t *p, size_t count) { return sum_of(p, count); }
__attribute__((target("avx2"))) uint64_t sum_avx2(const uint64_t *p, size_t count) { return sum_of(p, count); }
#endif

uint64_t sum_here(const uint64_t *p, size_t count) {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) return sum_avx512(p, count);
    if (__builtin_cpu_supports("avx2")) return sum_avx2(p, count);
#endif
    return sum_of(p, count);
}

}  // namespace

double read_burst(int threads, const std::vector<uint64_t> &memory) {
    uint64_t sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : sum)
    {
        const size_t share = memory.size() / static_cast<size_t>(omp_get_num_threads());
        sum += sum_here(memory.data() + share * static_cast<size_t>(omp_get_thread_num()), share);
    }
    volatile uint64_t keep = sum;
    static_cast<void>(keep);
    return static_cast<double>(memory.size() * sizeof(uint64_t));
}

}  // namespace attile::bench
