// SPDX-License-Identifier: Apache-2.0
// What reduce and softmax share: their problems seen as rows (up to three axes) of one inner axis, with axes merged where strides allow,
// and the folding of a value over a group of threads.
#pragma once

#include "device.h"
#include "lane.h"
#include "numeric.h"

namespace attile::gpu {

// Axes of the rows, slowest first, for an input x and an output y. Unused leading axes have extent 1.
struct RowAxes {
    int64_t extent[3] = {1, 1, 1};
    int64_t x[3] = {};
    int64_t y[3] = {};

    constexpr int64_t count() const { return extent[0] * extent[1] * extent[2]; }
};

// Merges neighbouring axes that are one in both x and y, and drops those of extent 1.
inline RowAxes merge_axes(const int64_t *extent, const int64_t *x, const int64_t *y, int axes) {
    RowAxes merged;
    int used = 0;  // Filled from the fastest, at index 2.
    for (int axis = axes - 1; axis >= 0; --axis) {
        if (extent[axis] == 1) continue;
        const int last = 3 - used;
        if (used > 0 && x[axis] == merged.x[last] * merged.extent[last] && y[axis] == merged.y[last] * merged.extent[last]) {
            merged.extent[last] *= extent[axis];
            continue;
        }
        ++used;
        merged.extent[3 - used] = extent[axis];
        merged.x[3 - used] = x[axis];
        merged.y[3 - used] = y[axis];
    }
    return merged;
}

struct Division {
    int64_t quotient, remainder;
};

// Of numbers that are not negative. Nearly always both fit 31 bits, where the device divides several times faster.
ATTILE_LANE_FN Division divide(int64_t dividend, int64_t divisor) {
    if (divisor == 1) return {dividend, 0};
    if (((dividend | divisor) >> 31) == 0) {
        const uint32_t quotient = static_cast<uint32_t>(dividend) / static_cast<uint32_t>(divisor);
        return {quotient, static_cast<uint32_t>(dividend) - quotient * static_cast<uint32_t>(divisor)};
    }
    const uint64_t quotient = static_cast<uint64_t>(dividend) / static_cast<uint64_t>(divisor);
    return {static_cast<int64_t>(quotient), dividend - static_cast<int64_t>(quotient) * divisor};
}

struct RowOffset {
    int64_t x, y;
};

// Where row number `row` begins.
ATTILE_LANE_FN RowOffset row_offset(const RowAxes &axes, int64_t row) {
    if (axes.extent[0] == 1 && axes.extent[1] == 1) return {row * axes.x[2], row * axes.y[2]};
    const Division last = divide(row, axes.extent[2]);
    const Division middle = divide(last.quotient, axes.extent[1]);
    return {last.remainder * axes.x[2] + middle.remainder * axes.x[1] + middle.quotient * axes.x[0],
            last.remainder * axes.y[2] + middle.remainder * axes.y[1] + middle.quotient * axes.y[0]};
}

inline constexpr int kRowThreads = 256;  // A block of the row and column kernels.

// Folds each of kCount values over the kWidth neighbouring threads that share a row; all get the same bits. kWidth is a power of two up to
// the lane group, or the whole block, which then passes through `shared`, of kCount values a lane group.
template <int kWidth, int kCount, class Value, class Combine>
ATTILE_LANE_FN void row_fold(Value (&values)[kCount], Value *shared, Combine combine) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = lane_fold < kWidth < kLanes ? kWidth : kLanes > (values[i], combine);
    if constexpr (kWidth > kLanes) {
        constexpr int kGroups = kWidth / kLanes;
        [[maybe_unused]] constexpr int kUnroll = kGroups > 8 ? 1 : kGroups;
        __syncthreads();  // The last round's readers are done.
        if (lane_index() == 0) {
#pragma unroll
            for (int i = 0; i < kCount; ++i) shared[i * kGroups + lane_group_index()] = values[i];
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            values[i] = shared[i * kGroups];
#pragma unroll kUnroll
            for (int group = 1; group < kGroups; ++group) values[i] = combine(values[i], shared[i * kGroups + group]);
        }
    }
}

template <int kWidth, class Value, class Combine>
ATTILE_LANE_FN Value row_fold(Value value, Value *shared, Combine combine) {
    Value values[1] = {value};
    row_fold<kWidth>(values, shared, combine);
    return values[0];
}

// Blocks for `items`, each block taking `per_block` of them at a time; more than a few waves gain nothing.
inline uint32_t row_grid(const Device &device, int64_t items, int64_t per_block) {
    const int64_t wanted = (items + per_block - 1) / per_block;
    const int64_t most = int64_t{64} * (device.properties().compute_units > 0 ? device.properties().compute_units : 1);
    return static_cast<uint32_t>(wanted < 1 ? 1 : wanted < most ? wanted : most);
}

// Of the peak bandwidth, where there is much to do: 0.79 to 0.93 on an H200.
inline constexpr double kRowsShare = 0.85;

// The part of a support answer that the device knows about a kernel.
inline int32_t fill_resources(Device &device, const void *kernel, int32_t threads, attile_support &support) {
    KernelResources resources;
    int32_t status = device.resources(kernel, &resources);
    if (status == ATTILE_OK) status = device.occupancy(kernel, threads, 0, &support.blocks_per_unit);
    support.threads = threads;
    support.registers = resources.registers;
    support.shared_bytes = resources.shared_static;
    support.predicted_share = kRowsShare;
    return status;
}

}  // namespace attile::gpu
