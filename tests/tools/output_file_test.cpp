// SPDX-License-Identifier: Apache-2.0
// Files that the attile program writes: whole or not at all, whatever has the name already, whoever owns it, and however the program ends.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <thread>

#include "run_program.h"

namespace {

using namespace attile::test;
using testing::IsSubstring;
using Names = std::vector<std::string>;

const std::string kInput = std::string(ATTILE_EXAMPLE_DATA) + "/attention_small.bin";
constexpr uid_t kNobody = 65534;

class OutputTest : public testing::Test {
  protected:
    // `attile generate` to a name: 48 KiB, the same bytes each time.
    static std::vector<std::string> generate(const std::string &path) {
        return {ATTILE_PROGRAM, "generate", path, "-B", "1", "-N", "64", "-d", "64"};
    }
    // The same by a shell that first does something else.
    static Finished generate_after(const std::string &script, const std::string &path, const std::vector<std::string> &wrapper = {}) {
        std::vector<std::string> command = wrapper;
        const std::vector<std::string> program = generate(path), shell = {"/bin/sh", "-c", script + "; exec \"$0\" \"$@\""};
        command.insert(command.end(), shell.begin(), shell.end());
        command.insert(command.end(), program.begin(), program.end());
        return run_program(command);
    }
    static struct stat status_of(const std::string &path) {
        struct stat status = {};
        EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
        return status;
    }
    static unsigned mode_of(const std::string &path) { return status_of(path).st_mode & 07777; }
    static bool is_link(const std::string &path) { return S_ISLNK(status_of(path).st_mode); }
    void make(const std::string &name, unsigned mode, const std::string &bytes = "precious") {
        write_file(scratch_.file(name), bytes);
        ASSERT_EQ(chmod(scratch_.file(name).c_str(), mode), 0);
    }
    std::string expected() {
        const ScratchDirectory other;
        EXPECT_EQ(run_program(generate(other.file("x"))).code, 0);
        return read_file(other.file("x"));
    }
    // One sentence, the name in it, and everything as it was.
    void expect_failure(const Finished &run, const std::string &path, const std::string &sentence, const Names &names) {
        EXPECT_EQ(run.code, 1) << "signal " << run.signal;
        EXPECT_EQ(run.out, "");
        EXPECT_EQ(lines(run.err), 1) << run.err;
        EXPECT_PRED_FORMAT2(IsSubstring, "'" + path + "'", run.err);
        EXPECT_PRED_FORMAT2(IsSubstring, sentence, run.err);
        EXPECT_EQ(scratch_.names(), names);
    }
    ScratchDirectory scratch_;
};

TEST_F(OutputTest, KeepsPermissionsAndFollowsLinks) {
    make("target", 0640);
    ASSERT_EQ(symlink("target", scratch_.file("link").c_str()), 0);
    ASSERT_EQ(run_attile({"attention", kInput, scratch_.file("link")}).code, 0);
    EXPECT_TRUE(is_link(scratch_.file("link")));
    EXPECT_EQ(mode_of(scratch_.file("target")), 0640u);
    EXPECT_EQ(status_of(scratch_.file("target")).st_size, 2 * 33 * 16 * 4);
}

TEST_F(OutputTest, NewFilesAreAsTheUmaskSays) {
    for (const char *mask : {"022", "077", "007"}) {
        const std::string path = scratch_.file(std::string("new") + mask);
        ASSERT_EQ(generate_after(std::string("umask ") + mask, path).code, 0);
        EXPECT_EQ(mode_of(path), 0666u & ~static_cast<unsigned>(std::stoi(mask, nullptr, 8)));
    }
}

TEST_F(OutputTest, NeverSetsSpecialBits) {
    for (const unsigned mode : {04755u, 02755u, 06755u, 01644u, 07777u, 04711u, 0600u, 0444u | 0200u}) {
        make("out", mode);
        ASSERT_EQ(mode_of(scratch_.file("out")), mode);
        ASSERT_EQ(run_program(generate(scratch_.file("out"))).code, 0);
        EXPECT_EQ(mode_of(scratch_.file("out")), mode & 0777u);
    }
}

// Who owned the old file chose its mode, and would have chosen that of a file of ours.
TEST_F(OutputTest, TakesNothingFromAnotherUsersFile) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another user";
    for (const unsigned mode : {06777u, 0777u, 0600u, 0000u}) {
        make("out", mode);
        ASSERT_EQ(chown(scratch_.file("out").c_str(), kNobody, kNobody), 0);
        ASSERT_EQ(chmod(scratch_.file("out").c_str(), mode), 0);  // chown() took the special bits away.
        ASSERT_EQ(generate_after("umask 027", scratch_.file("out")).code, 0);
        const struct stat made = status_of(scratch_.file("out"));
        EXPECT_EQ(made.st_mode & 07777, 0640u) << std::oct << mode;
        EXPECT_EQ(made.st_uid, 0u);
        EXPECT_NE(made.st_gid, kNobody);
    }
}

