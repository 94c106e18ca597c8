// SPDX-License-Identifier: Apache-2.0
// What the HIP runtime does not say of a device, by its architecture.
#pragma once

#include <cstdint>

namespace attile::hip {

struct Arch {
    bool is_amd = false;
    char name[64] = {};              // "gfx90a", or "sm_90" on HIP's NVIDIA platform.
    int32_t capability = 0;          // The gfx number's digits read as hexadecimal, "gfx90a": 0x90a; on NVIDIA 10 * major + minor.
    int32_t lanes_f32 = 0;           // Multiply-adds a clock and compute unit: the unit that the runtime counts, on RDNA two CUs.
    int32_t lanes_f64 = 0;           // 0 where not known.
    int32_t blocks_per_unit = 0;     // Resident blocks a compute unit holds.
    int32_t registers_per_unit = 0;  // 32-bit vector registers; 0: what the runtime says.
    double transfers_per_clock = 2;  // Of the memory, as the runtime gives its clock.
};

// `gcn_name` is the runtime's, with features behind a colon, and empty on the NVIDIA platform, where major and minor tell.
Arch arch_of(const char *gcn_name, int major, int minor);

}  // namespace attile::hip
