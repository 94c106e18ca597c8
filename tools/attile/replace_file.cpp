// SPDX-License-Identifier: Apache-2.0
// Write, then rename.
#include "replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace attile::cli {
namespace {

// What a signal handler may touch: a plain array, and atomic numbers without a lock that say what it is worth. A signal may come on any
// thread and between any two steps. While the file is being made nobody knows yet whether its name is ours to remove: the handler then only
// leaves the signal's number, and who makes the file looks for it afterwards. Each side first says its own and then reads the other's, so
// one sees it.
enum Temporary { kNone, kBeingMade, kMade };
char pending_path[PATH_MAX];
std::atomic<int> pending{kNone};
std::atomic<int> ending_signal{0};
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler reads these");

constexpr int kEndingSignals[] = {SIGINT, SIGTERM, SIGHUP};

void remove_and_die(int signal) {
    if (pending == kMade) unlink(pending_path);
    std::signal(signal, SIG_DFL);
    raise(signal);  // In the handler: delivered when it returns, so that the parent sees how we ended.
}

extern "C" void attile_cli_ending(int signal) {
    ending_signal = signal;
    if (pending != kBeingMade) remove_and_die(signal);
}

void guard_against_signals() {
    for (int signal : kEndingSignals) {
        struct sigaction previous = {};
        // What the parent told us to ignore (nohup) stays ignored.
        if (sigaction(signal, nullptr, &previous) == 0 && previous.sa_handler == SIG_DFL) std::signal(signal, attile_cli_ending);
    }
}

// Makes a file that is not there yet, -1 otherwise; from now on a signal that ends the process removes it.
int make_guarded(const std::string &path) {
    pending = kBeingMade;
    const bool fits = path.size() < sizeof pending_path;
    if (fits) std::memcpy(pending_path, path.c_str(), path.size() + 1);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const int error = errno;
    pending = fits && file >= 0 ? kMade : kNone;
    if (ending_signal != 0) remove_and_die(ending_signal);
    errno = error;
    return file;
}

}  // namespace

ReplaceFile::~ReplaceFile() { discard(); }

bool ReplaceFile::fail(const std::string &what) {
    error_ = "'" + path_ + "' " + what;
    discard();
    return false;
}

void ReplaceFile::discard() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    if (!temporary_.empty()) unlink(temporary_.c_str());
    temporary_.clear();
    pending = kNone;
}

bool ReplaceFile::open(const char *path) {
    path_ = target_ = path;
    if (path_.empty()) return fail("is no file name");
    struct stat status = {};
    const bool exists = stat(path, &status) == 0;
    if (exists && S_ISDIR(status.st_mode)) return fail("is a directory");
    if (exists && !S_ISREG(status.st_mode)) {
        file_ = ::open(path, O_WRONLY | O_CLOEXEC);
        return file_ >= 0 || fail(std::string("cannot be written: ") + std::strerror(errno));
    }
    if (exists) {
        if (access(path, W_OK) != 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
        char *resolved = realpath(path, nullptr);
        if (resolved == nullptr) return fail(std::string("cannot be resolved: ") + std::strerror(errno));
        target_ = resolved;
        std::free(resolved);
    }
    guard_against_signals();
    for (int attempt = 0; attempt < 100; ++attempt) {
        std::string name = target_ + ".part-" + std::to_string(getpid());
        if (attempt > 0) name.append("-").append(std::to_string(attempt));
        file_ = make_guarded(name);
        if (file_ >= 0) {
            temporary_ = name;
            break;
        }
        if (errno != EEXIST) break;
    }
    if (file_ < 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
    if (exists && fchmod(file_, status.st_mode & 07777) != 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
    return true;
}

bool ReplaceFile::write(const void *data, int64_t bytes) {
    constexpr int64_t kMostPerCall = int64_t{1} << 30;
    const auto *from = static_cast<const unsigned char *>(data);
    while (bytes > 0) {
        const ssize_t n = ::write(file_, from, static_cast<size_t>(std::min(bytes, kMostPerCall)));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
        from += n;
        bytes -= n;
    }
    return true;
}

bool ReplaceFile::commit() {
    const int closing = file_;
    file_ = -1;
    if (close(closing) != 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
    if (!temporary_.empty() && std::rename(temporary_.c_str(), target_.c_str()) != 0)
        return fail(std::string("cannot be put in place: ") + std::strerror(errno));
    temporary_.clear();
    pending = kNone;
    return true;
}

}  // namespace attile::cli
