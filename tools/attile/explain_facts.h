// SPDX-License-Identifier: Apache-2.0
// What `attile explain` says, as text: of a call that a backend described, and of the textbook's questions. The arithmetic is
// kernel_model's.
#pragma once

#include <optional>
#include <string>

#include "bench_cases.h"
#include "kernel_model.h"

namespace attile::cli {

// The two roofs: 0 is not known. `given`: by the user, not by the device.
struct Roofs {
    double peak_flops = 0;
    double bandwidth = 0;
    bool given = false;

    bool known() const { return peak_flops > 0 && bandwidth > 0; }
};

// What is given, and the device's for the rest: nothing for a NULL device.
Roofs roofs_of(double given_peak, double given_bandwidth, const attile_context_info *device, int32_t dtype);

// The work of a call by its definition, and the roof that binds it at best.
std::string roof_facts(const attile_support &support, const Roofs &roofs);

// The kernel that the backend takes, with what its blocks need.
std::string kernel_facts(const attile_support &support, const Roofs &roofs);

// Reads of global memory with the kernel's tile and without one. Empty where no block shares what it reads, and for CPUs, whose caches do
// it.
std::string reads_facts(const attile_support &support, const bench::BenchCase &one, const Roofs &roofs);

// What limits the blocks that a compute unit holds. Empty where the backend does not say what a block needs.
std::string occupancy_facts(const attile_support &support, const attile_context_info &info);

// "memory: the intensity is 0.643 of the balance point".
std::string bound_text(const model::Roofline &line);

// An element count: each digit as long as a double holds them.
std::string elements_text(double count);

// So many reads, the intensity that they leave, and what binds if memory itself has to answer each. `untiled`: what they were without a
// tile.
std::string reads_text(double reads, double untiled, int64_t element_bytes, double flops, const Roofs &roofs);

// Limit by limit, in plain numbers and, where they are known, in the units in which the device allocates; then the least.
std::string occupancy_text(const model::BlockNeeds &block, const model::UnitLimits &unit,
                           const std::optional<model::AllocationUnits> &allocation);

}  // namespace attile::cli
