// SPDX-License-Identifier: Apache-2.0
// Copies matrices of elements of 1, 2, 4 or 8 bytes with any strides into rows aligned to 16 bytes, padded with zeros: 16 bytes a thread,
// written at once. Where neighbours of a row are neighbours in memory they are read as the two aligned 16 bytes that they lie in, and
// shifted; else, and at the operand's ends, element by element. Back from there it is the written 16 bytes that are aligned. All operands
// of a call in one launch. No shared memory; bound by memory.
#include "mma/pack.h"

#include "numeric.h"

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

__device__ __forceinline__ int64_t divide(int64_t a, const Divider &by) {
    return a >> 31 == 0 ? static_cast<int64_t>(quotient(static_cast<uint32_t>(a), by)) : a / by.divisor;
}

// Those bits of word `word` of 16 bytes that the first `bytes` of them have.
__device__ __forceinline__ uint32_t first_bytes(int word, int64_t bytes) {
    const int64_t left = bytes - 4 * word;
    return left >= 4 ? ~0u : left <= 0 ? 0u : (1u << 8 * static_cast<uint32_t>(left)) - 1u;
}

template <class Element>
__device__ __forceinline__ void pack_vector(const PackMatrix &m, int64_t number) {
    constexpr int kOfVector = 16 / sizeof(Element);
    const int64_t line = divide(number, m.of_row), col = (number - line * m.of_row.divisor) * kOfVector;
    const int64_t batch = divide(line, m.of_entry), batch_x = divide(batch, m.of_count);
    const int64_t offset = batch_x * m.batch_x + (batch - batch_x * m.count_y) * m.batch_y + (line - batch * m.rows) * m.row;
    const Element *const from = static_cast<const Element *>(m.from) + offset + col * m.col;
    const int64_t left = m.cols - col;
    const int64_t bytes = min(left, int64_t{kOfVector}) * static_cast<int64_t>(sizeof(Element));
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    const char *const begin = reinterpret_cast<const char *>(from) - shift;
    // What lies before and behind a row may be read where the operand has elements before and behind it; but no 16 bytes without an element
    // of the row, which may lie in memory that is not there.
    const bool is_in_two = bytes + shift > 16;
    const bool in_vectors = m.col == 1 && left > 0 && begin >= m.lowest && begin + (is_in_two ? 32 : 16) <= m.highest;
    uint4 packed = {};
    if (in_vectors) {
        const uint4 *const vectors = reinterpret_cast<const uint4 *>(begin);
        const uint4 low = __ldg(vectors), high = is_in_two ? __ldg(vectors + 1) : uint4{};
        packed = shifted(low, high, shift);
        if (left < kOfVector) {
            packed.x &= first_bytes(0, bytes);
            packed.y &= first_bytes(1, bytes);
            packed.z &= first_bytes(2, bytes);
            packed.w &= first_bytes(3, bytes);
        }
    } else if (left > 0) {
        Element element[kOfVector] = {};
#pragma unroll
        for (int i = 0; i < kOfVector; ++i) {
            if (i < left) element[i] = from[i * m.col];
        }
        uint32_t word[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            if constexpr (sizeof(Element) == 1)
                word[i] = static_cast<uint32_t>(element[4 * i + 3]) << 24 | static_cast<uint32_t>(element[4 * i + 2]) << 16 |
                          static_cast<uint32_t>(element[4 * i + 1]) << 8 | element[4 * i];
            else if constexpr (sizeof(Element) == 2)
                word[i] = static_cast<uint32_t>(element[2 * i + 1]) << 16 | element[2 * i];
            else if constexpr (sizeof(Element) == 4)
                word[i] = element[i];
            else
                word[i] = static_cast<uint32_t>(element[i / 2] >> (i % 2 * 32));
        }
        packed = make_uint4(word[0], word[1], word[2], word[3]);
    }
    // The compiler would make four stores of some of these.
    asm volatile(
        "st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(static_cast<Element *>(m.to) + line * m.to_row + col)),
        "r"(packed.x), "r"(packed.y), "r"(packed.z), "r"(packed.w)
        : "memory");
}

