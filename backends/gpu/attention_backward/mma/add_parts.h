// SPDX-License-Identifier: Apache-2.0
// What the kernel that adds up parts of dk and dv, or of dq alone, is told, by value.
#pragma once

#include <cstdint>

#include "attention_backward/params.h"
#include "device.h"

namespace attile::gpu::mma {

inline constexpr int32_t kAddPartsThreads = 128;
inline constexpr int32_t kAddedColumns = 8;  // Of a thread.

// One of the two gradients.
struct BackwardPartSum {
    AttentionOperand to;
    const float *parts;   // [batch entry][head][part][row][column]
    int32_t columns;      // A multiple of kAddedColumns.
    int32_t pieces;       // columns / kAddedColumns
    int64_t part_stride;  // Between parts: rows * columns.
};

struct BackwardPartSums {
    BackwardPartSum dk, dv;
    int32_t parts, rows, heads;  // Rows of a head: keys, or rows of queries.
    int64_t all_rows;            // Of all entries and heads; packed sequences are one entry.
};

// Of gradients of this type or float32.
const void *backward_add_parts(int32_t dtype);

// One of them, whose parts' rows are dense.
BackwardPartSum backward_part_sum(const attile_operand &to, const float *parts, int64_t rows, int64_t columns);
// Launches the kernel; of an operand without pieces it adds nothing.
int32_t add_backward_parts(Device &device, int32_t dtype, BackwardPartSums &sums, Stream stream);

}  // namespace attile::gpu::mma
