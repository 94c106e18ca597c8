// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 bits in products with sums in float32: packing them with their scales, and products of few rows that read them in place.
#if defined(ATTILE_CPU_NARROW_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_NARROW_INL_H
#undef ATTILE_CPU_NARROW_INL_H
#else
#define ATTILE_CPU_NARROW_INL_H
#endif

#include "gemm/few_rows-inl.h"
#include "gemm/gemm.h"
#include "gemm/pack-inl.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Steps of a panel that are packed and then scaled, while they are in the first cache.
inline constexpr int64_t kScaledSteps = 32;
// Scales that are looked up at a time.
inline constexpr int64_t kScaleRun = 64;

// factors[w] = the scale of row width0 + w and column `depth` of what they belong to.
HWY_INLINE void look_up(const ScaleView &scale, int64_t width0, int64_t depth, int64_t count, float *factors) {
    const float *line = scale.data + depth / scale.column_group * scale.column;
    if (scale.row_group == 1) {
        for (int64_t w = 0; w < count; ++w) factors[w] = line[(width0 + w) * scale.row];
    } else {
        for (int64_t w = 0; w < count; ++w) factors[w] = line[(width0 + w) / scale.row_group * scale.row];
    }
}

// panel[k * panel_width + w] *= factor[w]
HWY_INLINE void scale_steps(const NarrowBlock &block, int64_t w0, int64_t k, int64_t width, int64_t depth, float *panel,
                            int64_t panel_width) {
    const Tag<float> d;
    HWY_ALIGN float factors[kScaleRun];
    for (int64_t w = 0; w < width; w += kScaleRun) {
        const int64_t count = least(kScaleRun, width - w);
        look_up(block.scale, block.width0 + w0 + w, block.depth0 + k, count, factors);
        for (int64_t step = 0; step < depth; ++step) {
            float *const row = panel + step * panel_width + w;
            for (int64_t v = 0; v < count; v += kLanes<float>) {
                const int64_t left = count - v;
                store_first(d, hn::Mul(load_first(d, row + v, left), hn::Load(d, factors + v)), row + v, left);
            }
        }
    }
}

// Steps from k on, as many as share their scales and no more than kScaledSteps.
HWY_INLINE int64_t steps_of_a_scale(const NarrowBlock &block, int64_t k, int64_t depth) {
    const int64_t group = block.scale.column_group, most_steps = least(kScaledSteps, depth - k);
    return block.scale.data == nullptr ? most_steps : least(most_steps, group - (block.depth0 + k) % group);
}

void pack_narrow(const NarrowBlock &block, int64_t width, int64_t depth, float *panels, int64_t panel_width) {
    with_narrow_storage(block.dtype, [&](auto s) {
        using S = decltype(s);
        const S *const first = static_cast<const S *>(block.data);
        for (int64_t w = 0; w < width; w += panel_width, panels += panel_width * depth) {
            const int64_t count = least(panel_width, width - w);
            for (int64_t k = 0; k < depth;) {
                const int64_t steps = steps_of_a_scale(block, k, depth);
                float *const out = panels + k * panel_width;
                pack_panel<float, S>(first + w * block.width_stride + k * block.depth_stride, block.width_stride, block.depth_stride, count,
                                     steps, out, panel_width);
                if (block.scale.data != nullptr) scale_steps(block, w, k, count, steps, out, panel_width);
                k += steps;
            }
        }
    });
}

void few_rows_pack_narrow(const GemmView &view, float *a_rows) {
    NarrowBlock block{view.a.data, view.a.dtype, view.a.row, view.a.column, view.a_scale, 0, 0};
    if (reads_along<float>(view)) return pack_narrow(block, view.m, view.k, a_rows, view.m);
    // Each row is a panel of one step whose width is the depth.
    const ScaleView &scale = view.a_scale;
    block = {nullptr, view.a.dtype, view.a.column, 0, {scale.data, scale.column, scale.row, scale.column_group, scale.row_group}, 0, 0};
    for (int64_t i = 0; i < view.m; ++i) {
        block.data = static_cast<const char *>(view.a.data) + i * view.a.row;
        block.depth0 = i;
        pack_narrow(block, view.k, 1, a_rows + i * view.k, view.k);
    }
}

// sums = factor sums, or more is added to them factor times: of one row, `count` columns from column j on.
HWY_INLINE void add_scaled(const GemmView &view, int64_t j, int64_t k, int64_t count, bool first, float *sums, const float *more) {
    const Tag<float> d;
    HWY_ALIGN float factors[kScaleRun];
    const ScaleView &scale = view.b_scale;
    const ScaleView across = {scale.data, scale.column, scale.row, scale.column_group, scale.row_group};
    for (int64_t c = 0; c < count; c += kScaleRun) {
        const int64_t run = least(kScaleRun, count - c);
        if (scale.data != nullptr) look_up(across, j + c, k, run, factors);
        for (int64_t v = 0; v < run; v += kLanes<float>) {
            const int64_t left = run - v;
            const auto factor = scale.data != nullptr ? hn::Load(d, factors + v) : hn::Set(d, 1.0f);
            const auto x = load_first(d, more + c + v, left);
            store_first(d, first ? hn::Mul(factor, x) : hn::MulAdd(factor, x, load_first(d, sums + c + v, left)), sums + c + v, left);
        }
    }
}

