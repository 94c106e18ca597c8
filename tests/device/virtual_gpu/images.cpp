// SPDX-License-Identifier: Apache-2.0
// Kernels as the compiler's code registers them: PTX in fatbinaries, and host functions that stand for their entries.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>

#include "runtime.h"

namespace attile::virtual_gpu {
namespace {

// The layout of what nvcc puts into an object.
struct Wrapper {
    uint32_t magic, version;
    const unsigned char *data;
    void *file;
};
struct Header {
    uint32_t magic;
    uint16_t version, bytes;
    uint64_t all_bytes;  // Without the header.
};
struct Entry {
    uint16_t kind, version;
    uint32_t bytes;
    uint64_t all_bytes;  // Without these.
};
constexpr uint32_t kWrapperMagic = 0x466243b1, kMagic = 0xba55ed50;
constexpr uint16_t kPtx = 1;

struct Image {
    std::string_view text;
    int arch = 0;
    std::unique_ptr<Module> module;
};
struct Binary {
    Image image;  // The best for the device; without text where there is none.
};
struct Function {
    Binary *binary = nullptr;
    std::string name;
    Program program;
};

// Never destroyed: objects take their kernels back when the process ends.
struct Registry {
    std::recursive_mutex lock;
    std::map<const void *, Function> functions;
};
Registry &registry() {
    static Registry &made = *new Registry;
    return made;
}

// ".target sm_90a": 90, and whether it is for that device alone.
bool read_target(std::string_view text, int *arch, bool *is_exact) {
    constexpr std::string_view kTarget = ".target sm_";
    const std::size_t at = text.find(kTarget);
    if (at == std::string_view::npos) return false;
    *arch = 0;
    std::size_t end = at + kTarget.size();
    for (; end < text.size() && text[end] >= '0' && text[end] <= '9'; ++end) *arch = 10 * *arch + (text[end] - '0');
    *is_exact = end < text.size() && text[end] == 'a';
    return true;
}

Image best_image(const Wrapper &wrapper) {
    Image best;
    if (wrapper.magic != kWrapperMagic) return best;
    Header header;
    std::memcpy(&header, wrapper.data, sizeof header);
    if (header.magic != kMagic) return best;
    const unsigned char *at = wrapper.data + header.bytes, *const end = at + header.all_bytes;
    while (at + sizeof(Entry) <= end) {
        Entry entry;
        std::memcpy(&entry, at, sizeof entry);
        const char *const content = reinterpret_cast<const char *>(at + entry.bytes);
        at += entry.bytes + entry.all_bytes;
        if (entry.kind != kPtx) continue;
        const std::string_view text(content, strnlen(content, entry.all_bytes));
        int arch = 0;
        bool is_exact = false;
        if (!read_target(text, &arch, &is_exact)) {
            std::fprintf(stderr, "virtual GPU: a module's PTX is compressed and cannot be read\n");
            continue;
        }
        if (arch > capability() || (is_exact && arch != capability()) || arch < best.arch) continue;
        best.text = text;
        best.arch = arch;
    }
    return best;
}

}  // namespace

int Program::registers() const {
    // As many as its bounds leave; compilers seldom need more than this.
    const int threads = std::max(kLanes, (kernel->most_threads + kLanes - 1) / kLanes * kLanes) * std::max(1, kernel->fewest_blocks);
    return std::min(128, 65536 / threads / 8 * 8);
}

cudaError_t find_program(const void *host, Program **program) {
    const std::lock_guard<std::recursive_mutex> guard(registry().lock);
    const auto found = registry().functions.find(host);
    if (found == registry().functions.end()) return cudaErrorInvalidDeviceFunction;
    Function &function = found->second;
    Image &image = function.binary->image;
    if (image.text.empty()) return cudaErrorNoKernelImageForDevice;
    if (function.program.kernel == nullptr) {
        try {
            if (image.module == nullptr) image.module = std::make_unique<Module>(std::string(image.text));
            const Kernel *const kernel = image.module->find(function.name);
            if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
            function.program.arch = image.arch;
            function.program.kernel = kernel;
        } catch (const std::exception &error) {
            std::fprintf(stderr, "virtual GPU: %s cannot be read: %s\n", function.name.c_str(), error.what());
            return cudaErrorInvalidPtx;
        }
    }
    *program = &function.program;
    return cudaSuccess;
}

}  // namespace attile::virtual_gpu

using namespace attile::virtual_gpu;

// What the code calls that nvcc adds to an object.
ATTILE_EXPORT void **__cudaRegisterFatBinary(void *wrapper) {
    auto *const binary = new Binary;
    binary->image = best_image(*static_cast<const Wrapper *>(wrapper));
    return reinterpret_cast<void **>(binary);
}
ATTILE_EXPORT void __cudaRegisterFatBinaryEnd(void **) {}
ATTILE_EXPORT void __cudaUnregisterFatBinary(void **handle) {
    auto *const binary = reinterpret_cast<Binary *>(handle);
    const std::lock_guard<std::recursive_mutex> guard(registry().lock);
    auto &functions = registry().functions;
    for (auto at = functions.begin(); at != functions.end();) at = at->second.binary == binary ? functions.erase(at) : std::next(at);
    delete binary;
}
ATTILE_EXPORT char __cudaInitModule(void **) { return 1; }
ATTILE_EXPORT void __cudaRegisterFunction(void **handle, const char *host, char *, const char *name, int, uint3 *, uint3 *, dim3 *, dim3 *,
                                          int *) {
    const std::lock_guard<std::recursive_mutex> guard(registry().lock);
    Function &function = registry().functions[host];
    function = Function();
    function.binary = reinterpret_cast<Binary *>(handle);
    function.name = name;
}
// The host may not ask for the module's variables.
ATTILE_EXPORT void __cudaRegisterVar(void **, char *, char *, const char *, int, std::size_t, int, int) {}
