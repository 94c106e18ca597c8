// SPDX-License-Identifier: Apache-2.0
// Softmax of rows, and of columns that lie side by side.
#if defined(ATTILE_CPU_ROWS_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ROWS_SOFTMAX_INL_H
#undef ATTILE_CPU_ROWS_SOFTMAX_INL_H
#else
#define ATTILE_CPU_ROWS_SOFTMAX_INL_H
#endif

#include <limits>

#include "math-inl.h"
#include "rows/strips-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// What exp takes off and multiplies by. A row of -inf alone gives zeros.
template <class T>
HWY_INLINE Vec<T> safe_base(Vec<T> top) {
    const Tag<T> d;
    return hn::IfThenElse(hn::Eq(top, hn::Set(d, -std::numeric_limits<T>::infinity())), hn::Zero(d), top);
}

// Rows of softmax that are taken together, so that one's sums over lanes wait beside the others' work, and the elements of them that wait
// where y does not hold them exactly.
constexpr int kRowsTogether = 4;
constexpr int64_t kHeld = 2048;

// Up to kRowsTogether rows of softmax; with kDense both strides are 1. Unlike attention's weights these are results, so that subnormal
// ones count.
template <bool kDense, class T, class Sx, class Sy>
void softmax_some_rows(const Sx *x, int64_t x_stride, int64_t x_step, Sy *y, int64_t y_stride, int64_t y_step, int64_t count, int rows) {
    const Tag<T> d;
    constexpr T kNone = -std::numeric_limits<T>::infinity();
    // Weights are kept in y where it holds them exactly, else here, or computed again.
    constexpr bool kKeep = std::is_same_v<Sy, T>;
    HWY_ALIGN T held[static_cast<size_t>(kKeep ? kLanes<T> : kHeld)];
    const int64_t held_step = (count + kLanes<T> - 1) / kLanes<T> * kLanes<T>;
    const bool holds = !kKeep && held_step * rows <= kHeld;
    T base[kRowsTogether], factor[kRowsTogether];

    for (int r = 0; r < rows; ++r) {
        Vec<T> top[kWays];
        for (int w = 0; w < kWays; ++w) top[w] = hn::Set(d, kNone);
        for_vectors<T>(0, count, [&](auto vectors, int64_t i) HWY_ATTR {
            constexpr int kVectors = decltype(vectors)::value;
            ATTILE_CPU_UNROLL
            for (int w = 0; w < kVectors; ++w) {
                top[w] = hn::Max(top[w], load_vector<kDense, kVectors, T, Sx>(x + r * x_step, x_stride, i, w, count, kNone));
            }
        });
        top[0] = hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3]));
        base[r] = hn::GetLane(safe_base<T>(hn::MaxOfLanes(d, top[0])));
    }
    const auto weigh = [&](auto vectors, int r, int64_t i, auto &weight) HWY_ATTR {
        constexpr int kVectors = decltype(vectors)::value;
        const Vec<T> most = hn::Set(d, base[r]);
        ATTILE_CPU_UNROLL
        for (int w = 0; w < kVectors; ++w) {
            weight[w] = hn::Sub(load_vector<kDense, kVectors, T, Sx>(x + r * x_step, x_stride, i, w, count, kNone), most);
        }
        exp_fallen_each<kVectors>(d, weight);
    };
    for (int r = 0; r < rows; ++r) {
        LongSum<Tag<T>> sum{hn::Zero(d), hn::Zero(d)};
        for (int64_t first = 0; first < count; first += kRun * kLanes<T>) {
            Vec<T> run[kWays];
            for (int w = 0; w < kWays; ++w) run[w] = hn::Zero(d);
            for_vectors<T>(first, least(count, first + kRun * kLanes<T>), [&](auto vectors, int64_t i) HWY_ATTR {
                constexpr int kVectors = decltype(vectors)::value;
                Vec<T> weight[kVectors];
                weigh(vectors, r, i, weight);
                ATTILE_CPU_UNROLL
                for (int w = 0; w < kVectors; ++w) {
                    if constexpr (kKeep) {
                        store_vector<kDense, kVectors, T, Sy>(weight[w], y + r * y_step, y_stride, i, w, count);
                    } else {
                        if (holds) hn::Store(weight[w], d, held + r * held_step + i + w * kLanes<T>);
                    }
                    run[w] = hn::Add(run[w], weight[w]);
                }
            });
            run[0] = hn::Add(hn::Add(run[0], run[1]), hn::Add(run[2], run[3]));
            if (first == 0) {
                sum.total = run[0];
            } else {
                sum.add(run[0]);
            }
        }
        const T total = hn::GetLane(hn::SumOfLanes(d, sum.value()));
        factor[r] = total == 0 ? T{0} : 1 / total;
    }
    for (int r = 0; r < rows; ++r) {
        const Vec<T> scale = hn::Set(d, factor[r]);
        for_vectors<T>(0, count, [&](auto vectors, int64_t i) HWY_ATTR {
            constexpr int kVectors = decltype(vectors)::value;
            Vec<T> weight[kVectors];
            if constexpr (kKeep) {
                ATTILE_CPU_UNROLL
                for (int w = 0; w < kVectors; ++w) {
                    weight[w] = load_vector<kDense, kVectors, T, Sy>(y + r * y_step, y_stride, i, w, count, T{0});
                }
            } else if (holds) {
                ATTILE_CPU_UNROLL
                for (int w = 0; w < kVectors; ++w) weight[w] = hn::Load(d, held + r * held_step + i + w * kLanes<T>);
            } else {
                weigh(vectors, r, i, weight);
            }
            ATTILE_CPU_UNROLL
            for (int w = 0; w < kVectors; ++w) {
                store_vector<kDense, kVectors, T, Sy>(hn::Mul(weight[w], scale), y + r * y_step, y_stride, i, w, count);
            }
        });
    }
}

