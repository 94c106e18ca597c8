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
    // A row's columns from a multiple of four on: sum of probabilities times values, relative to `top`, and sum of probabilities.
    struct Part {
        float top = -INFINITY, total = 0;
        Quad value = {};

        ATTILE_LANE_FN void add(float weight, float of_total, const Quad &of_value) {
            total = fused_multiply_add(weight, of_total, total);
#pragma unroll
            for (int e = 0; e < 4; ++e) value[e] = fused_multiply_add(weight, of_value[e], value[e]);
        }
    };
    // Of the block's groups. One without a reference saw no key, and has left nothing else.
    ATTILE_LANE_FN Part part(int r, int col) const {
        Part part;
        Vec<float, 2> found[C::kGroups];
#pragma unroll
        for (int g = 0; g < C::kGroups; ++g) {
            found[g] = load_vec<2>(results + (g * kRows + r) * 2);
            part.top = max_nan(part.top, found[g][0]);
        }
#pragma unroll
        for (int g = 0; g < C::kGroups; ++g) {
            if (found[g][0] == -INFINITY) continue;
            part.add(exp2_fast(found[g][0] - part.top), found[g][1], load_vec<4>(outs + (g * kRows + r) * C::kCols + col));
        }
        return part;
    }
    // kFar: see RowResult.
    template <bool kFar>
    ATTILE_LANE_FN void store() const {
        constexpr int kAcross = C::kCols / 4;
#pragma unroll 1
        for (int f = static_cast<int>(threadIdx.x); f < kRows * kAcross; f += C::kThreads) {
            const int r = f / kAcross, col = f % kAcross * 4;
            if (at.first_row + r >= at.rows) break;
            if (col < at.p.head_dim_v || col == 0) store<kFar>(r, col, part(r, col));
        }
    }
    // As O and lse, or as a split's part of them.
    template <bool kFar>
    ATTILE_LANE_FN void store(int r, int col, Part part) const {
        const AttentionParams &p = at.p;
        const AttentionEntry &entry = at.entry;
        const bool partial = p.part_o != nullptr, has_sink = !partial && p.sinks.data != nullptr, saw_key = part.top != -INFINITY;
        const int packed_row = at.first_row + r, head = query_head(p, at.place.head, packed_row), row = query_row(p, packed_row);
        const RowResult result(std::bool_constant<kFar>(), saw_key, part.top, part.total, has_sink,
                               has_sink ? load_number(p.sinks, head * p.sinks.stride[1]) : 0.0f);
        const int64_t split = (static_cast<int64_t>(at.place.split) * p.part_batch + entry.batch) * p.heads.divisor * p.pack.divisor;
        const int64_t part_row = (split + head) * p.len_q + row;
        if (!saw_key) part.value = Quad{};
        const float factor = saw_key ? result.factor : 0.0f;
        if (partial) {
            float *const to = p.part_o + part_row * p.head_dim_v + col;
#pragma unroll
            for (int e = 0; e < 4; ++e) part.value[e] *= factor;
            if (p.head_dim_v % 4 == 0) {
                store_vec(to, part.value);
            } else {
#pragma unroll
                for (int e = 0; e < 4; ++e)
                    if (col + e < p.head_dim_v) to[e] = part.value[e];
            }
            if (col == 0) store_part<kFar>(p, part_row, result, part.top, part.total);
        } else {
            store_quad(p.o, entry.batch * p.o.stride[0] + head * p.o.stride[1] + (entry.first_q + row) * p.o.stride[2], col, p.head_dim_v,
                       part.value, factor);
            if (col == 0 && p.lse.data)
                store_number(p.lse, entry.batch * p.lse.stride[0] + head * p.lse.stride[1] + (entry.first_q + row) * p.lse.stride[2],
                             result.lse);
        }
    }
};

}  // namespace attile::gpu
