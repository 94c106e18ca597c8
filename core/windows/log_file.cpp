// SPDX-License-Identifier: Apache-2.0
// Opening, recognising and writing a file of the log by its handle. Not by a descriptor: those are of a C library, and the program may have
// another one than this library.
#include "log_file.h"

#include <windows.h>

#include "files.h"
#include "windows/text.h"

namespace attile::core {
namespace {

constinit LogFile standard_error;  // as it was when the library was loaded

HANDLE handle_of(const LogFile &file) { return reinterpret_cast<HANDLE>(file.descriptor); }

// Terminals and pipes have no number.
bool describe(HANDLE handle, LogFile *file) {
    if (handle == nullptr || handle == INVALID_HANDLE_VALUE) return false;
    const DWORD kind = GetFileType(handle);
    if (kind == FILE_TYPE_UNKNOWN) return false;
    *file = {reinterpret_cast<intptr_t>(handle), 0, 0, kind};
    BY_HANDLE_FILE_INFORMATION about;
    if (kind == FILE_TYPE_DISK && GetFileInformationByHandle(handle, &about) != 0) {
        file->device = about.dwVolumeSerialNumber;
        file->number = uint64_t{about.nFileIndexHigh} << 32 | about.nFileIndexLow;
    }
    return true;
}

__attribute__((constructor)) void look_at_standard_error() { (void)describe(GetStdHandle(STD_ERROR_HANDLE), &standard_error); }

}  // namespace

bool is_still(const LogFile &file) {
    LogFile now;
    return file.descriptor != -1 && describe(handle_of(file), &now) && now.device == file.device && now.number == file.number &&
           now.kind == file.kind;
}

// Another handle than at first was set by the program, for standard error. The same one is standard error if it is the file that it was, or
// a terminal: anything else may be a file of the program's that happened to get the handle.
LogFile find_standard_error() {
    LogFile now;
    if (!describe(GetStdHandle(STD_ERROR_HANDLE), &now)) return {};
    const bool is_new = now.descriptor != standard_error.descriptor;
    return is_new || now.kind == FILE_TYPE_CHAR || is_still(standard_error) ? now : LogFile{};
}

const char *open_log_file(const char *path, LogFile *file) {
    if (!is_absolute(path)) return "not an absolute path";
    const HANDLE handle = CreateFileW(wide_path(path).c_str(), FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
                                      nullptr, OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, nullptr);
    if (handle == INVALID_HANDLE_VALUE) return "cannot be opened for appending";
    if (describe(handle, file) && file->kind == FILE_TYPE_DISK) return nullptr;
    *file = {};
    CloseHandle(handle);
    return "not a file";
}

// One call a line, so lines of several threads do not mix.
void write_log_line(const LogFile &file, const char *line, int bytes) {
    DWORD written = 0;
    WriteFile(handle_of(file), line, static_cast<DWORD>(bytes), &written, nullptr);
}

}  // namespace attile::core
