// SPDX-License-Identifier: Apache-2.0
// Attention of few rows (decoding): bound by reading keys and values, so each is read once for all rows of a key head.
//
// Keys are taken in parts of kDecodeKeys; a part's result is sums, maximum and weight, and parts are folded pairwise in one order,
// whoever computed them.
#if defined(ATTILE_CPU_DECODE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_DECODE_INL_H
#undef ATTILE_CPU_DECODE_INL_H
#else
#define ATTILE_CPU_DECODE_INL_H
#endif

#include "attention/attention.h"
#include "attention/decode_columns-inl.h"
#include "attention/decode_lines-inl.h"
#include "attention/decode_rows-inl.h"
#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "gemm/few_rows-inl.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Keys of a block: parts are whole blocks, or rows of scores as short as they get.
inline constexpr int64_t kDecodeBlock = HWY_TARGET == HWY_AVX3 ? kScoreStep : kBlockKeys;

// A task's scratch memory, cut up. extra: of a block's keys, or a query's columns.
template <class T>
struct DecodeScratch {
    T *queries, *scores, *extra, *k_block, *v_block, *block_sums;
    T *k_scales, *v_scales;  // of a block's keys
    uint8_t *key_hidden;
    char *buffer = nullptr;  // of a run

    DecodeScratch(Cutter &cutter, const attile_attention_problem &p) {
        queries = cutter.cut<T>(kDecodeRows, DecodeProducts<T, T>::query_step(p.head_dim));
        scores = cutter.cut<T>(kDecodeRows, kScoreStep);
        extra = cutter.cut<T>(most(kScoreStep, p.head_dim));
        k_block = cutter.cut<T>(kDecodeBlock, p.head_dim);
        v_block = cutter.cut<T>(kDecodeBlock, p.head_dim_v);
        key_hidden = cutter.cut<uint8_t>(kDecodeBlock);
        k_scales = cutter.cut<T>(kScoreStep);
        v_scales = cutter.cut<T>(kScoreStep);
        block_sums = sums_in_runs(p) ? cutter.cut<T>(kDecodeRows, p.head_dim_v) : nullptr;
#if HWY_TARGET == HWY_AVX3
        buffer = cutter.cut<char>(DecodeProducts<T, T>::buffer_bytes(most(p.head_dim, p.head_dim_v)));
#endif
    }
};

template <class T>
int64_t decode_scratch_bytes(const attile_attention_problem &p) {
    Cutter cutter(nullptr);
    static_cast<void>(DecodeScratch<T>(cutter, p));
    return cutter.used();
}

template <class T>
HWY_INLINE void add_block(int64_t head_dim_v, const T *block, T *sums) {
    const Tag<T> d;
    for (int64_t c = 0; c < head_dim_v; c += kLanes<T>) {
        const int64_t count = head_dim_v - c;
        store_first(d, hn::Add(load_first(d, sums + c, count), load_first(d, block + c, count)), sums + c, count);
    }
}

// Scores, or weights, times a number for each key.
template <class T>
HWY_INLINE void scale_scores(int64_t count, const T *scales, T *scores) {
    const Tag<T> d;
    for (int64_t j = 0; j < count; j += kLanes<T>) hn::Store(hn::Mul(hn::Load(d, scores + j), hn::Load(d, scales + j)), d, scores + j);
}

