// SPDX-License-Identifier: Apache-2.0
// Every moment of lifecycle_child.cpp on every backend of this build that runs on a processor: ends well, and prints nothing.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <tuple>

#include "child_process.h"

namespace fs = std::filesystem;

namespace attile::test {
namespace {

void expect_quiet_success(const std::vector<std::string> &arguments, const std::string &backend) {
    Child child;
    child.command = {LIFECYCLE_CHILD};
    child.command.insert(child.command.end(), arguments.begin(), arguments.end());
    child.environment = {{"ATTILE_BACKEND", backend}};
    const Outcome outcome = run_child(child);
    EXPECT_TRUE(outcome.exited && outcome.code == 0) << (outcome.exited ? "status " : "signal ") << outcome.code;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
}

std::vector<std::string> backends() {
    std::vector<std::string> names = {"reference"};
    if (fs::exists(ATTILE_PLUGINS "/libattile_backend_cpu.so")) names.push_back("cpu");
    return names;
}

using Parameter = std::tuple<std::string, std::string>;
class Lifecycle : public ::testing::TestWithParam<Parameter> {};

TEST_P(Lifecycle, EndsWell) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    // GCC 12's runtimes do not hand their allocators' locks over a fork: with another thread inside one the child waits in operator new.
    if (std::get<0>(GetParam()) == "fork_and_call") GTEST_SKIP() << "a sanitizer's allocator does not survive a fork";
#endif
    expect_quiet_success({std::get<0>(GetParam()), ATTILE_LIBRARY}, std::get<1>(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(
    Moments, Lifecycle,
    ::testing::Combine(::testing::Values("load_and_unload", "load_and_unload_unused", "use_after_unload", "exit_without_destroy",
                                         "exit_from_a_thread", "calls_in_atexit", "calls_in_a_static_destructor", "fork_and_call",
                                         "loaded_globally", "leaves_the_process_alone", "errno_survives_success"),
                       ::testing::ValuesIn(backends())),
    [](const ::testing::TestParamInfo<Parameter> &one) { return std::get<0>(one.param) + "_" + std::get<1>(one.param); });

TEST(LifecycleCopies, TwoInOneProcess) {
    std::string directory = ::testing::TempDir() + "attile-copy-XXXXXX";
    ASSERT_NE(mkdtemp(directory.data()), nullptr);
    const std::string copy = directory + "/libattile_copy.so";
    fs::copy_file(fs::canonical(ATTILE_LIBRARY), copy);
    expect_quiet_success({"two_copies", ATTILE_LIBRARY, copy}, "reference");
    fs::remove_all(directory);
}

}  // namespace
}  // namespace attile::test
