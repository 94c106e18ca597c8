// SPDX-License-Identifier: Apache-2.0
// Repairs rows that tf32x3 cannot compute: they meet an operand that is infinite, NaN or too large to be split, or their scores are all
// below float32's range. They are computed again by ordinary arithmetic, a warp's 16 rows together, so that each key is read once for all
// of them. Keys that a row does not see take no part. Record: docs/kernels/attention-sm90.md.
#pragma once

#include <climits>

#include "attention/block.h"
#include "attention/mma/softmax.cuh"
#include "attention/output.h"
#include "attention/sm90/tf32x3_shared.cuh"
#include "mma/shared_rows.cuh"

namespace attile::gpu::sm90 {

template <class Config>
class Tf32x3Repair {
  public:
    // first_row: the warp's in the packed head; queries: where its rows of Q lie.
    __device__ __forceinline__ Tf32x3Repair(const AttentionParams &p, const AttentionWorkTile &work, int first_row, uint32_t queries)
        : p_(p), work_(work), first_row_(first_row), queries_(queries), lane_(lane_index()) {}

    // By the whole warp; bit i of `faulty` is its row i. Q is scaled where it lies: nobody else reads it any more.
    __device__ __forceinline__ void run(unsigned faulty) {
        // Lane i has the range of row i.
        const KeyRange range(p_, query_row(p_, min(first_row_ + (lane_ & (kRows - 1)), work_.rows - 1)), work_.shift, work_.first_key,
                             work_.len_k);
        const int low = max(range.low, work_.first_tile * kKeys), high = min(range.high, work_.end_tile * kKeys);
        const bool sees_any = lane_ < kRows && (faulty >> lane_ & 1) != 0 && low < high;
        const int first = warp_uniform(__reduce_min_sync(~0u, sees_any ? low : INT_MAX)),
                  end = warp_uniform(__reduce_max_sync(~0u, sees_any ? high : 0));
        scale_queries();
#pragma unroll
        for (int r = 0; r < kRows; ++r) {
            reference_[r] = kNoReference;
            sum_[r] = 0;
            o_[r] = make_float4(0, 0, 0, 0);
        }
        const int64_t kv_head = quotient(static_cast<uint32_t>(work_.head) * p_.pack.divisor, p_.group);
        const auto begin = [&](const AttentionOperand &x) {
            return static_cast<const float *>(x.data) + work_.batch * x.stride[0] + kv_head * x.stride[1] + work_.first_k * x.stride[2];
        };
        const float *const k = begin(p_.k), *const v = begin(p_.v) + 4 * lane_;
        unsigned left = faulty;  // A sum that is NaN stays NaN, and such a row need not go on.
        // In whole steps of keys, wherever the warp's rows begin, so that a row's sums do not depend on its neighbours.
#pragma unroll 1
        for (int base = first & ~(kLanes - 1); base < end && left != 0; base += kLanes) {
            multiply_scores(k + min(max(base + lane_, first), end - 1) * p_.k.stride[2]);
            unsigned seen_by_any = 0;
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                const int key = base + lane_, from = __shfl_sync(~0u, low, r), to = __shfl_sync(~0u, high, r);
                const bool sees = key >= from && key < to && score_[r] != -INFINITY;
                seen_[r] = __ballot_sync(~0u, sees);
                seen_by_any |= seen_[r];
                const float score = sees ? score_[r] : -INFINITY;
                const float top = lane_fold(score, [](float x, float y) { return max_nan(x, y); });
                const float higher = max_nan(reference_[r], top), factor = exp2_fast(reference_[r] - higher);
                score_[r] = sees ? exp2_fast(score - higher) : 0.0f;
                sum_[r] = sum_[r] * factor + lane_fold(score_[r], [](float x, float y) { return x + y; });
                reference_[r] = higher;
                left &= ~(static_cast<unsigned>(sum_[r] != sum_[r]) << r);
                o_[r] = make_float4(o_[r].x * factor, o_[r].y * factor, o_[r].z * factor, o_[r].w * factor);
            }
            left = warp_uniform(left);
            add_values(v + base * p_.v.stride[2], warp_uniform(seen_by_any));
        }
        // Not unrolled: code that hardly ever runs must not push the main loop out of the instruction cache.
#pragma unroll 1
        for (; faulty != 0; faulty &= faulty - 1) {
            const int row = __ffs(static_cast<int>(faulty)) - 1;
            float reference = 0, sum = 0;
            float4 o = make_float4(0, 0, 0, 0);
#pragma unroll
            for (int r = 0; r < kRows; ++r) {
                if (r != row) continue;
                reference = reference_[r];
                sum = sum_[r];
                o = o_[r];
            }
            store(first_row_ + row, reference, sum, o);
        }
    }

  private:
    static constexpr int kRows = 16, kKeys = Config::kShape.keys, kChunks = Config::kShape.depth / 4;
    static constexpr int kAtOnce = 4;  // Loads in flight, and what they are for.
    using Rows = SharedRows<2 * Config::kShape.depth>;
    static_assert(Config::kShape.columns <= 4 * kLanes, "four columns a lane");

