// SPDX-License-Identifier: Apache-2.0
// What plans of grouped products share: the kernel that finds the groups' rows, and what a query says.
#pragma once

#include <attile/attile_backend.h>

#include "device.h"
#include "gemm/problem.h"
#include "gemm/row_groups.h"
#include "host/workspace.h"

namespace attile::gpu {

// Groups and tiles are counted in 32 bits.
bool row_groups_fit(const attile_gemm_grouped_problem &problem, int rows_of_tile);
// At most so many tiles of rows there are: where the offsets lie is not known.
int64_t most_row_tiles(const attile_gemm_grouped_problem &problem, int rows_of_tile);

int64_t row_groups_bytes(const attile_gemm_grouped_problem &problem);
int32_t launch_row_groups(Device &device, const attile_gemm_grouped_problem &problem, int rows_of_tile, Workspace &workspace, Stream stream,
                          RowGroups *found);

// Fills in the operations and the least memory traffic.
void gemm_groups_work(const attile_gemm_grouped_problem &problem, attile_support &support);

}  // namespace attile::gpu
