// SPDX-License-Identifier: Apache-2.0
// Where groups of rows begin. One block of 256 threads, each of which takes neighbouring groups: an offset counts as at least the one
// before it, so that first the largest ones ahead of each thread are found. Then groups are put in the order of the rows of their tiles,
// unless there are very many of them, by counting for each those ahead of it, and the tiles ahead of each thread's places are found. Shared
// bytes: 257 * 4 + 2048 * 4. Bound: latency.
#include "gemm/row_groups.h"

#include "lane.h"

namespace attile::gpu {
namespace {

constexpr int kMostSortedGroups = 2048;

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
    __shared__ int32_t sizes[kMostSortedGroups];  // Rows of a group's tiles.
    const int32_t each = p.groups / kFindRowGroupsThreads + 1, thread = static_cast<int32_t>(threadIdx.x);
    // Of groups + 1 offsets.
    const int32_t begin = min(thread * each, p.groups + 1), end = min(begin + each, p.groups + 1);
    const auto offset = [&](int32_t group) { return min(max(p.offsets[group * p.stride], 0), p.rows); };
    int32_t largest = 0;
    for (int32_t group = begin; group < end; ++group) largest = max(largest, offset(group));
    const int32_t ahead = before_this(largest, 0, shared, [](int32_t a, int32_t b) { return max(a, b); });
    int32_t first = ahead;
    for (int32_t group = begin; group < end; ++group) {
        first = max(first, offset(group));
        p.first_row[group] = first;
    }
    __syncthreads();

    // The rows of a group end where the next one's begin.
    const auto rows_of = [&](int32_t group) { return p.first_row[group + 1] - p.first_row[group]; };
    const auto up = [](int32_t x, int32_t by) { return x / by + (x % by != 0 ? 1 : 0); };
    const auto tiles_of = [&](int32_t group) { return up(rows_of(group), p.rows_of_tile); };
    const bool is_sorted = p.groups <= kMostSortedGroups;
    for (int32_t group = thread; is_sorted && group < p.groups; group += kFindRowGroupsThreads) {
        const int32_t tiles = tiles_of(group);
        sizes[group] = tiles > 0 ? up(rows_of(group), tiles) : 0;
    }
    __syncthreads();
    for (int32_t group = thread; group < p.groups; group += kFindRowGroupsThreads) {
        int32_t place = is_sorted ? 0 : group;
        for (int32_t other = 0; is_sorted && other < p.groups; ++other)
            place += sizes[other] > sizes[group] || (sizes[other] == sizes[group] && other < group) ? 1 : 0;
        p.order[place] = group;
    }
    __syncthreads();

    // Tiles of the places ahead of this thread's, and from there on.
    int32_t tiles = 0;
    for (int32_t place = begin; place < min(end, p.groups); ++place) tiles += tiles_of(p.order[place]);
    int32_t tile = before_this(tiles, 0, shared, [](int32_t a, int32_t b) { return a + b; });
    for (int32_t place = begin; place < end; ++place) {
        p.first_tile[place] = tile;
        if (place < p.groups) tile += tiles_of(p.order[place]);
    }
}

}  // namespace

const void *find_row_groups_kernel() { return reinterpret_cast<const void *>(&find_row_groups); }

}  // namespace attile::gpu
