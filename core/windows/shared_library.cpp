// SPDX-License-Identifier: Apache-2.0
// The system's loader by Windows: LoadLibraryEx() with its order of search fixed, so that neither the current directory nor PATH counts.
#include "shared_library.h"

#include <windows.h>

// Behind windows.h.
#include <psapi.h>

#include <memory>
#include <vector>

#include "files.h"
#include "windows/text.h"

namespace attile::core {
namespace {

const wchar_t *address_in_this_library() { return reinterpret_cast<const wchar_t *>(&own_directory); }

// Backends hold pointers into this library for as long as the process lives, and so may the program: it is never unloaded.
__attribute__((constructor)) void stay_loaded() {
    HMODULE self = nullptr;
    GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_PIN | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address_in_this_library(), &self);
}

// While it lives the system shows no window about a file that it cannot load.
class NoErrorWindow {
  public:
    NoErrorWindow() { SetThreadErrorMode(SEM_FAILCRITICALERRORS | SEM_NOOPENFILEERRORBOX, &before_); }
    ~NoErrorWindow() { SetThreadErrorMode(before_, nullptr); }
    NoErrorWindow(const NoErrorWindow &) = delete;
    NoErrorWindow &operator=(const NoErrorWindow &) = delete;

  private:
    DWORD before_ = 0;
};

struct Unload {
    void operator()(HMODULE library) const { FreeLibrary(library); }
};

// A file's machine code as data: nothing of it runs.
class Image {
  public:
    explicit Image(const std::string &path)
        : library_(LoadLibraryExW(wide_path(path).c_str(), nullptr, LOAD_LIBRARY_AS_IMAGE_RESOURCE)),
          // The low bits say how it was loaded.
          base_(reinterpret_cast<const char *>(reinterpret_cast<uintptr_t>(library_.get()) & ~uintptr_t{3})) {
        if (base_ == nullptr) return;
        const auto *const head = at<IMAGE_DOS_HEADER>(0);
        const auto *const headers = at<IMAGE_NT_HEADERS>(static_cast<DWORD>(head->e_lfanew));
        const IMAGE_OPTIONAL_HEADER &optional = headers->OptionalHeader;
        if (optional.Magic != IMAGE_NT_OPTIONAL_HDR_MAGIC || optional.NumberOfRvaAndSizes <= IMAGE_DIRECTORY_ENTRY_IMPORT) return;
        imports_ = optional.DataDirectory[IMAGE_DIRECTORY_ENTRY_IMPORT].VirtualAddress;
    }

    // Names of the libraries that it is linked with.
    std::vector<std::string> needed() const {
        std::vector<std::string> names;
        if (imports_ == 0) return names;
        for (const auto *entry = at<IMAGE_IMPORT_DESCRIPTOR>(imports_); entry->Name != 0; ++entry)
            names.emplace_back(at<char>(entry->Name));
        return names;
    }

  private:
    template <class T>
    const T *at(DWORD offset) const {
        return reinterpret_cast<const T *>(base_ + offset);
    }

    const std::unique_ptr<std::remove_pointer_t<HMODULE>, Unload> library_;
    const char *const base_;
    DWORD imports_ = 0;
};

// Empty if the file may be handed to the system's loader, else why not.
std::string objection(const std::string &path) {
    if (!is_there(path)) return error_words(GetLastError());
    return is_directory(path) ? "not a regular file" : "";
}

// Without the prefix that says that a path is to be taken as it is.
std::string plain(std::wstring path) {
    if (path.starts_with(L"\\\\?\\UNC\\")) return narrow(L"\\\\" + path.substr(8));
    return narrow(path.starts_with(L"\\\\?\\") ? path.substr(4) : path);
}

// The path with links resolved; empty if the system does not tell.
std::string resolved(const std::wstring &path) {
    const HANDLE file =
        CreateFileW(path.c_str(), 0, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, nullptr, OPEN_EXISTING, 0, nullptr);
    if (file == INVALID_HANDLE_VALUE) return {};
    std::wstring result(path_capacity, L'\0');
    const DWORD length = GetFinalPathNameByHandleW(file, result.data(), static_cast<DWORD>(result.size()), FILE_NAME_NORMALIZED);
    CloseHandle(file);
    result.resize(length < result.size() ? length : 0);
    return plain(result);
}

}  // namespace

void *open_shared_library(const std::string &path, std::string *error) {
    const NoErrorWindow quiet;
    const std::string refused = objection(path);
    if (!refused.empty()) {
        *error = path + ": " + refused;
        return nullptr;
    }
    // What the file is linked with is looked for beside it and among the system's own libraries.
    const HMODULE library =
        LoadLibraryExW(wide_path(path).c_str(), nullptr, LOAD_LIBRARY_SEARCH_DLL_LOAD_DIR | LOAD_LIBRARY_SEARCH_SYSTEM32);
    if (library == nullptr) *error = path + ": " + error_words(GetLastError());
    return reinterpret_cast<void *>(library);
}

std::string missing_library(const std::string &path) {
    const NoErrorWindow quiet;
    for (const std::string &name : Image(path).needed()) {
        if (GetModuleHandleW(wide(name).c_str()) == nullptr) return name;
    }
    return {};
}

void *shared_library_symbol(void *library, const char *name, std::string *error) {
    void *symbol = reinterpret_cast<void *>(GetProcAddress(static_cast<HMODULE>(library), name));
    if (symbol == nullptr) *error = std::string(name) + ": " + error_words(GetLastError());
    return symbol;
}

// The program comes first among the process' libraries.
void *process_symbol(const char *name) {
    std::vector<HMODULE> libraries(256);
    DWORD bytes = 0;
    for (;;) {
        const DWORD room = static_cast<DWORD>(libraries.size() * sizeof libraries[0]);
        if (K32EnumProcessModules(GetCurrentProcess(), libraries.data(), room, &bytes) == 0) return nullptr;
        if (bytes <= room) break;
        libraries.resize(bytes / sizeof libraries[0]);
    }
    libraries.resize(bytes / sizeof libraries[0]);
    for (const HMODULE library : libraries) {
        if (void *symbol = reinterpret_cast<void *>(GetProcAddress(library, name))) return symbol;
    }
    return nullptr;
}

std::string own_directory(std::string *error) {
    HMODULE self = nullptr;
    std::wstring name(path_capacity, L'\0');
    DWORD length = 0;
    if (GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT | GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS, address_in_this_library(),
                           &self) != 0) {
        length = GetModuleFileNameW(self, name.data(), static_cast<DWORD>(name.size()));
    }
    name.resize(length < name.size() ? length : 0);
    const std::string path = name.empty() ? "" : resolved(name);
    if (path.empty()) {
        *error = "the system does not tell where libattile was loaded from: " + error_words(GetLastError());
        return {};
    }
    return path.substr(0, path.rfind('\\'));
}

}  // namespace attile::core
