// SPDX-License-Identifier: Apache-2.0
// Copies matrices of 16-bit or 32-bit elements with any strides into rows aligned to 16 bytes, padded with zeros: 16 bytes a thread,
// written at once. Where neighbours of a row are neighbours in memory they are read as the two aligned 16 bytes that they lie in, and
// shifted; else, and at a row's ends, element by element. Both operands of a product in one launch. No shared memory; bound by memory.
#include "gemm/mma/pack.h"

namespace attile::gpu::mma {
namespace {

// A 32-bit division is several times cheaper.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
    return ((a | b) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b)) : a / b;
}

// The 16 bytes from byte `shift` on of 32.
__device__ __forceinline__ uint4 shifted(const uint4 &low, const uint4 &high, uint32_t shift) {
    uint32_t word[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
#pragma unroll
    for (int words = 2; words > 0; --words) {
#pragma unroll
        for (int i = 0; i + words < 8; ++i) word[i] = (shift & 4u * static_cast<uint32_t>(words)) != 0 ? word[i + words] : word[i];
    }
    const uint32_t bits = shift % 4 * 8;
    return make_uint4(__funnelshift_r(word[0], word[1], bits), __funnelshift_r(word[1], word[2], bits),
                      __funnelshift_r(word[2], word[3], bits), __funnelshift_r(word[3], word[4], bits));
}

template <class Element>
__device__ __forceinline__ void pack_piece(const PackMatrix &m, int64_t piece) {
    constexpr int kPackVector = 16 / sizeof(Element), kPackPiece = pack_piece_elements(sizeof(Element));
    const int64_t line = divide(piece, m.across);
    const int64_t col = (piece - line * m.across) * kPackPiece + static_cast<int64_t>(threadIdx.x % 32) * kPackVector;
    if (col >= m.to_row) return;
    const int64_t batch = divide(line, m.rows);
    const int64_t row = line - batch * m.rows;
    const int64_t batch_x = divide(batch, m.count_y);
    const Element *from =
        static_cast<const Element *>(m.from) + batch_x * m.batch_x + (batch - batch_x * m.count_y) * m.batch_y + row * m.row + col * m.col;
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    const int64_t first = col - shift / static_cast<int64_t>(sizeof(Element));  // Of what is read, which stays within the row.
    const bool in_vectors = m.col == 1 && first >= 0 && first + (shift == 0 ? 1 : 2) * kPackVector <= m.cols;
    // A warp at a row's end has lanes of both kinds: all loads are issued before the first is waited for.
    uint4 low = {}, high = {};
    Element element[kPackVector] = {};
    if (in_vectors) {
        const uint4 *const base = reinterpret_cast<const uint4 *>(reinterpret_cast<const char *>(from) - shift);
        low = __ldg(base);
        if (shift != 0) high = __ldg(base + 1);
    } else {
#pragma unroll
        for (int i = 0; i < kPackVector; ++i) {
            if (col + i < m.cols) element[i] = from[i * m.col];
        }
    }
    const uint4 whole = shifted(low, high, shift);
    const uint32_t wholes[4] = {whole.x, whole.y, whole.z, whole.w};
    uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        uint32_t word;
        if constexpr (sizeof(Element) == 2)
            word = static_cast<uint32_t>(element[2 * i + 1]) << 16 | element[2 * i];
        else
            word = element[i];
        packed[i] = in_vectors ? wholes[i] : word;
    }
    // The compiler would make four stores of some of these.
    asm volatile(
        "st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(static_cast<Element *>(m.to) + line * m.to_row + col)),
        "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
        : "memory");
}

template <class Element>
__global__ void __launch_bounds__(kPackThreads) gemm_pack_kernel(const __grid_constant__ PackArguments p) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");  // The product's blocks may start; they wait for the end of this grid.
#endif
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (kPackThreads / 32);
    const int64_t all = p.a.pieces + p.b.pieces;
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x) / 32; i < all; i += warps) {
        const bool is_a = i < p.a.pieces;
        pack_piece<Element>(is_a ? p.a : p.b, is_a ? i : i - p.a.pieces);
    }
}

}  // namespace

const void *pack_kernel(int64_t element_bytes) {
    return reinterpret_cast<const void *>(element_bytes == 2 ? gemm_pack_kernel<uint16_t> : gemm_pack_kernel<uint32_t>);
}

}  // namespace attile::gpu::mma
