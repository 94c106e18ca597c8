// SPDX-License-Identifier: Apache-2.0
// What happens to scores between Q K^T and the softmax where it is more than a mask: softcap, bias, ALiBi, boolean mask (`allowed`),
// missing pages. Each step goes over all of a thread's scores of a row, so that many loads are in flight together.
#pragma once

#include "attention/mma/work_tile.cuh"
#include "attention/score.h"
#include "vec.h"

namespace attile::gpu::mma {

// Where a packed row of an operand of scores begins.
__device__ __forceinline__ int64_t score_row_at(const AttentionParams &p, const AttentionWorkTile &work, int packed,
                                                const AttentionOperand &x) {
    return work.batch * x.stride[0] + query_head(p, work.head, packed) * x.stride[1] + query_row(p, packed) * x.stride[2];
}

// Calls step(j, e, number) for keys first_key + 8 j + e of a row of T, j < kPairs: two numbers in a load where rows and memory allow it,
// else one by one, those of keys past the last being repeats of it.
template <class T, int kPairs, class Step>
__device__ __forceinline__ void read_score_row(const AttentionOperand &x, int64_t at, int first_key, bool is_whole, int last_key,
                                               const Step &step) {
    const T *const from = static_cast<const T *>(x.data) + at;
    const bool in_pairs = is_whole && x.stride[3] == 1 && ((x.stride[0] | x.stride[1] | x.stride[2]) & 1) == 0 &&
                          reinterpret_cast<uintptr_t>(x.data) % (2 * sizeof(T)) == 0;  // The same for all; first_key is even.
    if (in_pairs) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
            const Vec<T, 2> both = load_vec_const<2>(from + first_key + 8 * j);
            step(j, 0, both[0]);
            step(j, 1, both[1]);
        }
    } else {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) step(j, e, load_vec_const<1>(from + min(first_key + 8 * j + e, last_key) * x.stride[3])[0]);
        }
    }
}

// Prefetches what modify_scores() will read of a warp's 16 rows from `first_row` on and kKeys keys, in lines of 128 bytes.
template <int kKeys>
__device__ __forceinline__ void prefetch_scores(const AttentionParams &p, const AttentionWorkTile &work, int first_row, int first_key) {
    const auto prefetch_rows = [&](const AttentionOperand &x, int bytes) {
        if (x.stride[3] != 1) return;
        const int lines = (kKeys * bytes + 127) / 128;
        for (int line = lane_index(); line < 16 * lines; line += kLanes) {
            const int key = min(first_key + line % lines * (128 / bytes), work.len_k - 1);
            prefetch(static_cast<const char *>(x.data) +
                     (score_row_at(p, work, min(first_row + line / lines, work.rows - 1), x) + key) * bytes);
        }
    };
    if (p.bias.data != nullptr) prefetch_rows(p.bias, p.bias.storage == AttentionStorage::kF32 ? 4 : 2);
    if (p.allowed.data != nullptr) prefetch_rows(p.allowed, 1);
}

// x = sum(x, bias) for scores x of rows `row` and row + 8 of the packed head, keys first_key + 8 j + 0, 1.
template <class Element, int kScores, class Sum>
__device__ __forceinline__ void read_bias(const AttentionParams &p, const AttentionWorkTile &work, int row, int first_key, const Sum &sum,
                                          float (&s)[kScores]) {
    constexpr int kPairs = kScores / 4;
    const int last_key = max(work.len_k - 1, 0);
    const bool is_whole = (first_key & ~7) + 8 * kPairs <= work.len_k;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        const int64_t at = score_row_at(p, work, min(row + 8 * r, work.rows - 1), p.bias);
        const auto add = [&](int j, int e, auto number) {
            const float bias = to_compute(number);
            float &x = s[4 * j + 2 * r + e];
            x = sum(x, bias);
        };
        if (p.bias.storage == AttentionStorage::kF32)
            read_score_row<float, kPairs>(p.bias, at, first_key, is_whole, last_key, add);
        else
            read_score_row<Element, kPairs>(p.bias, at, first_key, is_whole, last_key, add);
    }
}

// Bytes of a boolean mask, of which any but 0 allows, become 0 or 1, if some may be neither.
__device__ __forceinline__ void make_zeros_and_ones(uint32_t (&x)[2][4]) {
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        uint32_t &y = x[i / 4][i % 4];
        y = ((((y & 0x7f7f7f7fu) + 0x7f7f7f7fu) | y) >> 7) & 0x01010101u;
    }
}
// Not 0 if one of the bytes is neither 0 nor 1.
__device__ __forceinline__ uint32_t beyond_one(const uint32_t (&x)[2][4]) {
    return (x[0][0] | x[0][1] | x[0][2] | x[0][3] | x[1][0] | x[1][1] | x[1][2] | x[1][3]) & 0xfefefefeu;
}
// A bit for each of 32 bytes of a boolean mask.
__device__ __forceinline__ uint32_t mask_bits(uint32_t (&x)[2][4]) {
    if (__any_sync(~0u, beyond_one(x) != 0)) make_zeros_and_ones(x);
    uint32_t bits = 0;
#pragma unroll
    for (int i = 6; i >= 0; i -= 2) bits = bits * 256 + __dp4a(x[i / 4][i % 4 + 1], 0x80402010u, __dp4a(x[i / 4][i % 4], 0x08040201u, 0u));
    return bits;
}

