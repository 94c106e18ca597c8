// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what describes an array in memory to TMA. A map is a kernel's parameter, made for each call by the device (device.h).
#pragma once

#include <cstdint>

namespace attile::gpu {

inline constexpr int kMostAxes = 5;

// As the driver fills it in. TMA wants it aligned to 64 bytes; CUDA 13's own type is aligned to 128.
struct alignas(128) TensorMap {
    uint64_t opaque[16];
};

// An array of 2-byte elements, innermost axis first; the innermost is contiguous. An extent of at least 1 and a box of 1 to 256 along
// each axis; coordinates past the extents read as zero. The box's rows go to shared memory in the 128-byte swizzle, so box[0] is at most
// 64 elements.
struct TensorMapShape {
    int axes = 0;
    int64_t extent[kMostAxes] = {};
    int64_t stride[kMostAxes] = {};  // In elements. stride[0] is not read; 0 along an axis that never moves.
    int32_t box[kMostAxes] = {};
    bool is_fetched_by_lines = false;  // The L2 cache fetches 128 bytes at a time instead of 256.
};

}  // namespace attile::gpu
