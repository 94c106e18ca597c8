// SPDX-License-Identifier: Apache-2.0
// Query rows as the lanes of a panel: which they are, what the mask leaves them, and how their elements come and go.
#if defined(ATTILE_CPU_ATTENTION_LANES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ATTENTION_LANES_INL_H
#undef ATTILE_CPU_ATTENTION_LANES_INL_H
#else
#define ATTILE_CPU_ATTENTION_LANES_INL_H
#endif

#include <limits>

#include "attention/attention.h"
#include "attention/tile-inl.h"
#include "gemm/pack-inl.h"
#include "narrow_row-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// The lanes of a panel, as query rows. Lanes past `count` repeat the last row.
struct Lanes {
    int64_t count;
    int64_t *row;    // i, within the entry
    int64_t *head;   // h
    int64_t *begin;  // keys that the mask leaves
    int64_t *end;
    int64_t *bias;  // where rows of bias and allowed begin, if there are such
    int64_t *allowed;
    double *slope;  // of ALiBi
    int64_t begin_min, begin_max, end_min, end_max;
    bool whole(int64_t from, int64_t to) const { return from >= begin_max && to <= end_min; }
};

// Arrays of a panel's lanes.
inline constexpr int64_t kLaneArrays = 7;

template <class T>
Lanes make_lanes(const attile_attention_problem &p, const AttentionRows &rows, int64_t first, int64_t *memory) {
    const auto array = [&](int64_t n) { return memory + n * kPanel<T>; };
    double *const slopes = reinterpret_cast<double *>(array(6));
    Lanes lanes{least(kPanel<T>, rows.end - first), array(0), array(1), array(2), array(3), array(4), array(5), slopes, 0, 0, 0, 0};
    lanes.begin_min = lanes.end_min = std::numeric_limits<int64_t>::max();
    // Counted up rather than divided for each lane: divisions would cost as much as a tile.
    int64_t row = first / rows.heads, head = first % rows.heads;
    KeyRange keys = visible_keys(p, rows.entry, row);
    for (int64_t w = 0; w < kPanel<T>; ++w) {
        if (w > 0 && w < lanes.count && ++head == rows.heads) {
            head = 0;
            keys = visible_keys(p, rows.entry, ++row);
        }
        lanes.row[w] = row;
        lanes.head[w] = rows.head0 + head;
        lanes.begin[w] = keys.begin;
        lanes.end[w] = keys.end;
        if (p.bias.data != nullptr) lanes.bias[w] = offset_of(p.bias, rows.entry.b, lanes.head[w], row);
        if (p.allowed.data != nullptr) lanes.allowed[w] = offset_of(p.allowed, rows.entry.b, lanes.head[w], row);
        if (p.alibi_slopes.data != nullptr) {
            lanes.slope[w] = static_cast<double>(
                load_element<T>(p.alibi_slopes.data, p.alibi_slopes.dtype, offset_of(p.alibi_slopes, rows.entry.b, lanes.head[w])));
        }
        lanes.begin_min = least(lanes.begin_min, keys.begin);
        lanes.begin_max = most(lanes.begin_max, keys.begin);
        lanes.end_min = least(lanes.end_min, keys.end);
        lanes.end_max = most(lanes.end_max, keys.end);
    }
    return lanes;
}

// columns[c][lane] = x(b, head, row, c)
template <class T>
void load_lanes(const attile_operand &x, const AttentionEntry &entry, const Lanes &lanes, int64_t width, int64_t *offset, T *columns) {
    for (int64_t w = 0; w < kPanel<T>; ++w) offset[w] = offset_of(x, entry.b, lanes.head[w], entry.q_start + lanes.row[w]);
    with_cache_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        gather_rows<T, S>(static_cast<const S *>(x.data), offset, x.stride[3], lanes.count, width, columns, kPanel<T>);
    });
}

// Columns of rows of 8 bits times their scales, `group` columns side by side one each.
template <class T>
void scale_lanes(const attile_operand &scale, int64_t group, const AttentionEntry &entry, const Lanes &lanes, int64_t width,
                 int64_t *offset, T *columns) {
    for (int64_t w = 0; w < kPanel<T>; ++w) offset[w] = offset_of(scale, entry.b, lanes.head[w], entry.q_start + lanes.row[w]);
    const float *const data = static_cast<const float *>(scale.data);
    for (int64_t c = 0; c < width; ++c) {
        for (int64_t w = 0; w < lanes.count; ++w)
            columns[c * kPanel<T> + w] *= static_cast<T>(data[offset[w] + c / group * scale.stride[3]]);
    }
}

// The way back.
template <class T>
void store_lanes(const attile_operand &x, const AttentionEntry &entry, const Lanes &lanes, int64_t width, int64_t *offset,
                 const T *columns) {
    for (int64_t w = 0; w < kPanel<T>; ++w) offset[w] = offset_of(x, entry.b, lanes.head[w], entry.q_start + lanes.row[w]);
    with_storage<T>(x.dtype, [&](auto s) HWY_ATTR {
        using S = decltype(s);
        scatter_rows<T, S>(columns, kPanel<T>, width, static_cast<S *>(x.data), offset, x.stride[3], lanes.count);
    });
}

// A row of o of 8 bits.
inline ResultRow narrow_o(const attile_attention_problem &p, const AttentionEntry &entry, int64_t h, int64_t row) {
    const attile_operand &scale = p.o_scale;
    const float *const first = scale.data == nullptr ? nullptr : static_cast<const float *>(scale.data) + offset_of(scale, entry.b, h, row);
    return {static_cast<int8_t *>(p.o.data) + offset_of(p.o, entry.b, h, row), p.o.dtype, p.o.stride[3], first, scale.stride[3], p.o_group};
}

// The same way back for o of 8 bits.
inline void store_narrow_lanes(const attile_attention_problem &p, const AttentionEntry &entry, const Lanes &lanes, const float *columns) {
    constexpr int64_t kRun = 64;
    float x[kRun];
    for (int64_t w = 0; w < lanes.count; ++w) {
        const ResultRow row = narrow_o(p, entry, lanes.head[w], entry.q_start + lanes.row[w]);
        for (int64_t first = 0; first < p.head_dim_v; first += kRun) {
            const int64_t count = least(kRun, p.head_dim_v - first);
            for (int64_t c = 0; c < count; ++c) x[c] = columns[(first + c) * kPanel<float> + w];
            store_result(row, first, count, x);
        }
    }
}

// columns *= factor, a lane each.
template <class T>
HWY_INLINE void scale_lanes(int64_t width, const T *factor, T *columns) {
    const Tag<T> d;
    for (int64_t c = 0; c < width; ++c) {
        for (int64_t w = 0; w < kPanel<T>; w += kLanes<T>) {
            T *x = columns + c * kPanel<T> + w;
            hn::Store(hn::Mul(hn::Load(d, x), hn::Load(d, factor + w)), d, x);
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
