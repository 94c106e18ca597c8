// SPDX-License-Identifier: Apache-2.0
// Which GEMM kernel, and into how many parts the depth is split: chosen by a model of the time each candidate takes on the device at hand.
#pragma once

#include <cstddef>

#include "device.h"
#include "gemm/problem.h"
#include "gemm/simt/table.h"

namespace attile::gpu {

// What the model knows of a configuration. The rates are shares of the device's peak measured on an H200 from compute_61 code.
struct GemmTileModel {
    simt::GemmTileId id;
    const char *name;
    int m, n, threads;
    int resident;          // Blocks a unit holds by registers.
    double rate;           // Share of the peak at full occupancy, aligned panels.
    double unaligned;      // The same of unaligned panels.
    double round_seconds;  // The start and end of the blocks that are resident together, not hidden by others.
    double idle_warps;     // Resident warps at which half of a unit's time would be idle.
};

struct GemmPlan {
    const void *kernel = nullptr;  // Null: no depth, only the epilogue of zero is computed.
    const char *name = "";
    const char *variant = "";  // "direct", "aligned", "unaligned", "strided".
    int tile_m = 0, tile_n = 0, tile_k = 0, threads = 0;
    std::size_t shared = 0;  // Dynamic shared memory of a block.
    int splits = 1;
    int64_t split_depth = 0;
    int64_t tiles_m = 0, tiles_n = 0;
    bool combine = false;         // Partial results and a second kernel.
    int64_t partial_row = 0;      // Elements of a partial result's row.
    int64_t workspace_bytes = 0;  // As the query says.
    double seconds = 0;           // As the model predicts.
};

// The configurations for an element of `bytes` bytes, ended by one without a name.
const GemmTileModel *gemm_tile_models(int bytes);

// Does gemm_combine_plain_kernel add so many partial results?
bool gemm_combines_plainly(const GemmProduct &product, int splits);

GemmPlan gemm_plan(const DeviceProperties &device, const GemmShape &shape, bool batch_invariant);

}  // namespace attile::gpu
