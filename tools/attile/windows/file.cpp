// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>

#include <algorithm>
#include <cerrno>

#include "windows/text.h"

namespace attile::cli {
namespace {

constexpr int64_t kMostPerCall = int64_t{1} << 30;

HANDLE handle_of(int file) { return reinterpret_cast<HANDLE>(_get_osfhandle(file)); }

bool facts_of_handle(HANDLE handle, FileFacts &facts) {
    BY_HANDLE_FILE_INFORMATION about;
    facts = {};
    if (GetFileType(handle) != FILE_TYPE_DISK) {
        facts.number = reinterpret_cast<uintptr_t>(handle);  // a pipe or a terminal, which has no number of its own
        return true;
    }
    if (GetFileInformationByHandle(handle, &about) == 0) {
        errno = EIO;
        return false;
    }
    facts.is_directory = (about.dwFileAttributes & FILE_ATTRIBUTE_DIRECTORY) != 0;
    facts.is_regular = !facts.is_directory;
    facts.bytes = static_cast<int64_t>(uint64_t{about.nFileSizeHigh} << 32 | about.nFileSizeLow);
    facts.device = about.dwVolumeSerialNumber;
    facts.number = uint64_t{about.nFileIndexHigh} << 32 | about.nFileIndexLow;
    return true;
}

}  // namespace

int open_to_read(const char *path) {
    const std::wstring name = wide(path);
    const DWORD attributes = GetFileAttributesW(name.c_str());
    if (attributes != INVALID_FILE_ATTRIBUTES && (attributes & FILE_ATTRIBUTE_DIRECTORY) != 0) {
        errno = EISDIR;  // where the C library speaks of permissions
        return -1;
    }
    return _wopen(name.c_str(), _O_RDONLY | _O_BINARY | _O_NOINHERIT);
}

void close_file(int file) { _close(file); }

bool facts_of_file(int file, FileFacts &facts) { return facts_of_handle(handle_of(file), facts); }

bool facts_of_path(const char *path, FileFacts &facts) {
    const HANDLE handle = CreateFileW(wide(path).c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING,
                                      FILE_FLAG_BACKUP_SEMANTICS, nullptr);
    if (handle == INVALID_HANDLE_VALUE) {
        errno = ENOENT;
        return false;
    }
    const bool known = facts_of_handle(handle, facts);
    CloseHandle(handle);
    return known;
}

int64_t read_on(int file, void *to, int64_t bytes) { return _read(file, to, static_cast<unsigned>(std::min(bytes, kMostPerCall))); }

int64_t read_at(int file, void *to, int64_t bytes, int64_t offset) {
    const HANDLE handle = handle_of(file);
    const LARGE_INTEGER none{};
    LARGE_INTEGER place{};
    if (SetFilePointerEx(handle, none, &place, FILE_CURRENT) == 0) {
        errno = ESPIPE;
        return -1;
    }
    OVERLAPPED from{};
    from.Offset = static_cast<DWORD>(offset);
    from.OffsetHigh = static_cast<DWORD>(offset >> 32);
    DWORD got = 0;
    const bool done = ReadFile(handle, to, static_cast<DWORD>(std::min(bytes, kMostPerCall)), &got, &from) != 0;
    const bool at_end = !done && GetLastError() == ERROR_HANDLE_EOF;
    SetFilePointerEx(handle, place, nullptr, FILE_BEGIN);
    if (done || at_end) return got;
    errno = EIO;
    return -1;
}

}  // namespace attile::cli
