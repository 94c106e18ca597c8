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
#include "attention/decode_rows-inl.h"
#include "attention/keys-inl.h"
#include "gemm/few_rows-inl.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
struct DecodeScratch {
    T *queries, *scores, *extra, *k_block, *v_block, *block_sums;
    uint8_t *key_hidden;

    DecodeScratch(Cutter &cutter, const attile_attention_problem &p) {
        queries = cutter.cut<T>(kDecodeRows, p.head_dim);
        scores = cutter.cut<T>(kDecodeRows, kScoreStep);
        extra = cutter.cut<T>(kScoreStep);
        k_block = cutter.cut<T>(kBlockKeys, p.head_dim);
        v_block = cutter.cut<T>(kBlockKeys, p.head_dim_v);
        key_hidden = cutter.cut<uint8_t>(kBlockKeys);
        block_sums = sums_in_runs(p) ? cutter.cut<T>(kDecodeRows, p.head_dim_v) : nullptr;
    }
};

template <class T>
int64_t decode_scratch_bytes(const attile_attention_problem &p) {
    Cutter cutter(nullptr);
    static_cast<void>(DecodeScratch<T>(cutter, p));
    return cutter.used();
}

// The rows and vectors of columns that a tile of sums has; on AVX-512 of queries, too: where registers hold all columns of two rows, keys
// and values pass row after row, as they lie in memory.
#if HWY_TARGET == HWY_AVX3
inline constexpr int kDecodeTileRows = 2, kDecodeVectors = 8;
#elif HWY_TARGET == HWY_NEON
inline constexpr int kDecodeTileRows = 4, kDecodeVectors = 4;
#else
inline constexpr int kDecodeTileRows = 4, kDecodeVectors = 2;
#endif
// Keys of a run of values: as many as pass in one go on AVX-512, at 64 columns.
inline constexpr int64_t kDecodeRun = HWY_TARGET == HWY_AVX3 ? 32 : 40;
inline constexpr bool kQueriesInRegisters = HWY_TARGET == HWY_AVX3;
// Prefetch to the L1 cache, or to L2? A Zen 5 is faster with L1, an Emerald Rapids, which can have fewer lines in flight to it, with L2
// (docs/kernels/cpu.md).
HWY_INLINE bool asks_first_cache() {
#if HWY_TARGET == HWY_AVX3
    return processor_is_amd();
#else
    return false;
#endif
}

// Bytes of a run: keys or values that all rows pass over before the next ones are read, the first row from memory, the others from the L1
// cache. Each pass prefetches an equal part of the next run, so that memory never idles (docs/kernels/cpu.md).
inline constexpr int64_t kRunBytes = 8192;
template <class T>
int64_t run_keys(int64_t width) {
    return most(4, kRunBytes / static_cast<int64_t>(sizeof(T)) / most(width, 1) / 4 * 4);
}

// Tiles over `columns`: fn.operator()<kVectors>(first column), kVectors 0 for a last vector that is not whole. Where vectors are masked, a
// last tile takes whatever is left: -kVectors, the last two of which may have some columns or none.
template <class T, class Fn>
HWY_INLINE void column_tiles(int64_t columns, Fn &&fn) {
    int64_t c = 0;
    for (; c + kDecodeVectors * kLanes<T> <= columns; c += kDecodeVectors * kLanes<T>) fn.template operator()<kDecodeVectors>(c);
    if constexpr (kQueriesInRegisters) {
        const int64_t left = columns - c;
        if (left > 6 * kLanes<T>) return fn.template operator()<-8>(c);
        if (left > 4 * kLanes<T>) return fn.template operator()<-6>(c);
        if (left == 4 * kLanes<T>) return fn.template operator()<4>(c);
        if (left > 2 * kLanes<T>) return fn.template operator()<-4>(c);
        if (left > 0) fn.template operator()<-2>(c);
        return;
    }
    for (; c + kLanes<T> <= columns; c += kLanes<T>) fn.template operator()<1>(c);
    if (c < columns) fn.template operator()<0>(c);
}
template <class T>
int64_t column_tile_count(int64_t columns) {
    int64_t count = 0;
    column_tiles<T>(columns, [&]<int>(int64_t) { ++count; });
    return count;
}
// Tiles over `rows`: fn.operator()<kRows>(first row).
template <class Fn>
HWY_INLINE void row_tiles(int64_t rows, Fn &&fn) {
    int64_t r = 0;
    for (; r + kDecodeTileRows <= rows; r += kDecodeTileRows) fn.template operator()<kDecodeTileRows>(r);
    if constexpr (kDecodeTileRows > 2) {
        for (; r + 2 <= rows; r += 2) fn.template operator()<2>(r);
    }
    for (; r < rows; ++r) fn.template operator()<1>(r);
}

