// SPDX-License-Identifier: Apache-2.0
// Estimated seconds of attention's blocks: a model of waves of equal blocks, by which plans choose kernels and splits.
#pragma once

#include <algorithm>
#include <cmath>

#include "device.h"

namespace attile::gpu {

// Share of a full device's speed at which `resident` of `full` blocks a unit run.
inline double latency_share(double resident, double full) { return std::sqrt(std::min(1.0, resident / full)); }

// Seconds for `blocks` equal blocks of `work` multiply-adds.
inline double wave_seconds(const DeviceProperties &device, double blocks, double work, double occupancy, double share) {
    const double units = std::max(device.compute_units, 1), per_unit = device.peak_flops_f32 / 2 / units * share;
    if (per_unit <= 0) return blocks * work;
    const double per_wave = units * occupancy, waves = std::floor(blocks / per_wave), rest = std::ceil((blocks - waves * per_wave) / units);
    return (waves * occupancy * work + (rest > 0 ? rest * work / latency_share(rest, occupancy) : 0)) / per_unit;
}

// Blocks of unequal length: of so much work on average, and no faster than the longest by itself.
inline double wave_seconds(const DeviceProperties &device, double blocks, double work, double longest, double occupancy, double share) {
    return std::max(wave_seconds(device, blocks, work, occupancy, share), wave_seconds(device, 1, longest, occupancy, share));
}

}  // namespace attile::gpu
