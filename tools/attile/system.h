// SPDX-License-Identifier: Apache-2.0
// What the program asks of the operating system beside files.
#pragma once

#include <string>
#include <vector>

namespace attile::cli {

// The words of the command line after the program's own name; UTF-8 on Windows, where main() gets them in the system's code page.
std::vector<std::string> command_line(int argc, char **argv);

bool stderr_is_terminal();
// 0: not known.
int terminal_columns();

// Runs the program of that name beside this one, if it is there: its path goes to `found` before, and its exit code comes back. -1: it is
// not there. Throws Failure if it cannot be run.
int run_beside(const std::string &name, const std::vector<std::string> &arguments, void (*found)(const std::string &path));

}  // namespace attile::cli
