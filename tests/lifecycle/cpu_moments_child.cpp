// SPDX-License-Identifier: Apache-2.0
// A program that lives through one hard moment while an operation of the cpu backend uses threads: moment and operation are the arguments.
// Exit status 0 and nothing printed: all was well.
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "busy_calls.h"

using attile::test::busy_call_named;
using attile::test::BusyCall;
using attile::test::BusyCallKind;

namespace {

[[noreturn]] void give_up(const std::string &why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::fflush(stderr);
    _exit(1);
}

void expect(bool condition, const char *what) {
    if (!condition) give_up(what);
}

std::string error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

int32_t try_create(int threads, attile_context **context) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu";
    options.threads = threads;
    return attile_context_create(&options, context);
}

attile_context *create(int threads = 4) {
    attile_context *context = nullptr;
    if (try_create(threads, &context) != ATTILE_OK) give_up("create: " + error());
    return context;
}

// A call, and what it gives by one thread in a quiet process.
struct Subject {
    const BusyCallKind *kind;
    std::unique_ptr<BusyCall> call;
    std::vector<float> expected;

    explicit Subject(const BusyCallKind *operation) : kind(operation), call(make()) {
        attile_context *one = create(1);
        if (call->run(one) != ATTILE_OK) give_up(error());
        expected = call->results();
        attile_context_destroy(one);
    }
    std::unique_ptr<BusyCall> make() const {
        auto made = std::make_unique<BusyCall>();
        kind->make(made.get());
        return made;
    }
    void use(attile_context *context, BusyCall *own = nullptr) const {
        if (own == nullptr) own = call.get();
        own->clear();
        if (own->run(context) != ATTILE_OK) give_up(error());
        expect(own->holds(expected), "the result is not that of one thread");
    }
};

// Threads that use one context over and over.
class Callers {
  public:
    Callers(const Subject &subject, attile_context *context, int count) {
        for (int i = 0; i < count; ++i) {
            threads_.emplace_back([&subject, context, this] {
                const std::unique_ptr<BusyCall> own = subject.make();
                while (!stop_) {
                    subject.use(context, own.get());
                    ++calls_;
                }
            });
        }
    }
    ~Callers() {
        stop_ = true;
        for (std::thread &thread : threads_) thread.join();
    }
    void wait_for(int calls) const {
        while (calls_ < calls) usleep(200);
    }

  private:
    std::atomic<bool> stop_{false};
    std::atomic<int> calls_{0};
    std::vector<std::thread> threads_;
};

void nothing(const Subject &subject) {
    for (const int threads : {2, 4, 7}) {
        attile_context *context = create(threads);
        for (int i = 0; i < 3; ++i) subject.use(context);
        attile_context_destroy(context);
    }
}

// Not one thread more for this user, before the first call and after.
void no_threads(const Subject &subject) {
    attile_context *before = create(), *used = create();
    if (getuid() == 0) expect(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0, "setresuid");
    const rlimit none = {0, 0};
    expect(setrlimit(RLIMIT_NPROC, &none) == 0, "setrlimit");
    pthread_t thread;
    expect(pthread_create(
               &thread, nullptr, [](void *) -> void * { return nullptr; }, nullptr) != 0,
           "a thread was to be had");
    for (int i = 0; i < 3; ++i) subject.use(before);
    subject.use(used);
    attile_context_destroy(before);
    attile_context_destroy(used);
}

int64_t address_space() {
    std::ifstream file("/proc/self/statm");
    int64_t pages = 0;
    file >> pages;
    return pages * sysconf(_SC_PAGESIZE);
}

