// SPDX-License-Identifier: Apache-2.0
// Moments in which a host program hits the core between two steps: forks, cancelled threads, handles of contexts that are gone. Named by
// the first argument; the second is a directory of backends made for tests. Exit status 0 and nothing printed: all was well.
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <thread>
#include <vector>

#include "moments.h"

using namespace attile_test;

namespace {

void wait_for(pid_t child, const char *what) {
    expect(child >= 0, "fork");
    int status = 1;
    waitpid(child, &status, 0);
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           std::string(what) + (WIFSIGNALED(status) ? ": ended by signal " + std::to_string(WTERMSIG(status)) : ": failed"));
}

// All that a child must be able to do, whatever the parent's other threads were at.
void live_in_child(attile_context *parents) {
    alarm(20);
    report();
    attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF);
    if (parents != nullptr) {
        for (const Operation operation : kOperations) {
            expect(CallArguments(operation).run(parents) == ATTILE_ERROR_AFTER_FORK, "a call on the parent's context");
        }
        attile_context_destroy(parents);
    }
    for (int i = 0; i < 2; ++i) {
        attile_context *own = create();
        use(own);
        attile_context_destroy(own);
    }
    attile_context *none = nullptr;
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "nosuch,reference";
    expect(attile_context_create(&options, &none) == ATTILE_OK, "a list in the child: " + error());
    attile_context_destroy(none);
    expect(report().find("nosuch") != std::string::npos, "the child's report");
    _exit(0);
}

// Threads do `work` over and over while the process forks.
void fork_beside(const std::function<void()> &work, attile_context *context, int forks) {
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 2; ++i) {
        busy.emplace_back([&] {
            while (!stop) work();
        });
    }
    for (int i = 0; i < forks; ++i) {
        const pid_t child = fork();
        if (child == 0) live_in_child(context);
        wait_for(child, "the forked child");
    }
    stop = true;
    for (std::thread &thread : busy) thread.join();
}

void fork_beside_contexts(const char *) {
    fork_beside([] { attile_context_destroy(create()); }, nullptr, 100);
}

void fork_beside_reports(const char *) {
    fork_beside(
        [] {
            attile_context *none = nullptr;
            attile_context_options options;
            attile_context_options_init(&options, sizeof options);
            options.backend = "nosuch";
            attile_context_create(&options, &none);
            report();
        },
        nullptr, 100);
}

void fork_beside_the_log(const char *) {
    fork_beside(
        [] { attile_set_log([](void *, int32_t, const char *) {}, nullptr, ATTILE_LOG_TRACE), report(), attile_context_destroy(create()); },
        nullptr, 20);
}

void fork_beside_every_operation(const char *) {
    attile_context *context = create();
    for (const Operation operation : kOperations) {
        fork_beside([&] { expect(CallArguments(operation).run(context) == ATTILE_OK, error()); }, context, 4);
    }
    fork_beside(
        [&] {
            void *memory = nullptr, *stream = nullptr;
            expect(attile_alloc(context, ATTILE_MEMORY_HOST, 64, &memory) == ATTILE_OK, error());
            expect(attile_stream_create(context, &stream) == ATTILE_OK, error());
            attile_stream_destroy(context, stream);
            attile_free(context, memory);
        },
        context, 10);
    attile_context_destroy(context);
}

int32_t try_create(const char *backend) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    attile_context *context = nullptr;
    const int32_t status = attile_context_create(&options, &context);
    attile_context_destroy(context);
    return status;
}

