// SPDX-License-Identifier: Apache-2.0
// The end of a kernel for few query rows.
#pragma once

#include "attention/decode_rows.h"
#include "attention/output.h"

namespace attile::gpu {

// The groups' results in shared memory, and from there O and lse, or a split's part of them.
template <class C>
struct DecodeOutput {
    static constexpr int kRows = C::kRows;
    const DecodeRows<C> &at;
    float *const outs, *const results;  // [group][row][col], [group][row][2]

    ATTILE_LANE_FN DecodeOutput(const DecodeRows<C> &rows, float *shared)
        : at(rows), outs(shared), results(shared + C::kGroups * kRows * C::kCols) {}
    // kFar: see RowResult.
    template <bool kFar>
    ATTILE_LANE_FN void store() const {
        const AttentionParams &p = at.p;
        const AttentionEntry &entry = at.entry;
        const AttentionPlace &place = at.place;
        const bool partial = p.part_o != nullptr;
        const int64_t part = (static_cast<int64_t>(place.split) * p.part_batch + entry.batch) * p.heads.divisor * p.pack.divisor;
#pragma unroll 1
        for (int f = static_cast<int>(threadIdx.x); f < kRows * C::kCols; f += C::kThreads) {
            const int r = f / C::kCols, col = f % C::kCols, packed_row = at.first_row + r;
            if (packed_row >= at.rows) break;
            if (col >= p.head_dim_v && col > 0) continue;
            float top = -INFINITY, total = 0, value = 0;
#pragma unroll
            for (int g = 0; g < C::kGroups; ++g) top = max_nan(top, results[(g * kRows + r) * 2]);
#pragma unroll
            for (int g = 0; g < C::kGroups; ++g) {
                const float reference = results[(g * kRows + r) * 2];
                if (reference == -INFINITY) continue;
                const float weight = exp2_fast(reference - top);
                total = fused_multiply_add(weight, results[(g * kRows + r) * 2 + 1], total);
                value = fused_multiply_add(weight, outs[(g * kRows + r) * C::kCols + col], value);
            }
            const int head = query_head(p, place.head, packed_row), row = query_row(p, packed_row);
            const bool has_sink = !partial && p.sinks.data != nullptr, saw_key = top != -INFINITY;
            const RowResult result(std::bool_constant<kFar>(), saw_key, top, total, has_sink,
                                   has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
            const float scaled = saw_key ? value * result.factor : 0.0f;
            const int64_t part_row = (part + head) * p.len_q + row;
            if (col < p.head_dim_v) {
                if (partial)
                    p.part_o[part_row * p.head_dim_v + col] = scaled;
                else
                    store_number(
                        p.o,
                        entry.batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2] + col * p.o.stride[3],
                        scaled);
            }
            if (col != 0) continue;
            if (partial)
                store_part<kFar>(p, part_row, result, top, total);
            else if (p.lse.data)
                store_number(p.lse, entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2],
                             result.lse);
        }
    }
};

}  // namespace attile::gpu
