// SPDX-License-Identifier: Apache-2.0
// A gpu::Device that has a real one's properties and makes plans, but launches nothing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "memory_device.h"

namespace attile::test {

// What a device says of itself, as the vendor's runtime gives it to backends/cuda or backends/hip.
struct DeviceRow {
    const char *name, *arch;
    int32_t capability, units, lane_width;
    double clock_ghz;
    int32_t lanes_f32, lanes_f64, f16_flops;  // Of a unit and clock; f16: operations of its tensor cores.
    double gigabytes_per_second;
    int32_t memory_gb, l2_kb;
    int32_t threads, blocks, registers, shared_unit_kb, shared_opt_in_kb;  // Of a unit; of a block.
};
const std::vector<DeviceRow> &device_rows();

// Reads what is known of the kernels' registers, a table of tests/budget. Throws std::runtime_error.
void read_kernels(const std::string &path);

std::unique_ptr<gpu::Device> make_device(const DeviceRow &row);

}  // namespace attile::test
