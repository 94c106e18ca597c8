// SPDX-License-Identifier: Apache-2.0
// The kernels that make dQ from gradients of scores which others left in memory (BackwardTask).
//
//   shape              rows x keys          shared memory: places x (keys + fragments)              blocks by registers
//   Sum64, 128, 256    128 rows x 64 keys   3 x 24, 3 x 32, 2 x 48    =  72, 96, 96 KB              3, 2, 1
//
// Sum64 takes 168 registers, of which CUDA 11.8 spills 12 bytes. Two places instead of three in Sum128: 238 us instead of 228 for half of
// the heads of B = 8, H = 16, S = 2048 on an H200.
#pragma once

#include <cstdint>

namespace attile::gpu::mma {

// A block sums dQ of `groups` times 32 rows from gradients that were left in memory.
struct BackwardSumShape {
    int depth, groups, splits;
    int keys;    // Of a tile that streams.
    int places;  // For tiles in shared memory.
    int blocks;

    constexpr int rows() const { return 32 * groups; }
    constexpr int columns() const { return depth / splits; }
    constexpr int threads() const { return 32 * groups * splits; }
    constexpr int tile_bytes() const { return keys * depth * 2; }
    constexpr int place_bytes() const { return tile_bytes() + rows() * keys * 2; }
    constexpr int shared_bytes() const { return places * place_bytes(); }
};

//  depth, groups, splits, keys, places, blocks
struct BackwardSum64 {
    static constexpr BackwardSumShape kShape = {64, 4, 1, 64, 3, 3};
};
struct BackwardSum128 {
    static constexpr BackwardSumShape kShape = {128, 4, 1, 64, 3, 2};
};
struct BackwardSum256 {
    static constexpr BackwardSumShape kShape = {256, 4, 2, 64, 2, 1};
};

struct BackwardSumKernel {
    const void *kernel = nullptr;
    const BackwardSumShape *shape = nullptr;
};
// For operands of a type and heads of up to so many columns, 256 at most.
BackwardSumKernel backward_sum(int32_t dtype, int64_t columns);

}  // namespace attile::gpu::mma