// The group's permissions are those of one group: another group is given what everybody has.
TEST_F(OutputTest, KeepsTheGroupOrItsPermissionsGo) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can give a file to another group";
    make("out", 0660);
    ASSERT_EQ(chown(scratch_.file("out").c_str(), 0, kNobody), 0);
    ASSERT_EQ(run_program(generate(scratch_.file("out"))).code, 0);
    EXPECT_EQ(status_of(scratch_.file("out")).st_gid, kNobody);
    EXPECT_EQ(mode_of(scratch_.file("out")), 0660u);

    const std::vector<std::string> as_nobody = {"/usr/bin/setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"};
    std::vector<std::string> probe = as_nobody;
    probe.insert(probe.end(), {ATTILE_PROGRAM, "--version"});
    if (access(as_nobody[0].c_str(), X_OK) != 0 || run_program(probe).code != 0) GTEST_SKIP() << "no other user can run " ATTILE_PROGRAM;
    ASSERT_EQ(chmod(scratch_.file(".").c_str(), 0777), 0);
    ASSERT_EQ(chown(scratch_.file("out").c_str(), kNobody, 0), 0);
    ASSERT_EQ(generate_after("umask 022", scratch_.file("out"), as_nobody).code, 0);
    EXPECT_EQ(status_of(scratch_.file("out")).st_gid, kNobody);
    EXPECT_EQ(mode_of(scratch_.file("out")), 0600u);
}

TEST_F(OutputTest, LinksToNothingYet) {
    ASSERT_EQ(mkdir(scratch_.file("folder").c_str(), 0777), 0);
    ASSERT_EQ(symlink("folder/second", scratch_.file("first").c_str()), 0);
    ASSERT_EQ(symlink("../new", scratch_.file("folder/second").c_str()), 0);
    ASSERT_EQ(run_program(generate(scratch_.file("first"))).code, 0);
    EXPECT_TRUE(is_link(scratch_.file("first")));
    EXPECT_TRUE(is_link(scratch_.file("folder/second")));
    EXPECT_FALSE(is_link(scratch_.file("new")));
    EXPECT_EQ(read_file(scratch_.file("new")), expected());

    ASSERT_EQ(symlink("nowhere/out", scratch_.file("lost").c_str()), 0);
    ASSERT_EQ(symlink("loop", scratch_.file("loop").c_str()), 0);
    const Names names = scratch_.names();
    expect_failure(run_program(generate(scratch_.file("lost"))), scratch_.file("lost"), "No such file", names);
    expect_failure(run_program(generate(scratch_.file("loop"))), scratch_.file("loop"), "symbolic links", names);
    EXPECT_TRUE(is_link(scratch_.file("lost")));
    EXPECT_TRUE(is_link(scratch_.file("loop")));
}

// In a folder such as /tmp somebody's link does not say where another user's files go.
TEST_F(OutputTest, LinksOfOthersInASharedFolder) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make another user's link";
    ASSERT_EQ(mkdir(scratch_.file("shared").c_str(), 0777), 0);
    ASSERT_EQ(chmod(scratch_.file("shared").c_str(), 01777), 0);
    ASSERT_EQ(symlink("../stolen", scratch_.file("shared/out").c_str()), 0);
    ASSERT_EQ(lchown(scratch_.file("shared/out").c_str(), kNobody, kNobody), 0);
    expect_failure(run_program(generate(scratch_.file("shared/out"))), scratch_.file("shared/out"), "Permission denied", {"shared"});
    make("stolen", 0644);
    expect_failure(run_program(generate(scratch_.file("shared/out"))), scratch_.file("shared/out"), "Permission denied",
                   {"shared", "stolen"});
    EXPECT_EQ(read_file(scratch_.file("stolen")), "precious");
}

