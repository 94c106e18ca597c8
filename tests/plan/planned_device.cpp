// SPDX-License-Identifier: Apache-2.0
// Occupancy is a model: registers, static shared memory by the committed table of what CUDA's compiler made for 6.1 (tests/budget),
// whatever the device; of kernels for tensor cores, of which it has none, as many registers as leave a multiprocessor two blocks. A block's
// place in a unit is then counted as the vendors' runtimes count it.
#include "planned_device.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>

#if defined(ATTILE_GPU_HAS_SM80)
#include "sm80/kernels.h"
#include "sm90/kernels.h"
#endif

namespace attile::test {
namespace {

std::map<std::string, gpu::KernelResources> kernels;

// `void attile::gpu::simt::kernel<(int)64, float>(params)` as `kernel<64, float>`, as tests/budget/check_budget.py writes it.
std::string short_name(const std::string &demangled) {
    static const std::regex kCasts(R"(\((int|unsigned int|bool|long|short)\)|\(anonymous namespace\)::)"),
        kSpaces(R"(\b(attile|gpu|simt)::)");
    std::string name = std::regex_replace(demangled, kCasts, "");
    int depth = 0;
    for (std::size_t at = 0; at < name.size(); ++at) {
        depth += (name[at] == '<') - (name[at] == '>');
        if (name[at] == '(' && depth == 0) name.resize(at);
    }
    if (name.compare(0, 5, "void ") == 0) name.erase(0, 5);
    return std::regex_replace(name, kSpaces, "");
}

// The functions of this program, which is loaded at `loaded`. Its table of symbols is read, since many kernels are local to a file.
std::map<uintptr_t, std::string> read_symbols(uintptr_t loaded) {
    std::ifstream file("/proc/self/exe", std::ios::binary);
    const std::string image((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const auto at = [&](auto &header, std::size_t offset) { std::memcpy(&header, image.data() + offset, sizeof header); };
    std::map<uintptr_t, std::string> found;
    Elf64_Ehdr program;
    at(program, 0);
    const uintptr_t base = program.e_type == ET_DYN ? loaded : 0;
    for (std::size_t i = 0; i < program.e_shnum; ++i) {
        Elf64_Shdr table, strings;
        at(table, program.e_shoff + i * sizeof table);
        if (table.sh_type != SHT_SYMTAB) continue;
        at(strings, program.e_shoff + table.sh_link * sizeof strings);
        for (std::size_t offset = 0; offset < table.sh_size; offset += sizeof(Elf64_Sym)) {
            Elf64_Sym symbol;
            at(symbol, table.sh_offset + offset);
            if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC)
                found[base + symbol.st_value] = image.data() + strings.sh_offset + symbol.st_name;
        }
    }
    return found;
}

std::string name_of(const void *kernel) {
    Dl_info program;
    if (dladdr(kernel, &program) == 0) throw std::runtime_error("a kernel that is not of this program");
    static const std::map<uintptr_t, std::string> kSymbols = read_symbols(reinterpret_cast<uintptr_t>(program.dli_fbase));
    const auto found = kSymbols.find(reinterpret_cast<uintptr_t>(kernel));
    if (found == kSymbols.end()) throw std::runtime_error("a kernel without a name");
    int status = 0;
    const std::unique_ptr<char, void (*)(void *)> text(abi::__cxa_demangle(found->second.c_str(), nullptr, nullptr, &status), std::free);
    return short_name(status == 0 ? text.get() : found->second);
}

class PlannedDevice final : public MemoryDevice {
  public:
    explicit PlannedDevice(const DeviceRow &row) : MemoryDevice(int64_t{1} << 20) {
        gpu::DeviceProperties &p = properties_;
        std::snprintf(p.name, sizeof p.name, "%s", row.name);
        std::snprintf(p.arch, sizeof p.arch, "%s", row.arch);
        p.device_type = is_amd(row) ? ATTILE_DEVICE_ROCM : ATTILE_DEVICE_CUDA;
        p.capability = row.capability;
        p.compute_units = row.units;
        p.lane_width = row.lane_width;
        p.threads_per_unit = row.threads;
        p.blocks_per_unit = row.blocks;
        p.registers_per_unit = row.registers;
        p.memory_total = static_cast<int64_t>(row.memory_gb) << 30;
        p.shared_per_block = is_amd(row) ? 65536 : 49152;
        p.shared_opt_in = int64_t{1024} * row.shared_opt_in_kb;
        p.shared_per_unit = int64_t{1024} * row.shared_unit_kb;
        p.l2_bytes = int64_t{1024} * row.l2_kb;
        p.clock_hz = 1e9 * row.clock_ghz;
        p.peak_flops_f32 = 2.0 * row.lanes_f32 * row.units * p.clock_hz;
        p.peak_flops_f64 = 2.0 * row.lanes_f64 * row.units * p.clock_hz;
        p.peak_flops_f16 = 1.0 * row.f16_flops * row.units * p.clock_hz;
        p.peak_bandwidth = 1e9 * row.gigabytes_per_second;
    }

#if defined(ATTILE_GPU_HAS_SM80)
    bool runs(const gpu::KernelSet &set) const override {
        return (&set == &gpu::sm90::kKernels && properties_.capability == 90) ||
               (&set == &gpu::sm80::kKernels && properties_.capability >= 80);
    }
#endif
    int32_t resources(const void *kernel, gpu::KernelResources *found) override {
        const auto known = kernels.find(name_of(kernel));
        *found = known != kernels.end() ? known->second : gpu::KernelResources();
        found->binary_version = found->source_version = properties_.capability;
        return ATTILE_OK;
    }
    int32_t occupancy(const void *kernel, int32_t threads, std::size_t shared, int32_t *blocks) override {
        gpu::KernelResources of;
        (void)resources(kernel, &of);
        const gpu::DeviceProperties &p = properties_;
        const auto round_up = [](int64_t x, int64_t unit) { return (x + unit - 1) / unit * unit; };
        const int64_t warps = round_up(threads, p.lane_width) / p.lane_width;
        const int64_t by_registers =
            of.registers > 0 ? p.registers_per_unit / round_up(int64_t{of.registers} * p.lane_width, 256) / warps : 2;
        const int64_t reserved = p.capability >= 80 && p.device_type == ATTILE_DEVICE_CUDA ? 1024 : 0;
        const int64_t bytes = round_up(of.shared_static + static_cast<int64_t>(shared) + reserved, 256);
        const int64_t by_shared = bytes > 0 ? p.shared_per_unit / bytes : p.blocks_per_unit;
        *blocks = static_cast<int32_t>(
            std::min({by_registers, by_shared, p.threads_per_unit / (warps * p.lane_width), static_cast<int64_t>(p.blocks_per_unit)}));
        return ATTILE_OK;
    }

  private:
    static bool is_amd(const DeviceRow &row) { return row.arch[0] == 'g'; }
};

}  // namespace

const std::vector<DeviceRow> &device_rows() {
#if defined(ATTILE_GPU_HAS_SM80)
    static const std::vector<DeviceRow> kRows = {
        {"GTX 1080", "sm_61", 61, 20, 32, 1.7335, 128, 4, 0, 320, 8, 2048, 2048, 32, 65536, 96, 48},
        {"P100", "sm_60", 60, 56, 32, 1.3285, 64, 32, 0, 732, 16, 4096, 2048, 32, 65536, 64, 48},
        {"RTX 3090", "sm_86", 86, 82, 32, 1.695, 128, 2, 1024, 936, 24, 6144, 1536, 16, 65536, 100, 99},
        {"A100", "sm_80", 80, 108, 32, 1.41, 64, 32, 2048, 2039, 80, 40960, 2048, 32, 65536, 164, 163},
        {"L4", "sm_89", 89, 58, 32, 2.04, 128, 2, 1024, 300, 22, 49152, 1536, 24, 65536, 100, 99},
        {"H200", "sm_90", 90, 132, 32, 1.98, 128, 64, 4096, 4917, 139, 61440, 2048, 32, 65536, 228, 227},
    };
#else
    static const std::vector<DeviceRow> kRows = {
        {"RX 6800", "gfx1030", 0x1030, 30, 32, 2.105, 128, 8, 0, 512, 16, 4096, 2048, 32, 131072, 64, 64},
        {"MI210", "gfx90a", 0x90a, 104, 64, 1.7, 64, 64, 0, 1638, 64, 8192, 2048, 16, 131072, 64, 64},
    };
#endif
    return kRows;
}

// Lines of kernel,threads,registers,shared_static,..., the name in quotes where it has commas.
void read_kernels(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
        const bool quoted = line[0] == '"';
        const std::size_t end = quoted ? line.find('"', 1) : line.find(',');
        gpu::KernelResources of;
        char comma = 0;
        int32_t threads = 0;
        std::istringstream numbers(line.substr(end + (quoted ? 2 : 1)));
        numbers >> threads >> comma >> of.registers >> comma >> of.shared_static;
        kernels[line.substr(quoted ? 1 : 0, end - (quoted ? 1 : 0))] = of;
    }
    if (kernels.empty()) throw std::runtime_error(path + " has no kernels");
}

std::unique_ptr<gpu::Device> make_device(const DeviceRow &row) { return std::make_unique<PlannedDevice>(row); }

}  // namespace attile::test
