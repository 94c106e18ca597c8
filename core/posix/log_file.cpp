// SPDX-License-Identifier: Apache-2.0
// Opening, recognising and writing a file of the log by its descriptor.
#include "log_file.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace attile::core {
namespace {

constinit LogFile standard_error;  // as it was when the library was loaded

bool describe(int descriptor, LogFile *file) {
    struct stat status;
    if (fstat(descriptor, &status) != 0) return false;
    *file = {descriptor, status.st_dev, status.st_ino, status.st_mode & S_IFMT};
    return true;
}

__attribute__((constructor)) void look_at_standard_error() {
    const int saved_errno = errno;
    if (!describe(STDERR_FILENO, &standard_error)) standard_error.descriptor = -1;
    errno = saved_errno;
}

}  // namespace

bool is_still(const LogFile &file) {
    LogFile now;
    return file.descriptor >= 0 && describe(static_cast<int>(file.descriptor), &now) && now.device == file.device &&
           now.number == file.number && now.kind == file.kind;
}

// Descriptor 2 is standard error if it is the file that it was, or has since become what programs redirect that to: a terminal, the null
// device, or a file opened for appending alone. Anything else may be a file of the program's that happened to get the number.
LogFile find_standard_error() {
    if (is_still(standard_error)) return standard_error;
    LogFile now;
    if (!describe(STDERR_FILENO, &now)) return {};
    if (now.kind == S_IFCHR) return now;
    const int flags = fcntl(STDERR_FILENO, F_GETFL);
    const bool appends = flags >= 0 && (flags & O_ACCMODE) == O_WRONLY && (flags & O_APPEND) != 0;
    return now.kind == S_IFREG && appends ? now : LogFile{};
}

const char *open_log_file(const char *path, LogFile *file) {
    if (path[0] != '/') return "not an absolute path";
    // O_NONBLOCK: a pipe that nobody reads would otherwise be waited for.
    const int descriptor = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0644);
    if (descriptor < 0) return errno == ENXIO ? "neither a file nor a device" : "cannot be opened for appending";
    if (describe(descriptor, file) && (file->kind == S_IFREG || file->kind == S_IFCHR)) return nullptr;
    *file = {};
    close(descriptor);
    return "neither a file nor a device";
}

void write_log_line(const LogFile &file, const char *line, int bytes) {
    sigset_t stopped, before, pending, was_pending;
    sigemptyset(&stopped);
    sigaddset(&stopped, SIGPIPE);
    sigaddset(&stopped, SIGXFSZ);
    sigpending(&was_pending);
    if (pthread_sigmask(SIG_BLOCK, &stopped, &before) != 0) return;
    while (bytes > 0) {  // one write() a line in all but freak cases, so lines of several threads do not mix
        const ssize_t done = write(static_cast<int>(file.descriptor), line, static_cast<size_t>(bytes));
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) break;
        line += done;
        bytes -= static_cast<int>(done);
    }
    // What the write itself raised is pending on this thread; what was before is the program's.
    sigpending(&pending);
    for (const int number : {SIGPIPE, SIGXFSZ}) {
        if (sigismember(&pending, number) != 1 || sigismember(&was_pending, number) == 1) continue;
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, number);
        const struct timespec at_once = {0, 0};
        while (sigtimedwait(&one, nullptr, &at_once) < 0 && errno == EINTR) continue;
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace attile::core
