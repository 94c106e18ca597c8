// SPDX-License-Identifier: Apache-2.0
// The system's loader by POSIX: dlopen, dlsym, and dladdr of glibc, musl and the BSDs.
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "shared_library.h"

namespace attile::core {
namespace {

std::string loader_error(const char *otherwise) {
    const char *text = dlerror();
    return text != nullptr ? text : otherwise;
}

// Whether all that the file's program headers speak of is in the file. The system's loader maps without asking, so a file cut short, by a
// full disk perhaps, would end the process with SIGBUS. What is no ELF file of this machine's kind passes: the system has words for that.
bool is_whole(int file, off_t bytes) {
    ElfW(Ehdr) header;
    if (pread(file, &header, sizeof header, 0) != static_cast<ssize_t>(sizeof header)) return true;
    constexpr unsigned char kClass = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_ident[EI_CLASS] != kClass) return true;
    const auto end_of_file = static_cast<uint64_t>(bytes);
    for (unsigned i = 0; i < header.e_phnum; ++i) {
        ElfW(Phdr) segment;
        const uint64_t at = header.e_phoff + uint64_t{i} * sizeof segment;
        if (at > end_of_file || pread(file, &segment, sizeof segment, static_cast<off_t>(at)) != static_cast<ssize_t>(sizeof segment)) {
            return false;
        }
        if (segment.p_offset > end_of_file || segment.p_filesz > end_of_file - segment.p_offset) return false;
    }
    return true;
}

// Empty if the file may be handed to the system's loader, else why not.
std::string objection(const std::string &path) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return std::strerror(errno);
    if (!S_ISREG(status.st_mode)) return "not a regular file";  // dlopen would block on a pipe, and its words for a directory puzzle
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) return std::strerror(errno);
    const bool whole = is_whole(file, status.st_size);
    close(file);
    return whole ? "" : "the file is cut short";
}

}  // namespace

void *open_shared_library(const std::string &path, std::string *error) {
    const std::string refused = objection(path);
    if (!refused.empty()) {
        *error = path + ": " + refused;
        return nullptr;
    }
    // RTLD_NOW: a missing symbol shows here and not in the middle of a call. RTLD_LOCAL: backends do not bind to each other.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) *error = loader_error("dlopen gave no reason");
    return library;
}

void *shared_library_symbol(void *library, const char *name, std::string *error) {
    dlerror();
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) *error = loader_error("the symbol is NULL");
    return symbol;
}

std::string own_directory(std::string *error) {
    Dl_info info;
    if (dladdr(reinterpret_cast<const void *>(&own_directory), &info) == 0 || info.dli_fname == nullptr) {
        *error = "the system does not tell where libattile was loaded from";
        return {};
    }
    // A relative name was meant in the directory that was current then. Looking it up now would search one that somebody else chose.
    if (info.dli_fname[0] != '/') {
        *error = std::string("libattile was loaded by the relative path ") + info.dli_fname;
        return {};
    }
    const std::unique_ptr<char, void (*)(void *)> resolved(realpath(info.dli_fname, nullptr), std::free);
    if (resolved == nullptr) {
        *error = std::string(info.dli_fname) + ": " + std::strerror(errno);
        return {};
    }
    const std::string path = resolved.get();
    return path.substr(0, path.rfind('/'));
}

}  // namespace attile::core
