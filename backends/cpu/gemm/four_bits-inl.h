// SPDX-License-Identifier: Apache-2.0
// Numbers of 4 bits, two a byte: dot products of few rows that read each byte once.
#if defined(ATTILE_CPU_FOUR_BITS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_FOUR_BITS_INL_H
#undef ATTILE_CPU_FOUR_BITS_INL_H
#else
#define ATTILE_CPU_FOUR_BITS_INL_H
#endif

#include "gemm/gemm.h"
#include "simd-inl.h"
#include "size.h"
#include "unpack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// Dot products take b by blocks: eight numbers in each lane of 32 bits, one after the other at its lower end.
inline constexpr int64_t kInLane = 8, kBlock = kInLane * kLanes<float>;
static_assert(kFewRowsBlock % kBlock == 0);
inline constexpr int64_t kRowsAtOnce = 4;

// Rows of a as they read them: of each block the first numbers of all lanes, then the second ones, up to the eighth, and then the sums of
// the lanes, which zero points are multiplied by. Zeros follow the last step.
void arrange(const GemmView &view, const float *a_rows, float *arranged) {
    const Tag<float> d;
    for (int64_t i = 0; i < view.m; ++i) {
        for (int64_t p = 0; p < view.k; p += kBlock, arranged += kBlock + kLanes<float>) {
            HWY_ALIGN float block[kBlock] = {};
            const float *const row = a_rows + i * view.k + p;
            for (int64_t s = 0; s < least(kBlock, view.k - p); ++s) block[s % kInLane * kLanes<float> + s / kInLane] = row[s];
            Vec<float> sum = hn::Zero(d);
            for (int64_t s = 0; s < kBlock; s += kLanes<float>) {
                sum = hn::Add(sum, hn::Load(d, block + s));
                hn::StoreU(hn::Load(d, block + s), d, arranged + s);
            }
            hn::StoreU(sum, d, arranged + kBlock);
        }
    }
}
HWY_INLINE int64_t arranged_steps(int64_t k) { return ceil_div(k, kBlock) * (kBlock + kLanes<float>); }

// The number in the lowest four bits of each lane.
template <class S>
HWY_INLINE Vec<float> number_of_lane(hn::Vec<IntLanes> bits) {
#if HWY_TARGET == HWY_AVX3
    // One permutation of the sixteen numbers: it looks at four bits of an index alone.
    const IntLanes di;
    return Vec<float>{_mm512_permutexvar_ps(bits.raw, float_of_bits<S>(hn::Iota(di, 0)).raw)};
#else
    return float_of_bits<S>(bits);
#endif
}

// How scales, or zero points, of a column follow the blocks: `count` of them a block, or one for `blocks` blocks.
struct GroupSteps {
    int64_t count, blocks;
    hn::Vec<IntLanes> group_of_lane;

    HWY_INLINE GroupSteps(int64_t group, int64_t k) : count(1), blocks(ceil_div(k, kBlock)) {
        if (group < k || group % kBlock == 0) {
            count = most(1, kBlock / group);
            blocks = most(1, group / kBlock);
        }
        HWY_ALIGN int32_t groups[static_cast<size_t>(kLanes<float>)];
        for (int64_t lane = 0; lane < kLanes<float>; ++lane) groups[lane] = static_cast<int32_t>(lane * count / kLanes<float>);
        group_of_lane = hn::Load(IntLanes(), groups);
    }
};

// Those of one block, lane by lane; of the last block there may be `left` alone.
HWY_INLINE Vec<float> lane_scales(const float *first, int64_t stride, const GroupSteps &steps, int64_t left) {
    const Tag<float> d;
    if (steps.count == 1) return hn::Set(d, *first);
    const int64_t count = least(steps.count, left);
    if (stride == 1) return hn::TableLookupLanes(load_first(d, first, count), hn::IndicesFromVec(d, steps.group_of_lane));
    HWY_ALIGN float scales[static_cast<size_t>(kLanes<float>)] = {};
    for (int64_t i = 0; i < count; ++i) scales[i] = first[i * stride];
    return hn::TableLookupLanes(hn::Load(d, scales), hn::IndicesFromVec(d, steps.group_of_lane));
}

// acc = one block of a column times as much of kRows rows of a, which are `steps` apart.
template <class S, int kRows>
HWY_INLINE void block_dots(const uint8_t *bytes, const float *a, int64_t steps, Vec<float> (&acc)[kRows]) {
    const Tag<float> d;
    auto bits = hn::BitCast(IntLanes(), hn::LoadU(hn::Repartition<uint8_t, Tag<float>>(), bytes));
    ATTILE_CPU_UNROLL
    for (int s = 0; s < kInLane; ++s) {
        const Vec<float> number = number_of_lane<S>(bits);
        bits = hn::ShiftRight<4>(bits);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kRows; ++i) {
            const Vec<float> u = hn::LoadU(d, a + i * steps + s * kLanes<float>);
            acc[i] = s == 0 ? hn::Mul(u, number) : hn::MulAdd(u, number, acc[i]);
        }
    }
}