TEST_F(OutputTest, OtherNamesOfTheFileKeepWhatTheyHeld) {
    make("out", 0644);
    ASSERT_EQ(link(scratch_.file("out").c_str(), scratch_.file("other").c_str()), 0);
    ASSERT_EQ(run_program(generate(scratch_.file("out"))).code, 0);
    EXPECT_EQ(read_file(scratch_.file("out")), expected());
    EXPECT_EQ(read_file(scratch_.file("other")), "precious");
}

TEST_F(OutputTest, NamesAsLongAsTheyMayBe) {
    const std::string longest(255, 'x');
    ASSERT_EQ(run_program(generate(scratch_.file(longest))).code, 0);
    EXPECT_EQ(scratch_.names(), Names{longest});
    expect_failure(run_program(generate(scratch_.file(longest + "x"))), scratch_.file(longest + "x"), "name too long", Names{longest});
}

TEST_F(OutputTest, DevicesPipesAndSocketsStayWhatTheyAre) {
    const std::string pipe = scratch_.file("pipe"), other = scratch_.file("socket");
    ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
    const pid_t process = start_program(generate(pipe));
    EXPECT_EQ(read_file(pipe), expected());
    EXPECT_EQ(wait_for_program(process).code, 0);
    EXPECT_TRUE(S_ISFIFO(status_of(pipe).st_mode));
    EXPECT_EQ(run_program(generate("/dev/null")).code, 0);
    EXPECT_TRUE(S_ISCHR(status_of("/dev/null").st_mode));

    const int listening = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    ASSERT_LT(other.size(), sizeof address.sun_path);
    std::memcpy(address.sun_path, other.c_str(), other.size());
    ASSERT_EQ(bind(listening, reinterpret_cast<const sockaddr *>(&address), sizeof address), 0);
    expect_failure(run_program(generate(other)), other, "cannot be written", {"pipe", "socket"});
    close(listening);
}

TEST_F(OutputTest, ThatCannotBeWritten) {
    for (const std::string &path : {std::string("/nonexistent/out"), std::string("/"), std::string("/dev/full"), std::string("/dev/null/x"),
                                    scratch_.file("new/"), scratch_.file(".")})
        for (const Finished &run : {run_attile({"attention", kInput, path}), run_program(generate(path))})
            expect_failure(run, path, "", {});
}

// A limit of the process (bash's ulimit, a batch system) would end it by SIGXFSZ; a full disk is an error of write().
TEST_F(OutputTest, ThatMayNotGrowSoLarge) {
    make("out", 0644);
    expect_failure(generate_after("ulimit -f 8", scratch_.file("out")), scratch_.file("out"), "File too large", {"out"});
    expect_failure(generate_after("ulimit -f 8", scratch_.file("new")), scratch_.file("new"), "File too large", {"out"});
    EXPECT_EQ(read_file(scratch_.file("out")), "precious");
    const Finished run = run_program({"/bin/sh", "-c", "ulimit -f 1; exec \"$0\" \"$@\"", ATTILE_PROGRAM, "attention", kInput,
                                      scratch_.file("out"), "--backend", "reference"});
    expect_failure(run, scratch_.file("out"), "File too large", {"out"});
}

TEST_F(OutputTest, OnAFullDisk) {
    const std::string disk = scratch_.file("disk");
    ASSERT_EQ(mkdir(disk.c_str(), 0777), 0);
    const std::string mount = "mount -t tmpfs -o size=16k none '" + disk + "' || exit 77";
    const Finished probe = run_program({"/usr/bin/unshare", "-m", "/bin/sh", "-c", mount});
    if (probe.code != 0) GTEST_SKIP() << "no file system can be mounted here: " << probe.err;
    // The shell stays to look: the mount is gone with its namespace.
    std::vector<std::string> command = {
        "/usr/bin/unshare", "-m", "/bin/sh", "-c",
        mount + "; cd '" + disk + "'; echo precious >out; \"$0\" \"$@\"; code=$?; ls -A; cat out; exit $code"};
    const std::vector<std::string> program = generate(disk + "/out");
    command.insert(command.end(), program.begin(), program.end());
    const Finished run = run_program(command);
    EXPECT_EQ(run.code, 1);
    EXPECT_PRED_FORMAT2(IsSubstring, "No space left", run.err);
    EXPECT_EQ(lines(run.err), 1) << run.err;
    EXPECT_EQ(run.out, "out\nprecious\n");
}

