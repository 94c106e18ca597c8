// SPDX-License-Identifier: Apache-2.0
// GEMM's kernels of float32, of float64, of groups of rows and of numbers of 8 bits as the emulated device knows them: they are launched
// by address alone.
#pragma once

namespace attile::test {

// How the kernel is called; null: it is none of these.
emulation::Call call_of_gemm(const void *kernel);

}  // namespace attile::test
