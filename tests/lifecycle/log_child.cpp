// SPDX-License-Identifier: Apache-2.0
// Moments of the log: descriptors that are not what they were, pipes that nobody reads, receivers that go. As moments_child.cpp; the tests
// set ATTILE_LOG.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <thread>
#include <vector>

#include "moments.h"

using namespace attile_test;

namespace {

const std::string kScratch = "/tmp/attile-log-" + std::to_string(getpid());

std::string contents(const std::string &path) {
    std::ifstream file(path);
    return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

void log_something() {
    attile_context *context = create("reference");
    use(context);
    attile_context_destroy(context);
}

// What lands in the file that standard error is for the length of `work`.
template <typename Work>
std::string caught(Work &&work) {
    const int kept = dup(STDERR_FILENO), file = open(kScratch.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_TRUNC, 0600);
    dup2(file, STDERR_FILENO);
    close(file);
    work();
    dup2(kept, STDERR_FILENO);
    close(kept);
    const std::string text = contents(kScratch);
    unlink(kScratch.c_str());
    return text;
}

// Redirected on purpose, to a file that is appended to.
void redirected_standard_error() { expect(caught(log_something).find("attile info: backend 'reference'") != std::string::npos, "no line"); }

// The program closed descriptor 2, and a file of its own got the number.
void reused_standard_error() {
    close(STDERR_FILENO);
    expect(open(kScratch.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600) == STDERR_FILENO, "open");
    log_something();
    const std::string text = contents(kScratch);
    unlink(kScratch.c_str());
    expect(text.empty(), "the program's own file received: " + text);
}

void reused_standard_error_after_lines() {
    (void)caught(log_something);
    reused_standard_error();
}

// The same of the log file's descriptor: the lines go on to the file of that name.
void reused_log_file() {
    const std::string path = getenv("ATTILE_LOG_FILE");
    log_something();
    for (int file = 3; file < 64; ++file) close(file);
    for (int i = 0; i < 8; ++i) expect(open(kScratch.c_str(), O_RDWR | O_CREAT, 0600) >= 0, "open");
    const size_t before = contents(path).size();
    log_something();
    const std::string text = contents(kScratch);
    unlink(kScratch.c_str());
    expect(text.empty(), "the program's own file received: " + text);
    expect(contents(path).size() > before, "the log file received nothing more");
}

void closed_pipe() {
    int ends[2];
    expect(pipe(ends) == 0, "pipe");
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    signal(SIGPIPE, SIG_DFL);
    log_something();
    sigset_t pending;
    sigpending(&pending);
    expect(sigismember(&pending, SIGPIPE) == 0, "a signal is left pending");
}

void full_file() {
    const struct rlimit limit = {10, 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, SIG_DFL);
    log_something();
}

// Nobody reads the pipe that ATTILE_LOG_FILE names.
void pipe_as_log_file() {
    alarm(10);
    const std::string text = caught([] {
        expect(mkfifo((kScratch + ".pipe").c_str(), 0600) == 0, "mkfifo");
        setenv("ATTILE_LOG_FILE", (kScratch + ".pipe").c_str(), 1);
        log_something();
        unlink((kScratch + ".pipe").c_str());
    });
    expect(text.find("ATTILE_LOG_FILE is not used: neither a file nor a device") != std::string::npos, text);
    expect(text.find("ATTILE_LOG_FILE", text.find("ATTILE_LOG_FILE") + 1) == std::string::npos, "said more than once");
}

void relative_log_file() {
    const std::string text = caught([] {
        expect(chdir("/tmp") == 0, "chdir");
        unlink("attile-relative.log");  // of a run that failed
        setenv("ATTILE_LOG_FILE", "attile-relative.log", 1);
        log_something();
    });
    expect(access("/tmp/attile-relative.log", F_OK) != 0, "a relative path was taken");
    expect(text.find("ATTILE_LOG_FILE is not used: not an absolute path") != std::string::npos, text);
}

bool one_line(const std::string &text) {
    for (const char c : text) {
        if (static_cast<unsigned char>(c) < ' ' || c == 127) return false;
    }
    return true;
}

// Control characters of the environment and of file names stay out of sentences, the report and the log.
void control_characters() {
    const std::string name = kScratch + "\nattile error: forged\x1b[2J";
    const std::string text = caught([&] {
        setenv("ATTILE_BACKEND_PATH", ("relative\nattile error: forged:" + name).c_str(), 1);
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
        attile_context *none = nullptr;
        for (const char *selection : {"nosuch", "a\nattile error: forged", "nosuch:\x7f"}) {
            options.backend = selection;
            expect(attile_context_create(&options, &none) != ATTILE_OK, "created");
            expect(one_line(error()), "a sentence of more than one line: " + error());
        }
        expect(attile_add_backend_directory(name.c_str()) != ATTILE_OK && one_line(error()), error());
    });
    expect(text.find("\nattile error: forged") == std::string::npos && text.find('\x1b') == std::string::npos, "forged: " + text);
    const std::string all = report();
    expect(all.find("\nattile error: forged") == std::string::npos && all.find('\x1b') == std::string::npos, "forged: " + all);
}

// A receiver goes while lines are under way: none may turn up on standard error, for which nobody asked.
void receivers_go() {
    unsetenv("ATTILE_LOG");
    std::atomic<bool> stop{false};
    std::vector<std::thread> busy;
    for (int i = 0; i < 3; ++i) {
        busy.emplace_back([&] {
            attile_context *context = create("reference");
            while (!stop) attile_synchronize(context, nullptr);  // a line each, and nothing else
            attile_context_destroy(context);
        });
    }
    for (int i = 0; i < 100000; ++i) {
        attile_set_log([](void *, int32_t, const char *) {}, nullptr, ATTILE_LOG_TRACE);
        attile_set_log(nullptr, nullptr, ATTILE_LOG_OFF);
    }
    stop = true;
    for (std::thread &thread : busy) thread.join();
}

}  // namespace

int main(int argc, char **argv) {
    const std::map<std::string, void (*)()> moments = {{"redirected_standard_error", redirected_standard_error},
                                                       {"reused_standard_error", reused_standard_error},
                                                       {"reused_standard_error_after_lines", reused_standard_error_after_lines},
                                                       {"reused_log_file", reused_log_file},
                                                       {"closed_pipe", closed_pipe},
                                                       {"full_file", full_file},
                                                       {"pipe_as_log_file", pipe_as_log_file},
                                                       {"relative_log_file", relative_log_file},
                                                       {"control_characters", control_characters},
                                                       {"receivers_go", receivers_go}};
    const auto moment = argc == 3 ? moments.find(argv[1]) : moments.end();
    if (moment == moments.end()) return 2;
    moment->second();
    return 0;
}
