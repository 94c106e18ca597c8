// SPDX-License-Identifier: Apache-2.0
// Attention for whatever the fast kernels do not take, and products do not or do not pay: float64, and head dims above 256. Every option,
// any strides, any storage.
//
// Block: 16 rows of Q x 32 keys x 256 columns of V, 128 threads; a lane group owns 4 rows for the whole key loop. Shared memory: 16 rows of
// Q, 16 head_dim numbers, dynamic. In S a lane owns a key, in PV it owns 8 columns; probabilities pass by shuffles. Head dims of V above
// 256 take more blocks, each of which computes the scores anew.
#include "attention/output.h"
#include "attention/scaled.h"
#include "attention/simt/kernels.h"
#include "attention/simt/products.h"
#include "attention/simt/wide_row.cuh"

namespace attile::gpu::simt {
namespace {

constexpr int kThreads = 128, kGroupRows = 4, kColumns = 8;
constexpr int kBlockRows = kThreads / kLanes * kGroupRows;

// What a lane group is about: its rows of Q, its columns of V, and the online softmax of its rows.
template <class T, bool kScaled>
struct AnyRows {
    const AttentionParams &p;
    const AttentionPlace &place;
    const AttentionEntry &entry;
    const T *const queries;  // [kBlockRows][head_dim]
    const int first_row, first_column, lane, group_row;
    const int64_t head_kv;
    const T minus_infinity = lowest<T>();
    int low, high;  // The keys that any of the rows sees.
    // The kernel's arrays. As members they would keep all of this in memory until loops are unrolled.
    T (&row_max)[kGroupRows], (&row_sum)[kGroupRows], (&out)[kGroupRows][kColumns];
    using Scores = T[kGroupRows];
    using Seen = uint32_t[kGroupRows];

    ATTILE_LANE_FN AnyRows(const AttentionParams &params, const AttentionPlace &of_block, const AttentionEntry &of_batch, const T *shared,
                           int row, int column, T (&row_maxima)[kGroupRows], T (&row_sums)[kGroupRows], T (&outs)[kGroupRows][kColumns])
        : p(params),
          place(of_block),
          entry(of_batch),
          queries(shared),
          first_row(row),
          first_column(column),
          lane(lane_index()),
          group_row(lane_group_index() * kGroupRows),
          head_kv(quotient(place.head, p.group)),
          low(entry.len_k),
          high(0),
          row_max(row_maxima),
          row_sum(row_sums),
          out(outs) {
        for (int i = 0; i < kGroupRows; ++i) {
            row_max[i] = lowest<T>();
            row_sum[i] = 0;
            for (int x = 0; x < kColumns; ++x) out[i][x] = 0;
            const KeyRange range(p, row_of(i), entry);
            low = min(low, range.low);
            high = max(high, range.high);
        }
    }
    ATTILE_LANE_FN bool is_row(int i) const { return first_row + group_row + i < entry.len_q; }
    ATTILE_LANE_FN int row_of(int i) const { return min(first_row + group_row + i, entry.len_q - 1); }

    static ATTILE_LANE_FN T load(const AttentionOperand &x, const AttentionScales &scales, int64_t row_at, int64_t scale_at, int col) {
        if constexpr (kScaled)
            return load_scaled<T>(x, scales, row_at, scale_at, col);
        else
            return load_as<T>(x, row_at + col * x.stride[3]);
    }

    // ---- S = Q K^T, of a lane's key.
    ATTILE_LANE_FN void multiply_keys(bool exists, int64_t outer, int64_t k_row, Scores &score) const {
        const int64_t k_at = outer * p.k.stride[0] + head_kv * p.k.stride[1] + k_row * p.k.stride[2];
        const int64_t scale_at = kScaled ? scales_at(p.k_scale, outer, head_kv, k_row) : 0;
        if (!exists) return;
        for (int d = 0; d < p.head_dim; ++d) {
            const T x = load(p.k, p.k_scale, k_at, scale_at, d);
#pragma unroll
            for (int i = 0; i < kGroupRows; ++i) score[i] = fused_multiply_add(queries[(group_row + i) * p.head_dim + d], x, score[i]);
        }
    }

