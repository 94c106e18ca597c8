// SPDX-License-Identifier: Apache-2.0
// A program that lives through one hard moment of libattile's life, named by its first argument; the second is the library's path. Exit
// status 0 and nothing printed: all was well.
#include <attile/attile.h>
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <clocale>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

namespace {

[[noreturn]] void give_up(const std::string &why) {
    std::fprintf(stderr, "%s\n", why.c_str());
    std::fflush(stderr);
    _exit(1);
}

void expect(bool condition, const char *what) {
    if (!condition) give_up(what);
}

// The library as a program sees it that loads it by itself.
struct Library {
    void *handle = nullptr;
    decltype(&attile_context_create) context_create;
    decltype(&attile_context_destroy) context_destroy;
    decltype(&attile_sgemm) sgemm;
    decltype(&attile_alloc) alloc;
    decltype(&attile_free) free;
    decltype(&attile_synchronize) synchronize;
    decltype(&attile_last_error) last_error;
    decltype(&attile_backend_report) backend_report;

    template <typename Function>
    void find(Function *function, const char *name) {
        *function = reinterpret_cast<Function>(dlsym(handle, name));
        expect(*function != nullptr, name);
    }

    explicit Library(const char *path, int mode = RTLD_NOW | RTLD_LOCAL) {
        handle = dlopen(path, mode);
        if (handle == nullptr) give_up(dlerror());
        find(&context_create, "attile_context_create");
        find(&context_destroy, "attile_context_destroy");
        find(&sgemm, "attile_sgemm");
        find(&alloc, "attile_alloc");
        find(&free, "attile_free");
        find(&synchronize, "attile_synchronize");
        find(&last_error, "attile_last_error");
        find(&backend_report, "attile_backend_report");
    }

    std::string error() const {
        char text[2048];
        last_error(text, sizeof text);
        return text;
    }

    attile_context *create() const {
        attile_context *context = nullptr;
        if (context_create(nullptr, &context) != ATTILE_OK) give_up(error());
        return context;
    }

    int32_t multiply(attile_context *context) const {
        constexpr int kN = 33;
        std::vector<float> a(kN * kN, 1.0F), b(kN * kN, 2.0F), c(kN * kN, 0.0F);
        const int32_t status = sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, kN, kN, kN, 1.0F, a.data(), kN, b.data(),
                                     kN, 0.0F, c.data(), kN);
        if (status == ATTILE_OK) expect(c[0] == 2.0F * kN && c[kN * kN - 1] == 2.0F * kN, "the product is wrong");
        return status;
    }

    void use(attile_context *context) const {
        if (multiply(context) != ATTILE_OK) give_up(error());
    }
};

size_t mappings() {
    std::ifstream maps("/proc/self/maps");
    size_t lines = 0;
    for (std::string line; std::getline(maps, line);) lines += line.find("attile") != std::string::npos;
    return lines;
}

size_t open_files() {
    size_t count = 0;
    if (DIR *directory = opendir("/proc/self/fd")) {
        while (readdir(directory) != nullptr) ++count;
        closedir(directory);
    }
    return count;
}

void load_and_unload(const char *path) {
    size_t first = 0;
    for (int i = 0; i < 100; ++i) {
        const Library library(path);
        attile_context *context = library.create();
        library.use(context);
        library.context_destroy(context);
        expect(dlclose(library.handle) == 0, "dlclose");
        if (i == 0) first = mappings();
    }
    expect(mappings() == first, "the library is mapped more than once");
}

void load_and_unload_unused(const char *path) {
    for (int i = 0; i < 100; ++i) expect(dlclose(Library(path).handle) == 0, "dlclose");
}

// A context outlives the last dlclose(): backends hold pointers into the library, so it stays.
void use_after_unload(const char *path) {
    const Library library(path);
    attile_context *context = library.create();
    dlclose(library.handle);
    library.use(context);
    library.context_destroy(context);
}

