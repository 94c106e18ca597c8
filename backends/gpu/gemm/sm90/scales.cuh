// SPDX-License-Identifier: Apache-2.0
// Factors of rows and columns of sums, of products of 8 bits.
#pragma once

#include "gemm/sm90/arguments.h"
#include "numeric.h"

namespace attile::gpu::sm90 {

// Of row or column `at`; there are some.
__device__ __forceinline__ float gemm_scale(const GemmScales &scales, int64_t at) {
    return __ldg(scales.data + quotient(static_cast<uint32_t>(at), scales.group) * scales.stride);
}

}  // namespace attile::gpu::sm90
