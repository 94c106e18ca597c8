// SPDX-License-Identifier: Apache-2.0
// Runs a program the way a user does.
#include "run_program.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>

extern "C" char **environ;

namespace attile::test {
namespace {

pid_t spawn(const std::vector<std::string> &command, const Environment &environment, const std::string &out, const std::string &err) {
    std::vector<std::string> variables;
    for (char **variable = environ; *variable != nullptr; ++variable) {
        const std::string text = *variable, name = text.substr(0, text.find('='));
        if (environment.find(name) == environment.end()) variables.push_back(text);
    }
    for (const auto &[name, value] : environment)
        if (!value.empty()) variables.push_back(name + "=" + value);

    std::vector<char *> argv, envp;
    for (const std::string &word : command) argv.push_back(const_cast<char *>(word.c_str()));
    for (std::string &variable : variables) envp.push_back(variable.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    pid_t process = 0;
    const int status = posix_spawn(&process, argv[0], &actions, nullptr, argv.data(), envp.data());
    posix_spawn_file_actions_destroy(&actions);
    if (status != 0) throw std::runtime_error(command[0] + " cannot be started: " + std::strerror(status));
    return process;
}

}  // namespace

Finished wait_for_program(pid_t process) {
    int status = 0;
    if (waitpid(process, &status, 0) != process) throw std::runtime_error("waitpid failed");
    Finished finished;
    if (WIFEXITED(status)) finished.code = WEXITSTATUS(status);
    if (WIFSIGNALED(status)) finished.signal = WTERMSIG(status);
    return finished;
}

Finished run_program(const std::vector<std::string> &command, const Environment &environment) {
    const ScratchDirectory scratch;
    Finished finished = wait_for_program(spawn(command, environment, scratch.file("out"), scratch.file("err")));
    finished.out = read_file(scratch.file("out"));
    finished.err = read_file(scratch.file("err"));
    return finished;
}

Finished run_attile(std::vector<std::string> arguments, const Environment &environment) {
    arguments.insert(arguments.begin(), ATTILE_PROGRAM);
    return run_program(arguments, environment);
}

pid_t start_program(const std::vector<std::string> &command, const Environment &environment) {
    return spawn(command, environment, "/dev/null", "/dev/null");
}

ScratchDirectory::ScratchDirectory() {
    std::string name = (std::filesystem::temp_directory_path() / "attile-test-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no scratch directory: " + std::string(std::strerror(errno)));
    path_ = name;
}

ScratchDirectory::~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

std::vector<std::string> ScratchDirectory::names() const {
    std::vector<std::string> result;
    for (const auto &entry : std::filesystem::directory_iterator(path_)) result.push_back(entry.path().filename().string());
    std::sort(result.begin(), result.end());
    return result;
}

std::string read_file(const std::string &path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error(path + " cannot be read");
    return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string &path, const std::string &bytes) {
    std::ofstream file(path, std::ios::binary);
    file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    if (!file.flush()) throw std::runtime_error(path + " cannot be written");
}

std::vector<float> floats_of(const std::string &bytes) {
    std::vector<float> values(bytes.size() / sizeof(float));
    std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
    return values;
}

int lines(const std::string &text) { return static_cast<int>(std::count(text.begin(), text.end(), '\n')); }

}  // namespace attile::test