// searching: scores may be -inf by themselves, so each block is searched for values that are not finite. S: what keys and values are read
// as. Numbers of 8 bits are read as they are: scores take the keys' scales, weights those of the values.
template <class T, class S>
void decode_part_once(const attile_attention_problem &p, const AttentionRows &rows, int64_t part, bool searching, T *result, char *memory) {
    Cutter cutter(memory);
    const DecodeScratch<T> scratch(cutter, p);
    const int64_t count_rows = rows.end - rows.begin, width = p.head_dim_v + kDecodeNumbers;
    int64_t first_key = rows.entry.len_k, last_key = 0;
    const bool by_block = sums_in_runs(p);
    using Products = DecodeProducts<T, S>;
    for (int64_t r = 0; r < count_rows; ++r) {
        const int64_t i = (rows.begin + r) / rows.heads, h = rows.head0 + (rows.begin + r) % rows.heads;
        const KeyRange seen = visible_keys(p, rows.entry, i);
        first_key = least(first_key, seen.begin);
        last_key = most(last_key, seen.end);
        with_cache_storage<T>(p.q.dtype, [&](auto s) HWY_ATTR {
            copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.q, rows.entry.b, h, rows.entry.q_start + i), p.q.stride[3], p.head_dim,
                                     scratch.extra);
        });
        if (p.q_scale.data != nullptr)
            scale_row<T>(operand_at<float>(p.q_scale, rows.entry.b, h, rows.entry.q_start + i), p.q_scale.stride[3], p.q_group, p.head_dim,
                         scratch.extra);
        Products::lay_query(scratch.extra, p.head_dim, scratch.queries + r * Products::query_step(p.head_dim).value());
        T *sums = result + r * width;
        for (int64_t c = 0; c < p.head_dim_v; ++c) sums[c] = 0;
        numbers_behind(sums, p.head_dim_v) = {-std::numeric_limits<T>::infinity(), 0, 0};
    }
    const int64_t begin = most(first_key, part * kDecodeKeys), end = least(last_key, (part + 1) * kDecodeKeys);
    KeySource<T, S> source(p, rows.entry, rows.kv_head, scratch.k_block, scratch.v_block, scratch.key_hidden);
    Products products(count_rows, scratch.queries, scratch.buffer);
    // Blocks are counted from the part's start, not from the first key seen, which belongs to all rows.
    for (int64_t block = part * kDecodeKeys; block < end; block += kDecodeBlock) {
        const int64_t from = most(block, begin), to = least(block + kDecodeBlock, end), count = to - from;
        if (count <= 0) continue;
        bool shown = false;
        for (int64_t r = rows.begin; r < rows.end && !shown; ++r)
            shown = shows_some_block(p, rows.entry, rows.head0 + r % rows.heads, r / rows.heads, from, to);
        if (!shown) continue;
        source.bring(from, count);
        const S *keys = source.key(from), *values = source.value(from);
        const int64_t key_step = source.key_step(), value_step = source.value_step();
        const DecodeBlock<S> here{{keys, key_step, p.head_dim, count},
                                  {values, value_step, p.head_dim_v, count},
                                  {keys + count * key_step, key_step, p.head_dim, least(kDecodeBlock, most(end - to, 0))}};
        products.score(here, scratch.scores);
        const bool scales_keys = sizeof(S) == 1 && p.k_scale.data != nullptr, scales_values = sizeof(S) == 1 && p.v_scale.data != nullptr;
        if (scales_keys) source.scales(p.k_scale, scratch.k_scales);
        const bool scales_finite = !scales_values || source.scales(p.v_scale, scratch.v_scales);
        bool hides = searching;
        for (int64_t r = 0; r < count_rows; ++r) {
            const int64_t i = (rows.begin + r) / rows.heads, h = rows.head0 + (rows.begin + r) % rows.heads;
            T *scores = scratch.scores + r * kScoreStep;
            if (scales_keys) scale_scores<T>(count, scratch.k_scales, scores);
            hides = finish_row<T>(p, rows.entry, i, h, from, count, source.hidden(from), scores, scratch.extra) || hides;
        }
        const bool leave_out = hides && !(scales_finite && source.values_finite());
        for (int64_t r = 0; r < count_rows; ++r) {
            T *scores = scratch.scores + r * kScoreStep, *sums = result + r * width;
            if (leave_out) {
                for (int64_t n = 0; n < count; ++n) scratch.extra[n] = scores[n];
            }
            soften_row<T>(count, scores, p.head_dim_v, sums);
            if (scales_values) scale_scores<T>(count, scratch.v_scales, scores);
            if (!leave_out) continue;
            for (int64_t n = 0; n < count; ++n) {
                if (scratch.extra[n] == -std::numeric_limits<T>::infinity()) continue;
                few_rows_strip<T, S, 1, 1>(scores + n, 0, 0, values + n * value_step, value_step, p.head_dim_v, sums, width);
            }
        }
        if (leave_out) continue;
        products.weigh(here, scratch.scores, !by_block, by_block ? scratch.block_sums : result, by_block ? p.head_dim_v : width);
        for (int64_t r = 0; by_block && r < count_rows; ++r) {
            add_block<T>(p.head_dim_v, scratch.block_sums + r * p.head_dim_v, result + r * width);
        }
    }
}

