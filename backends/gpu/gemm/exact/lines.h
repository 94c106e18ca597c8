// SPDX-License-Identifier: Apache-2.0
// Where lines of A and B are.
#pragma once

#include "gemm/exact/kernels.h"
#include "lane.h"

namespace attile::gpu::exact {

// The line of a number, counted through all entries.
struct LineOf {
    int64_t entry, line;

    ATTILE_LANE_FN LineOf(const Numbers &of, int64_t number) : entry(number / of.count), line(number - entry * of.count) {}
    template <class T>
    ATTILE_LANE_FN const T *in(const Numbers &of) const {
        return static_cast<const T *>(of.data) + entry * of.batch + line * of.outer;
    }
};
ATTILE_LANE_FN int64_t lines_of(const Numbers &of) { return of.entries * of.count; }

}  // namespace attile::gpu::exact