// b's columns are contiguous. Each piece of k whose numbers share their scales is summed behind the whole sums, and added.
template <class S>
HWY_NOINLINE void narrow_along(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    const S *const b = static_cast<const S *>(view.b.data) + j0;
    const int64_t m = view.m, group = view.b_scale.data != nullptr ? view.b_scale.row_group : view.k;
    float *const more = sums + m * n;
    for (int64_t p = 0; p < view.k;) {
        const int64_t depth = least(least(kFewRowsPiece, view.k - p), group - p % group);
        few_rows_along_piece<float, S>(m, depth, a + p * m, b + p * view.b.row, view.b.row, n, more);
        for (int64_t i = 0; i < m; ++i) add_scaled(view, j0, p, n, p == 0, sums + i * n, more + i * n);
        p += depth;
    }
}

// Dot products of kRows rows of a and kColumns columns of b over all of k: the lanes' sums of each group are scaled as they join.
template <class S, int kRows, int kColumns>
HWY_INLINE void narrow_dots(const GemmView &view, const float *a, const S *b, int64_t j0, float *sums, int64_t sums_step) {
    const Tag<float> d;
    constexpr int64_t kPiece = 1024 * kLanes<float>;  // of one chain in each lane
    const ScaleView &scale = view.b_scale;
    const int64_t k = view.k, group = scale.data != nullptr ? scale.row_group : k;
    const float *factors[kColumns] = {};
    for (int j = 0; j < kColumns && scale.data != nullptr; ++j) factors[j] = scale.data + (j0 + j) / scale.column_group * scale.column;
    Vec<float> total[kRows][kColumns];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kRows; ++i) {
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) total[i][j] = hn::Zero(d);
    }
    int64_t end_of_group = group;
    for (int64_t p = 0; p < k;) {
        if (p == end_of_group) {
            end_of_group += group;
            for (const float *&factor : factors) factor += scale.row;
        }
        const int64_t end = least(end_of_group, p + kPiece);
        Vec<float> acc[kRows][kColumns];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            ATTILE_CPU_UNROLL
            for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::Zero(d);
        }
        for (; p + kLanes<float> <= end; p += kLanes<float>) {
            Vec<float> v[kColumns];
            ATTILE_CPU_UNROLL
            for (int j = 0; j < kColumns; ++j) v[j] = load_as(d, b + j * view.b.column + p);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) {
                const Vec<float> u = hn::LoadU(d, a + i * k + p);
                ATTILE_CPU_UNROLL
                for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, v[j], acc[i][j]);
            }
        }
        if (p < end) {
            for (int i = 0; i < kRows; ++i) {
                const Vec<float> u = load_first(d, a + i * k + p, end - p);
                for (int j = 0; j < kColumns; ++j) acc[i][j] = hn::MulAdd(u, load_as(d, b + j * view.b.column + p, end - p), acc[i][j]);
            }
            p = end;
        }
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) {
            const Vec<float> factor = hn::Set(d, factors[j] != nullptr ? *factors[j] : 1.0f);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) total[i][j] = hn::MulAdd(acc[i][j], factor, total[i][j]);
        }
    }
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) sums[i * sums_step + j] = hn::GetLane(hn::SumOfLanes(d, total[i][j]));
    }
}

template <class S, int kColumns>
HWY_INLINE void narrow_dot_rows(const GemmView &view, const float *a, const S *b, int64_t j0, float *sums, int64_t sums_step) {
    int64_t i = 0;
    for (; i + 4 <= view.m; i += 4) narrow_dots<S, 4, kColumns>(view, a + i * view.k, b, j0, sums + i * sums_step, sums_step);
    for (; i < view.m; ++i) narrow_dots<S, 1, kColumns>(view, a + i * view.k, b, j0, sums + i * sums_step, sums_step);
}

// b's k are contiguous.
template <class S>
HWY_NOINLINE void narrow_across(const GemmView &view, const float *a, int64_t j0, int64_t n, float *sums) {
    const S *const b = static_cast<const S *>(view.b.data) + j0 * view.b.column;
    int64_t j = 0;
    for (; j + 2 <= n; j += 2) narrow_dot_rows<S, 2>(view, a, b + j * view.b.column, j0 + j, sums + j, n);
    if (j < n) narrow_dot_rows<S, 1>(view, a, b + j * view.b.column, j0 + j, sums + j, n);
}

void few_rows_narrow(const GemmView &view, const float *a_rows, int64_t j0, int64_t count, float *sums) {
    with_narrow_storage(view.b.dtype, [&](auto s) {
        using S = decltype(s);
        if (reads_along<float>(view)) {
            narrow_along<S>(view, a_rows, j0, count, sums);
        } else {
            narrow_across<S>(view, a_rows, j0, count, sums);
        }
    });
}

template <class T>
const NarrowKernels<T> &kernels() {
    static constexpr NarrowKernels<T> kTable = {&pack_narrow, &few_rows_pack_narrow, &few_rows_narrow};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
