// SPDX-License-Identifier: Apache-2.0
// No value of the environment makes the library crash, print or trust what it should not; a privileged process has no environment.
#include <attile/attile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "probe_run.h"

namespace fs = std::filesystem;

namespace attile::test {
namespace {

using Environment = std::map<std::string, std::string>;

TEST(Environment, SelectsTheBackend) {
    EXPECT_TRUE(has(probe({"create-default", "info"}, {{"ATTILE_BACKEND", "good"}, {"ATTILE_BACKEND_PATH", kAll}}), "backend 'good'"));
    EXPECT_TRUE(has(probe({"create-default", "info"}, {{"ATTILE_BACKEND", "nosuch,reference"}}), "backend 'reference'"));
    EXPECT_TRUE(has(probe({"create", "reference", "info"}, {{"ATTILE_BACKEND", "nosuch"}}), "backend 'reference'"))
        << "options->backend goes first";
    EXPECT_TRUE(has(probe({"create-default"}, {{"ATTILE_BACKEND", ""}}), "create-default: ATTILE_OK")) << "empty is unset";
}

TEST(Environment, SelectionValues) {
    for (const std::string &value : {std::string("/etc/passwd"), std::string("../good"), std::string(256, 'x'), std::string(100000, 'x'),
                                     std::string("%s%n%s"), std::string("cuda,,"), std::string("\x01\xff")}) {
        EXPECT_TRUE(has(probe({"create-default"}, {{"ATTILE_BACKEND", value}}),
                        "create-default: ATTILE_ERROR_BACKEND_SELECTION: context_create: ATTILE_BACKEND: "));
    }
    EXPECT_TRUE(has(probe({"create-default"}, {{"ATTILE_BACKEND", "nosuch"}}), "create-default: ATTILE_ERROR_BACKEND_NOT_FOUND"));
}

TEST(Environment, PathValues) {
    const std::string many = [] {
        std::string text;
        for (int i = 0; i < 3000; ++i) text += "/nonexistent/" + std::to_string(i) + ":";
        return text + kAll;
    }();
    for (const std::string &value :
         {std::string(), std::string(":"), std::string(":::"), std::string("."), std::string("./:../"), "/" + std::string(50000, 'a'),
          std::string("/dev/null"), std::string("/proc/self/mem"), std::string("%n%s"), many, kAll + "/loader_probe"}) {
        const std::string out = probe({"create", "good", "report", "create", "reference"}, {{"ATTILE_BACKEND_PATH", value}});
        EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
        EXPECT_TRUE(has(out, "create: ATTILE_OK"));
    }
}

TEST(Environment, RelativeDirectoriesAreIgnoredAndSaidSo) {
    const std::string out = probe({"create", "good", "report"}, {{"ATTILE_BACKEND_PATH", "all:./all:"}}, kFakes);
    EXPECT_TRUE(has(out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
    EXPECT_TRUE(has(out, "ATTILE_BACKEND_PATH: 'all' is ignored: not an absolute path"));
    EXPECT_TRUE(has(out, "ATTILE_BACKEND_PATH: './all' is ignored"));
    EXPECT_TRUE(has(probe({"create", "good"}, {{"ATTILE_BACKEND_PATH", "all:" + kAll}}, kFakes), "create: ATTILE_OK"));
}

// probe() expects nothing on standard error.
TEST(Environment, LogIsSilentUnlessAskedFor) {
    for (const char *value : {"", "off", "INFO", "9", "verbose", "%s%n"}) {
        EXPECT_TRUE(has(probe({"create", "reference", "create", "nosuch"}, {{"ATTILE_LOG", value}}), "create: ATTILE_OK"));
    }
    EXPECT_TRUE(has(probe({"create", "reference"}, {{"ATTILE_LOG", std::string(100000, 'i')}}), "create: ATTILE_OK"));
}

TEST(Environment, LogGoesToStandardErrorOrToAFile) {
    Child child;
    child.command = {LOADER_PROBE, "create", "reference", "create", "nosuch"};
    child.environment = {{"ATTILE_LOG", "info"}};
    const Outcome outcome = run_child(child);
    const std::string version =
        std::to_string(ATTILE_VERSION_MAJOR) + '.' + std::to_string(ATTILE_VERSION_MINOR) + '.' + std::to_string(ATTILE_VERSION_PATCH);
    EXPECT_TRUE(has(outcome.err, "attile info: backend 'reference' " + version + " chosen, device 0 (built in)\n"));
    EXPECT_TRUE(has(outcome.err, "attile error: no backend can be used: nosuch"));

    const ScratchDirectory scratch;
    probe({"create", "reference"}, {{"ATTILE_LOG", "info"}, {"ATTILE_LOG_FILE", scratch / "log"}});
    std::ifstream file(scratch / "log");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    EXPECT_TRUE(has(text, "attile info: backend 'reference'"));
}

TEST(Environment, ALogFileThatCannotBeWrittenHarmsNobody) {
    for (const char *path : {"/nonexistent/log", "/", "/proc/version"}) {
        Child child;
        child.command = {LOADER_PROBE, "create", "reference"};
        child.environment = {{"ATTILE_LOG", "trace"}, {"ATTILE_LOG_FILE", path}};
        const Outcome outcome = run_child(child);
        EXPECT_TRUE(outcome.exited && outcome.code == 0);
        EXPECT_TRUE(has(outcome.out, "create: ATTILE_OK"));
    }
    probe({"create", "reference"}, {{"ATTILE_LOG", "trace"}, {"ATTILE_LOG_FILE", "/dev/full"}});
}

// A copy of the probe that is root's whoever starts it, started by nobody.
TEST(Privileged, TheEnvironmentIsIgnored) {
    if (geteuid() != 0) GTEST_SKIP() << "making a set-user-id program needs root";
    const ScratchDirectory scratch;
    const std::string program = scratch / "privileged_probe";
    fs::permissions(scratch.path(), fs::perms(0755));
    fs::copy_file(LOADER_PROBE, program);
    ASSERT_EQ(chmod(program.c_str(), 04755), 0);
    fs::create_directory(scratch / "open");
    fs::permissions(scratch / "open", fs::perms(0777));

    Child child;
    child.user = 65534;
    child.command = {program, "privileged"};
    const Outcome first = run_child(child);
    if (first.out.find("privileged 1") == std::string::npos) {
        GTEST_SKIP() << "set-user-id has no effect here (nosuid, no_new_privs, or the build is not readable): " << first.out << first.err;
    }
    child.command = {program, "create", "good", "create-default", "report", "add-directory", kAll, "create", "good"};
    child.environment = {
        {"ATTILE_BACKEND_PATH", kAll}, {"ATTILE_BACKEND", "nosuch"}, {"ATTILE_LOG", "trace"}, {"ATTILE_LOG_FILE", scratch / "open/log"}};
    const Outcome outcome = run_child(child);
    EXPECT_TRUE(outcome.exited && outcome.code == 0);
    EXPECT_EQ(outcome.err, "");
    EXPECT_FALSE(fs::exists(scratch / "open/log"));
    EXPECT_TRUE(has(outcome.out, "create: ATTILE_ERROR_BACKEND_NOT_FOUND"));
    EXPECT_TRUE(has(outcome.out, "create-default: ATTILE_OK")) << "ATTILE_BACKEND=nosuch does not count";
    EXPECT_TRUE(has(outcome.out, "ATTILE_BACKEND_PATH is ignored: the process is privileged"));
    EXPECT_TRUE(has(outcome.out, "ATTILE_BACKEND is ignored: the process is privileged"));
    EXPECT_TRUE(lacks(outcome.out, "/" ATTILE_SUBDIR ", ")) << "beside the library is not searched either";
    EXPECT_TRUE(has(outcome.out, "create: ATTILE_OK")) << "what the program itself adds counts";
}

}  // namespace
}  // namespace attile::test
