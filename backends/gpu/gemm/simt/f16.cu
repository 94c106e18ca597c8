// SPDX-License-Identifier: Apache-2.0
// GEMM kernels for A and B stored in f16; sums in float32.
#include "gemm/simt/instances.cuh"

namespace attile::gpu::simt {

const GemmKernels &gemm_kernels_f16() {
    constexpr auto kVector = GemmAccess::kVector, kUnaligned = GemmAccess::kUnaligned, kStrided = GemmAccess::kScalar;
    static const GemmKernels kernels = {
        {
            {{}, gemm_tile<Gemm128x128, F16, kVector>(), gemm_tile<Gemm128x128, F16, kUnaligned>(), nullptr},
            {},
            {{},
             gemm_tile<Gemm64x64, F16, kVector>(),
             gemm_tile<Gemm64x64, F16, kUnaligned>(),
             gemm_tile<Gemm64x64Strided, F16, kStrided>()},
            {{}, gemm_tile<Gemm32x32, F16, kVector>(), gemm_tile<Gemm32x32, F16, kUnaligned>(), nullptr},
        },
        {gemm_skinny<F16, 1, Scalars::kBoth>(), gemm_skinny<F16, 4, Scalars::kBoth>(), gemm_skinny<F16, 16, Scalars::kBoth>()},
    };
    return kernels;
}

}  // namespace attile::gpu::simt
