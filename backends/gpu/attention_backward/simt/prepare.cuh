// SPDX-License-Identifier: Apache-2.0
// The numbers of rows that gradients need, log-sum-exp and delta, and which pairs hold NaN or infinity. A lane group takes some rows or
// keys of one head, so that where they are is worked out once. Bound by memory; no shared memory.
//
// Best measured (H200, compute_61 PTX): 262144 rows and as many keys of 64 columns 0.104 ms (3.2 TB/s), of 128 0.167 (4.0 TB/s); before, a
// row or key at a time, 0.236 and 0.246: where each one was took longer than the row.
#pragma once

#include "attention_backward/simt/tasks.cuh"

namespace attile::gpu::simt {

// Are rows of that many columns a quad a lane, or less?
template <class T>
ATTILE_LANE_FN bool has_lane_quads(const AttentionOperand &x, int cols) {
    return sizeof(T) == 4 && x.storage == AttentionStorage::kF32 && x.vector && cols % 4 == 0 && cols <= 4 * kLanes;
}
ATTILE_LANE_FN Quad lane_quad(const AttentionOperand &x, int64_t at, int cols) {
    return lane_index() * 4 < cols ? load_vec_const<4>(static_cast<const float *>(x.data) + at + lane_index() * 4) : Quad{};
}

template <class T>
__global__ void ATTILE_LAUNCH_BOUNDS(kBackwardThreads, sizeof(T) == 4 ? 8 : 1) attention_backward_prepare(const AttentionBackwardParams p) {
    const AttentionParams &f = p.forward;
    constexpr int kAtOnce = 2;  // Short rows on their way.
    const AttentionOperand &q = p.original_q, &k = p.original_k, &v = p.original_v, &dout = p.original_dout;
    const int heads = static_cast<int>(f.heads.divisor), heads_kv = static_cast<int>(p.heads_kv.divisor);
    const int runs_of_rows = p.rows_allotted / kBackwardPrepareRun,
              runs_of_keys = (f.len_k + kBackwardPrepareRun - 1) / kBackwardPrepareRun;
    const int64_t rows = static_cast<int64_t>(p.batch) * heads * runs_of_rows;
    const int64_t keys = p.irregular ? static_cast<int64_t>(p.batch) * heads_kv * runs_of_keys : 0;
    const bool quads_q = has_lane_quads<T>(q, f.head_dim) && has_lane_quads<T>(dout, f.head_dim_v) && has_lane_quads<T>(f.o, f.head_dim_v);
    const bool quads_k = has_lane_quads<T>(k, f.head_dim) && has_lane_quads<T>(v, f.head_dim_v);
    for (int64_t task = first_group(); task < rows + keys; task += group_step()) {
        T check = 0;  // Of finite numbers, 0.
        const auto look = [&](T x) { check = fused_multiply_add(x, T(0), check); };
        int64_t pair;
        if (task < rows) {
            const Parts of_runs(task, runs_of_rows), of_heads(of_runs.quotient, heads);
            const int first = of_runs.rest * kBackwardPrepareRun, head = of_heads.rest;
            const AttentionEntry entry = entry_of_thread(f, of_heads.quotient);
            pair = static_cast<int64_t>(entry.batch) * heads_kv + quotient(static_cast<uint32_t>(head), f.group);
            BackwardRow<T> *const numbers = static_cast<BackwardRow<T> *>(p.rows) + of_runs.quotient * p.rows_allotted + first;
            const auto row_of = [&](const AttentionOperand &x, int row) {
                return entry.batch * x.stride[0] + head * x.stride[1] + (entry.first_q + first + row) * x.stride[2];
            };
            const auto finish = [&](int row, T delta) {
                const T lse = load_as<T>(f.lse, row_of(f.lse, row));
                delta = lane_fold(delta, [](T x, T y) { return x + y; });
                if (p.dlse.data) delta -= load_as<T>(p.dlse, row_of(p.dlse, row));
                // Of a row that sees no key the log-sum-exp is minus infinity.
                if (lane_index() == 0) numbers[row] = lse != lowest<T>() ? BackwardRow<T>{lse, delta} : BackwardRow<T>{-lowest<T>(), 0};
            };
            const int there = min(max(entry.len_q - first, 0), kBackwardPrepareRun);
            for (int row = there + lane_index(); row < kBackwardPrepareRun; row += kLanes) numbers[row] = {-lowest<T>(), 0};
            int row = 0;
            if constexpr (sizeof(T) == 4) {
                for (; quads_q && row + kAtOnce <= there; row += kAtOnce) {
                    Quad qs[kAtOnce], gs[kAtOnce], os[kAtOnce];
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i) {
                        if (p.irregular) qs[i] = lane_quad(q, row_of(q, row + i), f.head_dim);
                        gs[i] = lane_quad(dout, row_of(dout, row + i), f.head_dim_v);
                        os[i] = lane_quad(f.o, row_of(f.o, row + i), f.head_dim_v);
                    }
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i) {
                        float delta = 0;
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            if (p.irregular) look(qs[i][e]);
                            look(gs[i][e]);
                            delta = fused_multiply_add(gs[i][e], os[i][e], delta);
                        }
                        finish(row + i, delta);
                    }
                }
            }
            for (; row < there; ++row) {
                T delta = 0;
                if (p.irregular) for_columns<T>(q, row_of(q, row), q, row_of(q, row), f.head_dim, [&](T x, T) { look(x); });
                for_columns<T>(dout, row_of(dout, row), f.o, row_of(f.o, row), f.head_dim_v, [&](T x, T o) {
                    delta = fused_multiply_add(x, o, delta);
                    look(x);
                });
                finish(row, delta);
            }
        } else {
            const Parts of_runs(task - rows, runs_of_keys), of_heads(of_runs.quotient, heads_kv);
            pair = of_runs.quotient;
            const int first = of_runs.rest * kBackwardPrepareRun, head = of_heads.rest;
            const AttentionEntry entry = entry_of_thread(f, of_heads.quotient);
            const auto key_of = [&](const AttentionOperand &x, int key) {
                return entry.batch * x.stride[0] + head * x.stride[1] + (entry.first_k + first + key) * x.stride[2];
            };
            const int there = min(max(entry.len_k - first, 0), kBackwardPrepareRun);
            int key = 0;
            if constexpr (sizeof(T) == 4) {
                for (; quads_k && key + kAtOnce <= there; key += kAtOnce) {
                    Quad ks[kAtOnce], vs[kAtOnce];
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i) {
                        ks[i] = lane_quad(k, key_of(k, key + i), f.head_dim);
                        vs[i] = lane_quad(v, key_of(v, key + i), f.head_dim_v);
                    }
#pragma unroll
                    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
                        for (int e = 0; e < 4; ++e) {
                            look(ks[i][e]);
                            look(vs[i][e]);
                        }
                }
            }
            for (; key < there; ++key) {
                for_columns<T>(k, key_of(k, key), k, key_of(k, key), f.head_dim, [&](T x, T) { look(x); });
                for_columns<T>(v, key_of(v, key), v, key_of(v, key), f.head_dim_v, [&](T x, T) { look(x); });
            }
        }
        // Whoever finds out writes the same.
        if (lane_any(check != 0) && lane_index() == 0 && p.irregular) p.irregular[pair] = any_irregular(p) = 1;
    }
}

}  // namespace attile::gpu::simt