// Less and less short of address space: results, or a status and nothing written; and all is well when there is space again.
void no_address_space(const Subject &subject) {
    rlimit before;
    getrlimit(RLIMIT_AS, &before);
    int failed = 0, served = 0;
    for (const int64_t more : {0, 64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20, 9 << 20, 64 << 20}) {
        attile_context *context = create();
        const rlimit tight = {static_cast<rlim_t>(address_space() + more), before.rlim_max};
        expect(setrlimit(RLIMIT_AS, &tight) == 0, "setrlimit");
        for (int i = 0; i < 2; ++i) {
            subject.call->clear();
            const int32_t status = subject.call->run(context);
            if (status == ATTILE_OK) {
                ++served;
            } else {
                ++failed;
                if (status != ATTILE_ERROR_OUT_OF_HOST_MEMORY) give_up("no memory is called " + error());
            }
            setrlimit(RLIMIT_AS, &before);
            if (status == ATTILE_OK) {
                expect(subject.call->holds(subject.expected), "the result under a limit is not that of one thread");
            } else {
                // backward's call is two, of which the first may have been served.
                expect(subject.call->untouched() || std::string(subject.kind->name) == "backward", "a failed call wrote");
            }
            setrlimit(RLIMIT_AS, &tight);
        }
        setrlimit(RLIMIT_AS, &before);
        subject.use(context);
        attile_context_destroy(context);
    }
    expect(served > 0, "nothing was served under a limit");
    (void)failed;
}

void small_stack(const Subject &subject) {
    attile_context *context = create();
    struct Work {
        const Subject *subject;
        attile_context *context;
        int32_t status;
    } work{&subject, context, -1};
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    const size_t least = static_cast<size_t>(sysconf(_SC_THREAD_STACK_MIN));
    expect(pthread_attr_setstacksize(&attributes, (least + (64 << 10) + 4095) / 4096 * 4096) == 0, "setstacksize");
    for (int i = 0; i < 3; ++i) {
        subject.call->clear();
        pthread_t thread;
        const auto body = [](void *argument) -> void * {
            Work &own = *static_cast<Work *>(argument);
            own.status = own.subject->call->run(own.context);
            return nullptr;
        };
        expect(pthread_create(&thread, &attributes, body, &work) == 0, "pthread_create");
        pthread_join(thread, nullptr);
        expect(work.status == ATTILE_OK && subject.call->holds(subject.expected), "a call from a small stack");
    }
    pthread_attr_destroy(&attributes);
    attile_context_destroy(context);
}

void expect_child(pid_t child, const char *what) {
    int status = 1;
    expect(child > 0 && waitpid(child, &status, 0) == child, "fork");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) give_up(std::string(what) + ": " + std::to_string(status));
}

void live_in_child(const Subject &subject, attile_context *parents) {
    alarm(20);
    expect(subject.call->run(parents) == ATTILE_ERROR_AFTER_FORK, "the parent's context in the child");
    attile_context *own = create(), *other = create(2);
    for (int i = 0; i < 3; ++i) subject.use(own);
    {
        const Callers callers(subject, own, 2);
        subject.use(other);
        callers.wait_for(2);
    }
    const pid_t grandchild = fork();
    if (grandchild == 0) {
        alarm(20);
        subject.use(create(3));
        _exit(0);
    }
    expect_child(grandchild, "the grandchild");
    attile_context_destroy(own);
    attile_context_destroy(parents);
    _exit(0);
}

void fork_after_use(const Subject &subject) {
    attile_context *context = create();
    subject.use(context);
    for (int i = 0; i < 3; ++i) {
        const pid_t child = fork();
        if (child == 0) live_in_child(subject, context);
        expect_child(child, "the child");
        subject.use(context);
    }
    attile_context_destroy(context);
}

void fork_beside_callers(const Subject &subject) {
    attile_context *context = create();
    {
        const Callers callers(subject, context, 3);
        for (int i = 0; i < 5; ++i) {
            callers.wait_for(2 * i);
            const pid_t child = fork();
            if (child == 0) live_in_child(subject, context);
            expect_child(child, "the child");
        }
    }
    subject.use(context);
    attile_context_destroy(context);
}

