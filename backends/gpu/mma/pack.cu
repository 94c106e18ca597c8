// SPDX-License-Identifier: Apache-2.0
// Copies matrices of elements of 1, 2, 4 or 8 bytes with any strides into rows aligned to 16 bytes, padded with zeros: 16 bytes a thread,
// written at once. Where neighbours of a row are neighbours in memory they are read as the two aligned 16 bytes that they lie in, and
// shifted; else, and at a row's ends, element by element. All operands of a call in one launch. No shared memory; bound by memory.
#include "mma/pack.h"

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

struct PackPlace {
    int64_t line;    // Of the copy; lines or more: there is none.
    int64_t offset;  // Of its first element at `from`.
    int64_t first;   // The piece's first element in the row.
    int lane;        // Of the row.
};
template <int kPiece>
__device__ __forceinline__ PackPlace pack_place(const PackMatrix &m, int64_t piece) {
    const int lane = static_cast<int>(threadIdx.x % 32);
    const int64_t lines = divide(piece, m.across), line = (lines << (5 - m.lane_bits)) + (lane >> m.lane_bits);
    const int64_t batch = divide(line, m.rows), batch_x = divide(batch, m.count_y);
    return {line, batch_x * m.batch_x + (batch - batch_x * m.count_y) * m.batch_y + (line - batch * m.rows) * m.row,
            (piece - lines * m.across) * kPiece, lane & ((1 << m.lane_bits) - 1)};
}

template <class Element>
__device__ __forceinline__ void pack_piece(const PackMatrix &m, int64_t piece) {
    constexpr int kPackVector = 16 / sizeof(Element), kPackPiece = pack_piece_elements(sizeof(Element));
    const PackPlace place = pack_place<kPackPiece>(m, piece);
    const int64_t col = place.first + place.lane * kPackVector;
    if (col >= m.to_row || place.line >= m.lines) return;
    const Element *from = static_cast<const Element *>(m.from) + place.offset + col * m.col;
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
        if constexpr (sizeof(Element) == 1)
            word = static_cast<uint32_t>(element[4 * i + 3]) << 24 | static_cast<uint32_t>(element[4 * i + 2]) << 16 |
                   static_cast<uint32_t>(element[4 * i + 1]) << 8 | element[4 * i];
        else if constexpr (sizeof(Element) == 2)
            word = static_cast<uint32_t>(element[2 * i + 1]) << 16 | element[2 * i];
        else if constexpr (sizeof(Element) == 4)
            word = element[i];
        else
            word = static_cast<uint32_t>(element[i / 2] >> (i % 2 * 32));
        packed[i] = in_vectors ? wholes[i] : word;
    }
    // The compiler would make four stores of some of these.
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(
                     __cvta_generic_to_global(static_cast<Element *>(m.to) + place.line * m.to_row + col)),
                 "r"(packed[0]), "r"(packed[1]), "r"(packed[2]), "r"(packed[3])
                 : "memory");
}

// Calls take(matrix, piece) for the pieces of this warp, which are dealt out over all matrices together.
template <int kMatrices, class Take>
__device__ __forceinline__ void for_pieces(const PackArguments<kMatrices> &p, const Take &take) {
    int64_t all = 0;
#pragma unroll
    for (int j = 0; j < kMatrices; ++j) all += p.matrix[j].pieces;
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (kPackThreads / 32);
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x) / 32; i < all; i += warps) {
        int64_t piece = i;
        int which = 0;
#pragma unroll
        for (int j = 0; j + 1 < kMatrices; ++j) {
            if (which == j && piece >= p.matrix[j].pieces) {
                piece -= p.matrix[j].pieces;
                which = j + 1;
            }
        }
        take(p.matrix[which], piece);
    }
}

template <class Element, int kMatrices>
__global__ void __launch_bounds__(kPackThreads) pack_matrices_kernel(const __grid_constant__ PackArguments<kMatrices> p) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");  // The product's blocks may start; they wait for the end of this grid.
#endif
    for_pieces(p, [](const PackMatrix &m, int64_t piece) { pack_piece<Element>(m, piece); });
}

// A lane's elements are as far apart as a row has lanes, so that neighbours write neighbours.
template <class Element, int kMatrices>
__global__ void __launch_bounds__(kPackThreads) unpack_matrices_kernel(const __grid_constant__ PackArguments<kMatrices> p) {
    constexpr int kEach = 16 / sizeof(Element), kPiece = pack_piece_elements(sizeof(Element));
    for_pieces(p, [](const PackMatrix &m, int64_t piece) {
        const PackPlace place = pack_place<kPiece>(m, piece);
        if (place.line >= m.lines) return;
        const int64_t first = place.first + place.lane;
        const int apart = 1 << m.lane_bits;
        const Element *const from = static_cast<const Element *>(m.to) + place.line * m.to_row;
        Element *const to = static_cast<Element *>(const_cast<void *>(m.from)) + place.offset;
        Element element[kEach] = {};
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (first + apart * i < m.cols) element[i] = from[first + apart * i];
        }
#pragma unroll
        for (int i = 0; i < kEach; ++i) {
            if (first + apart * i < m.cols) to[(first + apart * i) * m.col] = element[i];
        }
    });
}

template <class Kernel>
const void *address_of(Kernel *kernel) {
    return reinterpret_cast<const void *>(kernel);
}

}  // namespace

const void *pack_kernel(int64_t element_bytes) {
    return element_bytes == 2   ? address_of(pack_matrices_kernel<uint16_t, 2>)
           : element_bytes == 4 ? address_of(pack_matrices_kernel<uint32_t, 2>)
                                : address_of(pack_matrices_kernel<uint64_t, 2>);
}
const void *pack_several_kernel(int64_t element_bytes) {
    return element_bytes == 1   ? address_of(pack_matrices_kernel<uint8_t, kMostPacked>)
           : element_bytes == 2 ? address_of(pack_matrices_kernel<uint16_t, kMostPacked>)
                                : address_of(pack_matrices_kernel<uint32_t, kMostPacked>);
}
const void *unpack_several_kernel(int64_t element_bytes) {
    return element_bytes == 2 ? address_of(unpack_matrices_kernel<uint16_t, kMostPacked>)
                              : address_of(unpack_matrices_kernel<uint32_t, kMostPacked>);
}

}  // namespace attile::gpu::mma
