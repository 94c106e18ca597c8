// SPDX-License-Identifier: Apache-2.0
// The cpu backend's team of threads by itself: what it promises to the program around it. Linked with --wrap=pthread_create, so that
// threads can be refused, or made and not let run.
#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "state.h"
#include "threads/threads.h"
#include "wipes_on_fork.h"

namespace {

std::atomic<int> g_allowed{INT32_MAX};  // threads that may still be made
std::atomic<bool> g_held{false};        // those made now do not begin
std::atomic<int> g_made{0};

struct Start {
    void *(*body)(void *);
    void *argument;
};

void *begin_when_let(void *argument) {
    const std::unique_ptr<Start> start(static_cast<Start *>(argument));
    while (g_held) usleep(100);
    return start->body(start->argument);
}

}  // namespace

extern "C" int __real_pthread_create(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
extern "C" int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
    if (g_allowed.fetch_sub(1) <= 0) return EAGAIN;
    ++g_made;
    return __real_pthread_create(thread, attributes, begin_when_let, new Start{body, argument});
}

namespace attile::cpu {

const attile_host_v1 *g_host = nullptr;

namespace {

// ATTILE_NUM_THREADS, else OMP_NUM_THREADS, else the processors; a variable that makes no sense says nothing.
TEST(CpuDefaultThreads, ComeFromVariablesElseFromProcessors) {
    attile_host_v1 host{};
    host.environment = [](const char *name) -> const char * { return std::getenv(name); };
    g_host = &host;
    unsetenv("ATTILE_NUM_THREADS");
    unsetenv("OMP_NUM_THREADS");
    const int processors = default_threads();
    EXPECT_GE(processors, 1);
    EXPECT_LE(processors, sysconf(_SC_NPROCESSORS_CONF));
    const struct {
        const char *text;
        int threads;
    } values[] = {{"5", 5},           {" 6 ", 6},         {"7,2", 7},         {"4 , 1", 4},        {"99999999999999999999", 1024},
                  {"", processors},   {"0", processors},  {"-3", processors}, {"two", processors}, {"2x", processors},
                  {",3", processors}, {"0x4", processors}};
    for (const char *variable : {"ATTILE_NUM_THREADS", "OMP_NUM_THREADS"}) {
        for (const auto &value : values) {
            setenv(variable, value.text, 1);
            EXPECT_EQ(default_threads(), value.threads) << variable << "=" << value.text;
        }
        unsetenv(variable);
    }
    setenv("ATTILE_NUM_THREADS", "none", 1);
    setenv("OMP_NUM_THREADS", "5", 1);
    EXPECT_EQ(default_threads(), 5);
    setenv("ATTILE_NUM_THREADS", "2", 1);
    EXPECT_EQ(default_threads(), 2);
    // What the core hides from a privileged process.
    host.environment = [](const char *) -> const char * { return nullptr; };
    EXPECT_EQ(default_threads(), processors);
    g_host = nullptr;
    EXPECT_EQ(default_threads(), processors);
    unsetenv("ATTILE_NUM_THREADS");
    unsetenv("OMP_NUM_THREADS");
}

// Runs `work` and looks at the rules: every piece once, no phase before the one in front of it is done, ranks that nobody shares. Returns
// the number of threads that took part.
int run_and_check(int threads, const Work &work, int microseconds = 0) {
    int64_t round_pieces = 0;
    for (const int64_t pieces : work.pieces) round_pieces += pieces;
    std::vector<std::atomic<int>> times(static_cast<size_t>(work.rounds * round_pieces));
    std::vector<std::atomic<int>> rank_in_use(static_cast<size_t>(threads));
    std::atomic<int64_t> done{0};
    std::atomic<int> wrong{0};
    std::atomic<uint64_t> ranks{0};
    parallel_phases(threads, work, [&](const Piece &piece) {
        int64_t before = piece.round * round_pieces;
        for (int phase = 0; phase < piece.phase; ++phase) before += work.pieces[phase];
        if (done.load() < before || piece.rank < 0 || piece.rank >= threads || piece.index >= work.pieces[piece.phase]) ++wrong;
        if (rank_in_use[static_cast<size_t>(piece.rank)].exchange(1) != 0) ++wrong;
        ++times[static_cast<size_t>(before + piece.index)];
        if (piece.rank < 64) ranks |= uint64_t{1} << piece.rank;
        if (microseconds > 0) usleep(static_cast<unsigned>(microseconds));
        rank_in_use[static_cast<size_t>(piece.rank)] = 0;
        ++done;
    });
    EXPECT_EQ(wrong, 0);
    for (const std::atomic<int> &count : times) EXPECT_EQ(count, 1);
    return __builtin_popcountll(ranks);
}

// Ends the child with status 0 if `body` found nothing wrong and came to its end within 20 seconds.
template <class Body>
void expect_in_child(Body &&body) {
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        body();
        _exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

// For a team that nobody used yet: a child's is one. ThreadSanitizer knows no threads in a child; there this process must be as new, which
// it is where it runs no other test.
template <class Body>
void expect_with_new_team(Body &&body) {
#if defined(__SANITIZE_THREAD__)
    if (g_made > 0) GTEST_SKIP() << "this process has made threads";
    body();
#else
    expect_in_child(body);
#endif
}

class CpuTeam : public ::testing::Test {
  protected:
    void SetUp() override {
        g_allowed = INT32_MAX;
        g_held = false;
    }
};

TEST_F(CpuTeam, DoesEveryPieceOncePhaseAfterPhase) {
    std::mt19937 random(1);
    const auto below = [&](int limit) { return static_cast<int64_t>(random() % static_cast<unsigned>(limit)); };
    for (int i = 0; i < 400; ++i) {
        Work work;
        work.rounds = below(6);
        for (int64_t &pieces : work.pieces) pieces = below(3) == 0 ? 0 : below(i % 10 == 0 ? 400 : 12);
        run_and_check(static_cast<int>(1 + below(9)), work, static_cast<int>(i % 5 == 0 ? below(60) : 0));
        if (i % 3 == 0) usleep(static_cast<unsigned>(below(300)));  // so long that workers fall asleep, at times
    }
}

TEST_F(CpuTeam, LoopsFollowEachOther) {
    for (const int64_t count : {0, 1, 5, 1000, 100000}) {
        std::vector<int> first(static_cast<size_t>(count)), second(first.size());
        std::atomic<int> wrong{0};
        parallel_in_turn(
            4, Loop{count, [&](int64_t i, int) { first[static_cast<size_t>(i)] = 1; }}, Loop{int64_t{0}, [&](int64_t, int) { ++wrong; }},
            Loop{count, [&](int64_t i, int) { second[static_cast<size_t>(i)] = first[static_cast<size_t>(count - 1 - i)] + 1; }});
        EXPECT_EQ(wrong, 0);
        for (const int value : second) EXPECT_EQ(value, 2);
    }
}

TEST_F(CpuTeam, WorkersTakePart) {
    Work work;
    work.pieces[0] = 64;
    int most_seen = 0;
    for (int i = 0; i < 50 && most_seen < 4; ++i) most_seen = std::max(most_seen, run_and_check(4, work, 1000));
    EXPECT_EQ(most_seen, 4);
}

// Whichever thread cannot be made, the work is done, and later, when threads can be had again, there are some.
TEST_F(CpuTeam, ServesWithWhatThreadsItCanHave) {
    for (const int allowed : {2, 0, 1, 5}) {
        expect_with_new_team([&] {
            g_allowed = allowed;
            Work work;
            work.pieces[0] = work.pieces[1] = 40;
            int seen = 0;
            for (int i = 0; i < 30; ++i) seen = std::max(seen, run_and_check(7, work, 200));
            EXPECT_LE(seen, 1 + allowed);
            g_allowed = INT32_MAX;
            for (int i = 0; i < 3000 && seen < 7; ++i) seen = std::max(seen, run_and_check(7, work, i < 2500 ? 0 : 200));
            EXPECT_EQ(seen, 7);
        });
    }
}

// Threads that exist and never run hold nobody up; when they run at last, what they were called for is long over.
TEST_F(CpuTeam, DoesNotWaitForThreadsThatDoNotRun) {
    expect_with_new_team([] {
        g_held = true;
        const int made_before = g_made;
        Work work;
        work.rounds = 3;
        work.pieces[0] = 5;
        work.pieces[1] = 7;
        for (int i = 0; i < 100; ++i) EXPECT_EQ(run_and_check(4, work), 1);
        EXPECT_EQ(g_made - made_before, 3);
        g_held = false;
        int seen = 1;
        for (int i = 0; i < 200 && seen < 4; ++i) seen = std::max(seen, run_and_check(4, work, 500));
        EXPECT_EQ(seen, 4);
    });
}

TEST_F(CpuTeam, AForkedChildMakesItsOwn) {
#if defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "ThreadSanitizer knows no threads in a forked child";
#endif
    if (test::keeps_what_it_is_to_wipe()) GTEST_SKIP() << test::kKeeps;
    Work work;
    work.pieces[0] = 50;
    std::atomic<bool> stop{false};
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) {
        callers.emplace_back([&] {
            while (!stop) run_and_check(4, work, 10);
        });
    }
    for (int i = 0; i < 10; ++i) {
        expect_in_child([&] {
            int seen = 1;
            for (int n = 0; n < 100 && seen < 4; ++n) seen = std::max(seen, run_and_check(4, work, 500));
            EXPECT_EQ(seen, 4);
            expect_in_child([&] { run_and_check(3, work, 100); });
        });
    }
    stop = true;
    for (std::thread &caller : callers) caller.join();
    run_and_check(4, work, 10);
}

// More callers than the team has slots, each with more threads than there are processors.
TEST_F(CpuTeam, ServesManyCallersAtOnce) {
    std::vector<std::thread> callers;
    for (int i = 0; i < 24; ++i) {
        callers.emplace_back([i] {
            Work work;
            work.rounds = 2;
            work.pieces[0] = 5 + i;
            work.pieces[2] = 3;
            for (int n = 0; n < 40; ++n) run_and_check(2 + i % 5, work, n % 4 == 0 ? 20 : 0);
        });
    }
    for (std::thread &caller : callers) caller.join();
}

#if defined(__x86_64__) || defined(__aarch64__)
#if defined(__x86_64__)
using Mode = uint32_t;
Mode mode() { return __builtin_ia32_stmxcsr() & 0xffc0U; }
void set_mode(Mode mode) { __builtin_ia32_ldmxcsr(mode); }
constexpr Mode kUsual = 0x1f80;
const std::vector<Mode> kModes = {0x1f80, 0x3f80, 0x5f80, 0x7f80, 0x9f80, 0x1fc0, 0x9fc0, 0xffc0};
#else
using Mode = uint64_t;
Mode mode() {
    Mode mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
void set_mode(Mode mode) { __asm__ volatile("msr fpcr, %0" : : "r"(mode)); }
constexpr Mode kUsual = 0;
const std::vector<Mode> kModes = {0, 1 << 22, 2 << 22, 3 << 22, 1 << 24, 1 << 24 | 3 << 22};
#endif

TEST_F(CpuTeam, WorkersComputeInTheCallersMode) {
    for (int pass = 0; pass < 3; ++pass) {
        for (const Mode wanted : kModes) {
            std::atomic<int> others{0}, wrong{0};
            set_mode(wanted);
            for (int i = 0; i < 100 && others < 3; ++i) {
                parallel_for(4, 16, [&](int64_t, int rank) {
                    if (mode() != wanted) ++wrong;
                    if (rank != 0) ++others;
                    usleep(200);
                });
            }
            const Mode after = mode();
            set_mode(kUsual);
            EXPECT_EQ(after, wanted);
            EXPECT_EQ(wrong, 0);
            EXPECT_GE(others, 3);
        }
    }
}
#endif

// Cancelled in the middle of a call a thread stays until the call is over: others work on its stack.
TEST_F(CpuTeam, ACallerIsNotCancelledInTheMiddle) {
    for (const int type : {PTHREAD_CANCEL_DEFERRED, PTHREAD_CANCEL_ASYNCHRONOUS}) {
        for (int i = 0; i < 10; ++i) {
            struct Shared {
                int type;
                std::atomic<int64_t> calls{0}, pieces{0};
                std::atomic<int> in_pieces{0};
            } shared;
            shared.type = type;
            const auto body = [](void *argument) -> void * {
                Shared &all = *static_cast<Shared *>(argument);
                for (;;) {
                    int before = 0;
                    pthread_setcanceltype(all.type, &before);
                    // Not through the templates: nothing here but run_work() may be cancelled at any instruction.
                    Work work;
                    work.pieces[0] = 30;
                    run_work(
                        4, work,
                        [](void *shared_again, const Piece &) {
                            Shared &mine = *static_cast<Shared *>(shared_again);
                            ++mine.in_pieces;
                            const timespec pause{0, 50000};
                            nanosleep(&pause, nullptr);  // where a thread that can be cancelled ends
                            --mine.in_pieces;
                            ++mine.pieces;
                        },
                        &all);
                    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before);
                    ++all.calls;
                    pthread_testcancel();
                }
            };
            pthread_t caller;
            ASSERT_EQ(pthread_create(&caller, nullptr, body, &shared), 0);
            usleep(static_cast<unsigned>(500 + 333 * i));
            pthread_cancel(caller);
            pthread_join(caller, nullptr);
            EXPECT_EQ(shared.in_pieces, 0);
            EXPECT_EQ(shared.pieces % 30, 0);
        }
    }
    Work work;
    work.pieces[0] = 50;
    run_and_check(4, work, 10);
}

TEST_F(CpuTeam, ACallerMayHaveASmallStack) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, static_cast<size_t>(sysconf(_SC_THREAD_STACK_MIN)) + 16384), 0);
    pthread_t caller;
    std::atomic<int> done{0};
    const auto body = [](void *argument) -> void * {
        Work work;
        work.pieces[0] = 20;
        run_work(
            4, work, [](void *count, const Piece &) { ++*static_cast<std::atomic<int> *>(count); }, argument);
        return nullptr;
    };
    ASSERT_EQ(pthread_create(&caller, &attributes, body, &done), 0);
    pthread_join(caller, nullptr);
    pthread_attr_destroy(&attributes);
    EXPECT_EQ(done, 20);
}

std::atomic<int> g_handled{0};

// A signal that the program keeps from its own threads reaches none of ours.
TEST_F(CpuTeam, WorkersTakeNoSignals) {
    Work work;
    work.pieces[0] = 16;
    for (int i = 0; i < 20; ++i) run_and_check(4, work, 500);
    struct sigaction action {
    }, before{};
    action.sa_handler = [](int) { ++g_handled; };
    ASSERT_EQ(sigaction(SIGUSR1, &action, &before), 0);
    sigset_t blocked, mask;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &blocked, &mask);
    kill(getpid(), SIGUSR1);
    run_and_check(4, work, 500);
    EXPECT_EQ(g_handled, 0);
    int number = 0;
    sigwait(&blocked, &number);
    pthread_sigmask(SIG_SETMASK, &mask, nullptr);
    sigaction(SIGUSR1, &before, nullptr);
}

}  // namespace
}  // namespace attile::cpu
