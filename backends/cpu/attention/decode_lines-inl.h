// SPDX-License-Identifier: Apache-2.0
// Attention of few rows, on AVX-512: the two products. Keys and values pass in runs. The first pass over a run reads it line by line in the
// order of memory, with a line of the next run prefetched for each; where there are more passes it leaves a copy in the L1 cache for them.
// In other orders memory falls behind (docs/kernels/cpu.md).
//
// A line of elements of 16 bits is two vectors of float, widened once for up to four rows of queries: of float16 its halves, of bfloat16
// its even and its odd elements, for which a shift and a mask do, where an order kept would take twice as many instructions. Queries lie in
// the same order, and sums are put in order when stored. A line of 8 bits is four vectors, in order.
#if defined(ATTILE_CPU_DECODE_LINES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_DECODE_LINES_INL_H
#undef ATTILE_CPU_DECODE_LINES_INL_H
#else
#define ATTILE_CPU_DECODE_LINES_INL_H
#endif

#include <cmath>

#include "attention/attention.h"
#include "attention/decode_rows-inl.h"
#include "gemm/few_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET == HWY_AVX3

// Keys of a run of sums: as many as a run has at 128 columns of 16 bits.
inline constexpr int64_t kLinesRun = 32;

// Prefetch to the L1 cache, or to L2? A Zen 5 is faster with L1, an Emerald Rapids, which can have fewer lines in flight to it, with L2
// (docs/kernels/cpu.md).
HWY_INLINE bool asks_first_cache() { return processor_is_amd(); }

template <class S>
inline constexpr int64_t kLineElements = static_cast<int64_t>(64 / sizeof(S));
template <class S>
constexpr int64_t lines_of(int64_t width) {
    return ceil_div(width, kLineElements<S>);
}
// Bytes of a run: keys or values that all rows pass over before the next ones are read, unless four take more.
inline constexpr int64_t kRunBytes = 8192;
// Rows of each run of a span but the last: nearly equal ones, in fours.
template <class S>
int64_t run_rows(const RowSpan<S> &x) {
    const int64_t fit = most(4, kRunBytes / 64 / most(lines_of<S>(x.width), 1) / 4 * 4);
    return most(4, round_up(ceil_div(x.count, most(1, ceil_div(x.count, fit))), 4));
}

// Prefetching of the next run: a line with each of `every` steps, from one pass over this run to the next.
template <class S>
struct LineAsker {
    Soon<S> soon;
    int64_t every, wait;
    bool first_cache;

    HWY_INLINE void step() {
        if (--wait > 0) return;
        wait = every;
        soon.ask_line(first_cache);
    }
};

// The vectors of T that a line of S becomes.
template <class T, class S>
inline constexpr int kWide = static_cast<int>(sizeof(T) / sizeof(S));
template <class T, class S>
struct WideLine {
    Vec<T> x[kWide<T, S>];
};

// A line of numbers of 8 bits in memory, and which of them are NaN.
struct NarrowLine {
    const char *from;
    uint64_t nans;
};
// At p, or at `part` if fewer than 64 are there; copied to `copy`, if kCopies.
template <class S, bool kCopies>
HWY_INLINE NarrowLine find_narrow_line(const S *p, int64_t left, [[maybe_unused]] S *copy, char *part) {
    NarrowLine line{reinterpret_cast<const char *>(p), 0};
    if (left < 64) {
        _mm512_store_si512(part, _mm512_maskz_loadu_epi8((uint64_t{1} << left) - 1, line.from));
        line.from = part;
    }
    if constexpr (kCopies) _mm512_store_si512(copy, _mm512_loadu_si512(line.from));
    if constexpr (std::is_same_v<S, E4m3>) {
        const __m512i magnitudes = _mm512_set1_epi8(0x7f);
        line.nans = _mm512_cmpeq_epi8_mask(_mm512_and_si512(_mm512_loadu_si512(line.from), magnitudes), magnitudes);
    }
    return line;
}
// A quarter of one as floats. Quarters come from memory by themselves, which spares their being taken out of a register.
template <class S>
HWY_INLINE Vec<float> load_narrow_quarter(const NarrowLine &line, int quarter) {
    const __m512i wide = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i *>(line.from + 16 * quarter)));
    if constexpr (std::is_same_v<S, Int8>) return Vec<float>{_mm512_cvtepi32_ps(wide)};
    // As e4m3_to_float(): the product makes subnormals normal.
    const __m512i bits = _mm512_and_si512(_mm512_slli_epi32(wide, 20), _mm512_set1_epi32(static_cast<int>(0x87f00000u)));
    const __m512 x = _mm512_mul_ps(_mm512_castsi512_ps(bits), _mm512_set1_ps(0x1p120f));
    if (HWY_LIKELY(line.nans == 0)) return Vec<float>{x};
    return Vec<float>{_mm512_mask_mov_ps(x, static_cast<__mmask16>(line.nans >> (16 * quarter)), _mm512_set1_ps(NAN))};
}

