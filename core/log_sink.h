// SPDX-License-Identifier: Apache-2.0
// The descriptor that log lines are written to: ATTILE_LOG_FILE's, else standard error.
#ifndef ATTILE_CORE_LOG_SINK_H
#define ATTILE_CORE_LOG_SINK_H

#include <sys/stat.h>

#include <cstdint>

namespace attile::core {

// A descriptor and the file that it stood for: a program that closes descriptors may get the number again for a file of its own, in which
// no line must land.
struct LogFile {
    int descriptor = -1;
    dev_t device = 0;
    ino_t number = 0;
    mode_t kind = 0;
};

// The file to write to now, its descriptor -1 if there is none. With the log's lock held. `complaint`: why ATTILE_LOG_FILE is not used, the
// first time that is found, else NULL.
LogFile log_file(const char **complaint);

// Writes one line. No signal of a closed pipe or a full file reaches the program.
void write_log_line(int descriptor, const char *line, int bytes);

}  // namespace attile::core

#endif
