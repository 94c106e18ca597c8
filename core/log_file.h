// SPDX-License-Identifier: Apache-2.0
// A file that log lines are written to, by the system's own calls.
#ifndef ATTILE_CORE_LOG_FILE_H
#define ATTILE_CORE_LOG_FILE_H

#include <cstdint>

namespace attile::core {

// A descriptor, on Windows a handle, and the file that it stood for: a program that closes descriptors may get the number again for a file
// of its own, in which no line must land.
struct LogFile {
    intptr_t descriptor = -1;
    uint64_t device = 0;
    uint64_t number = 0;
    uint32_t kind = 0;
};

// Whether the descriptor still stands for that file.
bool is_still(const LogFile &file);

// Standard error as it is now, its descriptor -1 if the program has closed it, or uses the number for a file of its own.
LogFile find_standard_error();

// Opens the file for appending, or makes it. NULL if it is open, else why not.
const char *open_log_file(const char *path, LogFile *file);

// Writes one line. No signal of a closed pipe or a full file reaches the program.
void write_log_line(const LogFile &file, const char *line, int bytes);

}  // namespace attile::core

#endif