// Dot products of kRows arranged rows of a, `steps` apart, and kColumns columns of b.
template <class S, int kRows, int kColumns, bool kHasZeros>
HWY_INLINE void four_dots(const GemmView &view, const float *a, int64_t steps, int64_t j0, float *sums, int64_t sums_step) {
    const Tag<float> d;
    static constexpr float kOne = 1;
    const ScaleView &scale = view.b_scale;
    const int64_t k = view.k, group = scale.data != nullptr ? scale.row_group : k;
    const GroupSteps groups(group, k);
    const uint8_t *b[kColumns];
    const float *scales[kColumns], *zeros[kColumns];
    for (int j = 0; j < kColumns; ++j) {
        b[j] = static_cast<const uint8_t *>(view.b.data) + (j0 + j) * view.b.column / 2;
        scales[j] = scale.data != nullptr ? scale.data + (j0 + j) / scale.column_group * scale.column : &kOne;
        if (kHasZeros) zeros[j] = scale.zero + (j0 + j) / scale.column_group * scale.zero_column;
    }
    Vec<float> total[kRows][kColumns];
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) total[i][j] = hn::Zero(d);
    }
    uint8_t rest[kColumns][kBlock / 2] = {};
    int64_t left_of_group = groups.blocks;
    for (int64_t p = 0; p < k; p += kBlock, a += kBlock + kLanes<float>) {
        if (p + kBlock > k) {
            for (int j = 0; j < kColumns; ++j) {
                std::memcpy(rest[j], b[j], static_cast<size_t>((k - p) / 2));
                b[j] = rest[j];
            }
        }
        const int64_t left = p + kBlock <= k ? groups.count : (k - p) / group;  // scales, where a block has several
        ATTILE_CPU_UNROLL
        for (int j = 0; j < kColumns; ++j) {
            Vec<float> acc[kRows];
            block_dots<S, kRows>(b[j], a, steps, acc);
            b[j] += kBlock / 2;
            if constexpr (kHasZeros) {
                const Vec<float> zero = lane_scales(zeros[j], scale.zero_row, groups, left);
                ATTILE_CPU_UNROLL
                for (int i = 0; i < kRows; ++i) acc[i] = hn::NegMulAdd(zero, hn::LoadU(d, a + i * steps + kBlock), acc[i]);
            }
            const Vec<float> factor = lane_scales(scales[j], scale.row, groups, left);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kRows; ++i) total[i][j] = hn::MulAdd(factor, acc[i], total[i][j]);
        }
        if (--left_of_group > 0) continue;
        left_of_group = groups.blocks;
        if (p + kBlock >= k) break;
        for (int j = 0; j < kColumns; ++j) {
            scales[j] += groups.count * scale.row;
            if (kHasZeros) zeros[j] += groups.count * scale.zero_row;
        }
    }
    for (int i = 0; i < kRows; ++i) {
        for (int j = 0; j < kColumns; ++j) sums[i * sums_step + j] = hn::GetLane(hn::SumOfLanes(d, total[i][j]));
    }
}

template <class S, int kColumns, bool kHasZeros>
HWY_INLINE void four_dot_rows(const GemmView &view, const float *a, int64_t steps, int64_t rows, int64_t j0, float *sums,
                              int64_t sums_step) {
    switch (rows) {
        case 1:
            return four_dots<S, 1, kColumns, kHasZeros>(view, a, steps, j0, sums, sums_step);
        case 2:
            return four_dots<S, 2, kColumns, kHasZeros>(view, a, steps, j0, sums, sums_step);
        case 3:
            return four_dots<S, 3, kColumns, kHasZeros>(view, a, steps, j0, sums, sums_step);
        default:
            return four_dots<S, 4, kColumns, kHasZeros>(view, a, steps, j0, sums, sums_step);
    }
}

// b's k are contiguous. Columns stay in the first cache for all rows.
template <class S, bool kHasZeros>
HWY_NOINLINE void four_across(const GemmView &view, const float *arranged, int64_t j0, int64_t n, float *sums) {
    const int64_t steps = arranged_steps(view.k);
    for (int64_t j = 0; j < n; j += 2) {
        for (int64_t i = 0; i < view.m; i += kRowsAtOnce) {
            const int64_t rows = least(kRowsAtOnce, view.m - i);
            const float *const a = arranged + i * steps;
            float *const to = sums + i * n + j;
            if (j + 2 <= n) {
                four_dot_rows<S, 2, kHasZeros>(view, a, steps, rows, j0 + j, to, n);
            } else {
                four_dot_rows<S, 1, kHasZeros>(view, a, steps, rows, j0 + j, to, n);
            }
        }
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
