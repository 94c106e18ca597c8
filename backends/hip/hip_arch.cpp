// SPDX-License-Identifier: Apache-2.0
#include "hip_arch.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace attile::hip {
namespace {

// AMD's and NVIDIA's published figures of a compute unit. Sources: the "Instruction Set Architecture" document and the white paper of each
// architecture; NVIDIA's as in cuda/. Rows match a whole name, or the longest beginning of it.
struct Row {
    const char *begins;
    int32_t lanes_f32, lanes_f64, blocks, registers;
};
constexpr Row kRows[] = {
    {"gfx9", 64, 4, 16, 65536},         // GCN: four SIMDs of 16 lanes, 256 KB of vector registers.
    {"gfx900", 64, 4, 16, 65536},       // Vega 10
    {"gfx906", 64, 32, 16, 65536},      // Vega 20
    {"gfx908", 64, 32, 16, 65536},      // CDNA
    {"gfx90a", 64, 64, 16, 131072},     // CDNA 2: twice that with packed instructions, which the compiler seldom forms
    {"gfx94", 128, 64, 16, 131072},     // CDNA 3
    {"gfx10", 128, 8, 32, 131072},      // RDNA, RDNA 2; the runtime counts workgroup processors of two units
    {"gfx11", 256, 8, 32, 196608 * 2},  // RDNA 3, both halves of its dual issue counted
    {"gfx12", 256, 8, 32, 196608 * 2}, {"sm_6", 64, 32, 32, 0},  {"sm_61", 128, 4, 32, 0}, {"sm_7", 64, 32, 32, 0},
    {"sm_75", 64, 2, 16, 0},           {"sm_80", 64, 32, 32, 0}, {"sm_8", 128, 2, 16, 0},  {"sm_90", 128, 64, 32, 0},
    {"sm_10", 128, 64, 32, 0},         {"sm_12", 128, 2, 24, 0},
};

}  // namespace

Arch arch_of(const char *gcn_name, int major, int minor) {
    Arch arch;
    arch.is_amd = std::strncmp(gcn_name, "gfx", 3) == 0;
    if (arch.is_amd) {
        std::snprintf(arch.name, sizeof arch.name, "%.*s", static_cast<int>(std::strcspn(gcn_name, ":")), gcn_name);
        arch.capability = static_cast<int32_t>(std::strtol(arch.name + 3, nullptr, 16));
    } else {
        arch.capability = 10 * major + minor;
        std::snprintf(arch.name, sizeof arch.name, "sm_%d", arch.capability);
    }
    std::size_t longest = 0;
    for (const Row &row : kRows) {
        const std::size_t length = std::strlen(row.begins);
        if (length <= longest || std::strncmp(arch.name, row.begins, length) != 0) continue;
        longest = length;
        arch.lanes_f32 = row.lanes_f32;
        arch.lanes_f64 = row.lanes_f64;
        arch.blocks_per_unit = row.blocks;
        arch.registers_per_unit = row.registers;
    }
    return arch;
}

}  // namespace attile::hip
