// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 or 4 bits, of any strides, times their scales, rewritten as dense rows of f16 or bfloat16: eight of a row a thread at a
// time, read at once where they lie side by side. Bound: memory, each byte once there and twice back.
#include "attention/mma/widened.h"
#include "attention/scaled.h"

namespace attile::gpu::mma {
namespace {

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWidenThreads, 1) attention_widen(const WidenParams p) {
    const uint32_t pieces = static_cast<uint32_t>(p.rows) * p.of_row.divisor, step = gridDim.x * kWidenThreads;
    for (uint32_t pair = blockIdx.y; pair < p.pairs; pair += gridDim.y) {
        const int64_t entry = quotient(pair, p.heads), head = remainder(pair, p.heads);
        const int64_t from = entry * p.from.stride[0] + head * p.from.stride[1];
        T *const to = static_cast<T *>(p.to) + int64_t{pair} * pieces * kWidenedAtOnce;
        for (uint32_t piece = blockIdx.x * kWidenThreads + threadIdx.x; piece < pieces; piece += step) {
            const uint32_t row = quotient(piece, p.of_row);
            const int col = static_cast<int>(piece - row * p.of_row.divisor) * kWidenedAtOnce;
            const int64_t at = from + row * p.from.stride[2], scales = scales_at(p.scales, entry, head, row);
            const bool in_vector = p.from.vector && col + kWidenedAtOnce <= p.cols;
            // Neighbours of a piece have one scale, unless those of a group are fewer.
            const float scale = load_scale(p.scales, scales, min(col, p.cols - 1));
            Vec<T, kWidenedAtOnce> numbers = {};
            const auto put = [&](int e, float number) {
                numbers[e] = from_compute<T>(number * (p.one_scale ? scale : load_scale(p.scales, scales, col + e)));
            };
            if (has_four_bits(p.from.storage)) {
                const uint32_t stored = in_vector ? load_four_bits_run<kWidenedAtOnce>(p.from, at + col) : 0;
#pragma unroll
                for (int e = 0; e < kWidenedAtOnce; ++e)
                    if (col + e < p.cols)
                        put(e, from_four_bits(p.from.storage, in_vector ? stored >> 4 * e : load_four_bits(p.from, at + col + e)));
                store_vec(to + int64_t{piece} * kWidenedAtOnce, numbers);
                continue;
            }
            with_eight_bits(p.from.storage, [&](auto type) {
                using From = decltype(type);
                const From *const x = static_cast<const From *>(p.from.data) + at;
                Vec<From, kWidenedAtOnce> stored = {};
                if (in_vector) stored = load_vec_const<kWidenedAtOnce>(x + col);
#pragma unroll
                for (int e = 0; e < kWidenedAtOnce; ++e) {
                    if (col + e >= p.cols) continue;
                    const From number = in_vector ? stored[e] : load_vec_const<1>(x + (col + e) * p.from.stride[3])[0];
                    put(e, to_compute(number));
                }
            });
            store_vec(to + int64_t{piece} * kWidenedAtOnce, numbers);
        }
    }
}

}  // namespace

const void *attention_widen_kernel(bool to_f16) {
    return to_f16 ? reinterpret_cast<const void *>(&attention_widen<F16>) : reinterpret_cast<const void *>(&attention_widen<BF16>);
}

}  // namespace attile::gpu::mma
