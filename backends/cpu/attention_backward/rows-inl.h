// SPDX-License-Identifier: Apache-2.0
// The backward pass with keys as the lanes of a panel: for a block of query rows it makes a tile of probabilities and one of gradients of
// scores.
#if defined(ATTILE_CPU_BACKWARD_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_BACKWARD_ROWS_INL_H
#undef ATTILE_CPU_BACKWARD_ROWS_INL_H
#else
#define ATTILE_CPU_BACKWARD_ROWS_INL_H
#endif

#include <algorithm>
#include <limits>

#include "attention/keys-inl.h"
#include "attention/lanes-inl.h"
#include "attention/tile-inl.h"
#include "attention_backward/attention_backward.h"
#include "math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
inline constexpr T kMinusInfinity = -std::numeric_limits<T>::infinity();

// dlse of a row; 0 without.
template <class T>
T lse_gradient(const BackwardProblem &problem, const AttentionEntry &entry, int64_t h, int64_t i) {
    const attile_operand &x = problem.dlse;
    return x.data == nullptr ? T{0} : load_element<T>(x.data, x.dtype, offset_of(x, entry.b, h, entry.q_start + i));
}

// sum over c of dout[c] o[c] of a row, less its dlse; `row` has room for head_dim_v.
template <class T>
T row_delta(const BackwardProblem &problem, const AttentionEntry &entry, int64_t h, int64_t i, const T *dout, T *row) {
    const attile_attention_problem &p = *problem.forward;
    with_storage<T>(p.o.dtype, [&](auto s) HWY_ATTR {
        copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.o, entry.b, h, entry.q_start + i), p.o.stride[3], p.head_dim_v, row);
    });
    const Tag<T> d;
    Vec<T> sum = hn::Zero(d);
    for (int64_t c = 0; c < p.head_dim_v; c += kLanes<T>) {
        sum = hn::MulAdd(load_first(d, dout + c, p.head_dim_v - c), load_first(d, row + c, p.head_dim_v - c), sum);
    }
    return hn::GetLane(hn::SumOfLanes(d, sum)) - lse_gradient<T>(problem, entry, h, i);
}

// Rows of one head: their numbers, and the keys that the mask leaves them.
template <class T>
struct RowNumbers {
    T *lse, *delta;
    int64_t *begin, *end;
    int64_t first = 0, count = 0;  // rows of the entry
    int64_t head = 0;

    RowNumbers(Cutter &cutter, int64_t rows) {
        lse = cutter.cut<T>(rows);
        delta = cutter.cut<T>(rows);
        begin = cutter.cut<int64_t>(rows);
        end = cutter.cut<int64_t>(rows);
    }

    // All but lse and delta.
    void place(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t from, int64_t rows) {
        head = h;
        first = from;
        count = rows;
        for (int64_t r = 0; r < rows; ++r) {
            const KeyRange keys = visible_keys(p, entry, from + r);
            begin[r] = keys.begin;
            end[r] = keys.end;
        }
    }
    // And those, from what the head's pieces share.
    void place(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t from, int64_t rows,
               const HeadSums<T> &sums) {
        place(p, entry, h, from, rows);
        const int64_t at = h % (p.heads_q / p.heads_kv) * sums.head_rows + from;
        std::copy_n(sums.lse + at, rows, lse);
        std::copy_n(sums.delta + at, rows, delta);
    }
};

// A block of query rows of one head.
template <class T>
struct RowBlock : RowNumbers<T> {
    T *queries, *douts;  // rows x head_dim, rows x head_dim_v
    T *row;              // room for one row of o
    int finite = -1;     // are all queries and douts finite? -1: not known yet

    RowBlock(Cutter &cutter, const attile_attention_problem &p) : RowNumbers<T>(cutter, kBlockKeys) {
        queries = cutter.cut<T>(kBlockKeys, p.head_dim);
        douts = cutter.cut<T>(kBlockKeys, p.head_dim_v);
        row = cutter.cut<T>(p.head_dim_v);
    }

