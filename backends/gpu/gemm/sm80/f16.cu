// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm80/table.cuh"

namespace attile::sm80 {

const void *gemm_kernel_f16(GemmTile tile, int outer_a, int outer_b) { return gemm_kernel_of<simt::F16>(tile, outer_a, outer_b); }

}  // namespace attile::sm80