// Softmax of `width` columns side by side, each over `count` elements: kVectors vectors of them, or a part of one. With kDense the columns
// lie together in x and y.
template <bool kDense, class T, class Sx, class Sy, int kVectors>
void softmax_side_by_side(const Sx *from, int64_t x_stride, int64_t x_step, Sy *to, int64_t y_stride, int64_t y_step, int64_t width,
                          int64_t count) {
    const Tag<T> d;
    constexpr bool kKeep = std::is_same_v<Sy, T>;
    Vec<T> base[kVectors], factor[kVectors], weight[kVectors];
    const auto load = [&](int64_t r, int v)
                          HWY_ATTR { return load_vector<kDense, kVectors, T, Sx>(from + r * x_step, x_stride, 0, v, width, T{0}); };
    const auto weigh = [&](int64_t r) HWY_ATTR {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) weight[v] = hn::Sub(load(r, v), base[v]);
        exp_fallen_each<kVectors>(d, weight);
    };
    for (int v = 0; v < kVectors; ++v) base[v] = hn::Set(d, -std::numeric_limits<T>::infinity());
    for (int64_t r = 0; r < count; ++r) {
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) base[v] = hn::Max(base[v], load(r, v));
    }
    Vec<T> total[kVectors], rounded_off[kVectors];
    for (int v = 0; v < kVectors; ++v) {
        base[v] = safe_base<T>(base[v]);
        total[v] = rounded_off[v] = hn::Zero(d);
    }
    for (int64_t r = 0; r < count;) {
        Vec<T> run[kVectors];
        for (int v = 0; v < kVectors; ++v) run[v] = hn::Zero(d);
        for (const int64_t end = least(count, r + kRun); r < end; ++r) {
            weigh(r);
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) {
                if constexpr (kKeep) store_vector<kDense, kVectors, T, Sy>(weight[v], to + r * y_step, y_stride, 0, v, width);
                run[v] = hn::Add(run[v], weight[v]);
            }
        }
        for (int v = 0; v < kVectors; ++v) {
            LongSum<Tag<T>> whole{total[v], rounded_off[v]};
            whole.add(run[v]);
            total[v] = whole.total;
            rounded_off[v] = whole.rounded_off;
        }
    }
    for (int v = 0; v < kVectors; ++v) {
        const Vec<T> sum = LongSum<Tag<T>>{total[v], rounded_off[v]}.value();
        factor[v] = hn::IfThenElse(hn::Eq(sum, hn::Zero(d)), hn::Zero(d), hn::Div(hn::Set(d, T{1}), sum));
    }
    for (int64_t r = 0; r < count; ++r) {
        if constexpr (kKeep) {
            ATTILE_CPU_UNROLL
            for (int v = 0; v < kVectors; ++v) {
                weight[v] = load_vector<kDense, kVectors, T, Sy>(to + r * y_step, y_stride, 0, v, width, T{0});
            }
        } else {
            weigh(r);
        }
        ATTILE_CPU_UNROLL
        for (int v = 0; v < kVectors; ++v) {
            store_vector<kDense, kVectors, T, Sy>(hn::Mul(weight[v], factor[v]), to + r * y_step, y_stride, 0, v, width);
        }
    }
}

// Calls fn(Sx{}, Sy{}); y has x's type or, where that is half as wide as T, T.
template <class T, class Fn>
HWY_INLINE void with_storages(int32_t x, int32_t y, Fn &&fn) {
    with_storage<T>(x, [&](auto s) HWY_ATTR {
        if (x == y) {
            fn(s, s);
        } else {
            fn(s, T{});
        }
    });
}

template <class T>
void softmax_rows(const Strip &x, int64_t x_step, const Strip &y, int64_t y_step, int64_t rows, int64_t elements) {
    with_storages<T>(x.dtype, y.dtype, [&](auto sx, auto sy) HWY_ATTR {
        using Sx = decltype(sx);
        using Sy = decltype(sy);
        const auto some = x.stride == 1 && y.stride == 1 ? &softmax_some_rows<true, T, Sx, Sy> : &softmax_some_rows<false, T, Sx, Sy>;
        const int64_t together = least(kRowsTogether, most(1, elements / most(1, x.count)));
        for (int64_t r = 0; r < rows; r += together) {
            some(static_cast<const Sx *>(x.data) + r * x_step, x.stride, x_step, static_cast<Sy *>(y.data) + r * y_step, y.stride, y_step,
                 x.count, static_cast<int>(least(together, rows - r)));
        }
    });
}

template <class T>
void softmax_columns(const Strip &x, int64_t x_step, const Strip &y, int64_t y_step, int64_t count) {
    with_storages<T>(x.dtype, y.dtype, [&](auto sx, auto sy) HWY_ATTR {
        using Sx = decltype(sx);
        using Sy = decltype(sy);
        for_vectors<T>(0, x.count, [&](auto vectors, int64_t c) HWY_ATTR {
            const auto block = x.stride == 1 && y.stride == 1 ? &softmax_side_by_side<true, T, Sx, Sy, vectors>
                                                              : &softmax_side_by_side<false, T, Sx, Sy, vectors>;
            block(static_cast<const Sx *>(x.data) + c * x.stride, x.stride, x_step, static_cast<Sy *>(y.data) + c * y.stride, y.stride,
                  y_step, x.count - c, count);
        });
    });
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
