// SPDX-License-Identifier: Apache-2.0
// How the kernels before and after those of the products share out their work: tasks of a thread or of a lane group, and what a task is of.
#pragma once

#include "attention/block.h"
#include "attention/output.h"
#include "attention_backward/simt/kernels.h"

namespace attile::gpu::simt {

ATTILE_LANE_FN int64_t first_task() { return static_cast<int64_t>(blockIdx.x) * kBackwardThreads + threadIdx.x; }
ATTILE_LANE_FN int64_t task_step() { return static_cast<int64_t>(gridDim.x) * kBackwardThreads; }
ATTILE_LANE_FN int64_t first_group() { return first_task() / kLanes; }
ATTILE_LANE_FN int64_t group_step() { return task_step() / kLanes; }

// Before the pairs' words stands one for all of them.
ATTILE_LANE_FN uint32_t &any_irregular(const AttentionBackwardParams &p) { return p.irregular[-1]; }

// Numbers of 64 bits that mostly fit 32, in which division is several times as fast.
struct Parts {
    int64_t quotient;
    int rest;
    ATTILE_LANE_FN Parts(int64_t dividend, int divisor) {
        if (static_cast<uint64_t>(dividend) >> 32 == 0) {
            const uint32_t narrow = static_cast<uint32_t>(dividend) / static_cast<uint32_t>(divisor);
            quotient = narrow;
            rest = static_cast<int>(static_cast<uint32_t>(dividend) - narrow * static_cast<uint32_t>(divisor));
        } else {
            quotient = dividend / divisor;
            rest = static_cast<int>(dividend - quotient * divisor);
        }
    }
};

// Calls take(number of x, number of y) for the lane's columns of a row of each, four at a time where both allow it.
template <class T, class Take>
ATTILE_LANE_FN void for_columns(const AttentionOperand &x, int64_t x_at, const AttentionOperand &y, int64_t y_at, int cols,
                                const Take &take) {
    const bool is_float = x.storage == AttentionStorage::kF32 && y.storage == AttentionStorage::kF32;
    if (is_float && x.vector && y.vector && cols % 4 == 0) {
        for (int d = lane_index() * 4; d < cols; d += kLanes * 4) {
            const Quad xs = load_vec_const<4>(static_cast<const float *>(x.data) + x_at + d);
            const Quad ys = load_vec_const<4>(static_cast<const float *>(y.data) + y_at + d);
#pragma unroll
            for (int e = 0; e < 4; ++e) take(static_cast<T>(xs[e]), static_cast<T>(ys[e]));
        }
        return;
    }
    for (int d = lane_index(); d < cols; d += kLanes) take(load_as<T>(x, x_at + d * x.stride[3]), load_as<T>(y, y_at + d * y.stride[3]));
}

}  // namespace attile::gpu::simt
