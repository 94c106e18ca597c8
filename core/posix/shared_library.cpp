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
#include <vector>

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

// A file's parts as its program headers say where they are.
class ElfFile {
  public:
    explicit ElfFile(const std::string &path) : file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
        struct stat status;
        ElfW(Ehdr) header;
        if (file_ < 0 || fstat(file_, &status) != 0 || !S_ISREG(status.st_mode) || !is_whole(file_, status.st_size)) return;
        size_ = static_cast<uint64_t>(status.st_size);
        if (!read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return;
        segments_.resize(header.e_phnum);
        if (!read(header.e_phoff, segments_.data(), segments_.size() * sizeof segments_[0])) segments_.clear();
    }
    ~ElfFile() {
        if (file_ >= 0) close(file_);
    }
    ElfFile(const ElfFile &) = delete;
    ElfFile &operator=(const ElfFile &) = delete;

    // Names of the libraries that it is linked with.
    std::vector<std::string> needed() const {
        std::vector<ElfW(Dyn)> entries;
        for (const ElfW(Phdr) & segment : segments_) {
            if (segment.p_type != PT_DYNAMIC || segment.p_filesz > size_) continue;
            entries.resize(segment.p_filesz / sizeof entries[0]);
            if (!read(segment.p_offset, entries.data(), entries.size() * sizeof entries[0])) return {};
        }
        uint64_t table = 0, bytes = 0;
        for (const ElfW(Dyn) & entry : entries) {
            if (entry.d_tag == DT_STRTAB) table = entry.d_un.d_ptr;
            if (entry.d_tag == DT_STRSZ) bytes = entry.d_un.d_val;
        }
        std::string names(bytes <= size_ ? bytes : 0, '\0');
        if (!read(offset_of(table), names.data(), names.size())) return {};
        std::vector<std::string> list;
        for (const ElfW(Dyn) & entry : entries) {
            if (entry.d_tag == DT_NEEDED && entry.d_un.d_val < names.size()) list.emplace_back(names.c_str() + entry.d_un.d_val);
        }
        return list;
    }

  private:
    bool read(uint64_t at, void *target, size_t bytes) const {
        return at <= size_ && bytes <= size_ - at && pread(file_, target, bytes, static_cast<off_t>(at)) == static_cast<ssize_t>(bytes);
    }
    uint64_t offset_of(uint64_t address) const {
        for (const ElfW(Phdr) & segment : segments_) {
            if (segment.p_type == PT_LOAD && address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz) {
                return segment.p_offset + (address - segment.p_vaddr);
            }
        }
        return size_;
    }

    const int file_;
    uint64_t size_ = 0;
    std::vector<ElfW(Phdr)> segments_;
};

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

std::string missing_library(const std::string &path) {
    for (const std::string &name : ElfFile(path).needed()) {
        // The handle is kept, as every library is.
        if (dlopen(name.c_str(), RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD) == nullptr) return name;
    }
    return {};
}

void *shared_library_symbol(void *library, const char *name, std::string *error) {
    dlerror();
    void *symbol = dlsym(library, name);
    if (symbol == nullptr) *error = loader_error("the symbol is NULL");
    return symbol;
}

void *process_symbol(const char *name) { return dlsym(RTLD_DEFAULT, name); }

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
