// SPDX-License-Identifier: Apache-2.0
// The end of a product for a rectangle of d: alpha, C, bias, activation, and any type and strides.
#if defined(ATTILE_CPU_GEMM_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_GEMM_FINISH_INL_H
#undef ATTILE_CPU_GEMM_FINISH_INL_H
#else
#define ATTILE_CPU_GEMM_FINISH_INL_H
#endif

#include "gemm/gemm.h"
#include "math-inl.h"
#include "narrow_row-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// `count` elements of a strided row to T, and back.
template <class T>
HWY_NOINLINE void load_row(const MatrixView &view, int64_t i, int64_t j, int64_t count, T *row) {
    with_storage<T>(view.dtype, [&](auto s) {
        using S = decltype(s);
        const S *p = static_cast<const S *>(view.data) + i * view.row + j * view.column;
        if (view.column == 1) {
            const Tag<T> d;
            for (int64_t c = 0; c < count; c += kLanes<T>) store_first(d, load_as(d, p + c, count - c), row + c, count - c);
        } else {
            for (int64_t c = 0; c < count; ++c) row[c] = to_compute<T>(p[c * view.column]);
        }
    });
}

template <class T>
HWY_NOINLINE void store_row(const MatrixView &view, int64_t i, int64_t j, int64_t count, const T *row) {
    with_storage<T>(view.dtype, [&](auto s) {
        using S = decltype(s);
        S *p = static_cast<S *>(view.data) + i * view.row + j * view.column;
        if (view.column == 1) {
            const Tag<T> d;
            for (int64_t c = 0; c < count; c += kLanes<T>) store_as(d, load_first(d, row + c, count - c), p + c, count - c);
        } else {
            for (int64_t c = 0; c < count; ++c) p[c * view.column] = to_storage<S>(row[c]);
        }
    });
}

// Of d, whose numbers of 8 bits are the result over its scale.
template <class T>
HWY_INLINE void store_end(const GemmView &view, int64_t i, int64_t j, int64_t count, const T *row) {
    if constexpr (std::is_same_v<T, float>) {
        if (is_narrow(view.d.dtype)) {
            const ScaleView &scale = view.d_scale;
            const float *const first = scale.data == nullptr ? nullptr : scale.data + i * scale.row;
            store_result({static_cast<int8_t *>(view.d.data) + i * view.d.row, view.d.dtype, view.d.column, first, scale.column, 1}, j,
                         count, row);
            return;
        }
    }
    store_row(view.d, i, j, count, row);
}

// row = factor row + other
template <class T>
HWY_INLINE void scale_and_add(T factor, T *row, const T *other, int64_t count) {
    const Tag<T> d;
    for (int64_t c = 0; c < count; c += kLanes<T>) {
        const auto sum = hn::MulAdd(hn::Set(d, factor), load_first(d, row + c, count - c), load_first(d, other + c, count - c));
        store_first(d, sum, row + c, count - c);
    }
}

template <class T>
HWY_INLINE void scale(T factor, T *row, int64_t count) {
    const Tag<T> d;
    for (int64_t c = 0; c < count; c += kLanes<T>) {
        store_first(d, hn::Mul(hn::Set(d, factor), load_first(d, row + c, count - c)), row + c, count - c);
    }
}

// The epilogue of a piece for a rectangle whose sums are in `sums` (overwritten): everything that the micro-kernel's own end does not do.
template <class T>
void finish_rectangle(const GemmView &view, T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows, int64_t columns, bool first,
                      bool last, T *partial, int64_t partial_step) {
    constexpr int64_t kRun = 64;
    const T alpha = static_cast<T>(view.alpha);
    const bool adds_c = view.beta != 0 && view.c.data != nullptr && (partial != nullptr ? last : first);
    const bool adds_bias = last && view.bias.data != nullptr;
    T sum[kRun], other[kRun];
    for (int64_t i = 0; i < rows; ++i) {
        for (int64_t j = 0; j < columns; j += kRun) {
            const int64_t count = columns - j < kRun ? columns - j : kRun;
            T *row = sums + i * sums_step + j;
            T *before = partial == nullptr ? nullptr : partial + i * partial_step + j;
            if (before != nullptr && !last) {
                if (first) {
                    for (int64_t c = 0; c < count; ++c) before[c] = 0;
                }
                scale_and_add(T{1}, row, before, count);
                for (int64_t c = 0; c < count; ++c) before[c] = row[c];
                continue;
            }
            // All that is added to alpha times the product is summed first, so that the result is rounded once.
            bool adds = false;
            const auto add = [&](T factor, bool first_term) HWY_ATTR {
                if (first_term) {
                    for (int64_t c = 0; c < count; ++c) sum[c] = factor * other[c];
                } else {
                    for (int64_t c = 0; c < count; ++c) sum[c] += factor * other[c];
                }
            };
            if (before != nullptr && !first) scale_and_add(T{1}, row, before, count);
            if (before == nullptr && !first) {
                load_row(view.d, i0 + i, j0 + j, count, other);
                add(T{1}, true);
                adds = true;
            }
            if (adds_c) {
                load_row(view.c, i0 + i, j0 + j, count, other);
                add(static_cast<T>(view.beta), !adds);
                adds = true;
            }
            if (adds_bias) {
                load_row(view.bias, i0 + i, j0 + j, count, other);
                add(T{1}, !adds);
                adds = true;
            }
            if (adds) {
                scale_and_add(alpha, row, sum, count);
            } else if (alpha != 1) {
                scale(alpha, row, count);
            }
            if (last && view.activation != ATTILE_ACTIVATION_NONE) activate(view.activation, row, count);
            store_end(view, i0 + i, j0 + j, count, row);
        }
    }
}

template <class T>
void finish(const GemmView &view, T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows, int64_t columns) {
    finish_rectangle<T>(view, sums, sums_step, i0, j0, rows, columns, true, true, nullptr, 0);
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