TEST_F(OutputTest, StandardOutputHoldsTheResultAlone) {
    const Finished run = run_attile({"attention", kInput, "/dev/stdout", "--backend", "reference"});
    EXPECT_EQ(run.code, 0) << run.err;
    EXPECT_EQ(run.out.size(), 2u * 33 * 16 * 4);
    EXPECT_PRED_FORMAT2(IsSubstring, "GFLOP/s", run.err);
    const Finished made = run_program(generate("/dev/stdout"));
    EXPECT_EQ(made.out, expected());
    EXPECT_PRED_FORMAT2(IsSubstring, "/dev/stdout: B = 1", made.err);
}

TEST_F(OutputTest, StandardOutputIsAppendedToWhereTheShellSaysSo) {
    make("log", 0644, "precious");
    EXPECT_EQ(generate_after("exec >>'" + scratch_.file("log") + "'", "/dev/stdout").code, 0);
    EXPECT_EQ(read_file(scratch_.file("log")), "precious" + expected());
}

// Ended as soon as the output's temporary file can be seen: between its making and the next thing that the program does.
TEST_F(OutputTest, EndedBySignalsLeavesNothing) {
    ASSERT_EQ(mkfifo(scratch_.file("pipe").c_str(), 0600), 0);
    // Nobody else's handlers: AddressSanitizer has some.
    const Environment plain = {
        {"ASAN_OPTIONS", "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_sigtrap=0:handle_abort=0"}};
    const std::string first_batch = read_file(kInput).substr(0, 7000);  // Whole, so that the program waits with the output begun.
    for (const int signal : {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM,
                             SIGPROF, SIGPOLL, SIGABRT, SIGBUS,  SIGFPE,  SIGILL,  SIGSEGV, SIGSYS,  SIGTRAP, SIGTERM}) {
        const pid_t process = start_program({"/bin/sh", "-c", "ulimit -c 0; exec \"$0\" \"$@\"", ATTILE_PROGRAM, "attention",
                                             scratch_.file("pipe"), scratch_.file("out"), "--memory", "1"},
                                            plain);
        std::ofstream pipe(scratch_.file("pipe"), std::ios::binary);
        pipe << first_batch;
        pipe.flush();
        const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
        while (scratch_.names().size() < 2 && std::chrono::steady_clock::now() < latest) std::this_thread::yield();
        EXPECT_EQ(scratch_.names().size(), 2u);
        kill(process, signal);
        EXPECT_EQ(wait_for_program(process).signal, signal);
        EXPECT_EQ(scratch_.names(), Names{"pipe"}) << "signal " << signal;
    }
}

// What replaces a private file is private from its first byte on.
TEST_F(OutputTest, IsNeverMoreReadableThanWhatItReplaces) {
    make("out", 0600);
    ASSERT_EQ(mkfifo(scratch_.file("pipe").c_str(), 0600), 0);
    const pid_t process = start_program({ATTILE_PROGRAM, "attention", scratch_.file("pipe"), scratch_.file("out"), "--memory", "1"});
    std::ofstream pipe(scratch_.file("pipe"), std::ios::binary);
    pipe << read_file(kInput).substr(0, 7000);
    pipe.flush();
    const auto latest = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    unsigned seen = 0;
    for (int looks = 0; looks < 20 && std::chrono::steady_clock::now() < latest;) {
        for (const std::string &name : scratch_.names())
            if (name != "out" && name != "pipe") seen |= mode_of(scratch_.file(name)), ++looks;
    }
    EXPECT_EQ(seen, 0600u);
    kill(process, SIGTERM);
    wait_for_program(process);
    EXPECT_EQ(read_file(scratch_.file("out")), "precious");
}

}  // namespace