// A line at p, `left` elements of which are there; copied to `copy`, if kCopies, with zeros behind them.
template <class T, class S, bool kCopies>
HWY_INLINE WideLine<T, S> load_line(const S *p, int64_t left, [[maybe_unused]] S *copy) {
    if constexpr (sizeof(S) == 1) {
        HWY_ALIGN char part[64];
        const NarrowLine line = find_narrow_line<S, kCopies>(p, left, copy, part);
        return {{load_narrow_quarter<S>(line, 0), load_narrow_quarter<S>(line, 1), load_narrow_quarter<S>(line, 2),
                 load_narrow_quarter<S>(line, 3)}};
    }
    using Raw = std::conditional_t<sizeof(S) == 2, uint16_t, S>;
    const Tag<Raw> d;
    const Tag<T> dt;
    const Vec<Raw> raw = load_first(d, reinterpret_cast<const Raw *>(p), left);
    if constexpr (kCopies) hn::Store(raw, d, reinterpret_cast<Raw *>(copy));
    if constexpr (std::is_same_v<S, T>) {
        return {{raw}};
    } else if constexpr (std::is_same_v<S, Brain>) {
        const Tag<uint32_t> du;
        const auto pairs = hn::BitCast(du, raw);
        return {{hn::BitCast(dt, hn::ShiftLeft<16>(pairs)), hn::BitCast(dt, hn::And(pairs, hn::Set(du, 0xffff0000u)))}};
    } else {
        return {{hn::BitCast(dt, Vec<T>{_mm512_cvtph_ps(_mm512_castsi512_si256(raw.raw))}),
                 hn::BitCast(dt, Vec<T>{_mm512_cvtph_ps(_mm512_extracti64x4_epi64(raw.raw, 1))})}};
    }
}

// A multiply-add whose factor comes from memory.
HWY_INLINE Vec<float> multiply_add_of(const float *factor, Vec<float> x, Vec<float> sum) {
    asm("vfmadd231ps %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*reinterpret_cast<const float(*)[16]>(factor)));
    return sum;
}
HWY_INLINE Vec<double> multiply_add_of(const double *factor, Vec<double> x, Vec<double> sum) {
    asm("vfmadd231pd %2, %1, %0" : "+v"(sum.raw) : "v"(x.raw), "m"(*reinterpret_cast<const double(*)[8]>(factor)));
    return sum;
}

// Where column c of a row lies whose lines are widened.
template <class S>
constexpr int64_t place_in_lines(int64_t c) {
    constexpr int64_t kLine = kLineElements<S>;
    return std::is_same_v<S, Brain> ? c / kLine * kLine + c % 2 * (kLine / 2) + c % kLine / 2 : c;
}

// The other way, of a line.
template <class T, class S>
HWY_INLINE WideLine<T, S> in_order(WideLine<T, S> line) {
    if constexpr (std::is_same_v<S, Brain>) {
        const Tag<uint32_t> du;
        HWY_ALIGN static constexpr uint32_t kZip[32] = {0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
                                                        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
        const auto zipped = [&](int half) HWY_ATTR {
            return Vec<T>{_mm512_permutex2var_ps(line.x[0].raw, hn::Load(du, kZip + half * kLanes<T>).raw, line.x[1].raw)};
        };
        return {{zipped(0), zipped(1)}};
    } else {
        return line;
    }
}

// The sums of the lanes of four vectors, side by side.
template <class T>
HWY_INLINE void store_sums(const Vec<T> (&sum)[4], T *to) {
    if constexpr (sizeof(T) == 4) {
        hn::StoreU(four_sums(sum), hn::FixedTag<float, 4>(), to);
    } else {
        for (int i = 0; i < 4; ++i) to[i] = hn::GetLane(hn::SumOfLanes(Tag<T>(), sum[i]));
    }
}

// scores[r][key] = queries[r] . keys[key]; `keys` of them, written up to a multiple of four. Queries are whole lines.
template <class T, class S, int kRows>
HWY_NOINLINE void score_lines(int64_t keys, const T *queries, int64_t query_step, const S *rows, int64_t row_step, int64_t width, T *scores,
                              S * /*copy*/, LineAsker<S> &beside) {
    constexpr int kVectors = kWide<T, S>;
    constexpr int64_t kLine = kLineElements<S>;
    const Tag<T> d;
    LineAsker<S> asker = beside;  // in registers
    for (int64_t j = 0; j < keys; j += 4) {
        Vec<T> sum[kRows][4];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < 4; ++i) {
            ATTILE_CPU_UNROLL
            for (int r = 0; r < kRows; ++r) sum[r][i] = hn::Zero(d);
            for (int64_t c = 0; c < width; c += kLine) {
                asker.step();
                const WideLine<T, S> line = load_line<T, S, false>(rows + c, width - c, nullptr);
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    ATTILE_CPU_UNROLL
                    for (int r = 0; r < kRows; ++r) {
                        sum[r][i] = multiply_add_of(queries + r * query_step + c + v * kLanes<T>, line.x[v], sum[r][i]);
                    }
                }
            }
            if (j + i + 1 < keys) rows += row_step;
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) store_sums<T>(sum[r], scores + r * kScoreStep + j);
    }
    beside = asker;
}

