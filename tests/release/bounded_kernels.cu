// SPDX-License-Identifier: Apache-2.0
// For every_architecture.sh: kernels whose launch bounds ask for many blocks of a multiprocessor, out of files that take a compiler long.
#include "gemm/simt/combine.cuh"

namespace attile::gpu::simt {

template __global__ void gemm_combine_plain_kernel<float, false>(const GemmCombineParams);
template __global__ void gemm_combine_plain_kernel<float, true>(const GemmCombineParams);

}  // namespace attile::gpu::simt
