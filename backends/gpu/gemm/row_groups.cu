// SPDX-License-Identifier: Apache-2.0
// Where groups of rows begin. One block of 256 threads, each of which takes neighbouring groups: an offset counts as at least the one
// before it, so that first the largest ones ahead of each thread are found, then the tiles ahead of it. Shared bytes: 257 * 4. Bound:
// latency.
#include "gemm/row_groups.h"

#include "lane.h"

namespace attile::gpu {
namespace {

// What `combine` makes of the values of all threads before this one; of the first, `first`.
template <class Combine>
ATTILE_LANE_FN int32_t before_this(int32_t value, int32_t first, int32_t *shared, Combine combine) {
    const int thread = static_cast<int>(threadIdx.x);
    shared[thread + 1] = value;
    if (thread == 0) shared[0] = first;
    __syncthreads();
#pragma unroll 1
    for (int apart = 1; apart <= kFindRowGroupsThreads; apart *= 2) {
        const int32_t own = shared[thread + 1], other = thread + 1 >= apart ? shared[thread + 1 - apart] : own;
        __syncthreads();
        if (thread + 1 >= apart) shared[thread + 1] = combine(own, other);
        __syncthreads();
    }
    const int32_t result = shared[thread];
    __syncthreads();
    return result;
}

__global__ void ATTILE_LAUNCH_BOUNDS(kFindRowGroupsThreads, 1) find_row_groups(const FindRowGroupsParams p) {
    __shared__ int32_t shared[kFindRowGroupsThreads + 1];
    const int32_t each = p.groups / kFindRowGroupsThreads + 1, thread = static_cast<int32_t>(threadIdx.x);
    // Of groups + 1 offsets.
    const int32_t begin = min(thread * each, p.groups + 1), end = min(begin + each, p.groups + 1);
    const auto offset = [&](int32_t group) { return min(max(p.offsets[group * p.stride], 0), p.rows); };
    int32_t largest = 0;
    for (int32_t group = begin; group < end; ++group) largest = max(largest, offset(group));
    const int32_t ahead = before_this(largest, 0, shared, [](int32_t a, int32_t b) { return max(a, b); });
    // The rows of a group end where the next one's begin.
    const auto tiles_of = [&](int32_t rows) { return rows / p.rows_of_tile + (rows % p.rows_of_tile != 0 ? 1 : 0); };
    int32_t tiles = 0, first = ahead;
    for (int32_t group = begin; group < end; ++group) {
        const int32_t row = max(first, offset(group));
        if (group > 0) tiles += tiles_of(row - first);
        first = row;
        p.first_row[group] = row;
    }
    int32_t tile = before_this(tiles, 0, shared, [](int32_t a, int32_t b) { return a + b; });
    first = ahead;
    for (int32_t group = begin; group < end; ++group) {
        const int32_t row = max(first, offset(group));
        if (group > 0) tile += tiles_of(row - first);
        first = row;
        p.first_tile[group] = tile;
    }
}

}  // namespace

const void *find_row_groups_kernel() { return reinterpret_cast<const void *>(&find_row_groups); }

}  // namespace attile::gpu