    // Queries and douts of the rows in place.
    void copy(const BackwardProblem &problem, const AttentionEntry &entry) {
        const attile_attention_problem &p = *problem.forward;
        finite = -1;
        for (int64_t r = 0; r < this->count; ++r) {
            const int64_t at = entry.q_start + this->first + r;
            with_storage<T>(p.q.dtype, [&](auto s) HWY_ATTR {
                copy_row<T, decltype(s)>(operand_at<decltype(s)>(p.q, entry.b, this->head, at), p.q.stride[3], p.head_dim,
                                         queries + r * p.head_dim);
            });
            with_storage<T>(problem.dout.dtype, [&](auto s) HWY_ATTR {
                copy_row<T, decltype(s)>(operand_at<decltype(s)>(problem.dout, entry.b, this->head, at), problem.dout.stride[3],
                                         p.head_dim_v, douts + r * p.head_dim_v);
            });
        }
    }
    // What the rows' scores and gradients count from.
    void find_numbers(const BackwardProblem &problem, const AttentionEntry &entry, T *to_lse, T *to_delta) {
        const attile_attention_problem &p = *problem.forward;
        for (int64_t r = 0; r < this->count; ++r) {
            const int64_t i = this->first + r;
            to_lse[r] = load_element<T>(p.lse.data, p.lse.dtype, offset_of(p.lse, entry.b, this->head, entry.q_start + i));
            to_delta[r] = row_delta<T>(problem, entry, this->head, i, douts + r * p.head_dim_v, row);
        }
    }
    void load(const BackwardProblem &problem, const AttentionEntry &entry, int64_t h, int64_t from, int64_t rows) {
        this->place(*problem.forward, entry, h, from, rows);
        copy(problem, entry);
        find_numbers(problem, entry, this->lse, this->delta);
    }

    bool is_finite(const attile_attention_problem &p) {
        if (finite < 0) {
            finite = all_finite(queries, p.head_dim, this->count, p.head_dim) && all_finite(douts, p.head_dim_v, this->count, p.head_dim_v)
                         ? 1
                         : 0;
        }
        return finite == 1;
    }
};

// Up to a panel of keys of the entry.
struct KeySpan {
    int64_t begin = 0, count = 0;
};

// The rows of a block that may see keys of a span.
template <class T>
HWY_INLINE KeyRange rows_that_see(const attile_attention_problem &p, const AttentionEntry &entry, const RowNumbers<T> &rows,
                                  const KeySpan &keys) {
    KeyRange seen{0, rows.count};
    const auto shows = [&](int64_t r) {
        return shows_some_block(p, entry, rows.head, rows.first + r, keys.begin, keys.begin + keys.count);
    };
    while (seen.begin < seen.end && (rows.end[seen.begin] <= keys.begin || !shows(seen.begin))) ++seen.begin;
    while (seen.end > seen.begin && (rows.begin[seen.end - 1] >= keys.begin + keys.count || !shows(seen.end - 1))) --seen.end;
    return seen;
}

// And as lanes.
template <class T>
struct KeyPanel : KeySpan {
    T *keys, *values;  // [head_dim][panel], [head_dim_v][panel]

    KeyPanel(Cutter &cutter, const attile_attention_problem &p) {
        keys = cutter.cut<T>(p.head_dim, kPanel<T>);
        values = cutter.cut<T>(p.head_dim_v, kPanel<T>);
    }

    void load(const attile_attention_problem &p, const AttentionEntry &entry, int64_t kv_head, int64_t from, int64_t to, int64_t *offset) {
        begin = from;
        count = to - from;
        const auto gather = [&](const attile_operand &x, int64_t width, T *columns) {
            for (int64_t w = 0; w < kPanel<T>; ++w) offset[w] = offset_of(x, entry.b, kv_head, entry.k_start + from + least(w, count - 1));
            with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
                using S = decltype(s);
                gather_rows<T, S>(static_cast<const S *>(x.data), offset, x.stride[3], count, width, columns, kPanel<T>);
            });
        };
        gather(p.k, p.head_dim, keys);
        gather(p.v, p.head_dim_v, values);
    }
};

