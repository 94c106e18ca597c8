// SPDX-License-Identifier: Apache-2.0
// Kernels of the row-wise operations, for sums of type T. Rows are taken along their axis or, where another axis lies together in
// memory, several rows side by side in the lanes of vectors.
#if defined(ATTILE_CPU_ROWS_KERNELS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ROWS_KERNELS_INL_H
#undef ATTILE_CPU_ROWS_KERNELS_INL_H
#else
#define ATTILE_CPU_ROWS_KERNELS_INL_H
#endif

#include <limits>

#include "math-inl.h"
#include "rows/rows.h"
#include "rows/softmax-inl.h"
#include "rows/strips-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
T neutral(int32_t op) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return op == ATTILE_REDUCE_MAX ? -kInfinity : op == ATTILE_REDUCE_MIN ? kInfinity : T{0};
}

// NaN in either gives NaN.
template <class T, int32_t kOp>
HWY_INLINE Vec<T> combine_lanes(Vec<T> a, Vec<T> b) {
    if constexpr (kOp == ATTILE_REDUCE_SUM) {
        return hn::Add(a, b);
    } else {
        const Vec<T> best = kOp == ATTILE_REDUCE_MAX ? hn::Max(a, b) : hn::Min(a, b);
        return hn::IfThenElse(hn::IsNaN(a), a, hn::IfThenElse(hn::IsNaN(b), b, best));
    }
}

// Calls fn with the operation as a constant; the mean is a sum until its end.
template <class Fn>
HWY_INLINE auto with_op(int32_t op, Fn &&fn) {
    if (op == ATTILE_REDUCE_MAX) return fn(std::integral_constant<int32_t, ATTILE_REDUCE_MAX>{});
    if (op == ATTILE_REDUCE_MIN) return fn(std::integral_constant<int32_t, ATTILE_REDUCE_MIN>{});
    return fn(std::integral_constant<int32_t, ATTILE_REDUCE_SUM>{});
}

// The whole of an operation: sums of runs, kept as long sums are, or the best.
template <class T, int32_t kOp>
class Whole {
  public:
    HWY_INLINE Whole() : sum_{hn::Set(Tag<T>(), neutral<T>(kOp)), hn::Zero(Tag<T>())} {}
    HWY_INLINE void join(Vec<T> run) {
        if constexpr (kOp == ATTILE_REDUCE_SUM) {
            sum_.add(run);
        } else {
            sum_.total = combine_lanes<T, kOp>(sum_.total, run);
        }
    }
    HWY_INLINE Vec<T> value() const {
        if constexpr (kOp == ATTILE_REDUCE_SUM) return sum_.value();
        return sum_.total;
    }

  private:
    LongSum<Tag<T>> sum_;
};

template <class T>
T reduce_strip(int32_t op, const Strip &x) {
    const Tag<T> d;
    HWY_ALIGN T lanes[static_cast<size_t>(kLanes<T>)];
    with_op(op, [&](auto which) HWY_ATTR {
        constexpr int32_t kOp = decltype(which)::value;
        with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
            using S = decltype(s);
            const S *p = static_cast<const S *>(x.data);
            Whole<T, kOp> whole;
            for (int64_t i = 0; i < x.count;) {
                Vec<T> acc[kWays];
                for (int w = 0; w < kWays; ++w) acc[w] = hn::Set(d, neutral<T>(op));
                const int64_t end = least(x.count, i + kRun * kLanes<T>);
                for (; i + kWays * kLanes<T> <= end; i += kWays * kLanes<T>) {
                    for (int w = 0; w < kWays; ++w) {
                        acc[w] = combine_lanes<T, kOp>(acc[w], load_strided<T, S>(p + (i + w * kLanes<T>)*x.stride, x.stride, kLanes<T>));
                    }
                }
                for (; i < end; i += kLanes<T>) {
                    acc[0] = combine_lanes<T, kOp>(acc[0], load_strided<T, S>(p + i * x.stride, x.stride, x.count - i, neutral<T>(op)));
                }
                whole.join(combine_lanes<T, kOp>(combine_lanes<T, kOp>(acc[0], acc[1]), combine_lanes<T, kOp>(acc[2], acc[3])));
            }
            hn::Store(whole.value(), d, lanes);
        });
    });
    // Halves onto halves, so that a sum's error stays that of a tree.
    for (int half = kLanes<T> / 2; half > 0; half /= 2) {
        for (int i = 0; i < half; ++i) {
            const T a = lanes[i], b = lanes[i + half];
            if (op == ATTILE_REDUCE_MAX) {
                lanes[i] = a != a || a > b ? a : b;
            } else if (op == ATTILE_REDUCE_MIN) {
                lanes[i] = a != a || a < b ? a : b;
            } else {
                lanes[i] = a + b;
            }
        }
    }
    return lanes[0];
}

