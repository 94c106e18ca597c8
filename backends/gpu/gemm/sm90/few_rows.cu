// SPDX-License-Identifier: Apache-2.0
#include "gemm/sm90/few_rows.cuh"

namespace attile::gpu::sm90 {
namespace {

template <class Element>
const void *kernel_of(int rows, bool along_depth) {
    const auto address = [](auto kernel) { return reinterpret_cast<const void *>(kernel); };
    if (rows <= 8)
        return along_depth ? address(&gemm_few_rows<FewRowsConfig<Element, true, 8>>)
                           : address(&gemm_few_rows<FewRowsConfig<Element, false, 8>>);
    return along_depth ? address(&gemm_few_rows<FewRowsConfig<Element, true, 16>>)
                       : address(&gemm_few_rows<FewRowsConfig<Element, false, 16>>);
}

}  // namespace

const void *few_rows_kernel_f16(int rows, bool along_depth) { return kernel_of<F16>(rows, along_depth); }
const void *few_rows_kernel_bf16(int rows, bool along_depth) { return kernel_of<BF16>(rows, along_depth); }

}  // namespace attile::gpu::sm90
