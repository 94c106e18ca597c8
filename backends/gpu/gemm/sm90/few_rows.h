// SPDX-License-Identifier: Apache-2.0
// GEMM of few rows (or columns) by the kernel of gemm/sm90/few_rows.cuh: which problems it takes, and how their depth is shared out.
#pragma once

#include <cstdint>

#include "device.h"
#include "gemm/problem.h"
#include "host/workspace.h"

namespace attile::gpu::sm90 {

inline constexpr int kFewRowsMost = 16;     // Rows.
inline constexpr int kFewRowsColumns = 32;  // Of a block.
inline constexpr int kFewRowsDepth = 64;    // That a warp takes at a time.
inline constexpr int kFewRowsWarps = 8, kFewRowsThreads = 32 * kFewRowsWarps;
inline constexpr int kFewRowsBlocks = 2;  // Of a multiprocessor.

struct FewRowsPlan {
    bool taken = false;
    GemmShape shape;  // Its params with splits, a block's share of the depth, and tiles_n set.
    const void *kernel = nullptr;
    int64_t blocks = 0;
    double seconds = 0;  // As a model predicts.
};

FewRowsPlan few_rows_plan(const DeviceProperties &device, const attile_gemm_problem &problem);

// As a family's plan.
struct FewRowsGemm {
    const attile_gemm_problem *problem;
    FewRowsPlan plan;

    int32_t describe(Device &device, attile_support &support) const;
    void move_to(const attile_gemm_problem &to) {
        problem = &to;
        gemm_move(plan.shape.params, to);
    }
    int32_t launch(Device &device, Workspace &workspace, Stream stream) const;
};

// The kernel for so many rows (8 or 16) and a B contiguous along the depth or along columns.
const void *few_rows_kernel_f16(int rows, bool along_depth);
const void *few_rows_kernel_bf16(int rows, bool along_depth);

}  // namespace attile::gpu::sm90