// As score_lines, of three and four rows: four keys at a time, so that a line of queries in registers serves four of keys. kCopies: keys
// are copied to `copy`, whole lines.
template <class T, class S, int kRows, bool kCopies>
HWY_NOINLINE void score_squares(int64_t keys, const T *queries, int64_t query_step, const S *rows, int64_t row_step, int64_t width,
                                T *scores, S *copy, LineAsker<S> &beside) {
    constexpr int kVectors = kWide<T, S>;
    constexpr int64_t kLine = kLineElements<S>;
    const Tag<T> d;
    const int64_t copy_step = round_up(width, kLine);
    LineAsker<S> asker = beside;  // in registers
    for (int64_t j = 0; j < keys; j += 4) {
        const S *row[4];
        S *copied[4];
        for (int64_t i = 0; i < 4; ++i) {
            row[i] = rows + least(j + i, keys - 1) * row_step;
            copied[i] = kCopies ? copy + least(j + i, keys - 1) * copy_step : nullptr;
        }
        Vec<T> sum[kRows][4];
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int i = 0; i < 4; ++i) sum[r][i] = hn::Zero(d);
        }
        for (int64_t c = 0; c < width; c += kLine) {
            if constexpr (sizeof(S) == 1) {  // A quarter of the four lines after the other: all of a query's are more than registers.
                HWY_ALIGN char part[4][64];
                NarrowLine line[4];
                ATTILE_CPU_UNROLL
                for (int i = 0; i < 4; ++i) {
                    asker.step();
                    line[i] = find_narrow_line<S, kCopies>(row[i] + c, width - c, kCopies ? copied[i] + c : nullptr, part[i]);
                }
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    Vec<T> query[kRows];
                    ATTILE_CPU_UNROLL
                    for (int r = 0; r < kRows; ++r) query[r] = hn::Load(d, queries + r * query_step + c + v * kLanes<T>);
                    ATTILE_CPU_UNROLL
                    for (int i = 0; i < 4; ++i) {
                        const Vec<T> x = load_narrow_quarter<S>(line[i], v);
                        ATTILE_CPU_UNROLL
                        for (int r = 0; r < kRows; ++r) sum[r][i] = multiply_add_in_place(query[r], x, sum[r][i]);
                    }
                }
                continue;
            }
            Vec<T> query[kRows][kVectors];
            ATTILE_CPU_UNROLL
            for (int r = 0; r < kRows; ++r) {
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) query[r][v] = hn::Load(d, queries + r * query_step + c + v * kLanes<T>);
            }
            ATTILE_CPU_UNROLL
            for (int i = 0; i < 4; ++i) {
                asker.step();
                const WideLine<T, S> line = load_line<T, S, kCopies>(row[i] + c, width - c, kCopies ? copied[i] + c : nullptr);
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    ATTILE_CPU_UNROLL
                    for (int r = 0; r < kRows; ++r) sum[r][i] = multiply_add_in_place(query[r][v], line.x[v], sum[r][i]);
                }
            }
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) store_sums<T>(sum[r], scores + r * kScoreStep + j);
    }
    beside = asker;
}

