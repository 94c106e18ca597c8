// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits, of any strides, times their scales, rewritten as dense rows of f16 or bfloat16, four numbers a thread at a time.
// Bound: memory, each byte once there and twice back.
#include "attention/mma/widened.h"
#include "attention/scaled.h"

namespace attile::gpu::mma {
namespace {

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWidenThreads, 1) attention_widen(const WidenParams p) {
    const int quads = p.padded_cols / 4;
    const int64_t total = p.entries * p.heads * p.rows * quads, step = static_cast<int64_t>(gridDim.x) * kWidenThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kWidenThreads + threadIdx.x; i < total; i += step) {
        const int64_t row_of_all = i / quads, pair = row_of_all / p.rows;
        const int64_t entry = pair / p.heads, head = pair % p.heads, row = row_of_all % p.rows;
        const int col = static_cast<int>(i % quads) * 4;
        const Quad quad = load_quad_scaled(p.from, p.scales, entry * p.from.stride[0] + head * p.from.stride[1] + row * p.from.stride[2],
                                           scales_at(p.scales, entry, head, row), col, p.cols);
        Vec<T, 4> numbers;
#pragma unroll
        for (int e = 0; e < 4; ++e) numbers[e] = from_compute<T>(quad[e]);
        store_vec(static_cast<T *>(p.to) + i * 4, numbers);
    }
}

}  // namespace

const void *attention_widen_kernel(bool to_f16) {
    return to_f16 ? reinterpret_cast<const void *>(&attention_widen<F16>) : reinterpret_cast<const void *>(&attention_widen<BF16>);
}

}  // namespace attile::gpu::mma