// The vectors of a tile of column_tiles.
constexpr int tile_width(int vectors) { return vectors == 0 ? 1 : vectors < 0 ? -vectors : vectors; }
constexpr bool is_whole(int vectors, int v) { return vectors > 0 || v < -vectors - 2; }

// Vector v of a row of a tile: `left` columns begin at p.
template <class T, int kVectors, class S>
HWY_INLINE Vec<T> load_column(const S *p, int v, int64_t left) {
    const Tag<T> d;
    if (is_whole(kVectors, v)) return load_as(d, p + v * kLanes<T>);
#if HWY_TARGET == HWY_AVX3
    return load_masked(d, p + v * kLanes<T>, most(0, least(left - v * kLanes<T>, kLanes<T>)));
#else
    return load_as(d, p, left);
#endif
}

// scores[r][key] = queries[r] . keys[key], or += where a tile of columns came before; `keys` of them, written up to a multiple of four.
template <class T, class S, int kRows, int kVectors>
HWY_NOINLINE void score_few(int64_t keys, const T *queries, int64_t query_step, const S *key, int64_t key_step, int64_t left, bool adds,
                            T *scores, Soon<S> &asked, int64_t asks) {
    constexpr int kWidth = tile_width(kVectors);
    const Tag<T> d;
    const bool first_cache = asks_first_cache();
    Soon<S> soon = asked;  // in registers
    Vec<T> query[kRows][kWidth];
    ATTILE_CPU_UNROLL
    for (int r = 0; r < kRows; ++r) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kWidth; ++v) query[r][v] = load_column<T, kVectors>(queries + r * query_step, v, left);
    }
    for (int64_t j = 0; j < keys; j += 4) {
        Vec<T> sum[kRows][4];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < 4; ++i) {
            for (int64_t n = 0; n < asks; ++n) soon.ask_line(first_cache);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) {
                const Vec<T> x = load_column<T, kVectors>(key, v, left);
                ATTILE_CPU_UNROLL
                for (int r = 0; r < kRows; ++r) {
                    sum[r][i] = v == 0 ? hn::Mul(query[r][v], x) : multiply_add_in_place(query[r][v], x, sum[r][i]);
                }
            }
            if (j + i + 1 < keys) key += key_step;
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            T *const to = scores + r * kScoreStep + j;
            if constexpr (sizeof(T) == 4) {
                const hn::FixedTag<float, 4> d4;
                const auto four = four_sums(sum[r]);
                hn::StoreU(adds ? hn::Add(hn::LoadU(d4, to), four) : four, d4, to);
            } else {
                for (int i = 0; i < 4; ++i) to[i] = (adds ? to[i] : T{0}) + hn::GetLane(hn::SumOfLanes(d, sum[r][i]));
            }
        }
    }
    asked = soon;
}

// sums[r][c] += sum over keys of weights[r][key] values[key][c], summed by itself in registers first: shorter chains, smaller errors. With
// kRuns a run of keys at a time, and = instead of += for the first unless it `adds`.
template <class T, class S, int kRows, int kVectors, bool kRuns>
HWY_NOINLINE void weigh_tile(int64_t keys, const T *weights, const S *values, int64_t value_step, int64_t left, bool adds, T *sums,
                             int64_t sums_step, Soon<S> &asked, int64_t asks) {
    constexpr int kWidth = tile_width(kVectors);
    const Tag<T> d;
    const bool first_cache = asks_first_cache();
    Soon<S> soon = asked;  // in registers
    do {
        const int64_t run = kRuns ? least(kDecodeRun, keys) : keys;
        Vec<T> acc[kRows][kWidth];
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) acc[r][v] = hn::Zero(d);
        }
        for (int64_t key = 0; key < run; ++key, values += value_step) {
            for (int64_t n = 0; n < asks; ++n) soon.ask_line(first_cache);
            Vec<T> w[kRows];
            ATTILE_CPU_UNROLL
            for (int r = 0; r < kRows; ++r) w[r] = hn::Set(d, weights[r * kScoreStep + key]);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) {
                const Vec<T> x = load_column<T, kVectors>(values, v, left);
                ATTILE_CPU_UNROLL
                for (int r = 0; r < kRows; ++r) acc[r][v] = multiply_add_in_place(w[r], x, acc[r][v]);
            }
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kWidth; ++v) {
                T *const row = sums + r * sums_step;
                const Vec<T> total = kRuns && !adds ? acc[r][v] : hn::Add(load_column<T, kVectors>(row, v, left), acc[r][v]);
                store_first(d, total, row + v * kLanes<T>, is_whole(kVectors, v) ? kLanes<T> : left - v * kLanes<T>);
            }
        }
        adds = true;
        weights += run;
        keys -= run;
    } while (kRuns && keys > 0);
    asked = soon;
}

