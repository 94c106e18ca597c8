// SPDX-License-Identifier: Apache-2.0
// GEMM kernels for A and B stored in bf16; sums in float32.
#include "gemm/simt/instances.cuh"

namespace attile::gpu::simt {

const GemmKernels &gemm_kernels_bf16() {
    constexpr auto kVector = GemmAccess::kVector, kUnaligned = GemmAccess::kUnaligned, kStrided = GemmAccess::kScalar;
    static const GemmKernels kernels = {
        {
            {{}, gemm_tile<Gemm128x128, BF16, kVector>(), gemm_tile<Gemm128x128, BF16, kUnaligned>(), nullptr},
            {},
            {{},
             gemm_tile<Gemm64x64, BF16, kVector>(),
             gemm_tile<Gemm64x64, BF16, kUnaligned>(),
             gemm_tile<Gemm64x64Strided, BF16, kStrided>()},
            {{}, gemm_tile<Gemm32x32, BF16, kVector>(), gemm_tile<Gemm32x32, BF16, kUnaligned>(), nullptr},
        },
        {gemm_skinny<BF16, 1, Scalars::kBoth>(), gemm_skinny<BF16, 4, Scalars::kAlongDepth>(), gemm_skinny<BF16, 16, Scalars::kBoth>()},
    };
    return kernels;
}

}  // namespace attile::gpu::simt
