// SPDX-License-Identifier: Apache-2.0
// Which tile the sm_90a GEMM kernel uses, how a tile's depth is shared out, and whether operands are packed first: chosen by a model of the
// time each candidate takes.
#pragma once

#include "device.h"
#include "plan/gemm_shape.h"
#include "sm90_gemm_arguments.h"

namespace attile::sm90 {

struct GemmChoice {
    GemmTile tile = kGemm128x128;
    bool transposed = false;  // The tile's rows are columns of D.
    int splits = 1;           // Blocks of a cluster that share a tile's depth.
    int multicast = 1;        // Blocks of a cluster that share columns.
};

struct GemmPlan {
    GemmChoice choice;
    simt::GemmParams params;  // With a unit stride along the columns of D where it has one.
    int64_t batches = 1;
    bool pack_a = false, pack_b = false;                   // Of params' A and B.
    bool plain = false, wide = false, vectorised = false;  // As in GemmArguments.
    int64_t tiles_a = 0, tiles_b = 0, tiles = 0;           // As in GemmArguments.
    int64_t blocks = 0;
    int64_t workspace_bytes = 0;
    double seconds = 0;  // As the model predicts, packing included.
    double pack_seconds = 0;
    char declined[160] = {};  // Why the kernel cannot run it; empty if it can.
};

// An operand as the copy engine reads it, or as packing leaves it: contiguous along `outer_first` ? its outer axis : the depth.
struct GemmPanel {
    int64_t outer, depth;  // Extents.
    int64_t row;           // Stride of the axis that is not contiguous.
    int64_t batch_x, batch_y;
    int64_t count_x, count_y;  // Extents of the batch axes; 1 where the operand is the same for all.
    bool outer_first;
};
GemmPanel gemm_panel(const simt::GemmInput &input, int64_t outer, int64_t depth, int64_t batch_x, int64_t batch_y, bool packed);
int64_t gemm_panel_bytes(const GemmPanel &panel);

// `forced`, for tests and tuning, replaces the model's choice.
GemmPlan gemm_plan(const simt::DeviceProperties &device, const attile_gemm_problem &problem, const GemmChoice *forced = nullptr);

}  // namespace attile::sm90