template <class T>
HWY_INLINE void add_block(int64_t head_dim_v, const T *block, T *sums) {
    const Tag<T> d;
    for (int64_t c = 0; c < head_dim_v; c += kLanes<T>) {
        const int64_t count = head_dim_v - c;
        store_first(d, hn::Add(load_first(d, sums + c, count), load_first(d, block + c, count)), sums + c, count);
    }
}

// Lines of each row that each of the passes over a run prefetches. Without columns there is no pass.
template <class S>
int64_t lines_of_pass(const Soon<S> &soon, int64_t passes) {
    return passes > 0 ? ceil_div(soon.lines(), passes) : 0;
}

// Calls pass(first, count, soon, lines) for runs of `count` rows; the next run is prefetched, after the last one `after`: `lines` of it
// with each row of each of the `passes` over a run.
template <class S, class Pass>
HWY_INLINE void over_runs(const S *rows, int64_t step, int64_t width, int64_t count, const Soon<S> &after, int64_t passes, Pass &&pass) {
    const int64_t run = run_keys<S>(width);
    for (int64_t first = 0; first < count; first += run) {
        const int64_t next = first + run;
        Soon<S> soon = next < count ? Soon<S>(rows + next * step, step, width) : after;
        pass(first, least(run, count - first), soon, lines_of_pass(soon, passes));
    }
}

