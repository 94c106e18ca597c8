// SPDX-License-Identifier: Apache-2.0
#include "gemm/groups.h"

#include "host/sizes.h"
#include "host/status.h"

namespace attile::gpu {
namespace {

int64_t entries(const attile_gemm_grouped_problem &problem) { return problem.product->batch[1] + 1; }

}  // namespace

int64_t most_row_tiles(const attile_gemm_grouped_problem &problem, int rows_of_tile) {
    const attile_gemm_problem &p = *problem.product;
    const int64_t groups = p.batch[1] < p.m ? p.batch[1] : p.m;  // That have rows.
    return p.m / rows_of_tile + groups;
}

bool row_groups_fit(const attile_gemm_grouped_problem &problem, int rows_of_tile) {
    return problem.product->batch[1] < INT32_MAX / 2 && most_row_tiles(problem, rows_of_tile) < INT32_MAX / 2;
}

int64_t row_groups_bytes(const attile_gemm_grouped_problem &problem) {
    return 2 * workspace_piece(entries(problem) * static_cast<int64_t>(sizeof(int32_t)));
}

int32_t launch_row_groups(Device &device, const attile_gemm_grouped_problem &problem, int rows_of_tile, Workspace &workspace, Stream stream,
                          RowGroups *found) {
    FindRowGroupsParams p = {};
    p.offsets = static_cast<const int32_t *>(problem.row_offsets.data);
    p.stride = problem.row_offsets.stride[1];
    p.groups = static_cast<int32_t>(problem.product->batch[1]);
    p.rows = static_cast<int32_t>(problem.product->m);
    p.rows_of_tile = rows_of_tile;
    p.first_row = workspace.take<int32_t>(entries(problem));
    p.first_tile = workspace.take<int32_t>(entries(problem));
    if (p.first_tile == nullptr) return fail(ATTILE_ERROR_INTERNAL, "gemm_grouped: the workspace is smaller than the query asked for");
    *found = {p.first_row, p.first_tile, p.groups};
    void *arguments[] = {&p, nullptr};
    return device.launch(find_row_groups_kernel(), Dim3{1}, Dim3{kFindRowGroupsThreads}, 0, arguments, stream);
}

void gemm_groups_work(const attile_gemm_grouped_problem &problem, attile_support &support) {
    const attile_gemm_problem &p = *problem.product;
    gemm_work(p, support);
    support.flops /= static_cast<double>(p.batch[1]);  // Each row has one group.
    support.bytes += static_cast<double>(entries(problem)) * sizeof(int32_t);
}

}  // namespace attile::gpu
