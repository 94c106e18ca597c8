// SPDX-License-Identifier: Apache-2.0
// GEMM's kernels of float64 as the emulated device knows them: they are launched by address alone.
#pragma once

namespace attile::test {

// Does the kernel take GemmParams? Does it take GemmCombineParams?
bool is_gemm_product(const void *kernel);
bool is_gemm_combine(const void *kernel);

}  // namespace attile::test