// A thread is inside a backend's constructor, for less than a fork waits: the child finds the backend loaded.
void fork_beside_loading(const char *directory) {
    expect(attile_add_backend_directory(directory) == ATTILE_OK, error());
    std::thread loading([] { expect(try_create("slow") == ATTILE_OK, error()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        expect(try_create("slow") == ATTILE_OK, "the backend in the child: " + error());
        expect(try_create("good") == ATTILE_OK, "another backend in the child: " + error());
        live_in_child(nullptr);
    }
    loading.join();
    wait_for(child, "the child of loading");
}

// For longer: the fork goes on, and the child does without backends that are not loaded yet.
void fork_beside_loading_that_hangs(const char *directory) {
    expect(attile_add_backend_directory(directory) == ATTILE_OK, error());
    expect(try_create("good") == ATTILE_OK, error());
    std::thread loading([] { expect(try_create("hanging") == ATTILE_OK, error()); });
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    const auto before = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        expect(try_create("hanging") == ATTILE_ERROR_AFTER_FORK, "a load that another process is in: " + error());
        expect(error().find("forked while") != std::string::npos, error());
        expect(try_create("good") == ATTILE_OK, "what was loaded before: " + error());
        expect(try_create("reference") == ATTILE_OK, "what is built in: " + error());
        expect(attile_add_backend_directory("/") == ATTILE_ERROR_AFTER_FORK, "a directory more");
        _exit(0);
    }
    expect(std::chrono::steady_clock::now() - before < std::chrono::seconds(6), "the fork waited too long");
    wait_for(child, "the child of a hanging load");
    loading.join();
    expect(try_create("slow") == ATTILE_OK, "the parent goes on: " + error());
}

// A backend's constructor forks: the thread that forks holds the lock itself.
void fork_within_loading(const char *directory) {
    alarm(20);
    expect(attile_add_backend_directory(directory) == ATTILE_OK, error());
    expect(try_create("forking") == ATTILE_OK, error());
    expect(try_create("good") == ATTILE_OK, error());
}

// A thread that is to be cancelled makes the call whole, and ends afterwards.
struct Doomed {
    std::function<void()> work;
    bool done = false;
};

void run_doomed(const char *what, std::function<void()> work) {
    Doomed doomed{std::move(work)};
    pthread_t thread;
    const auto body = [](void *argument) -> void * {
        Doomed &own = *static_cast<Doomed *>(argument);
        pthread_cancel(pthread_self());
        own.work();
        own.done = true;
        pthread_testcancel();
        return nullptr;
    };
    expect(pthread_create(&thread, nullptr, body, &doomed) == 0, "pthread_create");
    void *result = nullptr;
    pthread_join(thread, &result);
    expect(doomed.done, std::string(what) + " was not finished");
    expect(result == PTHREAD_CANCELED, std::string(what) + ": the thread was not cancelled");
}

void cancel_every_call(const char *directory) {
    run_doomed("add_backend_directory", [&] { expect(attile_add_backend_directory(directory) == ATTILE_OK, error()); });
    run_doomed("create", [] { attile_context_destroy(create("good")); });
    run_doomed("a failing create", [] { expect(try_create("nosuch") == ATTILE_ERROR_BACKEND_NOT_FOUND, error()); });
    run_doomed("report", [] { report(); });
    attile_context *context = create();
    for (const Operation operation : kOperations) {
        run_doomed(operation_name(operation), [&] { expect(CallArguments(operation).run(context) == ATTILE_OK, error()); });
        run_doomed("a query", [&] {
            attile_support support;
            attile_support_init(&support, sizeof support);
            expect(CallArguments(operation).query(context, &support) == ATTILE_OK, error());
        });
        run_doomed("a failing call", [&] { expect(CallArguments(operation).run(nullptr) == ATTILE_ERROR_INVALID_CONTEXT, error()); });
    }
    run_doomed("memory and streams", [&] {
        void *memory = nullptr, *stream = nullptr;
        expect(attile_alloc(context, ATTILE_MEMORY_HOST, 64, &memory) == ATTILE_OK, error());
        expect(attile_prefetch(context, memory, 64, ATTILE_MEMORY_HOST, nullptr) == ATTILE_OK, error());
        expect(attile_stream_create(context, &stream) == ATTILE_OK, error());
        expect(attile_synchronize(context, stream) == ATTILE_OK, error());
        expect(attile_stream_destroy(context, stream) == ATTILE_OK, error());
        expect(attile_free(context, memory) == ATTILE_OK, error());
    });
    use(context);
    attile_context_destroy(context);
}

// The program's receiver ends its thread in the middle of a call, which keeps no lock.
void receiver_ends_its_thread(const char *directory) {
    alarm(30);
    expect(attile_add_backend_directory(directory) == ATTILE_OK, error());
    attile_context *context = create();
    std::vector<std::function<void()>> calls = {[] { create("good"); }, [] { try_create("nosuch"); }};
    for (const Operation operation : kOperations) calls.push_back([=] { CallArguments(operation).run(context); });
    for (const auto &call : calls) {
        attile_set_log([](void *, int32_t, const char *) { pthread_exit(nullptr); }, nullptr, ATTILE_LOG_TRACE);
        bool ended = true;
        struct Work {
            const std::function<void()> *call;
            bool *ended;
        } work{&call, &ended};
        pthread_t thread;
        const auto body = [](void *argument) -> void * {
            const Work own = *static_cast<Work *>(argument);
            (*own.call)();
            *own.ended = false;
            return nullptr;
        };
        expect(pthread_create(&thread, nullptr, body, &work) == 0, "pthread_create");
        pthread_join(thread, nullptr);
        expect(ended, "a receiver that ends its thread was ignored");
        attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF);
        use(context);
        attile_context_destroy(create());
        report();
    }
    attile_context_destroy(context);
}

