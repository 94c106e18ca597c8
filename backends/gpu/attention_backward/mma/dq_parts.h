// SPDX-License-Identifier: Apache-2.0
// dQ of few rows that see many keys. A block of the kernel that makes dQ of kept gradients of scores (attention_backward/mma/sum.cuh) goes
// over all keys that its rows see, so that few rows leave the device idle. Then blocks share the keys out: each sums a part of dQ, in
// float32, and the parts are added up in their order.
#pragma once

#include "attention_backward/mma/plan.h"
#include "attention_backward/mma/sum.h"
#include "host/workspace.h"

namespace attile::gpu::mma {

struct BackwardDqParts {
    int64_t count = 1, tiles = 0;  // Of a block of rows; tiles of keys of a part.

    int64_t workspace(const attile_attention_problem &p) const;
    // The kernel's arguments; false: the workspace is too small.
    bool place(const attile_attention_problem &p, const BackwardTask &task, Workspace &workspace, BackwardSumTask &to) const;
    // dq from its parts.
    int32_t add(Device &device, const attile_attention_backward_problem &problem, const BackwardSumTask &task, Stream stream) const;
};

// One part where not all pairs are of one launch.
BackwardDqParts backward_dq_parts(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan,
                                  const BackwardSumShape &shape);

}  // namespace attile::gpu::mma
