// SPDX-License-Identifier: Apache-2.0
// GEMM kernels for float64, and its combining kernel.
#include "gemm/simt/combine.cuh"
#include "gemm/simt/instances.cuh"

namespace attile::gpu::simt {

const GemmKernels &gemm_kernels_f64() {
    constexpr auto kVector = GemmAccess::kVector, kUnaligned = GemmAccess::kUnaligned, kStrided = GemmAccess::kScalar;
    static const GemmKernels kernels = {
        {
            {},
            {},
            {{},
             gemm_tile<Gemm64x64Double, double, kVector>(),
             gemm_tile<Gemm64x64DoubleUnaligned, double, kUnaligned>(),
             gemm_tile<Gemm64x64Double, double, kStrided>()},
            {{}, gemm_tile<Gemm32x32Double, double, kVector>(), gemm_tile<Gemm32x32Double, double, kUnaligned>(), nullptr},
        },
        {gemm_skinny<double, 1, Scalars::kBoth>()},
    };
    return kernels;
}

const void *gemm_combine_f64() { return reinterpret_cast<const void *>(&gemm_combine_kernel<double>); }

}  // namespace attile::gpu::simt
