// SPDX-License-Identifier: Apache-2.0
// What modifies and hides scores in decode_narrow.cuh: softcap, bias, ALiBi, `allowed`, pages that are not there, lengths and tree masks.
#pragma once

#include "attention/decode_rows.h"
#include "attention/score.h"
#include "attention/sm80/decode_narrow_shape.h"

namespace attile::gpu::sm80 {

// Of a lane's two rows, of which score e of 16 keys has row e % 2 and key n + e / 2 * 8.
template <class C>
struct NarrowModifiers {
    using Scores = float[C::kKeyBlocks][4];
    // What a step's scores want, as it is stored: it is on its way while the step's keys are.
    struct Fetched {
        uint32_t bias[C::kKeyBlocks][4], allowed[C::kKeyBlocks][4];
        int32_t page[C::kKeyBlocks][2];
    };
    const DecodeRows<C> &at;
    const int n, last_key;  // n: lane / 4.
    KeyRange range[2];
    int head[2], row[2];
    int64_t bias_at[2], allowed_at[2];
    AlibiSlope slope[2];
    int distance[2];  // Of key n from the diagonal.

    __device__ __forceinline__ explicit NarrowModifiers(const DecodeRows<C> &rows)
        : at(rows),
          n(rows.lane / 4),
          last_key(max(rows.entry.len_k - 1, 0)),
          range{rows.range_of(own_row(rows, 0)), rows.range_of(own_row(rows, 1))} {
        const AttentionParams &p = at.p;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            head[r] = query_head(p, at.place.head, own_row(at, r));
            row[r] = query_row(p, own_row(at, r));
            bias_at[r] = begin_of(p.bias, r);
            allowed_at[r] = begin_of(p.allowed, r);
            distance[r] = n - (row[r] + at.entry.shift);
            if (p.alibi_slopes.data)
                slope[r] =
                    AlibiSlope(load_number(p.alibi_slopes, at.entry.batch * p.alibi_slopes.stride[0] + head[r] * p.alibi_slopes.stride[1]));
        }
    }
    __device__ __forceinline__ void fetch(int first_key, Fetched &to) const {
        const AttentionParams &p = at.p;
        if (p.bias.data) {
            if (p.bias.storage == AttentionStorage::kF32)
                fetch(static_cast<const uint32_t *>(p.bias.data), bias_at, p.bias.stride[3], first_key, to.bias);
            else
                fetch(static_cast<const uint16_t *>(p.bias.data), bias_at, p.bias.stride[3], first_key, to.bias);
        }
        if (p.allowed.data) fetch(static_cast<const uint8_t *>(p.allowed.data), allowed_at, p.allowed.stride[3], first_key, to.allowed);
        if (p.block_table) {
            const int32_t *const table = p.block_table + at.entry.batch * p.block_table_stride[0];
#pragma unroll
            for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
                for (int t = 0; t < 2; ++t)
                    to.page[b][t] = table[quotient(static_cast<uint32_t>(min(key_of(first_key, b, t * 2), last_key)), p.page_size) *
                                          p.block_table_stride[1]];
        }
    }
    // Scores in units of log2; -inf: the row does not see the key. is_whole: mask and lengths show all of the step's keys to all rows.
    __device__ __forceinline__ void apply(const Fetched &fetched, int first_key, bool is_whole, Scores &score) const {
        const AttentionParams &p = at.p;
        if (p.softcap_log2 != 0) {
            const float inverse = 1.0f / p.softcap_log2;
            for_each(score, [&](float x, int, int) { return p.softcap_log2 * tanh_fast(x * inverse); });
        }
        if (p.bias.data) {
            if (p.bias.storage == AttentionStorage::kF32)
                for_each(score, [&](float x, int b, int e) { return add_bias_log2(x, __uint_as_float(fetched.bias[b][e])); });
            else if (p.bias.storage == AttentionStorage::kF16)
                for_each(score, [&](float x, int b, int e) { return add_bias_log2(x, to_compute(F16{half_of(fetched.bias[b][e])})); });
            else
                for_each(score, [&](float x, int b, int e) { return add_bias_log2(x, to_compute(BF16{half_of(fetched.bias[b][e])})); });
        }
        if (p.alibi_slopes.data) {
            // Of the first key; the others' by addition, which is as exact and cheaper than more conversions.
            const float first[2] = {static_cast<float>(first_key + distance[0]), static_cast<float>(first_key + distance[1])};
            for_each(score, [&](float x, int b, int e) {
                return slope[e % 2].lower(x, fabsf(first[e % 2] + static_cast<float>(b * 16 + e / 2 * 8)));
            });
        }
        if (p.allowed.data) hide(score, [&](int b, int e) { return fetched.allowed[b][e] == 0; });
        if (p.block_table) hide(score, [&](int b, int e) { return fetched.page[b][e / 2] < 0 || fetched.page[b][e / 2] >= p.pages; });
        if (p.tree_mask.data && first_key + C::kStep > at.entry.len_k - p.tree_keys)
            hide(score, [&](int b, int e) {
                const int r = e % 2, key = min(key_of(first_key, b, e), last_key);
                return !tree_mask_shows(p, at.entry, head[r], row[r], key);
            });
        if (!is_whole) hide(score, [&](int b, int e) { return !range[e % 2].has(key_of(first_key, b, e)); });
    }

  private:
    static __device__ __forceinline__ int own_row(const DecodeRows<C> &rows, int r) {
        return min(rows.first_row + rows.lane % 4 * 2 + r, rows.rows - 1);
    }
    template <class X>
    __device__ __forceinline__ int64_t begin_of(const X &x, int r) const {
        return at.entry.batch * x.stride[0] + head[r] * x.stride[1] + row[r] * x.stride[2];
    }
    __device__ __forceinline__ int key_of(int first_key, int b, int e) const { return first_key + b * 16 + e / 2 * 8 + n; }
    static __device__ __forceinline__ uint16_t half_of(uint32_t word) { return static_cast<uint16_t>(word); }
    template <class T>
    __device__ __forceinline__ void fetch(const T *from, const int64_t (&begin)[2], int64_t stride, int first_key,
                                          uint32_t (&to)[C::kKeyBlocks][4]) const {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                to[b][e] = load_vec_const<1>(from + (begin[e % 2] + min(key_of(first_key, b, e), last_key) * stride))[0];
    }
    // score = body(score, block, e)
    template <class Body>
    static __device__ __forceinline__ void for_each(Scores &score, const Body &body) {
#pragma unroll
        for (int b = 0; b < C::kKeyBlocks; ++b)
#pragma unroll
            for (int e = 0; e < 4; ++e) score[b][e] = body(score[b][e], b, e);
    }
    template <class Hidden>
    static __device__ __forceinline__ void hide(Scores &score, const Hidden &hidden) {
        for_each(score, [&](float x, int b, int e) { return hidden(b, e) ? -INFINITY : x; });
    }
};
// Where nothing does.
struct NoNarrowModifiers {
    struct Fetched {};
    template <class Rows>
    __device__ __forceinline__ explicit NoNarrowModifiers(const Rows &) {}
};

}  // namespace attile::gpu::sm80
