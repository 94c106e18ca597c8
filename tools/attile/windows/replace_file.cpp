// SPDX-License-Identifier: Apache-2.0
// Write, then rename. Windows gives the new file the permissions of its folder, and a link is replaced, not followed.
#include "replace_file.h"

#include <windows.h>
#undef ReplaceFile  // a function of the system's

#include <algorithm>
#include <atomic>
#include <cstdio>

#include <fcntl.h>
#include <io.h>

#include "file.h"
#include "windows/text.h"

namespace attile::cli {
namespace {

constexpr int64_t kMostPerCall = int64_t{1} << 30;
constexpr size_t kLongestPath = 32768;

// What Ctrl+C or a closed window removes, on a thread of the system's own.
wchar_t pending_path[kLongestPath];
std::atomic<bool> pending{false};

BOOL WINAPI remove_at_end(DWORD) {
    if (pending) DeleteFileW(pending_path);  // It was opened so that it may be deleted while it is written.
    return FALSE;                            // The process ends as it would have.
}

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

// A descriptor that owns the handle; -1 if there is none.
int descriptor_of(HANDLE handle) {
    return handle == INVALID_HANDLE_VALUE ? -1 : _open_osfhandle(reinterpret_cast<intptr_t>(handle), _O_WRONLY | _O_BINARY);
}

int create(const std::string &path, DWORD how) {
    return descriptor_of(CreateFileW(wide(path).c_str(), GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr,
                                     how, FILE_ATTRIBUTE_NORMAL, nullptr));
}

}  // namespace

bool is_standard_output(const char *path) {
    FileFacts file, standard;
    return facts_of_path(path, file) && file.is_regular && facts_of_file(_fileno(stdout), standard) && standard.is_regular &&
           file.device == standard.device && file.number == standard.number;
}

void ReplaceFile::discard() {
    if (file_ >= 0) _close(file_);
    file_ = -1;
    if (temporary_.empty()) return;
    DeleteFileW(wide(temporary_).c_str());
    temporary_.clear();
    pending = false;
}

bool ReplaceFile::open_in_place(int file) {
    file_ = file;
    return file >= 0 || fail("cannot be written: " + last_words());
}

bool ReplaceFile::make_temporary(unsigned) {
    const size_t slash = target_.find_last_of("/\\:");
    const std::string directory = slash == std::string::npos ? "" : target_.substr(0, slash + 1);
    for (int attempt = 0; attempt < 100; ++attempt) {
        const std::string name = directory + ".attile-" + std::to_string(GetCurrentProcessId()) + "-" + std::to_string(attempt) + ".part";
        file_ = create(name, CREATE_NEW);
        if (file_ >= 0) {
            temporary_ = name;
            const std::wstring text = wide(name);
            if (text.size() < kLongestPath) {
                std::copy(text.c_str(), text.c_str() + text.size() + 1, pending_path);
                pending = true;
            }
            SetConsoleCtrlHandler(remove_at_end, TRUE);
            return true;
        }
        if (GetLastError() != ERROR_FILE_EXISTS) break;
    }
    return fail("cannot be written: " + last_words());
}

bool ReplaceFile::open(const char *path) {
    path_ = target_ = path;
    if (path_.empty()) return fail("is not a file name");
    if (is_standard_output(path)) {
        std::fflush(stdout);  // What was printed before stands before.
        const int copy = _dup(_fileno(stdout));
        if (copy >= 0) _setmode(copy, _O_BINARY);
        return open_in_place(copy);
    }
    FileFacts old;
    const bool there = facts_of_path(path, old);
    if (there && old.is_directory) return fail("is a directory");
    if (there && !old.is_regular) return open_in_place(create(path, OPEN_EXISTING));
    // What could not be written in place is not replaced either.
    const DWORD attributes = GetFileAttributesW(wide(path).c_str());
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_READONLY) != 0)
        return fail("cannot be written: it is read-only");
    return make_temporary(0);
}

bool ReplaceFile::write(const void *data, int64_t bytes) {
    const auto *from = static_cast<const unsigned char *>(data);
    while (bytes > 0) {
        DWORD done = 0;
        if (WriteFile(handle_of(file_), from, static_cast<DWORD>(std::min(bytes, kMostPerCall)), &done, nullptr) == 0)
            return fail("cannot be written: " + last_words());
        from += done;
        bytes -= done;
    }
    return true;
}

bool ReplaceFile::join(const char *path, const std::string &temporary) {
    path_ = path;
    file_ = create(temporary, OPEN_EXISTING);
    return file_ >= 0 || fail("cannot be written as '" + temporary + "', which the first rank has made: " + last_words());
}

bool ReplaceFile::write_at(int64_t offset, const void *data, int64_t bytes) {
    const auto *from = static_cast<const unsigned char *>(data);
    while (bytes > 0) {
        OVERLAPPED place{};
        place.Offset = static_cast<DWORD>(offset);
        place.OffsetHigh = static_cast<DWORD>(offset >> 32);
        DWORD done = 0;
        if (WriteFile(handle_of(file_), from, static_cast<DWORD>(std::min(bytes, kMostPerCall)), &done, &place) == 0)
            return fail("cannot be written: " + last_words());
        from += done;
        offset += done;
        bytes -= done;
    }
    return true;
}

bool ReplaceFile::commit() {
    const int closing = file_;
    file_ = -1;
    if (_close(closing) != 0) return fail("cannot be written");
    if (temporary_.empty()) return true;
    if (MoveFileExW(wide(temporary_).c_str(), wide(target_).c_str(), MOVEFILE_REPLACE_EXISTING) == 0)
        return fail("cannot be put in place: " + last_words());
    temporary_.clear();
    pending = false;
    return true;
}

}  // namespace attile::cli
