// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 or 4 bits, of any strides, times their scales, rewritten as dense rows of f16 or bfloat16: eight of a row at a time, four
// such pieces of a thread under way, read at once where they lie side by side. Bound: memory, each byte once there and twice back.
#include "attention/mma/widened.h"
#include "attention/scaled.h"
#include "eight_bits_word.h"
#if defined(__CUDACC__)
#include "mma/ptx.cuh"
#endif

namespace attile::gpu::mma {
namespace {

// Eight numbers of a row: where they are, in numbers, where their scale is, and where they go.
struct Piece {
    int64_t from = 0, scale = 0, to = 0;
    int col = 0;
    bool exists = false;
};

// Number `item` of the pieces that begin with a pair's. Those of pages that do not exist, or lie behind the entry's last key, do not
// either.
ATTILE_LANE_FN Piece find_piece(const WidenParams &p, uint32_t first_pair, uint32_t item) {
    Piece piece;
    const uint32_t of_pairs = quotient(item, p.of_pair), pair = first_pair + of_pairs;
    if (of_pairs >= p.pairs_at_once || pair >= p.pairs) return piece;
    const uint32_t in_pair = item - of_pairs * p.of_pair.divisor, row = quotient(in_pair, p.of_row);
    const uint32_t entry = quotient(pair, p.heads), head = pair - entry * p.heads.divisor;
    piece.col = static_cast<int>(in_pair - row * p.of_row.divisor) * kWidenedAtOnce;
    piece.to = (int64_t{pair} * p.of_pair.divisor + in_pair) * kWidenedAtOnce;
    piece.exists = true;
    int64_t outer = entry;
    if (p.block_table) {
        const uint32_t batch = quotient(entry, p.table_pages), place = entry - batch * p.table_pages.divisor;
        // The table is not read past a length.
        const bool has_keys = !p.key_lengths || int64_t{place} * p.page_size < p.key_lengths[batch * p.key_lengths_stride];
        outer = has_keys ? p.block_table[batch * p.block_table_stride[0] + place * p.block_table_stride[1]] : -1;
        piece.exists = outer >= 0 && outer < p.pages;
        if (head == 0 && in_pair == 0) p.table[entry] = piece.exists ? static_cast<int32_t>(entry) : -1;
    }
    if (!piece.exists) return piece;
    piece.from = outer * p.from.stride[0] + head * p.from.stride[1] + row * p.from.stride[2];
    piece.scale = scales_at(p.scales, outer, head, row);
    return piece;
}

// Words of eight numbers of T, and what they are.
template <class T>
using Words = Vec<uint32_t, kWidenedAtOnce * kBitsOf<T> / 32>;
template <class T>
ATTILE_LANE_FN void widen_words(const Words<T> &words, float (&to)[2][4]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) widen_word(T(), kBitsOf<T> == 8 ? words[h * (kBitsOf<T> == 8)] : words[0] >> 16 * h, to[h]);
}

// Where rows are whole vectors, and each piece has one scale.
template <class T, class From>
ATTILE_LANE_FN void widen_vectors(const WidenParams &p, From, uint32_t first_pair, uint32_t item) {
    Piece piece[kWidenedPieces];
    Words<From> words[kWidenedPieces] = {};
    float scale[kWidenedPieces];
#pragma unroll
    for (int u = 0; u < kWidenedPieces; ++u) {
        piece[u] = find_piece(p, first_pair, item + u * kWidenThreads);
        if (!piece[u].exists) continue;
        const char *const from = static_cast<const char *>(p.from.data) + (piece[u].from + piece[u].col) * kBitsOf<From> / 8;
        words[u] = load_vec_const<kWidenedAtOnce * kBitsOf<From> / 32>(reinterpret_cast<const uint32_t *>(from));
        scale[u] = load_scale(p.scales, piece[u].scale, piece[u].col);
    }
#pragma unroll
    for (int u = 0; u < kWidenedPieces; ++u) {
        if (!piece[u].exists) continue;
        float number[2][4];
        widen_words<From>(words[u], number);
        const float factor = scale[u] * word_unit(From());
#if defined(__CUDACC__)
        Vec<uint32_t, kWidenedAtOnce / 2> pairs;
#pragma unroll
        for (int i = 0; i < kWidenedAtOnce / 2; ++i)
            pairs[i] = narrow_pair<T>(number[i / 2][i % 2 * 2] * factor, number[i / 2][i % 2 * 2 + 1] * factor);
        store_vec(reinterpret_cast<uint32_t *>(static_cast<T *>(p.to) + piece[u].to), pairs);
#else
        Vec<T, kWidenedAtOnce> numbers;
#pragma unroll
        for (int e = 0; e < kWidenedAtOnce; ++e) numbers[e] = from_compute<T>(number[e / 4][e % 4] * factor);
        store_vec(static_cast<T *>(p.to) + piece[u].to, numbers);
#endif
    }
}

template <class T>
ATTILE_LANE_FN void widen_any(const WidenParams &p, const Piece &piece) {
    Vec<T, kWidenedAtOnce> numbers = {};
#pragma unroll
    for (int e = 0; e < kWidenedAtOnce; ++e)
        if (piece.col + e < p.cols)
            numbers[e] = from_compute<T>(load_scaled<float>(p.from, p.scales, piece.from, piece.scale, piece.col + e));
    store_vec(static_cast<T *>(p.to) + piece.to, numbers);
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kWidenThreads, 1) attention_widen(const __grid_constant__ WidenAll all) {
    const WidenParams p = blockIdx.z == 0 ? all.of[0] : blockIdx.z == 1 ? all.of[1] : all.of[2];  // By an index it would be slower.
    const uint32_t pieces = p.pairs_at_once * p.of_pair.divisor, at_once = kWidenedPieces * kWidenThreads;
    const bool in_vectors = p.from.vector && p.one_scale;
    for (uint32_t chunk = blockIdx.y; chunk * int64_t{p.pairs_at_once} < p.pairs; chunk += gridDim.y) {
        const uint32_t first_pair = chunk * p.pairs_at_once;
        for (uint32_t item = blockIdx.x * at_once + threadIdx.x; item < pieces; item += gridDim.x * at_once) {
            if (in_vectors && !has_four_bits(p.from.storage)) {
                with_eight_bits(p.from.storage, [&](auto type) { widen_vectors<T>(p, type, first_pair, item); });
            } else if (in_vectors && p.from.storage == AttentionStorage::kI4) {
                widen_vectors<T>(p, I4(), first_pair, item);
            } else {
#pragma unroll 1
                for (int u = 0; u < kWidenedPieces; ++u) {
                    const Piece piece = find_piece(p, first_pair, item + u * kWidenThreads);
                    if (piece.exists) widen_any<T>(p, piece);
                }
            }
        }
    }
}

}  // namespace

const void *attention_widen_kernel(bool to_f16) {
    return to_f16 ? reinterpret_cast<const void *>(&attention_widen<F16>) : reinterpret_cast<const void *>(&attention_widen<BF16>);
}

}  // namespace attile::gpu::mma
