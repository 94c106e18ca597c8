// SPDX-License-Identifier: Apache-2.0
// What the kernel that adds up parts of dk and dv is told, by value.
#pragma once

#include <cstdint>

#include "attention_backward/params.h"

namespace attile::gpu::mma {

inline constexpr int32_t kAddPartsThreads = 128;
inline constexpr int32_t kAddedColumns = 8;  // Of a thread.

// One of the two gradients.
struct BackwardPartSum {
    AttentionOperand to;
    const float *parts;   // [batch entry][key head][part][key][column]
    int32_t columns;      // A multiple of kAddedColumns.
    int32_t pieces;       // columns / kAddedColumns
    int64_t part_stride;  // Between parts: keys * columns.
};

struct BackwardPartSums {
    BackwardPartSum dk, dv;
    int32_t parts, keys, heads_kv;
    int64_t rows;  // batch * heads_kv * keys
};

// Of gradients of this type or float32.
const void *backward_add_parts(int32_t dtype);

}  // namespace attile::gpu::mma