// The keys begin .. end as panels.
template <class T>
class KeyPanels {
  public:
    KeyPanels(Cutter &cutter, const attile_attention_problem &p, int64_t most_panels) : p_(p) {
        Cutter measure(nullptr);
        static_cast<void>(KeyPanel<T>(measure, p));
        bytes_ = measure.used();
        memory_ = cutter.cut<char>(most_panels, bytes_);
    }
    void place(int64_t begin, int64_t end) {
        begin_ = begin;
        end_ = end;
    }
    int64_t count() const { return ceil_div(end_ - begin_, kPanel<T>); }
    KeyPanel<T> at(int64_t n) const {
        Cutter cutter(memory_ + n * bytes_);
        KeyPanel<T> panel(cutter, p_);
        panel.begin = begin_ + n * kPanel<T>;
        panel.count = least(kPanel<T>, end_ - panel.begin);
        return panel;
    }
    void load(const AttentionEntry &entry, int64_t kv_head, int64_t *offset) {
        for (int64_t n = 0; n < count(); ++n) {
            KeyPanel<T> panel = at(n);
            panel.load(p_, entry, kv_head, panel.begin, panel.begin + panel.count, offset);
        }
    }

  private:
    const attile_attention_problem &p_;
    int64_t bytes_ = 0, begin_ = 0, end_ = 0;
    char *memory_ = nullptr;
};

// dk and dv of a panel of keys, whose sums lie [head_dim][panel] and [head_dim_v][panel]; dk's are scaled in place.
template <class T>
void write_key_panel(const BackwardProblem &problem, const AttentionEntry &entry, int64_t kv_head, const KeySpan &panel, T *dk, const T *dv,
                     int64_t *offset) {
    const attile_attention_problem &p = *problem.forward;
    const auto write = [&](const attile_operand &x, int64_t width, const T *sums) {
        for (int64_t w = 0; w < kPanel<T>; ++w) {
            offset[w] = offset_of(x, entry.b, kv_head, entry.k_start + panel.begin + least(w, panel.count - 1));
        }
        with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
            using S = decltype(s);
            scatter_rows<T, S>(sums, kPanel<T>, width, static_cast<S *>(x.data), offset, x.stride[3], panel.count);
        });
    };
    HWY_ALIGN T scale[kPanel<T>];
    std::fill_n(scale, kPanel<T>, static_cast<T>(p.scale));
    scale_lanes<T>(p.head_dim, scale, dk);
    write(problem.dk, p.head_dim, dk);
    write(problem.dv, p.head_dim_v, dv);
}

// Tiles of rows x panel. `marks` keeps the scores, -inf where a pair is hidden.
template <class T>
struct PairTiles {
    T *weights, *gradients, *slopes, *marks, *lanes;

    explicit PairTiles(Cutter &cutter) {
        weights = cutter.cut<T>(kBlockKeys, kPanel<T>);
        gradients = cutter.cut<T>(kBlockKeys, kPanel<T>);
        slopes = cutter.cut<T>(kBlockKeys, kPanel<T>);
        marks = cutter.cut<T>(kBlockKeys, kPanel<T>);
        lanes = cutter.cut<T>(kPanel<T>);
    }
};

// Rows of a bias that are on their way while one is added.
inline constexpr int64_t kRowsToCome = 8;

