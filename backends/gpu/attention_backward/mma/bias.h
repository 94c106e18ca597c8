// SPDX-License-Identifier: Apache-2.0
// What the kernels of a bias's gradient are told, by value.
#pragma once

#include <cstdint>

#include "attention_backward/mma/task.h"

namespace attile::gpu::mma {

// A tile of the gradient is 128 rows by 128 keys of one entry and head of the bias. Operands stream by 64 columns at a time.
inline constexpr int32_t kBiasTile = 128, kBiasThreads = 256, kBiasColumns = 64, kBiasStages = 3;
inline constexpr int32_t kBiasOfThread = kBiasTile * kBiasTile / kBiasThreads;
// Two operands' rows, and the rows' lse and delta.
inline constexpr int32_t kBiasOperandBytes = kBiasTile * kBiasColumns * 2, kBiasStageBytes = 2 * kBiasOperandBytes + 8 * kBiasTile;
// Stages, and the bias in float32.
inline constexpr int32_t kBiasSharedBytes = kBiasStages * kBiasStageBytes + 4 * kBiasTile * kBiasTile;

struct BackwardBiasTask : BackwardTask {
    int32_t row_tiles, key_tiles;
    int32_t tiles;    // Of all entries and heads of the bias.
    int32_t members;  // Pairs of batch entry and query head that an element sums over,
    int32_t parts;    // cut into so many parts, which different blocks have.
    float *sums;      // [part][tile][element of a thread / 4][thread][4]; null: there is one part, which is stored at once.
};

struct BackwardBiasKernels {
    const void *gradient, *add_parts;
};
// For operands of a type.
BackwardBiasKernels backward_bias_kernels(int32_t dtype);

}  // namespace attile::gpu::mma
