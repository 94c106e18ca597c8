// SPDX-License-Identifier: Apache-2.0
// Threads of the cpu backend: their number changes no bit of a result, with far more threads than processors and in any floating-point mode
// of the caller. Worth most when built with ATTILE_SANITIZE=thread.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cpu_contexts.h"
#include "portable.h"

namespace attile::test {
namespace {

TEST(CpuThreads, TheirNumberChangesNoBit) {
    for (const std::string &target : targets_here()) {
        const CpuContext one = open_cpu(target, 1);
        for (const BitProblem &problem : bit_problems()) {
            const std::vector<unsigned char> expected = problem.run(one.get());
            for (const int threads : {2, 3, 4, 7, 33}) {
                const CpuContext some = open_cpu(target, threads);
                EXPECT_TRUE(problem.run(some.get()) == expected) << target << ", " << threads << " threads: " << problem.name;
            }
        }
    }
}

TEST(CpuThreads, CallersOnOneContextOversubscribeTheMachine) {
    const CpuContext one = open_cpu("", 1), shared = open_cpu("", 8);
    const std::vector<BitProblem> problems = bit_problems();
    std::vector<std::vector<unsigned char>> expected;
    for (const BitProblem &problem : problems) expected.push_back(problem.run(one.get()));
    std::atomic<int> wrong{0};
    std::vector<std::thread> callers;
    for (size_t caller = 0; caller < 6; ++caller) {
        callers.emplace_back([&, caller] {
            for (size_t i = 0; i < problems.size(); ++i) {
                const size_t n = (i + caller * 3) % problems.size();
                if (problems[n].run(shared.get()) != expected[n]) ++wrong;
            }
        });
    }
    for (std::thread &caller : callers) caller.join();
    EXPECT_EQ(wrong, 0);
}

int threads_of(int wanted) {
    const CpuContext context = open_cpu("", wanted);
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    EXPECT_EQ(attile_context_get_info(context.get(), &info), ATTILE_OK);
    return info.threads;
}

TEST(CpuThreads, TheirNumberComesFromOptionsElseTheEnvironment) {
    set_variable("ATTILE_NUM_THREADS", "2");
    set_variable("OMP_NUM_THREADS", "5");
    EXPECT_EQ(threads_of(3), 3);
    EXPECT_EQ(threads_of(0), 2);
    unset_variable("ATTILE_NUM_THREADS");
    unset_variable("OMP_NUM_THREADS");
}

TEST(CpuThreads, TheirNumberKeepsToTheAffinityMask) {
    const OneProcessor held;
    ASSERT_TRUE(held.done());
    EXPECT_EQ(threads_of(0), 1);
}

#if defined(__x86_64__)
// Under flushed denormals and every rounding: the same bits whatever the number of threads, time after time.
TEST(CpuThreads, TheCallersFloatingPointModeHoldsInAll) {
    const CpuContext one = open_cpu("", 1), some = open_cpu("", 4);
    for (const uint32_t mode : {0x9fc0U, 0x3f80U, 0x5f80U, 0x7f80U}) {
        for (const BitProblem &problem : bit_problems()) {
            SCOPED_TRACE(problem.name + " in mode " + std::to_string(mode));
            __builtin_ia32_ldmxcsr(mode);
            const std::vector<unsigned char> expected = problem.run(one.get()), first = problem.run(some.get()),
                                             second = problem.run(some.get());
            const uint32_t after = __builtin_ia32_stmxcsr() & 0xffc0U;
            __builtin_ia32_ldmxcsr(0x1f80);
            EXPECT_EQ(after, mode);
            EXPECT_TRUE(first == expected && second == expected) << std::hex << mode << " " << problem.name;
        }
    }
}
#endif

}  // namespace
}  // namespace attile::test