template <class T>
void decode_part(const attile_attention_problem &p, const AttentionRows &rows, int64_t part, T *result, char *memory) {
    const auto read_as = [&](auto s) {
        using S = decltype(s);
        decode_part_once<T, S>(p, rows, part, false, result, memory);
        const int64_t width = p.head_dim_v + kDecodeNumbers;
        if (!all_finite(result, width, rows.end - rows.begin, p.head_dim_v)) decode_part_once<T, S>(p, rows, part, true, result, memory);
    };
    if constexpr (sizeof(T) == 4) {
        if (p.k.dtype == ATTILE_F16 && p.v.dtype == ATTILE_F16) return read_as(Half{});
        if (p.k.dtype == ATTILE_BF16 && p.v.dtype == ATTILE_BF16) return read_as(Brain{});
        // Scales of groups go into the numbers as they are copied.
        const bool by_keys =
            (p.k_scale.data == nullptr || p.k_group >= p.head_dim) && (p.v_scale.data == nullptr || p.v_group >= p.head_dim_v);
        if (by_keys && p.k.dtype == ATTILE_I8 && p.v.dtype == ATTILE_I8) return read_as(Int8{});
        if (by_keys && p.k.dtype == ATTILE_F8_E4M3 && p.v.dtype == ATTILE_F8_E4M3) return read_as(E4m3{});
    }
    read_as(T{});
}

template <class T>
void decode_fold(int64_t rows, int64_t head_dim_v, T *into, T *from) {
    constexpr T kHidden = -std::numeric_limits<T>::infinity();
    const Tag<T> d;
    for (int64_t r = 0; r < rows; ++r, into += head_dim_v + kDecodeNumbers, from += head_dim_v + kDecodeNumbers) {
        DecodeNumbers<T> &a = numbers_behind(into, head_dim_v), &b = numbers_behind(from, head_dim_v);
        const T top = hn::GetLane(hn::Max(hn::Set(d, a.maximum), hn::Set(d, b.maximum)));
        const T base = top == kHidden ? T{0} : top;
        const Vec<T> keep = exp_clamped(d, hn::Set(d, a.maximum - base)), take = exp_clamped(d, hn::Set(d, b.maximum - base));
        for (int64_t c = 0; c < head_dim_v; c += kLanes<T>) {
            const int64_t count = head_dim_v - c;
            const Vec<T> taken = hn::Mul(take, load_first(d, from + c, count));
            store_first(d, hn::MulAdd(keep, load_first(d, into + c, count), taken), into + c, count);
        }
        a.maximum = top;
        b.go_on(hn::GetLane(take), 0, 0);
        a.go_on(hn::GetLane(keep), b.sum, b.rounded_off);
    }
}

template <class T>
void decode_finish(const attile_attention_problem &p, const AttentionRows &rows, T *result) {
    for (int64_t r = 0; r < rows.end - rows.begin; ++r) {
        const int64_t i = (rows.begin + r) / rows.heads, h = rows.head0 + (rows.begin + r) % rows.heads;
        T *sums = result + r * (p.head_dim_v + kDecodeNumbers);
        const DecodeNumbers<T> &numbers = numbers_behind(sums, p.head_dim_v);
        const T sink = p.sinks.data == nullptr ? -std::numeric_limits<T>::infinity()
                                               : load_element<T>(p.sinks.data, p.sinks.dtype, offset_of(p.sinks, rows.entry.b, h));
        const SoftmaxEnd<T> end = softmax_end(numbers.maximum, numbers.sum + numbers.rounded_off, sink, p.lse.data != nullptr);
        const int64_t row = rows.entry.q_start + i;
        if (p.lse.data != nullptr) store_element<T>(p.lse.data, p.lse.dtype, offset_of(p.lse, rows.entry.b, h, row), end.lse);
        if constexpr (std::is_same_v<T, float>) {
            if (is_narrow(p.o.dtype)) {
                for (int64_t c = 0; c < p.head_dim_v; ++c) sums[c] *= end.factor;
                store_result(narrow_o(p, rows.entry, h, row), 0, p.head_dim_v, sums);
                continue;
            }
        }
        for (int64_t c = 0; c < p.head_dim_v; ++c) {
            store_element<T>(p.o.data, p.o.dtype, offset_of(p.o, rows.entry.b, h, row, c), sums[c] * end.factor);
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
