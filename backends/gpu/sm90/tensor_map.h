// SPDX-License-Identifier: Apache-2.0
// Tensor maps: what describes an array in memory to TMA. A map is a kernel's parameter, made for each call.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "gemm/mma/operands.h"

namespace attile::gpu::sm90 {

using namespace mma;

inline constexpr int kMostAxes = 5;

// An array of 2-byte elements, innermost axis first; the innermost is contiguous. An extent of at least 1 and a box of 1 to 256 along
// each axis; coordinates past the extents read as zero.
struct TensorMapShape {
    int axes = 0;
    int64_t extent[kMostAxes] = {};
    int64_t stride[kMostAxes] = {};  // In elements; stride[0] is not read.
    int32_t box[kMostAxes] = {};
    bool is_fetched_by_lines = false;  // The L2 cache fetches 128 bytes at a time instead of 256.
};

class TensorMaps {
  public:
    explicit TensorMaps(void *encode) : encode_(encode) {}
    // The box's rows go to shared memory in the 128-byte swizzle, so box[0] is at most 64 elements. Returns ATTILE_OK or a code, having
    // set the error sentence.
    int32_t make(const void *data, int32_t dtype, const TensorMapShape &shape, CUtensorMap *map) const;

  private:
    void *encode_;
};

}  // namespace attile::gpu::sm90