template <class T>
void reduce_columns(int32_t op, const Strip &columns, int64_t step, int64_t count, T *results) {
    const Tag<T> d;
    with_op(op, [&](auto which) HWY_ATTR {
        constexpr int32_t kOp = decltype(which)::value;
        with_storage<T>(columns.dtype, [&](auto s) HWY_ATTR {
            using S = decltype(s);
            for (int64_t c = 0; c < columns.count; c += kLanes<T>) {
                const S *p = static_cast<const S *>(columns.data) + c * columns.stride;
                const int64_t width = columns.count - c;
                Whole<T, kOp> whole;
                for (int64_t r0 = 0; r0 < count; r0 += kRun) {
                    Vec<T> run = hn::Set(d, neutral<T>(op));
                    const int64_t end = r0 + kRun < count ? r0 + kRun : count;
                    for (int64_t r = r0; r < end; ++r) {
                        run = combine_lanes<T, kOp>(run, load_strided<T, S>(p + r * step, columns.stride, width));
                    }
                    whole.join(run);
                }
                store_first(d, whole.value(), results + c, width);
            }
        });
    });
}

template <class T>
void weighted_sum(const Strip *x, const T *weights, const bool *used, int64_t parts, const Strip &y) {
    const Tag<T> d;
    with_storage<T>(x[0].dtype, [&](auto sx) HWY_ATTR {
        using Sx = decltype(sx);
        for (int64_t c = 0; c < y.count; c += kLanes<T>) {
            Vec<T> sum = hn::Zero(d);
            for (int64_t part = 0; part < parts; ++part) {
                if (!used[part]) continue;
                const Vec<T> v =
                    load_strided<T, Sx>(static_cast<const Sx *>(x[part].data) + c * x[part].stride, x[part].stride, y.count - c);
                sum = hn::MulAdd(hn::Set(d, weights[part]), v, sum);
            }
            with_any_storage<T>(y.dtype, [&](auto sy) HWY_ATTR {
                using Sy = decltype(sy);
                store_strided<T, Sy>(sum, static_cast<Sy *>(y.data) + c * y.stride, y.stride, y.count - c);
            });
        }
    });
}

template <class T>
void widen(const Strip &x, T *y) {
    const Tag<T> d;
    with_any_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        for (int64_t i = 0; i < x.count; i += kLanes<T>)
            store_first(d, load_strided<T, S>(static_cast<const S *>(x.data) + i * x.stride, x.stride, x.count - i), y + i, x.count - i);
    });
}

template <class T>
T merge_gradient(const T *dout, const T *o, const Strip &x, T weight, bool used, const Strip &y) {
    const Tag<T> d;
    LongSum<Tag<T>> sum{hn::Zero(d), hn::Zero(d)};
    const Vec<T> factor = hn::Set(d, weight);
    with_storage<T>(x.dtype, [&](auto sx) HWY_ATTR {
        with_storage<T>(y.dtype, [&](auto sy) HWY_ATTR {
            using Sx = decltype(sx);
            using Sy = decltype(sy);
            const Sx *from = static_cast<const Sx *>(x.data);
            Sy *to = static_cast<Sy *>(y.data);
            for (int64_t i = 0; i < x.count;) {
                Vec<T> run = hn::Zero(d);
                for (const int64_t end = least(x.count, i + kRun * kLanes<T>); i < end; i += kLanes<T>) {
                    const int64_t width = x.count - i;
                    Vec<T> result = hn::Zero(d);
                    if (used) {
                        const Vec<T> out = load_strided<T, T>(dout + i, 1, width), whole = load_strided<T, T>(o + i, 1, width);
                        run = hn::MulAdd(out, hn::Sub(load_strided<T, Sx>(from + i * x.stride, x.stride, width), whole), run);
                        result = hn::Mul(factor, out);
                    }
                    store_strided<T, Sy>(result, to + i * y.stride, y.stride, width);
                }
                sum.add(run);
            }
        });
    });
    return hn::GetLane(hn::SumOfLanes(d, sum.value()));
}

template <class T>
const RowKernels<T> &kernels() {
    static constexpr RowKernels<T> kTable = {kLanes<T>,           &reduce_strip<T>, &reduce_columns<T>, &softmax_rows<T>,
                                             &softmax_columns<T>, &weighted_sum<T>, &widen<T>,          &merge_gradient<T>};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
