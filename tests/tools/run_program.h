// SPDX-License-Identifier: Apache-2.0
// Runs a program the way a user does, and keeps what it printed.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace attile::test {

struct Finished {
    int code = -1;    // Exit code; -1 if a signal ended it.
    int signal = 0;   // That signal.
    std::string out;  // Standard output.
    std::string err;  // Standard error.
};

using Environment = std::map<std::string, std::string>;  // An empty value unsets.

Finished run_program(const std::vector<std::string> &command, const Environment &environment = {});

// The attile program.
Finished run_attile(std::vector<std::string> arguments, const Environment &environment = {});

// Started and not waited for; its output is thrown away.
pid_t start_program(const std::vector<std::string> &command, const Environment &environment = {});
Finished wait_for_program(pid_t process);

// A directory of the test's own, empty at the start and gone at the end.
class ScratchDirectory {
  public:
    ScratchDirectory();
    ~ScratchDirectory();
    ScratchDirectory(const ScratchDirectory &) = delete;
    ScratchDirectory &operator=(const ScratchDirectory &) = delete;
    std::string file(const std::string &name) const { return path_ + "/" + name; }
    std::vector<std::string> names() const;

  private:
    std::string path_;
};

std::string read_file(const std::string &path);
void write_file(const std::string &path, const std::string &bytes);
std::vector<float> floats_of(const std::string &bytes);
int lines(const std::string &text);

}  // namespace attile::test