template <class T, class S, int kRows, bool kCopies, class... Args>
HWY_INLINE void score_run(Args &&...args) {
    if constexpr (kRows > 2) {
        score_squares<T, S, kRows, kCopies>(args...);
    } else {
        score_lines<T, S, kRows>(args...);
    }
}

// sums[r][c] += sum over keys of weights[r][key] values[key][c] for kLines lines of columns, `left` columns from there on: by itself in
// registers first, kLinesRun keys at a time. `adds`: or = at first. kCopies: all `left` columns are copied to `copy`, whole lines.
template <class T, class S, int kRows, int kLines, bool kCopies>
HWY_NOINLINE void weigh_lines(int64_t keys, const T *weights, const S *values, int64_t value_step, int64_t left, bool adds, T *sums,
                              int64_t sums_step, S *copy, LineAsker<S> &beside) {
    constexpr int kVectors = kWide<T, S>;
    constexpr int64_t kLine = kLineElements<S>;
    const Tag<T> d;
    LineAsker<S> asker = beside;  // in registers
    for (int64_t first = 0; first < keys; first += kLinesRun, adds = true) {
        const int64_t end = least(first + kLinesRun, keys);
        WideLine<T, S> acc[kRows][kLines];
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int n = 0; n < kLines; ++n) {
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) acc[r][n].x[v] = hn::Zero(d);
            }
        }
        for (int64_t key = first; key < end; ++key, values += value_step) {
            Vec<T> w[kRows];
            ATTILE_CPU_UNROLL
            for (int r = 0; r < kRows; ++r) w[r] = hn::Set(d, weights[r * kScoreStep + key]);
            ATTILE_CPU_UNROLL
            for (int n = 0; n < kLines; ++n) {
                asker.step();
                const WideLine<T, S> line =
                    load_line<T, S, kCopies>(values + n * kLine, n + 1 < kLines ? kLine : left - n * kLine, copy + n * kLine);
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    ATTILE_CPU_UNROLL
                    for (int r = 0; r < kRows; ++r) acc[r][n].x[v] = multiply_add_in_place(w[r], line.x[v], acc[r][n].x[v]);
                }
            }
            if constexpr (kCopies) {
                copy += kLines * kLine;
                for (int64_t c = kLines * kLine; c < left; c += kLine, copy += kLine) {
                    static_cast<void>(load_line<T, S, true>(values + c, left - c, copy));
                }
            }
        }
        ATTILE_CPU_UNROLL
        for (int r = 0; r < kRows; ++r) {
            ATTILE_CPU_UNROLL
            for (int n = 0; n < kLines; ++n) {
                const WideLine<T, S> total = in_order<T, S>(acc[r][n]);
                ATTILE_CPU_UNROLL
                for (int v = 0; v < kVectors; ++v) {
                    const int64_t c = n * kLine + v * kLanes<T>;
                    T *const to = sums + r * sums_step + c;
                    store_first(d, adds ? hn::Add(load_first(d, to, left - c), total.x[v]) : total.x[v], to, left - c);
                }
            }
        }
    }
    beside = asker;
}

// Calls fn.operator()<kRows>(first row) for `rows` in fours and what is left.
template <class Fn>
HWY_INLINE void row_fours(int64_t rows, Fn &&fn) {
    int64_t r = 0;
    for (; r + 4 <= rows; r += 4) fn.template operator()<4>(r);
    if (rows - r == 3) return fn.template operator()<3>(r);
    if (rows - r == 2) return fn.template operator()<2>(r);
    if (rows - r == 1) fn.template operator()<1>(r);
}

// Lines of values that a tile of sums of `rows` has: 16 vectors of sums, 8 of one row.
template <class T, class S>
constexpr int lines_of_tile(int rows) {
    return (rows > 2 ? 4 : 8) / kWide<T, S>;
}
// Calls fn.operator()<kLines>(first line) for tiles of at most kMost lines.
template <int kMost, class Fn>
HWY_INLINE void line_tiles(int64_t lines, Fn &&fn, int64_t first = 0) {
    for (; first + kMost <= lines; first += kMost) fn.template operator()<kMost>(first);
    if constexpr (kMost > 1) line_tiles<kMost - 1>(lines, fn, first);
}