void exit_without_destroy(const char *path) {
    const Library library(path);
    static attile_context *context = library.create();  // static: the leak checker is to see that it is the program's to destroy
    library.use(context);
    static void *memory = nullptr;
    expect(library.alloc(context, ATTILE_MEMORY_DEVICE, 1000, &memory) == ATTILE_OK, "alloc");
}

// Other threads are in the middle of calls while the process ends.
void exit_from_a_thread(const char *path) {
    static const Library library(path);
    static attile_context *const context = library.create();
    for (int i = 0; i < 3; ++i) {
        std::thread([] {
            for (;;) {
                if (library.multiply(context) != ATTILE_OK) return;
            }
        }).detach();
    }
    std::thread([] {
        library.use(context);
        std::exit(0);
    }).join();
}

void calls_in_atexit(const char *path) {
    static const char *library_path = path;
    static attile_context *early = nullptr;
    // Runs last: registered before the library is there.
    std::atexit([] {
        const Library library(library_path);
        library.use(early);
        library.context_destroy(early);
        attile_context *late = library.create();
        library.use(late);
        library.context_destroy(late);
    });
    const Library library(path);
    early = library.create();
    std::atexit([] { Library(library_path).use(early); });
}

void calls_in_a_static_destructor(const char *path) {
    struct Owner {
        const Library library;
        attile_context *context;
        explicit Owner(const char *from) : library(from), context(library.create()) {}
        ~Owner() {
            library.use(context);
            library.context_destroy(context);
        }
    };
    static const Owner owner(path);
}

// In the child, whatever the parent's threads held at that moment: a code, no hang; and a context of its own works.
void in_forked_child(const Library &library, attile_context *context) {
    alarm(20);
    expect(library.multiply(context) == ATTILE_ERROR_AFTER_FORK, "gemm after fork");
    expect(library.error().find("forked") != std::string::npos, "the sentence after fork");
    void *memory = nullptr;
    expect(library.alloc(context, ATTILE_MEMORY_HOST, 64, &memory) == ATTILE_ERROR_AFTER_FORK, "alloc after fork");
    expect(library.synchronize(context, nullptr) == ATTILE_ERROR_AFTER_FORK, "synchronize after fork");
    library.context_destroy(context);
    attile_context *own = library.create();
    library.use(own);
    const pid_t grandchild = fork();
    if (grandchild == 0) {
        expect(library.multiply(own) == ATTILE_ERROR_AFTER_FORK, "gemm after the second fork");
        _exit(0);
    }
    int status = 1;
    waitpid(grandchild, &status, 0);
    expect(status == 0, "the grandchild");
    library.context_destroy(own);
    _exit(0);
}

void fork_and_call(const char *path) {
    const Library library(path);
    attile_context *context = library.create();
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 2; ++i) {
        busy.emplace_back([&] {
            while (!stop) {
                void *memory = nullptr;
                expect(library.alloc(context, ATTILE_MEMORY_HOST, 64, &memory) == ATTILE_OK, "alloc");
                expect(library.free(context, memory) == ATTILE_OK, "free");
                library.use(context);
            }
        });
    }
    for (int i = 0; i < 10; ++i) {
        const pid_t child = fork();
        if (child == 0) in_forked_child(library, context);
        int status = 1;
        waitpid(child, &status, 0);
        expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "the forked child");
    }
    stop = true;
    for (std::thread &thread : busy) thread.join();
    library.use(context);  // the parent's goes on
    library.context_destroy(context);
}

void loaded_globally(const char *path) {
    const Library library(path, RTLD_NOW | RTLD_GLOBAL);
    attile_context *context = library.create();
    library.use(context);
    library.context_destroy(context);
}

