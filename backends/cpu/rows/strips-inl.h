// SPDX-License-Identifier: Apache-2.0
// Vectors of elements that lie some stride apart, and the runs in which rows are taken.
#if defined(ATTILE_CPU_ROWS_STRIPS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ROWS_STRIPS_INL_H
#undef ATTILE_CPU_ROWS_STRIPS_INL_H
#else
#define ATTILE_CPU_ROWS_STRIPS_INL_H
#endif

#include <type_traits>

#include "rows/rows.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Up to a vector of elements `stride` apart; the others are `fill`.
template <class T, class S>
HWY_INLINE Vec<T> load_strided(const S *p, int64_t stride, int64_t count, T fill = 0) {
    const Tag<T> d;
    if constexpr (2 * sizeof(S) >= sizeof(T)) {
        if (stride == 1 && count >= kLanes<T>) return load_as(d, p);
        if (stride == 1 && count > 0) {
            return hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(count)), load_as(d, p, count), hn::Set(d, fill));
        }
    }
    HWY_ALIGN T lanes[static_cast<size_t>(kLanes<T>)];
    for (int i = 0; i < kLanes<T>; ++i) lanes[i] = i < count ? to_compute<T>(p[i * stride]) : fill;
    return hn::Load(d, lanes);
}

template <class T, class S>
HWY_INLINE void store_strided(Vec<T> v, S *p, int64_t stride, int64_t count) {
    const Tag<T> d;
    if constexpr (2 * sizeof(S) >= sizeof(T)) {
        if (stride == 1) return store_as(d, v, p, count);
    }
    HWY_ALIGN T lanes[static_cast<size_t>(kLanes<T>)];
    hn::Store(v, d, lanes);
    for (int i = 0; i < kLanes<T> && i < count; ++i) p[i * stride] = to_storage<S>(lanes[i]);
}

// Vectors that are taken side by side, each with sums of its own.
constexpr int kWays = 4;
// Elements or vectors that are summed by themselves before they join a sum: short chains, small errors.
constexpr int64_t kRun = 128;

// Calls fn(how many, i) for the elements `first` to end - 1: with kWays vectors from i on, or with one, the last of which may be a part.
template <class T, class Fn>
HWY_INLINE void for_vectors(int64_t first, int64_t end, Fn &&fn) {
    int64_t i = first;
    for (; i + kWays * kLanes<T> <= end; i += kWays * kLanes<T>) fn(std::integral_constant<int, kWays>{}, i);
    for (; i < end; i += kLanes<T>) fn(std::integral_constant<int, 1>{}, i);
}

// Vector w of those that for_vectors() gave at i. Rows that lie together take no look at strides, nor at their ends but in single vectors.
template <bool kDense, int kVectors, class T, class S>
HWY_INLINE Vec<T> load_vector(const S *p, int64_t stride, int64_t i, int w, int64_t count, T fill) {
    i += w * kLanes<T>;
    if constexpr (kDense && kVectors > 1) return load_as(Tag<T>(), p + i);
    return load_strided<T, S>(p + (kDense ? i : i * stride), kDense ? 1 : stride, count - i, fill);
}
template <bool kDense, int kVectors, class T, class S>
HWY_INLINE void store_vector(Vec<T> v, S *p, int64_t stride, int64_t i, int w, int64_t count) {
    i += w * kLanes<T>;
    if constexpr (kDense && kVectors > 1) return store_as(Tag<T>(), v, p + i);
    store_strided<T, S>(v, p + (kDense ? i : i * stride), kDense ? 1 : stride, count - i);
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
