// SPDX-License-Identifier: Apache-2.0
// Many small products of f16 or bf16, up to 32 rows and columns each: a warp makes one, by mma.sync, so that a block's latency is not paid
// for each. Serves every capability from 8.0 on.
#pragma once

#include "device.h"
#include "divider.h"
#include "host/workspace.h"

namespace attile::gpu::mma {

inline constexpr int kSmallExtent = 32;  // Most rows and columns.
inline constexpr int kSmallDepth = 32;   // That a warp takes at a time.
inline constexpr int kSmallWarps = 8;    // Of a block, at most.

// Strides are in bytes, that of rows between whatever is not contiguous.
struct SmallMatrix {
    char *data;
    int64_t batch_x, batch_y, row;
};

struct SmallGemmArguments {
    SmallMatrix a, b, d;
    Divider batch_y;
    uint32_t batches;
    int32_t m, n, k;
    float alpha;
};

struct SmallGemmPlan {
    bool taken = false;
    SmallGemmArguments arguments = {};
    const void *kernel = nullptr;
    int warps = 1;
    int64_t blocks = 0;
};

// Not taken: it is for other kernels.
SmallGemmPlan small_gemm_plan(const DeviceProperties &device, const attile_gemm_problem &problem);

// As a family's plan.
struct SmallGemm {
    const attile_gemm_problem *problem;
    const char *generation;  // The kernels' name, as "sm90".
    SmallGemmPlan plan;

    int32_t describe(Device &device, attile_support &support) const;
    void move_to(const attile_gemm_problem &to);
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const;
};

// The kernel for A and B contiguous along the depth (0) or along their other axis (1).
const void *small_gemm_kernel(bool is_f16, int outer_a, int outer_b);

}  // namespace attile::gpu::mma
