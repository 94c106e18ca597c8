// SPDX-License-Identifier: Apache-2.0
// Sums of e4m3 whose scales change along the depth. A stage is a group of 128, whose products go to sums of their own; these are scaled and
// added to the tile's sums in float32. Two groups' sums alternate: the tensor core multiplies one while the other is added.
// Registers: three times 64 sums, of 232. Shared bytes as without groups.
#pragma once

#include "gemm/sm90/arguments.h"
#include "gemm/sm90/block.cuh"
#include "numeric.h"
#include "sm90/ptx.cuh"

namespace attile::gpu::sm90 {

// A thread's scales of one group after another: of its two rows, and of the tile's columns, which have one together or, kEach, one each:
// lane l then holds columns 2 l, 2 l + 1 and those 64 further on, and others ask it for them. They are asked for a group ahead.
template <class Config, bool kEach>
class GemmGroupScales {
    static constexpr int kColumns = Config::kColumns, kHeld = kEach ? 4 : 1;
    static_assert(kColumns == 128, "which columns a lane holds");

  public:
    __device__ __forceinline__ GemmGroupScales(const GemmArguments &p, int64_t row, int64_t col, int first, int count)
        : p_(p), left_(count) {
        const int thread = static_cast<int>(fresh_thread()) - kWarpgroupThreads, lane = thread % kWarpThreads;
        const auto offset = [&](const GemmScales &scales, int64_t at, int64_t end) {
            const uint32_t group = quotient(static_cast<uint32_t>(min(at, end - 1)), scales.group);
            return static_cast<int>(group * scales.stride + first * scales.depth);
        };
#pragma unroll
        for (int half = 0; half < 2; ++half)
            row_at_[half] = offset(p.row_scale, row + thread / kWarpThreads * 16 + lane / 4 + 8 * half, p.m);
#pragma unroll
        for (int i = 0; i < kHeld; ++i) column_at_[i] = offset(p.column_scale, kEach ? col + i / 2 * 64 + lane * 2 + i % 2 : col, p.n);
        ask();
    }

    // sums += the group's, scaled.
    __device__ __forceinline__ void add(float (&sums)[kColumns / 2], const float (&group)[kColumns / 2]) {
        const float row[2] = {row_[0], row_[1]};
        float column[kHeld];
#pragma unroll
        for (int i = 0; i < kHeld; ++i) column[i] = column_[i];
        if constexpr (!kEach) {
            const float factor[2] = {row[0] * column[0], row[1] * column[0]};
            ask();
#pragma unroll
            for (int i = 0; i < kColumns / 2; ++i) sums[i] = fused_multiply_add(group[i], factor[i / 2 % 2], sums[i]);
        } else {
            ask();
            const int place = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
            for (int i = 0; i < kColumns / 8; ++i) {
                const int from = i % 8 * 4 + place;
                const float first = __shfl_sync(~0u, column[i / 8 * 2], from), second = __shfl_sync(~0u, column[i / 8 * 2 + 1], from);
                float *const four = sums + 4 * i;
                four[0] = fused_multiply_add(group[4 * i], row[0] * first, four[0]);
                four[1] = fused_multiply_add(group[4 * i + 1], row[0] * second, four[1]);
                four[2] = fused_multiply_add(group[4 * i + 2], row[1] * first, four[2]);
                four[3] = fused_multiply_add(group[4 * i + 3], row[1] * second, four[3]);
            }
        }
    }

  private:
    // The last group's again where there is none more.
    __device__ __forceinline__ void ask() {
        const bool goes_on = --left_ > 0;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            row_[half] = p_.row_scale.data != nullptr ? __ldg(p_.row_scale.data + row_at_[half]) : 1.0f;
            row_at_[half] += goes_on ? static_cast<int>(p_.row_scale.depth) : 0;
        }
#pragma unroll
        for (int i = 0; i < kHeld; ++i) {
            column_[i] = p_.column_scale.data != nullptr ? __ldg(p_.column_scale.data + column_at_[i]) : 1.0f;
            column_at_[i] += goes_on ? static_cast<int>(p_.column_scale.depth) : 0;
        }
    }

    const GemmArguments &p_;
    int left_;  // Groups that are still to be asked for.
    int row_at_[2], column_at_[kHeld];
    float row_[2], column_[kHeld];
};

// sums = a tile's sums over `count` groups, by the products' next stages. Calls `between` while products are on their way. Two groups at a
// time, and none is on its way to the next round of the loop: the compiler does not follow registers that products write from one round
// to another, and would wait for each product. The other warpgroup's products fill the gap. Four groups at a time spill.
template <class Products, class Scales, int kSums, class Between>
__device__ __forceinline__ void gemm_sum_groups(Products &products, Scales &scales, float (&sums)[kSums], int count,
                                                const Between &between) {
    float even[kSums], odd[kSums];
#pragma unroll
    for (float &sum : sums) sum = 0;
    const auto add = [&](float(&group)[kSums], auto pending) {
        product_wait<decltype(pending)::value>();
        keep_in_registers(group);
        products.release_group(decltype(pending)::value + 1);
        scales.add(sums, group);
    };
    constexpr std::integral_constant<int, 0> kNone;
    constexpr std::integral_constant<int, 1> kOne;
#pragma unroll 1
    for (int pair = count / 2; pair > 0; --pair) {
        products.start_group(even);
        between();
        products.start_group(odd);
        add(even, kOne);
        add(odd, kNone);
    }
    if (count < 2) between();
    if (count % 2 != 0) {
        products.start_group(even);
        add(even, kNone);
    }
}

}  // namespace attile::gpu::sm90
