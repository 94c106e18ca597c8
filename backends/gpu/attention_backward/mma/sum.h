// SPDX-License-Identifier: Apache-2.0
// The kernels that make dQ from gradients of scores which others left in memory (BackwardTask).
//
//   shape              rows x keys          shared memory: stages x (keys + fragments)              blocks by registers
//   Sum64, 128, 256    128 rows x 64 keys   3 x 24, 3 x 32, 2 x 48    =  72, 96, 96 KB              3, 2, 1
//
// Sum64 takes 168 registers. Bound: memory at 64 columns. Record: docs/kernels/attention-backward-sm80.md.
#pragma once

#include <cstdint>

#include "attention_backward/mma/task.h"

namespace attile::gpu::mma {

// A block sums dQ of `groups` times 32 rows from gradients that were left in memory.
struct BackwardSumShape {
    int depth, groups, splits;
    int keys;    // Of a tile that streams.
    int stages;  // For tiles in shared memory.
    int blocks;

    constexpr int rows() const { return 32 * groups; }
    constexpr int columns() const { return depth / splits; }
    constexpr int threads() const { return 32 * groups * splits; }
    constexpr int tile_bytes() const { return keys * depth * 2; }
    constexpr int stage_bytes() const { return tile_bytes() + rows() * keys * 2; }
    constexpr int shared_bytes() const { return stages * stage_bytes(); }
};

//  depth, groups, splits, keys, stages, blocks
struct BackwardSum64 {
    static constexpr BackwardSumShape kShape = {64, 4, 1, 64, 3, 3};
};
struct BackwardSum128 {
    static constexpr BackwardSumShape kShape = {128, 4, 1, 64, 3, 2};
};
struct BackwardSum256 {
    static constexpr BackwardSumShape kShape = {256, 4, 2, 64, 2, 1};
};

// What the kernels are told, by value.
struct BackwardSumTask : BackwardTask {
    AttentionOperand to;  // dq, or parts of it, in float32.
    int32_t parts;        // Of the keys of each block of rows, which different blocks have.
    int32_t part_tiles;   // Tiles of a part.
    int64_t part_stride;  // From a part of `to` to the next.
};

struct BackwardSumKernel {
    const void *kernel = nullptr;
    const BackwardSumShape *shape = nullptr;
};
// For operands of a type and heads of up to so many columns, 256 at most.
BackwardSumKernel backward_sum(int32_t dtype, int64_t columns);

}  // namespace attile::gpu::mma