    // ---- Scale, softcap, bias, ALiBi and masks; then probabilities, which row_max, row_sum and O follow.
    ATTILE_LANE_FN void softmax(T slope, int key, bool exists, Scores &score, Seen &seen) {
#pragma unroll
        for (int i = 0; i < kGroupRows; ++i) {
            const int row = row_of(i);
            bool sees = exists && is_row(i) && KeyRange(p, row, entry).has(key);
            T s = score[i] * static_cast<T>(p.scale);
            if (p.softcap != 0) s = static_cast<T>(p.softcap) * tanh(s / static_cast<T>(p.softcap));
            if (sees && p.bias.data) {
                const T bias = load_as<T>(p.bias, entry.batch * p.bias.stride[0] + place.head * p.bias.stride[1] + row * p.bias.stride[2] +
                                                      key * p.bias.stride[3]);
                sees = bias != minus_infinity;
                s += bias;
            }
            if (p.alibi_slopes.data) s -= slope * fabs(static_cast<T>(key - row - entry.shift));
            if (sees && p.allowed.data)
                sees = static_cast<const uint8_t *>(p.allowed.data)[entry.batch * p.allowed.stride[0] + place.head * p.allowed.stride[1] +
                                                                    row * p.allowed.stride[2] + key * p.allowed.stride[3]] != 0;
            if (sees && has_sparse_mask(p)) sees = sparse_mask_shows(p, entry, fresh_of_lane(place.head), fresh_of_lane(row), key);
            sees = sees && s != minus_infinity;  // Such a score takes no part.
            score[i] = sees ? s : minus_infinity;
            seen[i] = lane_ballot(sees);
            if (seen[i] == 0) continue;
            const T top = max_nan(row_max[i], lane_fold(score[i], [](T x, T y) { return max_nan(x, y); }));
            const T factor = row_max[i] == minus_infinity ? T(0) : exp(row_max[i] - top);
            score[i] = sees ? exp(score[i] - top) : T(0);
            row_max[i] = top;
            row_sum[i] = row_sum[i] * factor + lane_fold(score[i], [](T x, T y) { return x + y; });
            if (factor != T(1)) {
#pragma unroll
                for (int x = 0; x < kColumns; ++x) out[i][x] = factor == T(0) ? T(0) : out[i][x] * factor;
            }
        }
    }

    // ---- O += P V. Keys that a row does not see are skipped, so that what V holds there cannot matter.
    ATTILE_LANE_FN void multiply_values(int first_key, int64_t outer, int64_t k_row, const Scores &score, const Seen &seen) {
        const int count = min(kLanes, high - first_key);
        const int64_t v_at = outer * p.v.stride[0] + head_kv * p.v.stride[1] + k_row * p.v.stride[2];
        const int64_t scale_at = kScaled ? scales_at(p.v_scale, outer, head_kv, k_row) : 0;
        for (int j = 0; j < count; ++j) {
            uint32_t any = 0;
#pragma unroll
            for (int i = 0; i < kGroupRows; ++i) any |= seen[i] >> j & 1;
            if (any == 0) continue;
            const int64_t v_of_key = shuffle(v_at, j), scale_of_key = kScaled ? shuffle(scale_at, j) : 0;
            T probability[kGroupRows] = {};
#pragma unroll
            for (int i = 0; i < kGroupRows; ++i)
                if (seen[i] >> j & 1) probability[i] = shuffle(score[i], j);
#pragma unroll
            for (int x = 0; x < kColumns; ++x) {
                const int column = first_column + x * kLanes + lane;
                if (column >= p.head_dim_v) continue;
                const T value = load(p.v, p.v_scale, v_of_key, scale_of_key, column);
#pragma unroll
                for (int i = 0; i < kGroupRows; ++i)
                    if (seen[i] >> j & 1) out[i][x] = fused_multiply_add(probability[i], value, out[i][x]);
            }
        }
    }

    // ---- O and lse.
    ATTILE_LANE_FN void store() const {
#pragma unroll
        for (int i = 0; i < kGroupRows; ++i) {
            if (!is_row(i)) continue;
            const int row = row_of(i);
            T total = row_sum[i], factor = 0, lse = minus_infinity, top = row_max[i];
            const T sink = p.sinks.data ? load_as<T>(p.sinks, place.head * p.sinks.stride[1]) : minus_infinity;
            const bool saw_key = top != minus_infinity;
            if (sink != minus_infinity) {
                const T higher = max_nan(top, sink), scale = saw_key ? exp(top - higher) : T(0);
                total = total * scale + exp(sink - higher);
                factor = scale / total;
                lse = higher + log(total);
            } else if (saw_key) {
                factor = T(1) / total;
                lse = top + log(total);
            }
            const int64_t at = entry.batch * p.o.stride[0] + place.head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2];
#pragma unroll
            for (int x = 0; x < kColumns; ++x) {
                const int column = first_column + x * kLanes + lane;
                if (column < p.head_dim_v) store_as<T>(p.o, at + column * p.o.stride[3], saw_key ? out[i][x] * factor : T(0));
            }
            if (p.lse.data && lane == 0 && first_column == 0)
                store_as<T>(p.lse, entry.batch * p.lse.stride[0] + place.head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2],
                            lse);
        }
    }
};