void exit_beside_callers(const Subject &subject) {
    static attile_context *context = create();
    static const Callers *const callers = new Callers(subject, context, 3);
    callers->wait_for(5);
    std::exit(0);
}

// The main thread is gone, its stack is not; another one ends the process.
void main_thread_leaves(const Subject &subject) {
    static attile_context *context = create();
    static const Callers *const callers = new Callers(subject, context, 2);
    std::thread([] {
        callers->wait_for(5);
        std::exit(0);
    }).detach();
    pthread_exit(nullptr);
}

void cancel_callers(const Subject &subject) {
    attile_context *context = create();
    struct Work {
        const Subject *subject;
        attile_context *context;
        std::unique_ptr<BusyCall> call;
        std::atomic<int> calls{0};
        std::atomic<bool> inside{false};
    };
    for (int i = 0; i < 12; ++i) {
        Work work{&subject, context, subject.make()};
        const auto body = [](void *argument) -> void * {
            Work &own = *static_cast<Work *>(argument);
            for (;;) {
                own.inside = true;
                own.subject->use(own.context, own.call.get());
                own.inside = false;
                ++own.calls;
                pthread_testcancel();
            }
        };
        pthread_t thread;
        expect(pthread_create(&thread, nullptr, body, &work) == 0, "pthread_create");
        while (work.calls < i % 3) usleep(50);
        pthread_cancel(thread);
        void *result = nullptr;
        pthread_join(thread, &result);
        expect(result == PTHREAD_CANCELED && !work.inside, "a call was left in its middle");
    }
    subject.use(context);
    attile_context_destroy(context);
}

std::atomic<int> g_signals{0};

void signals(const Subject &subject) {
    struct sigaction action {};
    action.sa_handler = [](int) { ++g_signals; };
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often = {{0, 500}, {0, 500}}, never = {};
    setitimer(ITIMER_REAL, &often, nullptr);
    attile_context *context = create();
    for (int i = 0; i < 100 && (i < 5 || g_signals < 10); ++i) subject.use(context);
    setitimer(ITIMER_REAL, &never, nullptr);
    expect(g_signals > 0, "no signal came");
    attile_context_destroy(context);
}

void many_callers(const Subject &subject) {
    attile_context *context = create(8);
    {
        const Callers callers(subject, context, 18);  // more than calls that can have workers at once
        attile_context *other = create(3);
        for (int i = 0; i < 3; ++i) subject.use(other);
        attile_context_destroy(other);
        callers.wait_for(20);
    }
    attile_context_destroy(context);
}

void one_processor(const Subject &subject) {
    cpu_set_t allowed, one;
    expect(sched_getaffinity(0, sizeof allowed, &allowed) == 0, "sched_getaffinity");
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; ++i) {
        if (CPU_ISSET(i, &allowed)) CPU_SET(i, &one);
    }
    expect(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
    many_callers(subject);
}

}  // namespace

int main(int argc, char **argv) {
    const std::map<std::string, void (*)(const Subject &)> moments = {{"nothing", nothing},
                                                                      {"no_threads", no_threads},
                                                                      {"no_address_space", no_address_space},
                                                                      {"small_stack", small_stack},
                                                                      {"fork_after_use", fork_after_use},
                                                                      {"fork_beside_callers", fork_beside_callers},
                                                                      {"exit_beside_callers", exit_beside_callers},
                                                                      {"main_thread_leaves", main_thread_leaves},
                                                                      {"cancel_callers", cancel_callers},
                                                                      {"signals", signals},
                                                                      {"many_callers", many_callers},
                                                                      {"one_processor", one_processor}};
    const auto moment = argc == 3 ? moments.find(argv[1]) : moments.end();
    if (moment == moments.end() || busy_call_named(argv[2]) == nullptr) return 2;
    static const Subject &subject = *new Subject(busy_call_named(argv[2]));  // threads may use it when the process ends
    moment->second(subject);
    return 0;
}
