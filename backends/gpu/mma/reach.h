// SPDX-License-Identifier: Apache-2.0
// What TMA, and copies of 16 bytes, reach of an array in memory.
#pragma once

#include <cstdint>

namespace attile::gpu::mma {

inline constexpr int64_t kReachBytes = 16;  // Alignment of an array's address and of every stride but the first, which is one element.

// Can they reach elements of `bytes` bytes at this address with these strides (in elements, `count` of them)?
inline bool is_reachable(const void *data, const int64_t *stride, int count, int64_t bytes) {
    constexpr int64_t kMostStrideBytes = int64_t{1} << 40;  // Exclusive.
    if (reinterpret_cast<uintptr_t>(data) % kReachBytes != 0) return false;
    for (int i = 0; i < count; ++i) {
        if (stride[i] < 0 || stride[i] >= kMostStrideBytes / bytes || stride[i] * bytes % kReachBytes != 0) return false;
    }
    return true;
}

}  // namespace attile::gpu::mma
