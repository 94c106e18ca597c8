// SPDX-License-Identifier: Apache-2.0
// The table of moments and operations of cpu_moments_child.cpp, a row for each test: every cell ends well and prints nothing.
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>

#include "busy_calls.h"
#include "child_process.h"
#include "threads_after_fork.h"

namespace attile::test {
namespace {

struct HardMoment {
    const char *name;
    bool forks = false;   // threads in a forked child
    bool limits = false;  // memory that a sanitizer needs
};
void PrintTo(const HardMoment &moment, std::ostream *out) { *out << moment.name; }

class CpuMoments : public ::testing::TestWithParam<HardMoment> {};

TEST_P(CpuMoments, EndWellForEveryOperation) {
    const HardMoment &moment = GetParam();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (moment.forks) GTEST_SKIP() << "a sanitizer's runtime does not survive a fork beside threads";
    if (moment.limits) GTEST_SKIP() << "a sanitizer's runtime needs what is taken away";
#endif
    if (ATTILE_TESTS_ARE_EMULATED && moment.forks && !threads_start_after_fork())
        GTEST_SKIP() << "the emulator ends a child that is forked beside threads and starts one";
    std::string row;
    for (const auto &[name, make] : kBusyCalls) {
        const std::string operation = name;
        Child child;
        child.command = {CPU_MOMENTS_CHILD, moment.name, operation};
        const Outcome outcome = run_child(child);
        const bool well = outcome.exited && outcome.code == 0 && outcome.out.empty() && outcome.err.empty();
        row += "  " + operation + (well ? " ok" : outcome.exited ? " FAILED" : outcome.code == SIGALRM ? " HANGS" : " DIES");
        EXPECT_TRUE(well) << operation << (outcome.exited ? ": status " : ": signal ") << outcome.code << "\n"
                          << outcome.out << outcome.err;
    }
    std::printf("%-20s%s\n", moment.name, row.c_str());
}

INSTANTIATE_TEST_SUITE_P(Table, CpuMoments,
                         ::testing::Values(HardMoment{"nothing"}, HardMoment{"no_threads", false, true},
                                           HardMoment{"no_address_space", false, true}, HardMoment{"small_stack", false, true},
                                           HardMoment{"fork_after_use", true}, HardMoment{"fork_beside_callers", true},
                                           HardMoment{"exit_beside_callers"}, HardMoment{"main_thread_leaves"},
                                           HardMoment{"cancel_callers"}, HardMoment{"signals"}, HardMoment{"many_callers"},
                                           HardMoment{"one_processor"}),
                         [](const ::testing::TestParamInfo<HardMoment> &one) { return std::string(one.param.name); });

}  // namespace
}  // namespace attile::test