// searching: scores may be -inf by themselves, so each block is searched for values that are not finite. S: what keys and values are read
// as.
template <class T, class S>
void decode_part_once(const attile_attention_problem &p, const AttentionRows &rows, int64_t part, bool searching, T *result, char *memory) {
    Cutter cutter(memory);
    const DecodeScratch<T> scratch(cutter, p);
    const int64_t count_rows = rows.end - rows.begin, width = p.head_dim_v + kDecodeNumbers;
    int64_t first_key = rows.entry.len_k, last_key = 0;
    const Tag<T> d;
    const bool by_block = sums_in_runs(p);
    for (int64_t r = 0; r < count_rows; ++r) {
        const int64_t i = (rows.begin + r) / rows.heads, h = rows.head0 + (rows.begin + r) % rows.heads;
        const KeyRange seen = visible_keys(p, rows.entry, i);
        first_key = least(first_key, seen.begin);
        last_key = most(last_key, seen.end);
        T *query = scratch.queries + r * p.head_dim;
        with_storage<T>(p.q.dtype, [&](auto s) HWY_ATTR {
            copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.q, rows.entry.b, h, rows.entry.q_start + i), p.q.stride[3], p.head_dim,
                                     query);
        });
        T *sums = result + r * width;
        for (int64_t c = 0; c < p.head_dim_v; ++c) sums[c] = 0;
        numbers_behind(sums, p.head_dim_v) = {-std::numeric_limits<T>::infinity(), 0, 0};
    }
    const int64_t begin = most(first_key, part * kDecodeKeys), end = least(last_key, (part + 1) * kDecodeKeys);
    KeySource<T, S> source(p, rows.entry, rows.kv_head, scratch.k_block, scratch.v_block, scratch.key_hidden);
    // Blocks are counted from the part's start, not from the first key seen, which belongs to all rows.
    for (int64_t block = part * kDecodeKeys; block < end; block += kBlockKeys) {
        const int64_t from = most(block, begin), to = least(block + kBlockKeys, end), count = to - from;
        if (count <= 0) continue;
        source.bring(from, count);
        const S *keys = source.key(from), *values = source.value(from);
        const int64_t key_step = source.key_step(), value_step = source.value_step();
        const Soon<S> soon_values(values, value_step, p.head_dim_v), soon_keys(keys + count * key_step, key_step, p.head_dim);
        const int64_t row_passes = ceil_div(count_rows, kDecodeTileRows);
        if (!kQueriesInRegisters || p.head_dim == 0) {
            for (int64_t i = 0; i < count_rows * kScoreStep; i += kLanes<T>) hn::Store(hn::Zero(d), d, scratch.scores + i);
        }
        if constexpr (kQueriesInRegisters) {
            const int64_t passes = row_passes * column_tile_count<T>(p.head_dim);
            over_runs(keys, key_step, p.head_dim, count, soon_values, passes, [&](int64_t j, int64_t n, Soon<S> &soon, int64_t lines) {
                column_tiles<T>(p.head_dim, [&]<int kVectors>(int64_t c) {
                    row_tiles(count_rows, [&]<int kRows>(int64_t r) {
                        score_few<T, S, kRows, kVectors>(n, scratch.queries + r * p.head_dim + c, p.head_dim, keys + j * key_step + c,
                                                         key_step, p.head_dim - c, c > 0, scratch.scores + r * kScoreStep + j, soon, lines);
                    });
                });
            });
        } else {
            int64_t j = 0;
            for (; j + 4 <= count; j += 4) {
                // The values that the keys belong to come while the keys pass by, the next block's keys while the values do.
                dot_columns<T, S, 4>(count_rows, scratch.queries, p.head_dim, keys + j * key_step, key_step, p.head_dim, scratch.scores + j,
                                     kScoreStep, Soon<S>(values + j * value_step, value_step, p.head_dim_v));
            }
            for (; j < count; ++j) {
                dot_columns<T, S, 1>(count_rows, scratch.queries, p.head_dim, keys + j * key_step, key_step, p.head_dim, scratch.scores + j,
                                     kScoreStep);
            }
        }
        bool hides = searching;
        for (int64_t r = 0; r < count_rows; ++r) {
            const int64_t i = (rows.begin + r) / rows.heads, h = rows.head0 + (rows.begin + r) % rows.heads;
            T *scores = scratch.scores + r * kScoreStep;
            hides = finish_row<T>(p, rows.entry, i, h, from, count, source.hidden(from), scores, scratch.extra) || hides;
        }
        const bool leave_out = hides && !source.values_finite();
        for (int64_t r = 0; r < count_rows; ++r) {
            T *scores = scratch.scores + r * kScoreStep, *sums = result + r * width;
            if (leave_out) {
                for (int64_t n = 0; n < count; ++n) scratch.extra[n] = scores[n];
            }
            soften_row<T>(count, scores, p.head_dim_v, sums);
            if (!leave_out) continue;
            for (int64_t n = 0; n < count; ++n) {
                if (scratch.extra[n] == -std::numeric_limits<T>::infinity()) continue;
                few_rows_strip<T, S, 1, 1>(scores + n, 0, 0, values + n * value_step, value_step, p.head_dim_v, sums, width);
            }
        }
        if (leave_out) continue;
        const int64_t passes = row_passes * column_tile_count<T>(p.head_dim_v);
        const auto weigh = [&](int64_t j, int64_t n, Soon<S> &soon, int64_t lines) {
            column_tiles<T>(p.head_dim_v, [&]<int kVectors>(int64_t c) {
                row_tiles(count_rows, [&]<int kRows>(int64_t r) {
                    const T *weights = scratch.scores + r * kScoreStep + j;
                    const S *from_values = values + j * value_step + c;
                    if (by_block) {
                        weigh_tile<T, S, kRows, kVectors, true>(n, weights, from_values, value_step, p.head_dim_v - c, j > 0,
                                                                scratch.block_sums + r * p.head_dim_v + c, p.head_dim_v, soon, lines);
                    } else {
                        weigh_tile<T, S, kRows, kVectors, false>(n, weights, from_values, value_step, p.head_dim_v - c, true,
                                                                 result + r * width + c, width, soon, lines);
                    }
                });
            });
        };
        if constexpr (kQueriesInRegisters) {
            over_runs(values, value_step, p.head_dim_v, count, soon_keys, passes, weigh);
        } else {
            Soon<S> soon = soon_keys;
            weigh(0, count, soon, lines_of_pass(soon, passes));
        }
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