void two_copies(const char *path, const char *other_path) {
    const Library first(path, RTLD_NOW | RTLD_GLOBAL), second(other_path, RTLD_NOW | RTLD_GLOBAL);
    expect(first.context_create != second.context_create, "the copies are one");
    attile_context *a = first.create();
    expect(first.free(a, &a) == ATTILE_ERROR_UNKNOWN_POINTER, "free of a foreign pointer");
    expect(!first.error().empty() && second.error().empty(), "one copy's error went to the other");
    expect(second.backend_report(nullptr, 0) == 1, "one copy's report went to the other");
    attile_context *b = second.create();
    first.use(a);
    second.use(b);
    first.context_destroy(a);
    second.use(b);
    second.context_destroy(b);
}

// Everything of the process that a library might be tempted to change.
struct Surroundings {
    uint32_t mxcsr = 0;
    uint16_t x87 = 0;
    sigset_t mask{};
    std::vector<void (*)(int)> handlers;
    std::string directory, locale;
    mode_t creation_mask = 0;
    size_t files = 0;

    Surroundings() {
#if defined(__x86_64__)
        mxcsr = __builtin_ia32_stmxcsr();
        __asm__ volatile("fnstcw %0" : "=m"(x87));
#endif
        pthread_sigmask(SIG_SETMASK, nullptr, &mask);
        for (int number = 1; number < NSIG; ++number) {
            struct sigaction action;
            handlers.push_back(sigaction(number, nullptr, &action) == 0 ? action.sa_handler : nullptr);
        }
        char path[4096];
        directory = getcwd(path, sizeof path) != nullptr ? path : "";
        locale = std::setlocale(LC_ALL, nullptr);
        creation_mask = umask(0);
        umask(creation_mask);
        files = open_files();
    }

    void expect_same(const Surroundings &now) const {
#if defined(__x86_64__)
        constexpr uint32_t kControl = ~0x3FU;  // the low bits record exceptions, which arithmetic may raise
        expect((mxcsr & kControl) == (now.mxcsr & kControl), "MXCSR has changed");
        expect(x87 == now.x87, "the x87 control word has changed");
#endif
        for (int number = 1; number < NSIG; ++number)
            expect(sigismember(&mask, number) == sigismember(&now.mask, number), "the signal mask has changed");
        expect(handlers == now.handlers, "a signal's handler has changed");
        expect(directory == now.directory && locale == now.locale && creation_mask == now.creation_mask,
               "directory, locale or umask has changed");
        expect(files == now.files, "a file was left open");
    }
};

void leaves_the_process_alone(const char *path) {
#if defined(__x86_64__)
    __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040U);  // a program that flushes denormals must go on doing so
#endif
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &some, nullptr);
    const Surroundings before;
    const Library library(path);
    attile_context *context = library.create();
    library.use(context);
    library.multiply(nullptr);
    before.expect_same(Surroundings());
    library.context_destroy(context);
    before.expect_same(Surroundings());
}

void errno_survives_success(const char *path) {
    const Library library(path);
    attile_context *context = library.create();
    errno = 77;
    library.use(context);
    expect(errno == 77, "errno has changed");
    library.context_destroy(context);
}

}  // namespace

int main(int argc, char **argv) {
    using Moment = void (*)(const char *);
    const std::map<std::string, Moment> moments = {{"load_and_unload", load_and_unload},
                                                   {"load_and_unload_unused", load_and_unload_unused},
                                                   {"use_after_unload", use_after_unload},
                                                   {"exit_without_destroy", exit_without_destroy},
                                                   {"exit_from_a_thread", exit_from_a_thread},
                                                   {"calls_in_atexit", calls_in_atexit},
                                                   {"calls_in_a_static_destructor", calls_in_a_static_destructor},
                                                   {"fork_and_call", fork_and_call},
                                                   {"loaded_globally", loaded_globally},
                                                   {"leaves_the_process_alone", leaves_the_process_alone},
                                                   {"errno_survives_success", errno_survives_success}};
    if (argc == 4 && std::strcmp(argv[1], "two_copies") == 0) {
        two_copies(argv[2], argv[3]);
        return 0;
    }
    const auto moment = argc == 3 ? moments.find(argv[1]) : moments.end();
    if (moment == moments.end()) return 2;
    moment->second(argv[2]);
    return 0;
}