// Both products of some rows of queries with blocks of keys and values.
template <class T, class S>
class DecodeProducts {
  public:
    // From a row of queries to the next, and how they lie.
    static Size query_step(int64_t head_dim) { return Size(head_dim).rounded_up(64); }
    static void lay_query(const T *row, int64_t head_dim, T *query) {
        for (int64_t c = 0; c < query_step(head_dim).value(); ++c) query[place_in_lines<S>(c)] = c < head_dim ? row[c] : T{0};
    }

    // Bytes of a buffer for a run of any elements that are not larger than T.
    static Size buffer_bytes(int64_t width) { return Size(most(kRunBytes, (Size(lines_of<T>(width)) * (4 * 64)).value())); }

    DecodeProducts(int64_t rows, const T *queries, char *buffer) : rows_(rows), queries_(queries), buffer_(reinterpret_cast<S *>(buffer)) {}

    // scores[r][key]
    void score(const DecodeBlock<S> &x, T *scores) {
        const int64_t width = x.keys.width, whole = lines_of<S>(width) * kLineElements<S>, step = query_step(width).value();
        over_runs(x.keys, x.values, [&](int64_t j, int64_t count, const S *rows, LineAsker<S> &asker) {
            row_fours(rows_, [&]<int kRows>(int64_t r) {
                const T *const queries = queries_ + r * step;
                T *const to = scores + r * kScoreStep + j;
                if (r > 0) {
                    score_run<T, S, kRows, false>(count, queries, step, buffer_, whole, whole, to, nullptr, asker);
                } else if (rows_ > 4) {
                    score_run<T, S, 4, true>(count, queries, step, rows, x.keys.step, width, to, buffer_, asker);
                } else {
                    score_run<T, S, kRows, false>(count, queries, step, rows, x.keys.step, width, to, nullptr, asker);
                }
            });
        });
    }

    // sums[r] += what weights[r][key] make of the values; unless it `adds`, =.
    void weigh(const DecodeBlock<S> &x, const T *weights, bool adds, T *sums, int64_t sums_step) {
        const int64_t width = x.values.width, lines = lines_of<S>(width), whole = lines * kLineElements<S>;
        over_runs(x.values, x.next_keys, [&](int64_t j, int64_t count, const S *rows, LineAsker<S> &asker) {
            const bool more = adds || j > 0;
            row_fours(rows_, [&]<int kRows>(int64_t r) {
                line_tiles<lines_of_tile<T, S>(kRows)>(lines, [&]<int kLines>(int64_t n) {
                    const int64_t c = n * kLineElements<S>;
                    const T *const from = weights + r * kScoreStep + j;
                    T *const to = sums + r * sums_step + c;
                    if (r + n > 0) {
                        weigh_lines<T, S, kRows, kLines, false>(count, from, buffer_ + c, whole, width - c, more, to, sums_step, buffer_,
                                                                asker);
                    } else if (rows_ > 4 || lines > kLines) {
                        weigh_lines<T, S, kRows, kLines, true>(count, from, rows, x.values.step, width, more, to, sums_step, buffer_,
                                                               asker);
                    } else {
                        weigh_lines<T, S, kRows, kLines, false>(count, from, rows, x.values.step, width, more, to, sums_step, buffer_,
                                                                asker);
                    }
                });
            });
        });
    }

  private:
    // Calls pass(first, count, rows, asker) for runs of a span; the next run is prefetched, behind the last one `after`, a line with each
    // step of a pass over this one.
    template <class Pass>
    HWY_INLINE void over_runs(const RowSpan<S> &x, const RowSpan<S> &after, Pass &&pass) {
        const int64_t a_run = run_rows(x), every = ceil_div(rows_, 4);
        for (int64_t first = 0; first < x.count; first += a_run) {
            const int64_t next = first + a_run;
            LineAsker<S> asker{
                next < x.count ? Soon<S>(x.rows + next * x.step, x.step, x.width) : Soon<S>(after.rows, after.step, after.width), every,
                every, asks_first_cache()};
            pass(first, least(a_run, x.count - first), x.rows + first * x.step, asker);
        }
    }

    int64_t rows_;
    const T *queries_;
    S *buffer_;
};

#endif  // HWY_TARGET == HWY_AVX3
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
