// SPDX-License-Identifier: Apache-2.0
// GEMM kernels for float32, and the combining kernel of everything that sums in it.
#include "gemm/simt/combine.cuh"
#include "gemm/simt/instances.cuh"

namespace attile::gpu::simt {

const GemmKernels &gemm_kernels_f32() {
    constexpr auto kOuter = GemmAccess::kOuter, kDepth = GemmAccess::kDepth;
#if defined(ATTILE_GPU_HIP)
    const void *const unaligned_rows = nullptr;  // Not tried.
#else
    const void *const unaligned_rows = gemm_tile<Gemm128x128, float, GemmAccess::kDepthUnaligned, GemmAccess::kOuterUnaligned>();
#endif
    constexpr auto kVector = GemmAccess::kVector, kUnaligned = GemmAccess::kUnaligned, kStrided = GemmAccess::kScalar;
    static const GemmKernels kernels = {
        {
            {{{gemm_tile<Gemm128x128, float, kOuter, kOuter, true>(), gemm_tile<Gemm128x128, float, kOuter, kDepth, true>()},
              {gemm_tile<Gemm128x128, float, kDepth, kOuter, true>(), gemm_tile<Gemm128x128, float, kDepth, kDepth, true>()}},
             gemm_tile<Gemm128x128, float, kVector>(),
             gemm_tile<Gemm128x128, float, kUnaligned>(),
             nullptr,
             unaligned_rows},
            {{{gemm_tile<Gemm64x128, float, kOuter, kOuter, true>(), nullptr},
              {gemm_tile<Gemm64x128, float, kDepth, kOuter, true>(), nullptr}},
             nullptr,
             nullptr,
             nullptr},
            {{},
             gemm_tile<Gemm64x64, float, kVector>(),
             gemm_tile<Gemm64x64, float, kUnaligned>(),
             gemm_tile<Gemm64x64Strided, float, kStrided>()},
            {{}, gemm_tile<Gemm32x32, float, kVector>(), gemm_tile<Gemm32x32, float, kUnaligned>(), nullptr},
        },
        {gemm_skinny<float, 1, Scalars::kBoth, true>(), gemm_skinny<float, 4, Scalars::kBoth>(), gemm_skinny<float, 8, Scalars::kNone>(),
         gemm_skinny<float, 16, Scalars::kBoth>()},
    };
    return kernels;
}

const void *gemm_combine_f32() { return reinterpret_cast<const void *>(&gemm_combine_kernel<float>); }
const void *gemm_combine_plain_f32(bool vectors) {
    return vectors ? reinterpret_cast<const void *>(&gemm_combine_plain_kernel<float, false>)
                   : reinterpret_cast<const void *>(&gemm_combine_plain_kernel<float, true>);
}

}  // namespace attile::gpu::simt
