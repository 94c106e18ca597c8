// SPDX-License-Identifier: Apache-2.0
// Copies matrices of 16-bit or 32-bit elements with any strides into rows aligned to 16 bytes, padded with zeros: 16 bytes a thread, read
// element by element, since their addresses may be odd, and written at once. Both operands of a product in one launch. No shared memory;
// bound by memory.
#include "gemm/mma/pack.h"

namespace attile::gpu::mma {
namespace {

// A 32-bit division is several times cheaper.
__device__ __forceinline__ int64_t divide(int64_t a, int64_t b) {
    return ((a | b) >> 32) == 0 ? static_cast<int64_t>(static_cast<uint32_t>(a) / static_cast<uint32_t>(b)) : a / b;
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
    Element element[kPackVector];
    if (col + kPackVector <= m.cols) {
#pragma unroll
        for (int i = 0; i < kPackVector; ++i) element[i] = from[i * m.col];
    } else {
#pragma unroll
        for (int i = 0; i < kPackVector; ++i) element[i] = col + i < m.cols ? from[i * m.col] : Element{0};
    }
    uint32_t packed[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        if constexpr (sizeof(Element) == 2)
            packed[i] = static_cast<uint32_t>(element[2 * i + 1]) << 16 | element[2 * i];
        else
            packed[i] = element[i];
    }
    *reinterpret_cast<uint4 *>(static_cast<Element *>(m.to) + line * m.to_row + col) =
        make_uint4(packed[0], packed[1], packed[2], packed[3]);
}

template <class Element>
__global__ void __launch_bounds__(kPackThreads) gemm_pack_kernel(const __grid_constant__ PackArguments p) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");  // The product's blocks may start; they wait for the end of this grid.
#endif
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (kPackThreads / 32);
    const int64_t all = p.a.pieces + p.b.pieces;
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x) / 32; i < all; i += warps) {
        if (i < p.a.pieces) {
            pack_piece<Element>(p.a, i);
        } else {
            pack_piece<Element>(p.b, i - p.a.pieces);
        }
    }
}

}  // namespace

const void *pack_kernel(int64_t element_bytes) {
    return reinterpret_cast<const void *>(element_bytes == 2 ? gemm_pack_kernel<uint16_t> : gemm_pack_kernel<uint32_t>);
}

}  // namespace attile::gpu::mma
