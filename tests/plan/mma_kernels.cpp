// SPDX-License-Identifier: Apache-2.0
// In place of the kernels of gemm/mma and mma, whose files hold code that only nvcc takes.
#include "gemm/mma/small.h"
#include "mma/pack.h"

namespace attile::gpu::mma {
namespace {

template <int kWhich>
void kernel() {}
template <int kWhich>
const void *address() {
    return reinterpret_cast<const void *>(&kernel<kWhich>);
}

}  // namespace

const void *pack_kernel(int64_t element_bytes) { return element_bytes == 2 ? address<0>() : address<1>(); }
const void *pack_several_kernel(int64_t) { return address<3>(); }
const void *unpack_several_kernel(int64_t) { return address<4>(); }
const void *small_gemm_kernel(bool, int, int) { return address<2>(); }

}  // namespace attile::gpu::mma
