// SPDX-License-Identifier: Apache-2.0
// Write, then rename.
#include "replace_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
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

// Every signal that ends a process unless it is told otherwise, and that it can be told of.
constexpr int kEndingSignals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGVTALRM,
                                  SIGPROF, SIGPOLL, SIGABRT, SIGBUS,  SIGFPE,  SIGILL,  SIGSEGV, SIGSYS,  SIGTRAP};

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
    std::signal(SIGXFSZ, SIG_IGN);  // write() then says that the file may not grow so large.
}

// Makes a file that is not there yet, -1 otherwise; from now on a signal that ends the process removes it.
int make_guarded(const std::string &path, unsigned mode) {
    pending = kBeingMade;
    const bool fits = path.size() < sizeof pending_path;
    if (fits) std::memcpy(pending_path, path.c_str(), path.size() + 1);
    const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    const int error = errno;
    pending = fits && file >= 0 ? kMade : kNone;
    if (ending_signal != 0) remove_and_die(ending_signal);
    errno = error;
    return file;
}

// What the kernel does with protected_symlinks: who may put a name into a directory that everybody shares does not say where we write.
bool may_follow(const std::string &path, const struct stat &link) {
    struct stat directory = {};
    const size_t slash = path.rfind('/');
    if (stat(slash == std::string::npos ? "." : path.substr(0, slash + 1).c_str(), &directory) != 0) return false;
    const bool shared = (directory.st_mode & S_ISVTX) != 0 && (directory.st_mode & S_IWOTH) != 0;
    errno = EACCES;
    return !shared || link.st_uid == geteuid() || link.st_uid == directory.st_uid;
}

// Follows the links that the last part of a path is, to a name that is no link; nothing need have that name yet.
bool follow_links(std::string &path) {
    for (int links = 0; links < 40; ++links) {
        const int link = ::open(path.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC);
        if (link < 0) return errno == ENOENT;
        struct stat status = {};
        char text[PATH_MAX];
        const bool is_link = fstat(link, &status) == 0 && S_ISLNK(status.st_mode);
        const ssize_t size = is_link ? readlinkat(link, "", text, sizeof text) : 0;
        close(link);
        if (!is_link) return true;
        if (size < 0 || !may_follow(path, status)) return false;
        std::string to(text, static_cast<size_t>(size));
        const size_t slash = path.rfind('/');
        if (to[0] != '/' && slash != std::string::npos) to.insert(0, path, 0, slash + 1);
        path = to;
    }
    errno = ELOOP;
    return false;
}

constexpr int64_t kMostPerCall = int64_t{1} << 30;  // Linux transfers at most 2 GiB a call.

bool is_the_file(const struct stat &status, const char *path) {
    struct stat other = {};
    return lstat(path, &other) == 0 && status.st_dev == other.st_dev && status.st_ino == other.st_ino;
}

}  // namespace

bool is_standard_output(const char *path) {
    struct stat file = {}, standard = {};
    return stat(path, &file) == 0 && fstat(STDOUT_FILENO, &standard) == 0 && file.st_dev == standard.st_dev &&
           file.st_ino == standard.st_ino;
}

void ReplaceFile::discard() {
    if (file_ >= 0) close(file_);
    file_ = -1;
    if (temporary_.empty()) return;
    unlink(temporary_.c_str());
    temporary_.clear();
    pending = kNone;
}

// `file` is a descriptor of a device, pipe or standard output, or -1 with errno set.
bool ReplaceFile::open_in_place(int file) {
    if (file < 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
    file_ = file;
    guard_against_signals();
    return true;
}

bool ReplaceFile::make_temporary(unsigned mode) {
    // Not made of the target's name, which may be as long as a name can be.
    const size_t slash = target_.rfind('/');
    const std::string directory = slash == std::string::npos ? "" : target_.substr(0, slash + 1);
    for (int attempt = 0; attempt < 100; ++attempt) {
        const std::string name = directory + ".attile-" + std::to_string(getpid()) + "-" + std::to_string(attempt) + ".part";
        file_ = make_guarded(name, mode);
        if (file_ >= 0) {
            temporary_ = name;
            return true;
        }
        if (errno != EEXIST) break;
    }
    return fail(std::string("cannot be written: ") + std::strerror(errno));
}

// Nothing that lets anyone read or run what could not before, whoever made the old file: its owner may have chosen its mode to have
// somebody else's new file carry it.
bool ReplaceFile::copy_permissions(int from, const struct stat &old) {
    struct stat made = {};
    if (fstat(file_, &made) != 0) return false;
    unsigned mode = old.st_mode & 0777;
    // The group's bits are for the old file's group; where there is a list, they are the most that anyone in it is given.
    const bool same_group = made.st_gid == old.st_gid || fchown(file_, static_cast<uid_t>(-1), old.st_gid) == 0;
    if (!same_group || fgetxattr(from, "system.posix_acl_access", nullptr, 0) > 0) mode &= 0707 | (mode & 07) << 3;
    return fchmod(file_, mode) == 0;
}

bool ReplaceFile::open(const char *path) {
    path_ = target_ = path;
    if (path_.empty()) return fail("is not a file name");
    if (is_standard_output(path)) {
        std::fflush(stdout);  // What was printed before stands before.
        return open_in_place(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0));
    }
    int old = ::open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (old < 0 && errno == ENXIO) old = ::open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);  // A pipe that has no reader yet: wait for it.
    if (old < 0 && errno == EISDIR) return fail("is a directory");
    if (old < 0 && errno != ENOENT) return fail(std::string("cannot be written: ") + std::strerror(errno));
    struct stat status = {};
    if (old >= 0 && fstat(old, &status) == 0 && !S_ISREG(status.st_mode)) {
        fcntl(old, F_SETFL, O_WRONLY);
        return open_in_place(old);
    }
    bool done = follow_links(target_) || fail(std::string("cannot be resolved: ") + std::strerror(errno));
    if (done && old >= 0 && !is_the_file(status, target_.c_str())) done = fail("cannot be replaced: it has no name of its own");
    if (done) guard_against_signals();
    const bool ours = done && old >= 0 && status.st_uid == geteuid();
    if (done) done = make_temporary(ours ? 0600 : 0666);
    if (done && ours && !copy_permissions(old, status)) done = fail(std::string("cannot be written: ") + std::strerror(errno));
    if (old >= 0) close(old);
    return done;
}

bool ReplaceFile::write(const void *data, int64_t bytes) {
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

bool ReplaceFile::join(const char *path, const std::string &temporary) {
    path_ = path;
    file_ = ::open(temporary.c_str(), O_WRONLY | O_CLOEXEC);
    return file_ >= 0 || fail("cannot be written as '" + temporary + "', which the first rank has made: " + std::strerror(errno));
}

bool ReplaceFile::write_at(int64_t offset, const void *data, int64_t bytes) {
    const auto *from = static_cast<const unsigned char *>(data);
    while (bytes > 0) {
        const ssize_t n = ::pwrite(file_, from, static_cast<size_t>(std::min(bytes, kMostPerCall)), offset);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
        from += n;
        offset += n;
        bytes -= n;
    }
    return true;
}

bool ReplaceFile::commit() {
    const int closing = file_;
    file_ = -1;
    if (close(closing) != 0) return fail(std::string("cannot be written: ") + std::strerror(errno));
    if (temporary_.empty()) return true;
    if (std::rename(temporary_.c_str(), target_.c_str()) != 0) return fail(std::string("cannot be put in place: ") + std::strerror(errno));
    temporary_.clear();
    pending = kNone;
    return true;
}

}  // namespace attile::cli
