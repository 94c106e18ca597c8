// SPDX-License-Identifier: Apache-2.0
// Into which chunks a staged call is cut: plain arithmetic, apart from the machinery that runs it.
#pragma once

#include "host/staging.h"

namespace attile::gpu {

struct ChunkPlan {
    int64_t count[kStagedDims] = {1, 1, 1, 1};  // Units of a chunk along each dimension; the last chunk may have fewer.
    int64_t bytes = 0;                          // Device memory that all buffers take.
};

// Bytes that an operand's chunk of `count` units takes, densely.
int64_t staged_bytes(const StagedOperand &operand, const int64_t units[kStagedDims], const int64_t count[kStagedDims]);

// Whether the operand's chunk changes along a dimension that is cut.
bool follows(const StagedOperand &operand, int32_t dim);

// Chunks small enough for `budget` bytes of device memory with every moving operand double-buffered, and small enough that copies overlap
// compute. `staged` tells which of the call's operands are in host memory. False if no chunk fits.
bool plan_chunks(const StagedCall &call, const std::vector<bool> &staged, int64_t budget, ChunkPlan *plan);

}  // namespace attile::gpu
