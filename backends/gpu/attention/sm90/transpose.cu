// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/transpose.h"

#include "attention/sm90/transpose.cuh"

namespace attile::gpu::sm90 {

const void *transpose_values_kernel() { return reinterpret_cast<const void *>(&attention_transpose_values); }

}  // namespace attile::gpu::sm90
