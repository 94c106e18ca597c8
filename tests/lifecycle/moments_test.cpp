// SPDX-License-Identifier: Apache-2.0
// Every moment of moments_child.cpp and log_child.cpp ends well and prints nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include "child_process.h"

namespace attile::test {
namespace {

struct Moment {
    const char *program, *name;
    std::map<std::string, std::string> environment = {};
    bool forks_beside_threads = false;
};

void PrintTo(const Moment &moment, std::ostream *out) { *out << moment.name; }

class Moments : public ::testing::TestWithParam<Moment> {};

TEST_P(Moments, EndWell) {
    const Moment &moment = GetParam();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    if (moment.forks_beside_threads) GTEST_SKIP() << "a sanitizer's allocator does not survive a fork";
#endif
    Child child;
    child.command = {moment.program, moment.name, FAKES};
    child.environment = moment.environment;
    const std::string log = ::testing::TempDir() + "attile-moments-" + std::to_string(getpid()) + ".log";
    for (auto &[name, value] : child.environment) {
        if (value == "LOG") value = log;
    }
    const Outcome outcome = run_child(child);
    unlink(log.c_str());
    EXPECT_TRUE(outcome.exited && outcome.code == 0) << (outcome.exited ? "status " : "signal ") << outcome.code;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
}

std::string name_of(const ::testing::TestParamInfo<Moment> &one) {
    return one.param.name + std::string(one.param.environment.count("ATTILE_LOG") != 0 ? "_logged" : "");
}

const std::map<std::string, std::string> kReference = {{"ATTILE_BACKEND", "reference"}};
const std::map<std::string, std::string> kLogged = {{"ATTILE_BACKEND", "reference"}, {"ATTILE_LOG", "trace"}, {"ATTILE_LOG_FILE", "LOG"}};

INSTANTIATE_TEST_SUITE_P(
    Core, Moments,
    ::testing::Values(
        Moment{MOMENTS_CHILD, "fork_beside_contexts", kReference, true}, Moment{MOMENTS_CHILD, "fork_beside_contexts", kLogged, true},
        Moment{MOMENTS_CHILD, "fork_beside_reports", kReference, true}, Moment{MOMENTS_CHILD, "fork_beside_the_log", kReference, true},
        Moment{MOMENTS_CHILD, "fork_beside_every_operation", kReference, true},
        Moment{MOMENTS_CHILD, "fork_beside_loading", kReference, true},
        Moment{MOMENTS_CHILD, "fork_beside_loading_that_hangs", kReference, true},
        Moment{MOMENTS_CHILD, "fork_within_loading", kReference, true}, Moment{MOMENTS_CHILD, "cancel_every_call", kReference},
        Moment{MOMENTS_CHILD, "cancel_every_call", kLogged}, Moment{MOMENTS_CHILD, "receiver_ends_its_thread", kReference},
        Moment{MOMENTS_CHILD, "handles_stay_dead", kReference}, Moment{MOMENTS_CHILD, "foreign_pointers_are_no_contexts", kReference},
        Moment{MOMENTS_CHILD, "destroyed_by_many", kReference}, Moment{MOMENTS_CHILD, "contexts_cost_nothing_after", kReference}),
    name_of);

const std::map<std::string, std::string> kInfo = {{"ATTILE_LOG", "info"}};

INSTANTIATE_TEST_SUITE_P(Log, Moments,
                         ::testing::Values(Moment{LOG_CHILD, "redirected_standard_error", kInfo},
                                           Moment{LOG_CHILD, "reused_standard_error", kInfo},
                                           Moment{LOG_CHILD, "reused_standard_error_after_lines", kInfo},
                                           Moment{LOG_CHILD, "reused_log_file", kLogged}, Moment{LOG_CHILD, "closed_pipe", kInfo},
                                           Moment{LOG_CHILD, "full_file", kLogged}, Moment{LOG_CHILD, "pipe_as_log_file", kInfo},
                                           Moment{LOG_CHILD, "relative_log_file", kInfo}, Moment{LOG_CHILD, "control_characters", kInfo},
                                           Moment{LOG_CHILD, "receivers_go"}),
                         name_of);

INSTANTIATE_TEST_SUITE_P(Memory, Moments,
                         ::testing::Values(Moment{BARE_THREAD_CHILD, ATTILE_LIBRARY, kReference},
                                           Moment{BARE_THREAD_CHILD, ATTILE_LIBRARY, {{"ATTILE_BACKEND", "cpu,reference"}}}),
                         [](const ::testing::TestParamInfo<Moment> &one) {
                             return std::string(one.index == 0 ? "bare_thread_reference" : "bare_thread_cpu");
                         });

}  // namespace
}  // namespace attile::test
