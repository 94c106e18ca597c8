// SPDX-License-Identifier: Apache-2.0
// The sm_90a GEMM kernels for f16.
#include "gemm/sm90/table.cuh"

namespace attile::gpu::sm90 {

const void *gemm_kernel_f16(GemmTile tile, int outer_a, int outer_b) { return gemm_kernel_of<F16>(tile, outer_a, outer_b); }

}  // namespace attile::gpu::sm90
