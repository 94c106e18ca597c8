// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm90/add_parts.cuh"

#include "gemm/sm90/add_parts.h"

namespace attile::gpu::sm90 {

const void *gemm_add_parts_kernel() { return reinterpret_cast<const void *>(&gemm_add_parts); }

}  // namespace attile::gpu::sm90
