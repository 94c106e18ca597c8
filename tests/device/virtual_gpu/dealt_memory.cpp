// SPDX-License-Identifier: Apache-2.0
// The memory that is dealt out, and who may touch what.
#include <sys/mman.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>

#include "ptx_machine.h"

namespace attile::virtual_gpu {
namespace {

constexpr std::size_t kGap = 65536;           // Nobody's, on both sides of an allocation.
constexpr uint64_t kFar = uint64_t{1} << 32;  // So far from the nearest allocation an address has nothing to do with it.

struct Range {
    uint64_t begin = 0, end = 0;
    bool holds(uint64_t address, std::size_t bytes) const { return address >= begin && address <= end && end - address >= bytes; }
};

// Never destroyed: memory is given back until the process ends.
struct Table {
    std::mutex lock;
    std::map<uint64_t, uint64_t> ends;  // By begin.
    std::atomic<uint64_t> releases{1};

    // The last allocation that begins at `address` or before.
    Range below(uint64_t address) {
        const std::lock_guard<std::mutex> guard(lock);
        auto next = ends.upper_bound(address);
        if (next == ends.begin()) return {};
        --next;
        return {next->first, next->second};
    }
};
Table &table() {
    static Table &made = *new Table;
    return made;
}
// Of a constant address, as every access of a kernel looks here.
std::atomic<uint64_t> *const releases = &table().releases;

// The ranges that this thread found last: a kernel reads one array and writes another most of the time.
struct Found {
    uint64_t releases;
    Range last, before;
};
thread_local __attribute__((tls_model("initial-exec"))) Found found = {0, {}, {}};

bool find(uint64_t address, std::size_t bytes) {
    const uint64_t now = releases->load(std::memory_order_acquire);
    if (found.releases == now) {
        if (found.last.holds(address, bytes)) return true;
        if (found.before.holds(address, bytes)) {
            std::swap(found.last, found.before);
            return true;
        }
    }
    const Range range = table().below(address);
    if (range.end == 0 || !range.holds(address, bytes)) return false;
    found.before = found.releases == now ? found.last : Range{};
    found.last = range;
    found.releases = now;
    return true;
}

std::string number(uint64_t value) { return std::to_string(value); }
std::string pointer(uint64_t address) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return text;
}

[[noreturn]] void wild(uint64_t address, std::size_t bytes, bool writes) {
    std::string what = "global memory: " + std::string(writes ? "writes " : "reads ") + number(bytes) + " bytes at " + pointer(address);
    const Range range = table().below(address);
    if (range.end == 0 || (address > range.end && address - range.end > kFar)) fault(what + ", which nobody allocated");
    const std::string of = " an allocation of " + number(range.end - range.begin) + " bytes";
    if (address < range.end) fault(what + ", the last " + number(address + bytes - range.end) + " of which are beyond" + of);
    fault(what + ", which is " + number(address - range.end) + " bytes beyond" + of);
}

// Memory of the machine's own, not aligned as a whole: `address` counts from its beginning.
unsigned char *within(unsigned char *begin, std::size_t size, uint64_t address, std::size_t bytes, std::size_t alignment,
                      const char *what) {
    const uint64_t offset = address - reinterpret_cast<uint64_t>(begin);
    if ((offset & (alignment - 1)) != 0)
        fault(std::string(what) + ": address " + number(offset) + " is no multiple of " + number(alignment));
    if (size - offset < bytes) fault(std::string(what) + ": " + number(bytes) + " bytes at " + number(offset) + " of " + number(size));
    return begin + offset;
}
bool is_in(const std::vector<unsigned char> &memory, uint64_t address) {
    return address - reinterpret_cast<uint64_t>(memory.data()) < memory.size();
}

}  // namespace

unsigned char *global_at(uint64_t address, std::size_t bytes, std::size_t alignment, bool writes) {
    if ((address & (alignment - 1)) != 0) {
        fault("global memory: address " + pointer(address) + " is no multiple of " + number(alignment));
    }
    if (!find(address, bytes)) wild(address, bytes, writes);
    return reinterpret_cast<unsigned char *>(address);
}

unsigned char *generic_at(Warp &warp, uint64_t address, std::size_t bytes, std::size_t alignment, bool writes) {
    if (address >> 56 == kSharedWindow >> 56) return shared_at(*warp.block, address & 0xffffffffU, bytes, alignment);
    if (is_in(warp.local, address)) return within(warp.local.data(), warp.local.size(), address, bytes, alignment, "local memory");
    std::vector<unsigned char> &parameters = warp.grid->parameters;
    if (is_in(parameters, address)) {
        if (writes) fault("memory of the parameters: it is written to");
        return within(parameters.data(), parameters.size(), address, bytes, alignment, "memory of the parameters");
    }
    return global_at(address, bytes, alignment, writes);
}

void *allocate(std::size_t bytes) {
    constexpr std::size_t kPage = 4096;
    if (bytes > std::size_t{1} << 46) return nullptr;
    const std::size_t mapped = (bytes + kPage - 1) / kPage * kPage + 2 * kGap;
    void *const base = mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return nullptr;
    unsigned char *const begin = static_cast<unsigned char *>(base) + kGap;
    std::memset(begin, 0xff, bytes);
    const std::lock_guard<std::mutex> guard(table().lock);
    table().ends[reinterpret_cast<uint64_t>(begin)] = reinterpret_cast<uint64_t>(begin) + bytes;
    return begin;
}

bool release(void *pointer) {
    std::size_t mapped = 0;
    {
        const std::lock_guard<std::mutex> guard(table().lock);
        const auto entry = table().ends.find(reinterpret_cast<uint64_t>(pointer));
        if (entry == table().ends.end()) return false;
        mapped = entry->second - entry->first + 2 * kGap;
        table().ends.erase(entry);
        table().releases.fetch_add(1, std::memory_order_acq_rel);
    }
    munmap(static_cast<unsigned char *>(pointer) - kGap, mapped);
    return true;
}

bool is_allocated(const void *pointer, std::size_t bytes) {
    const Range range = table().below(reinterpret_cast<uint64_t>(pointer));
    return range.end != 0 && range.holds(reinterpret_cast<uint64_t>(pointer), bytes);
}

}  // namespace attile::virtual_gpu