// Calls take(matrix, number) for what this thread has of the work, which is dealt out over all matrices together, to kLanes threads each:
// kCount of a matrix.
template <int64_t PackMatrix::*kCount, int kLanes, int kMatrices, class Take>
__device__ __forceinline__ void for_each_of(const PackArguments<kMatrices> &p, const Take &take) {
    int64_t all = 0;
#pragma unroll
    for (int j = 0; j < kMatrices; ++j) all += p.matrix[j].*kCount;
    const int64_t step = static_cast<int64_t>(gridDim.x) * (kPackThreads / kLanes);
    for (int64_t i = (static_cast<int64_t>(blockIdx.x) * kPackThreads + threadIdx.x) / kLanes; i < all; i += step) {
        int64_t number = i;
        int which = 0;
#pragma unroll
        for (int j = 0; j + 1 < kMatrices; ++j) {
            if (which == j && number >= p.matrix[j].*kCount) {
                number -= p.matrix[j].*kCount;
                which = j + 1;
            }
        }
        take(p.matrix[which], number);
    }
}

template <class Element, int kMatrices>
__global__ void __launch_bounds__(kPackThreads) pack_matrices_kernel(const __grid_constant__ PackArguments<kMatrices> p) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");  // The product's blocks may start; they wait for the end of this grid.
#endif
    for_each_of<&PackMatrix::vectors, 1>(p, [](const PackMatrix &m, int64_t number) { pack_vector<Element>(m, number); });
}

// Of a row whose neighbours are neighbours in memory, the aligned 16 bytes number `vector` of those that it lies in.
template <class Element>
__device__ __forceinline__ void unpack_vector(const char *from, char *to, int64_t bytes, int64_t vector) {
    const uint32_t shift = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % 16);
    const int64_t begin = vector * 16 - shift;  // In bytes of the row.
    if (begin >= 0 && begin + 16 <= bytes) {
        const uint4 *const vectors = reinterpret_cast<const uint4 *>(from) + vector;
        const uint4 packed = shift == 0 ? __ldg(vectors) : shifted(__ldg(vectors - 1), __ldg(vectors), 16 - shift);
        *reinterpret_cast<uint4 *>(to + begin) = packed;
    } else {
        constexpr int64_t kSize = sizeof(Element);
        for (int64_t at = max(begin, int64_t{0}); at < min(begin + 16, bytes); at += kSize)
            *reinterpret_cast<Element *>(to + at) = *reinterpret_cast<const Element *>(from + at);
    }
}

// Where neighbours are apart in memory, a lane's elements are as far apart as a row has lanes, so that neighbours write neighbours.
template <class Element, int kMatrices>
__global__ void __launch_bounds__(kPackThreads) unpack_matrices_kernel(const __grid_constant__ PackArguments<kMatrices> p) {
    constexpr int kEach = 16 / sizeof(Element), kPiece = pack_piece_elements(sizeof(Element));
    for_each_of<&PackMatrix::pieces, 32>(p, [](const PackMatrix &m, int64_t piece) {
        const PackPlace place = pack_place<kPiece>(m, piece);
        if (place.line >= m.lines) return;
        const int64_t first = place.first + place.lane;
        const int apart = 1 << m.lane_bits;
        const Element *const from = static_cast<const Element *>(m.to) + place.line * m.to_row;
        Element *const to = static_cast<Element *>(const_cast<void *>(m.from)) + place.offset;
        if (m.col == 1) {
            constexpr int64_t kSize = sizeof(Element);
            const int64_t vector = place.first / kEach + place.lane, vectors = (m.cols + kEach - 1) / kEach;
            const char *const begin = reinterpret_cast<const char *>(from);
            if (vector < vectors) unpack_vector<Element>(begin, reinterpret_cast<char *>(to), m.cols * kSize, vector);
            // One more, of a row that begins within 16 bytes.
            if (vector + 1 == vectors) unpack_vector<Element>(begin, reinterpret_cast<char *>(to), m.cols * kSize, vectors);
            return;
        }
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
