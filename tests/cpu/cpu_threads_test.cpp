// SPDX-License-Identifier: Apache-2.0
// Threads of the cpu backend: their number changes no bit of a result, inside the caller's own parallel regions and with far more threads
// than processors. Worth most when built with ATTILE_SANITIZE=thread.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <thread>

#include "cpu_contexts.h"

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

TEST(CpuThreads, InsideTheCallersParallelRegion) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a region of the test's own is not instrumented";
#endif
    const CpuContext one = open_cpu("", 1), shared = open_cpu("", 4);
    const std::vector<BitProblem> problems = bit_problems();
    std::vector<std::vector<unsigned char>> expected;
    for (const BitProblem &problem : problems) expected.push_back(problem.run(one.get()));
    const int levels_before = omp_get_max_active_levels();
    for (const int levels : {1, 2}) {  // regions inside a region get one thread, or as many as they ask for
        omp_set_max_active_levels(levels);
        std::atomic<int> wrong{0};
#pragma omp parallel for num_threads(3) schedule(dynamic)
        for (size_t i = 0; i < problems.size(); ++i) {
            if (problems[i].run(shared.get()) != expected[i]) ++wrong;
        }
        EXPECT_EQ(wrong, 0) << levels << " active levels";
    }
    omp_set_max_active_levels(levels_before);
}

// What the program around us set stays set.
TEST(CpuThreads, OpenMpsOwnSettingsAreLeftAlone) {
    const int threads = omp_get_max_threads(), dynamic = omp_get_dynamic(), levels = omp_get_max_active_levels();
    const CpuContext context = open_cpu("", 5);
    for (const BitProblem &problem : bit_problems()) problem.run(context.get());
    EXPECT_EQ(omp_get_max_threads(), threads);
    EXPECT_EQ(omp_get_dynamic(), dynamic);
    EXPECT_EQ(omp_get_max_active_levels(), levels);
}

TEST(CpuThreads, TheirNumberComesFromOptionsElseFromOpenMp) {
    const auto threads_of = [](int wanted) {
        const CpuContext context = open_cpu("", wanted);
        attile_context_info info;
        attile_context_info_init(&info, sizeof info);
        EXPECT_EQ(attile_context_get_info(context.get(), &info), ATTILE_OK);
        return info.threads;
    };
    EXPECT_EQ(threads_of(3), 3);
    EXPECT_EQ(threads_of(0), omp_get_max_threads());
    omp_set_num_threads(omp_get_max_threads() + 1);
    EXPECT_EQ(threads_of(0), omp_get_max_threads());
    omp_set_num_threads(omp_get_max_threads() - 1);
}

}  // namespace
}  // namespace attile::test
