// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm80/few_narrow.cuh"

#include <attile/attile.h>

namespace attile::gpu::sm80 {
namespace {

template <class C>
FewNarrowKernel kernel_of() {
    return {reinterpret_cast<const void *>(&gemm_few_narrow<C>), C::kRows, C::kDepth, C::kStages * C::kStageB, C::kStages * C::kBytesA};
}

template <class Number, class Element, int kTiles>
FewNarrowKernel kernel_of(int parts) {
    if (parts == 1) return kernel_of<FewNarrow<Number, Element, kTiles, 16>>();
    if (parts == 2) return kernel_of<FewNarrow<Number, Element, kTiles, 8>>();
    if constexpr (FewNarrow<Number, Element, kTiles, 16>::kHasNibbles) return kernel_of<FewNarrow<Number, Element, kTiles, 4>>();
    return {};
}

template <class Element, int kTiles>
FewNarrowKernel kernel_of(int32_t b_dtype, int parts) {
    if (b_dtype == ATTILE_I8) return kernel_of<I8, Element, kTiles>(parts);
    if (b_dtype == ATTILE_F8_E4M3) return kernel_of<E4M3, Element, kTiles>(parts);
    return b_dtype == ATTILE_I4 ? kernel_of<I4, Element, kTiles>(parts) : kernel_of<U4, Element, kTiles>(parts);
}

}  // namespace

FewNarrowKernel few_narrow_kernel(int32_t a_dtype, int32_t b_dtype, int64_t m, int parts) {
    static_assert(kFewNarrowRows == 16, "two tiles");
    if (a_dtype == ATTILE_F16) return m <= 8 ? kernel_of<F16, 1>(b_dtype, parts) : kernel_of<F16, 2>(b_dtype, parts);
    return m <= 8 ? kernel_of<BF16, 1>(b_dtype, parts) : kernel_of<BF16, 2>(b_dtype, parts);
}

}  // namespace attile::gpu::sm80