// Which 32 keys of a tile a thread makes bits of: of 64 keys threads 2 and 3 of a row make those of 0 and 1 again.
template <int kKeys>
__device__ __forceinline__ int mask_quarter(int lane) {
    static_assert(kKeys <= 128, "four quarters at most");
    return lane & (kKeys / 32 - 1);
}

// Hides scores of 128 or 64 keys by bits of them, of which each of the four threads that share a row has a quarter: they exchange them.
// quarter: the thread's.
template <int kScores>
__device__ __forceinline__ void hide_by_bits(const uint32_t (&bits)[2], int quarter, float (&s)[kScores]) {
#pragma unroll
    for (int r = 0; r < 2; ++r) {
#pragma unroll
        for (int k = 0; k < kScores / 16; ++k) {
            const uint32_t word = __shfl_sync(~0u, bits[r], k, 4) >> (quarter * 2);
#pragma unroll
            for (int i = 0; i < 8; ++i)
                if ((word & (1u << (8 * (i / 2) + i % 2))) == 0) s[16 * k + 4 * (i / 2) + 2 * r + i % 2] = -INFINITY;
        }
    }
}
// Hides the scores that the boolean mask `allowed` hides.
template <int kScores>
__device__ __forceinline__ void read_allowed(const AttentionParams &p, const AttentionWorkTile &work, int row, int first_key,
                                             float (&s)[kScores]) {
    constexpr int kPairs = kScores / 4;
    const int last_key = max(work.len_k - 1, 0);
    const bool is_whole = (first_key & ~7) + 8 * kPairs <= work.len_k;
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        read_score_row<uint8_t, kPairs>(p.allowed, score_row_at(p, work, min(row + 8 * r, work.rows - 1), p.allowed), first_key, is_whole,
                                        last_key, [&](int j, int e, uint8_t shows) {
                                            if (shows == 0) s[4 * j + 2 * r + e] = -INFINITY;
                                        });
    }
}

// Scores of rows `row` and row + 8 of the packed head, keys first_key + 8 j + 0, 1: from products to units of log2, -inf where hidden. Keys
// past the entry's and rows past its last are left to the mask.
template <class Element, int kScores>
__device__ __forceinline__ void modify_scores(const AttentionParams &p, const AttentionWorkTile &work, int row, int first_key,
                                              float (&s)[kScores]) {
    constexpr int kPairs = kScores / 4;
    const auto for_each = [&](int r, const auto &step) {
#pragma unroll
        for (int j = 0; j < kPairs; ++j) {
#pragma unroll
            for (int e = 0; e < 2; ++e) step(s[4 * j + 2 * r + e], first_key + 8 * j + e);
        }
    };
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        for_each(r, [&](float &x, int) { x *= p.scale_log2; });
        if (p.softcap_log2 != 0) {
            const float inverse = 1.0f / p.softcap_log2;
            for_each(r, [&](float &x, int) { x = p.softcap_log2 * tanh_fast(x * inverse); });
        }
    }
    if (p.bias.data != nullptr)
        read_bias<Element>(
            p, work, row, first_key, [](float x, float bias) { return add_bias_log2(x, bias); }, s);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (p.alibi_slopes.data == nullptr) break;
        const int packed = min(row + 8 * r, work.rows - 1), head = query_head(p, work.head, packed);
        const AlibiSlope slope(load_number(p.alibi_slopes, work.batch * p.alibi_slopes.stride[0] + head * p.alibi_slopes.stride[1]));
        const float distance = static_cast<float>(first_key - (query_row(p, packed) + work.shift));  // Of the first key.
        for_each(r, [&](float &x, int key) { x = slope.lower(x, fabsf(distance + static_cast<float>(key - first_key))); });
    }
    if (p.allowed.data != nullptr) read_allowed(p, work, row, first_key, s);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
        if (p.block_table == nullptr) break;
        const int32_t *const table = p.block_table + work.batch * p.block_table_stride[0];
        for_each(r, [&](float &x, int key) {
            if (key >= work.len_k) return;
            const int64_t page = table[quotient(static_cast<uint32_t>(key), p.page_size) * p.block_table_stride[1]];
            if (page < 0 || page >= p.pages) x = -INFINITY;
        });
    }
}

}  // namespace attile::gpu::mma