void expect_invalid(attile_context *context, const char *words) {
    for (const Operation operation : kOperations) {
        CallArguments call(operation);
        const std::vector<unsigned char> before = call.memory();
        expect(call.run(context) == ATTILE_ERROR_INVALID_CONTEXT && call.memory() == before, "a call on no context");
        expect(error().find(words) != std::string::npos, std::string("expected '") + words + "': " + error());
    }
    void *memory = nullptr;
    expect(attile_alloc(context, ATTILE_MEMORY_HOST, 64, &memory) == ATTILE_ERROR_INVALID_CONTEXT && memory == nullptr, "alloc");
    attile_context_destroy(context);
}

// A destroyed handle stays dead, however many contexts are made after it.
void handles_stay_dead(const char *) {
    std::vector<attile_context *> dead;
    attile_context *live = create("reference");
    for (int i = 0; i < 300; ++i) {
        attile_context *context = create("reference");
        attile_context_destroy(context);
        dead.push_back(context);
        attile_context *next = create("reference");
        for (attile_context *old : dead) attile_context_destroy(old);
        use(next);
        if (i % 50 == 0) {
            for (attile_context *old : dead) expect_invalid(old, "was destroyed");
        }
        attile_context_destroy(next);
        dead.push_back(next);
    }
    use(live);
    attile_context_destroy(live);
}

void foreign_pointers_are_no_contexts(const char *) {
    attile_context *live = create("reference");
    char bytes[256] = {};
    const uintptr_t number = reinterpret_cast<uintptr_t>(live);
    for (const uintptr_t wrong : {uintptr_t{1}, uintptr_t{16}, uintptr_t{0x7f0000000000}, ~uintptr_t{0}, reinterpret_cast<uintptr_t>(bytes),
                                  number + 1, number - 1, number + (uintptr_t{1} << 20), number + 16, number ^ (uintptr_t{1} << 63)}) {
        expect_invalid(reinterpret_cast<attile_context *>(wrong), "is not a context");
    }
    expect_invalid(nullptr, "is NULL");
    use(live);
    attile_context_destroy(live);
}

// Of many threads that destroy one context, one does; the others harm no context made meanwhile.
void destroyed_by_many(const char *) {
    for (int i = 0; i < 200; ++i) {
        attile_context *context = create("reference");
        std::vector<std::thread> threads;
        for (int t = 0; t < 4; ++t) {
            threads.emplace_back([=] {
                attile_context_destroy(context);
                attile_context *own = create("reference");
                attile_context_destroy(context);
                use(own);
                attile_context_destroy(own);
            });
        }
        for (std::thread &thread : threads) thread.join();
    }
}

// What handles cost is bounded by the contexts that are alive at once.
void contexts_cost_nothing_after(const char *) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    constexpr long kAllowed = 1L << 20;  // a sanitizer keeps what is freed
#else
    constexpr long kAllowed = 1024;
#endif
    const auto many = [] {
        for (int i = 0; i < 20000; ++i) attile_context_destroy(create("reference"));
        struct rusage usage;
        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_maxrss;
    };
    const long before = many();
    many();
    expect(many() - before < kAllowed, "memory grows with contexts that are gone");
}

}  // namespace

int main(int argc, char **argv) {
    const std::map<std::string, void (*)(const char *)> moments = {{"fork_beside_contexts", fork_beside_contexts},
                                                                   {"fork_beside_reports", fork_beside_reports},
                                                                   {"fork_beside_the_log", fork_beside_the_log},
                                                                   {"fork_beside_every_operation", fork_beside_every_operation},
                                                                   {"fork_beside_loading", fork_beside_loading},
                                                                   {"fork_beside_loading_that_hangs", fork_beside_loading_that_hangs},
                                                                   {"fork_within_loading", fork_within_loading},
                                                                   {"cancel_every_call", cancel_every_call},
                                                                   {"receiver_ends_its_thread", receiver_ends_its_thread},
                                                                   {"handles_stay_dead", handles_stay_dead},
                                                                   {"foreign_pointers_are_no_contexts", foreign_pointers_are_no_contexts},
                                                                   {"destroyed_by_many", destroyed_by_many},
                                                                   {"contexts_cost_nothing_after", contexts_cost_nothing_after}};
    const auto moment = argc == 3 ? moments.find(argv[1]) : moments.end();
    if (moment == moments.end()) return 2;
    moment->second(argv[2]);
    return 0;
}
