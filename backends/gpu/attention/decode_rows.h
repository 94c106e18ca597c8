// SPDX-License-Identifier: Apache-2.0
// What a lane group of a kernel for few query rows is about.
#pragma once

#include "attention/block.h"
#include "attention/params.h"
#include "vec.h"

namespace attile::gpu {

// Four elements of a row from column `col` on, as they are stored; those at `cols` and beyond are zeros. Not converted yet, since that
// would wait for memory.
template <class Element, bool kVectors>
ATTILE_LANE_FN Vec<Element, 4> load_stored(const AttentionOperand &x, int64_t row_offset, int col, int cols) {
    const Element *const from = static_cast<const Element *>(x.data) + row_offset;
    Vec<Element, 4> quad = {};
    if (kVectors || x.vector) {
        if (col < cols) quad = load_vec_const<4>(from + col);
    } else {
#pragma unroll
        for (int e = 0; e < 4; ++e)
            if (col + e < cols) quad[e] = load_vec_const<1>(from + (col + e) * x.stride[3])[0];
    }
    return quad;
}

// What a lane group is about: rows of Q that share a head of K and V, and where its lanes stand among columns and keys.
template <class C>
struct DecodeRows {
    const AttentionParams &p;
    const AttentionPlace &place;
    const AttentionEntry &entry;
    const int rows, first_row, lane, group, quad_lane, key_col;

    ATTILE_LANE_FN DecodeRows(const AttentionParams &params, const AttentionPlace &of_block, const AttentionEntry &of_batch, int all_rows)
        : p(params),
          place(of_block),
          entry(of_batch),
          rows(all_rows),
          first_row(place.row_block * C::kRows),
          lane(lane_index()),
          group(lane_group_index()),
          quad_lane(lane % C::kQuadLanes),
          key_col(lane / C::kQuadLanes) {}
    ATTILE_LANE_FN KeyRange range_of(int row) const { return KeyRange(p, query_row(p, min(row, rows - 1)), entry); }
};

}  // namespace attile::gpu
