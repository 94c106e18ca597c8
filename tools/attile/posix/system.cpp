// SPDX-License-Identifier: Apache-2.0
#include "system.h"

#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

namespace attile::cli {

std::vector<std::string> command_line(int argc, char **argv) { return {argv + (argc > 0 ? 1 : 0), argv + argc}; }

bool stderr_is_terminal() { return isatty(STDERR_FILENO) != 0; }

int terminal_columns() {
    winsize size = {};
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

int run_beside(const std::string &name, const std::vector<std::string> &arguments, void (*found)(const std::string &path)) {
    std::string path(4096, '\0');
    const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    if (length <= 0) return -1;
    path.resize(static_cast<size_t>(length));
    path.replace(path.rfind('/') + 1, std::string::npos, name);
    if (access(path.c_str(), X_OK) != 0) return -1;
    found(path);
    std::vector<std::string> words = arguments;
    std::vector<char *> pointers = {path.data()};
    for (std::string &word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    pid_t child = 0;
    int status = 0;
    if (posix_spawn(&child, path.c_str(), nullptr, nullptr, pointers.data(), environ) != 0 || waitpid(child, &status, 0) != child)
        throw Failure("cannot run " + path);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace attile::cli