// A block's rows of Q, those past the last as copies of it.
template <class T>
ATTILE_LANE_FN void load_queries(const AttentionParams &p, const AttentionPlace &place, const AttentionEntry &entry, int first_row,
                                 T *queries) {
    const int64_t q_at = entry.batch * p.q.stride[0] + place.head * p.q.stride[1];
    for (int f = static_cast<int>(threadIdx.x); f < kBlockRows * p.head_dim; f += kThreads) {
        const int row = f / p.head_dim, col = f % p.head_dim;
        const int64_t clamped = entry.first_q + min(first_row + row, entry.len_q - 1);
        queries[f] = load_as<T>(p.q, q_at + clamped * p.q.stride[2] + col * p.q.stride[3]);
    }
}

template <class T, bool kScaled = false>
ATTILE_LANE_FN void run_block(const AttentionParams &p, const AttentionPlace &place, T *queries) {
    const AttentionEntry entry(p, place.batch);
    const int blocks_of_rows = (p.len_q + kBlockRows - 1) / kBlockRows;
    const int first_row = place.row_block % blocks_of_rows * kBlockRows,
              first_column = place.row_block / blocks_of_rows * kLanes * kColumns;
    if (first_row >= entry.len_q) return;
    load_queries(p, place, entry, first_row, queries);
    __syncthreads();

    const T slope = p.alibi_slopes.data
                        ? load_as<T>(p.alibi_slopes, entry.batch * p.alibi_slopes.stride[0] + place.head * p.alibi_slopes.stride[1])
                        : T(0);
    T row_max[kGroupRows], row_sum[kGroupRows], out[kGroupRows][kColumns];
    AnyRows<T, kScaled> rows(p, place, entry, queries, first_row, first_column, row_max, row_sum, out);
    if (!rows.is_row(0)) return;  // Lane groups do not meet again.
    for (int first_key = rows.low / kLanes * kLanes; first_key < rows.high; first_key += kLanes) {
        const int key = first_key + rows.lane;  // This lane's.
        int64_t outer = 0, k_row = 0;
        const bool exists = key < entry.len_k && locate_key(p, entry, key, outer, k_row);
        T score[kGroupRows] = {};
        rows.multiply_keys(exists, outer, k_row, score);
        uint32_t seen[kGroupRows];
        rows.softmax(slope, key, exists, score, seen);
        rows.multiply_values(first_key, outer, k_row, score, seen);
    }
    rows.store();
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_any(const AttentionParams p) {
    ATTILE_GPU_DYNAMIC_SHARED(shared_bytes);
    run_block(p, AttentionPlace(p, blockIdx.x), reinterpret_cast<T *>(shared_bytes));
}

__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_any_scaled(const AttentionParams p) {
    ATTILE_GPU_DYNAMIC_SHARED(shared_bytes);
    run_block<float, true>(p, AttentionPlace(p, blockIdx.x), reinterpret_cast<float *>(shared_bytes));
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_any_irregular(const IrregularParams params) {
    ATTILE_GPU_DYNAMIC_SHARED(shared_bytes);
    const AttentionParams &p = params.attention;
    const AttentionPlace place(p, blockIdx.x);
    if (params.irregular[quotient(place.batch * p.heads.divisor + place.head, p.group)] == 0) return;
    run_block(p, place, reinterpret_cast<T *>(shared_bytes));
}

AttentionAnyKernel instance(const char *name, const void *kernel, std::size_t element) {
    return {name, kernel, kBlockRows, kLanes, kLanes * kColumns, kThreads, static_cast<int32_t>(element)};
}

}  // namespace

AttentionAnyKernel attention_any_f32() {
    return instance("attention_any_f32", reinterpret_cast<const void *>(&attention_any<float>), sizeof(float));
}
AttentionAnyKernel attention_any_f32_scaled() {
    return instance("attention_any_f32_scaled", reinterpret_cast<const void *>(&attention_any_scaled), sizeof(float));
}
AttentionAnyKernel attention_any_f64() {
    return instance("attention_any_f64", reinterpret_cast<const void *>(&attention_any<double>), sizeof(double));
}
IrregularKernel attention_any_irregular_kernel(bool is_f64) {
    return is_f64 ? &attention_any_irregular<double> : &attention_any_irregular<float>;
}

}  // namespace attile::gpu::simt
