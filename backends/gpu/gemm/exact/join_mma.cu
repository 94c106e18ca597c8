// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact/join_mma.cuh"

#include "gemm/exact/kernels.h"

namespace attile::gpu::exact {

JoinPiecesKernel join_pieces_kernel(int limbs) {
    return limbs <= 3 ? join_pieces<3> : limbs == 4 ? join_pieces<4> : limbs == 5 ? join_pieces<5> : join_pieces<6>;
}

}  // namespace attile::gpu::exact