// Bias, ALiBi and hiding for one row of scores; lanes are keys. Returns whether some pair may be hidden.
template <class T>
bool finish_key_lanes(const attile_attention_problem &p, const AttentionEntry &entry, const RowNumbers<T> &rows, int64_t r,
                      const KeySpan &panel, T *scores, T *extra) {
    const Tag<T> d;
    const int64_t i = rows.first + r;
    const Vec<T> hidden = hn::Set(d, kMinusInfinity<T>);
    bool hides = rows.begin[r] > panel.begin || rows.end[r] < panel.begin + panel.count || panel.count < kPanel<T>;
    if (p.bias.data != nullptr) {
        hides = true;
        with_storage<T>(p.bias.dtype, [&](auto s) HWY_ATTR {
            const auto *bias = operand_at<decltype(s)>(p.bias, entry.b, rows.head, i, panel.begin);
            if (p.bias.stride[3] == 1) {
                // A row a page: no processor predicts where the next one lies.
                if (r + kRowsToCome < rows.count) {
                    const auto *soon = bias + kRowsToCome * p.bias.stride[2];
                    for (int64_t w = 0; w < panel.count; w += kLanes<T>) __builtin_prefetch(soon + w);
                }
                for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) hn::Store(load_as(d, bias + w, panel.count - w), d, extra + w);
                return;
            }
            for (int64_t w = panel.count; w < kPanel<T>; ++w) extra[w] = 0;
            copy_row<T, decltype(s)>(bias, p.bias.stride[3], panel.count, extra);
        });
    }
    T slope = 0;
    if (p.alibi_slopes.data != nullptr) {
        slope = load_element<T>(p.alibi_slopes.data, p.alibi_slopes.dtype, offset_of(p.alibi_slopes, entry.b, rows.head));
    }
    const T distance = static_cast<T>(panel.begin - i - entry.alibi_shift);
    const T from = static_cast<T>(most(0, least(rows.begin[r] - panel.begin, panel.count)));
    const T to = static_cast<T>(most(0, least(rows.end[r] - panel.begin, panel.count)));
    for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
        const Vec<T> key = hn::Iota(d, static_cast<T>(w));
        Vec<T> s = hn::Load(d, scores + w);
        if (p.bias.data != nullptr) {
            const Vec<T> bias = hn::Load(d, extra + w);
            s = hn::IfThenElse(hn::Eq(bias, hidden), hidden, hn::Add(s, bias));
        }
        if (p.alibi_slopes.data != nullptr) {
            s = hn::NegMulAdd(hn::Set(d, slope), hn::Abs(hn::Add(key, hn::Set(d, distance))), s);
        }
        if (hides) s = hn::IfThenElse(hn::And(hn::Ge(key, hn::Set(d, from)), hn::Lt(key, hn::Set(d, to))), s, hidden);
        hn::Store(s, d, scores + w);
    }
    if (p.allowed.data != nullptr) {
        hides = true;
        const Byte *allowed = operand_at<Byte>(p.allowed, entry.b, rows.head, i, panel.begin);
        int64_t first = 0;
        if constexpr (sizeof(T) == 4) {
            const Tag<uint32_t> wide;
            const hn::Rebind<uint8_t, Tag<T>> bytes;
            for (; p.allowed.stride[3] == 1 && first + kLanes<T> <= panel.count; first += kLanes<T>) {
                const auto shows = hn::PromoteTo(wide, hn::LoadU(bytes, reinterpret_cast<const uint8_t *>(allowed) + first));
                const Vec<T> score = hn::Load(d, scores + first);
                hn::Store(hn::IfThenElse(hn::RebindMask(d, hn::Eq(shows, hn::Zero(wide))), hidden, score), d, scores + first);
            }
        }
        for (int64_t w = first; w < panel.count; ++w) {
            if (allowed[w * p.allowed.stride[3]] == 0) scores[w] = kMinusInfinity<T>;
        }
    }
    hide_sparse(p, entry, rows.head, i, panel.begin, panel.count,
                [&](int64_t begin, int64_t end) { std::fill(scores + begin, scores + end, kMinusInfinity<T>); });
    return hides || has_sparse_mask(p);
}

