// SPDX-License-Identifier: Apache-2.0
// fork, execve, and two files for what the child writes.
#include "child_process.h"

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace attile::test {
namespace {

std::string read_all(FILE *file) {
    std::string text;
    char part[4096];
    std::rewind(file);
    for (size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
    std::fclose(file);
    return text;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
    std::vector<char *> list;
    for (std::string &text : texts) list.push_back(text.data());
    list.push_back(nullptr);
    return list;
}

std::vector<std::string> environment_of(const Child &child) {
    std::vector<std::string> all;
    for (char **entry = environ; *entry != nullptr; ++entry) {
        if (std::strncmp(*entry, "ATTILE_", 7) == 0) continue;
        const std::string name(*entry, std::strcspn(*entry, "="));
        if (child.environment.count(name) == 0) all.push_back(*entry);
    }
    for (const auto &[name, value] : child.environment) all.push_back(name + "=" + value);
    return all;
}

}  // namespace

Outcome run_child(const Child &child) {
    Outcome outcome;
    FILE *out = std::tmpfile();
    FILE *err = std::tmpfile();
    if (out == nullptr || err == nullptr) return outcome;
    std::vector<std::string> command = child.command;
    std::vector<std::string> environment = environment_of(child);
    const std::vector<char *> argv = pointers(command);
    const std::vector<char *> envp = pointers(environment);
    const pid_t pid = fork();
    if (pid == 0) {
        dup2(fileno(out), STDOUT_FILENO);
        dup2(fileno(err), STDERR_FILENO);
        if (!child.directory.empty() && chdir(child.directory.c_str()) != 0) _exit(120);
        if (child.user != 0 && (setgroups(0, nullptr) != 0 || setgid(child.user) != 0 || setuid(child.user) != 0)) _exit(121);
        alarm(static_cast<unsigned>(child.limit_s));
        execve(argv[0], argv.data(), envp.data());
        _exit(122);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid) {
        outcome.exited = WIFEXITED(status);
        outcome.code = outcome.exited ? WEXITSTATUS(status) : WTERMSIG(status);
    }
    outcome.out = read_all(out);
    outcome.err = read_all(err);
    return outcome;
}

}  // namespace attile::test