    __device__ __forceinline__ float4 query(int row, int chunk) const {
        uint32_t x[4];
        load_shared(x, queries_ + Rows::at(row, chunk));
        return make_float4(__uint_as_float(x[0]), __uint_as_float(x[1]), __uint_as_float(x[2]), __uint_as_float(x[3]));
    }
    // Q is scaled before it is multiplied, as everywhere in float32: the unscaled product could pass float32's range.
    __device__ __forceinline__ void scale_queries() const {
        __syncwarp();
#pragma unroll 1
        for (int i = lane_; i < kRows * kChunks; i += kLanes) {
            const float4 q = query(i / kChunks, i % kChunks);
            const uint32_t x[4] = {__float_as_uint(scaled_query(p_, q.x)), __float_as_uint(scaled_query(p_, q.y)),
                                   __float_as_uint(scaled_query(p_, q.z)), __float_as_uint(scaled_query(p_, q.w))};
            store_shared(queries_ + Rows::at(i / kChunks, i % kChunks), x);
        }
        __syncwarp();
    }
    // Of the lane's own key, which starts at k.
    __device__ __forceinline__ void multiply_scores(const float *k) {
#pragma unroll
        for (float &x : score_) x = 0;
            // Columns beyond the head's are zeros of Q, and here too.
#pragma unroll 1
        for (int first = 0; 4 * first < p_.head_dim; first += kAtOnce) {
            float4 b[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                b[i] = make_float4(0, 0, 0, 0);
                if (4 * (first + i) < p_.head_dim) b[i] = __ldg(reinterpret_cast<const float4 *>(k) + first + i);
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    const float4 a = query(r, first + i);
                    score_[r] = __builtin_fmaf(a.x, b[i].x, score_[r]);
                    score_[r] = __builtin_fmaf(a.y, b[i].y, score_[r]);
                    score_[r] = __builtin_fmaf(a.z, b[i].z, score_[r]);
                    score_[r] = __builtin_fmaf(a.w, b[i].w, score_[r]);
                }
            }
        }
    }
    // Of 32 keys; v: the lane's columns of the first.
    __device__ __forceinline__ void add_values(const float *v, unsigned seen_by_any) {
        const bool has_columns = 4 * lane_ < p_.head_dim_v;
#pragma unroll 1
        for (int first = 0; first < kLanes; first += kAtOnce) {
            float4 x[kAtOnce];
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                x[i] = make_float4(0, 0, 0, 0);
                if (has_columns && (seen_by_any >> (first + i) & 1) != 0)
                    x[i] = __ldg(reinterpret_cast<const float4 *>(v + (first + i) * p_.v.stride[2]));
            }
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) {
                // A weight of zero times a finite value is zero; times infinity or NaN it would be NaN.
                const bool is_plain = __all_sync(~0u, x[i].x * 0 + x[i].y * 0 + x[i].z * 0 + x[i].w * 0 == 0);
#pragma unroll
                for (int r = 0; r < kRows; ++r) {
                    const float weight = __shfl_sync(~0u, score_[r], first + i);
                    const bool takes = is_plain || (seen_[r] >> (first + i) & 1) != 0;
                    o_[r].x = takes ? __builtin_fmaf(weight, x[i].x, o_[r].x) : o_[r].x;
                    o_[r].y = takes ? __builtin_fmaf(weight, x[i].y, o_[r].y) : o_[r].y;
                    o_[r].z = takes ? __builtin_fmaf(weight, x[i].z, o_[r].z) : o_[r].z;
                    o_[r].w = takes ? __builtin_fmaf(weight, x[i].w, o_[r].w) : o_[r].w;
                }
            }
        }
    }
    __device__ __forceinline__ void store(int packed, float reference, float sum, const float4 &o) const {
        const int row = query_row(p_, packed), head = query_head(p_, work_.head, packed);
        const bool is_split = p_.splits.divisor > 1, has_sink = p_.sinks.data != nullptr && !is_split;
        const float sink = has_sink ? load_number(p_.sinks, head * p_.sinks.stride[1]) : 0.0f;
        const RowResult result(std::false_type(), sum != 0, reference, sum, has_sink, sink);
        const int64_t heads = static_cast<int64_t>(p_.heads.divisor) * p_.pack.divisor,
                      part_at = ((work_.split * p_.part_batch + work_.batch) * heads + head) * p_.len_q + row,
                      of_all = static_cast<int64_t>(work_.first_q) + row;
        float *const to = is_split ? p_.part_o + part_at * p_.head_dim_v
                                   : static_cast<float *>(const_cast<void *>(p_.o.data)) + work_.batch * p_.o.stride[0] +
                                         head * p_.o.stride[1] + of_all * p_.o.stride[2];
        if (4 * lane_ < p_.head_dim_v)
            reinterpret_cast<float4 *>(to)[lane_] =
                make_float4(o.x * result.factor, o.y * result.factor, o.z * result.factor, o.w * result.factor);
        if (lane_ != 0) return;
        if (is_split)
            p_.part_lse[part_at] = result.lse;
        else if (p_.lse.data != nullptr)
            static_cast<float *>(const_cast<void *>(
                p_.lse.data))[work_.batch * p_.lse.stride[0] + head * p_.lse.stride[1] + of_all * p_.lse.stride[2]] = result.lse;
    }

    const AttentionParams &p_;
    const AttentionWorkTile &work_;
    const int first_row_;
    const uint32_t queries_;
    const int lane_;
    float score_[kRows], reference_[kRows], sum_[kRows];
    unsigned seen_[kRows];
    float4 o_[kRows];
};

}  // namespace attile::gpu::sm90