// Distances of ALiBi make probabilities of any size. A product with one near the smallest normal number is subnormal, which takes x86
// processors a hundred times as long (docs/kernels/cpu.md). Of a problem with ALiBi the thread's subnormal results are 0 until end(): what
// is written out may be subnormal.
class SubnormalResults {
  public:
#if HWY_ARCH_X86
    explicit SubnormalResults(const attile_attention_problem &p) : before_(__builtin_ia32_stmxcsr()) {
        constexpr unsigned kFlush = 0x8000;
        if (p.alibi_slopes.data != nullptr) __builtin_ia32_ldmxcsr(before_ | kFlush);
    }
    void end() const { __builtin_ia32_ldmxcsr(before_); }

  private:
    const unsigned before_;
#else
    explicit SubnormalResults(const attile_attention_problem &) {}
    void end() const {}
#endif
};

// Probability and score gradient of a vector of pairs: p = exp(s - lse), p (dp - delta); hidden pairs give 0 whatever else is there.
template <class T>
struct PairGradient {
    Vec<T> weight, gradient;
};
template <class T>
HWY_INLINE PairGradient<T> pair_gradient(Vec<T> score, Vec<T> lse, Vec<T> change, Vec<T> delta) {
    const Tag<T> d;
    const auto hidden = hn::Eq(score, hn::Set(d, kMinusInfinity<T>));
    // Above the range of exp the result is infinite.
    const Vec<T> power = at_most(d, hn::Set(d, ExpParts<T>::kHighest), hn::Sub(score, lse));
    const Vec<T> weight = hn::IfThenElse(hidden, hn::Zero(d), exp_clamped(d, power));
    return {weight, hn::IfThenElse(hidden, hn::Zero(d), hn::Mul(weight, hn::Sub(change, delta)))};
}

// The gradient of the score before softcap. A hidden pair's slope may be anything.
template <class T>
HWY_INLINE Vec<T> through_cap(Vec<T> score, Vec<T> gradient, Vec<T> slope) {
    const Tag<T> d;
    return hn::IfThenElse(hn::Eq(score, hn::Set(d, kMinusInfinity<T>)), hn::Zero(d), hn::Mul(gradient, slope));
}

// weights and gradients (before softcap's slope: of the capped score) for rows from .. from + count of the block and a panel of keys.
template <class T>
bool pair_tiles(const attile_attention_problem &p, const AttentionEntry &entry, const RowBlock<T> &rows, int64_t from, int64_t count,
                const KeyPanel<T> &panel, const PairTiles<T> &tiles) {
    const Tag<T> d;
    compute_scores<T, 2>(p.head_dim, rows.queries + from * p.head_dim, p.head_dim, count, panel.keys, static_cast<T>(p.scale),
                         tiles.weights);
    if (p.softcap != 0) {
        const Softcap<T> cap(p.softcap);
        for (int64_t n = 0; n < count * kPanel<T>; n += kLanes<T>) {
            Vec<T> t;
            hn::Store(cap(hn::Load(d, tiles.weights + n), &t), d, tiles.weights + n);
            hn::Store(hn::NegMulAdd(t, t, hn::Set(d, T{1})), d, tiles.slopes + n);
        }
    }
    compute_scores<T, 2>(p.head_dim_v, rows.douts + from * p.head_dim_v, p.head_dim_v, count, panel.values, T{1}, tiles.gradients);
    bool hides = false;
    for (int64_t r = 0; r < count; ++r) {
        T *scores = tiles.weights + r * kPanel<T>;
        hides = finish_key_lanes<T>(p, entry, rows, from + r, panel, scores, tiles.lanes) || hides;
        const Vec<T> lse = hn::Set(d, rows.lse[from + r]), delta = hn::Set(d, rows.delta[from + r]);
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
            T *change = tiles.gradients + r * kPanel<T> + w;
            const Vec<T> score = hn::Load(d, scores + w);
            hn::Store(score, d, tiles.marks + r * kPanel<T> + w);
            const PairGradient<T> pair = pair_gradient<T>(score, lse, hn::Load(d, change), delta);
            hn::Store(pair.weight, d, scores + w);
            hn::Store(pair.gradient, d, change);
        }
    }
    return hides;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
