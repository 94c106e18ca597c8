// SPDX-License-Identifier: Apache-2.0
#include "attention/sm90/launch.h"

#include <algorithm>

#include "attention/run.h"
#include "host/sizes.h"
#include "host/status.h"
#include "mma/reach.h"

namespace attile::gpu::sm90 {

const char *unreachable(const attile_operand &x, int64_t heads, int64_t rows, int64_t bytes) {
    if (!is_reachable(x.data, x.stride, 3, bytes)) return "has a stride that is negative or too long for TMA";
    if ((x.stride[1] == 0 && heads > 1) || (x.stride[2] == 0 && rows > 1)) return "is broadcast along its heads or rows";
    return nullptr;
}

void choose_grid(Device &device, bool is_even, Sm90AttentionChoice &choice) {
    choice.grid = static_cast<int32_t>(std::min<int64_t>(
        choice.tiles, static_cast<int64_t>(std::max(device.properties().compute_units, 1)) * choice.plan.blocks_per_unit));
    choice.has_counter = choice.tiles > choice.grid && !is_even;
    if (choice.has_counter) choice.plan.workspace += workspace_piece(sizeof(int32_t));
}

int32_t map_queries(Device &device, const attile_attention_problem &p, const AttentionPlan &plan, AttentionArguments &a) {
    const int64_t pack = plan.pack;
    TensorMapShape q;
    q.axes = 5;
    q.is_fetched_by_lines = true;
    const int64_t extent[] = {p.head_dim, pack, p.total_q, p.heads_q / pack, is_present(p.cu_len_q) || p.q.stride[0] == 0 ? 1 : p.batch};
    const int64_t stride[] = {1, p.q.stride[1], p.q.stride[2], p.q.stride[1] * pack, p.q.stride[0]};
    const int32_t box[] = {kAttentionPanel, plan.pack, plan.rows / plan.pack, 1, 1};
    std::copy(extent, extent + 5, q.extent);
    std::copy(stride, stride + 5, q.stride);
    std::copy(box, box + 5, q.box);
    a.q_batch = extent[4] > 1;
    return device.make_tensor_map(p.q.data, p.q.dtype, q, &a.map_q);
}

int32_t map_key_boxes(Device &device, const attile_operand &x, const KeyBox &of, int32_t &head_moves, int32_t &batch_moves,
                      TensorMap *map) {
    TensorMapShape shape;
    shape.axes = 4;
    shape.is_fetched_by_lines = true;  // Decoding: 5 to 7 % more of the memory's rate; elsewhere level.
    const int64_t extent[] = {of.columns, of.keys, of.heads, of.entries};
    const int64_t stride[] = {1, x.stride[2], x.stride[1], x.stride[0]};
    const int32_t box[] = {kAttentionPanel, of.box_keys, 1, 1};
    std::copy(extent, extent + 4, shape.extent);
    std::copy(stride, stride + 4, shape.stride);
    std::copy(box, box + 4, shape.box);
    head_moves = of.heads > 1;
    batch_moves = of.entries > 1;
    return device.make_tensor_map(x.data, x.dtype, shape, map);
}

int32_t map_output(Device &device, const attile_attention_problem &p, const AttentionPlan &plan, AttentionArguments &a) {
    if (plan.pack != 1 || plan.splits != 1 || is_present(p.sinks) || unreachable(p.o, p.heads_q, p.total_q, 2) != nullptr) return ATTILE_OK;
    TensorMapShape o;
    o.axes = 4;
    const int64_t extent[] = {p.head_dim_v, p.total_q, p.heads_q, is_present(p.cu_len_q) ? 1 : p.batch};
    const int64_t stride[] = {1, p.o.stride[2], p.o.stride[1], p.o.stride[0]};
    const int32_t box[] = {kAttentionPanel, kAttentionStagedRows, 1, 1};
    std::copy(extent, extent + 4, o.extent);
    std::copy(stride, stride + 4, o.stride);
    std::copy(box, box + 4, o.box);
    a.has_map_o = 1;
    a.o_batch = extent[3] > 1;
    return device.make_tensor_map(p.o.data, p.o.dtype, o, &a.map_o);
}

int32_t launch_tiles(Device &device, const attile_attention_problem &p, const Sm90AttentionChoice &choice, AttentionArguments &a,
                     Workspace &workspace, Stream stream) {
    const AttentionPlan &plan = choice.plan;
    if (choice.has_counter) {
        a.counter = workspace.take<int32_t>(1);
        if (a.counter == nullptr) return fail(ATTILE_ERROR_INTERNAL, "attention: the workspace is smaller than planned");
        const int32_t status = device.fill_zero(a.counter, sizeof(int32_t), stream);
        if (status != ATTILE_OK) return status;
    }
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(choice.grid);
    block.x = static_cast<uint32_t>(plan.threads);
    void *arguments[] = {&a};
    // A launch of several rounds gains nothing by an early start.
    const int32_t status = choice.tiles > choice.grid ? device.launch(plan.kernel, grid, block, plan.shared, arguments, stream)
                                                      : device.launch_early(plan.kernel, grid, block, plan.shared, arguments, stream);
    if (status != ATTILE_OK || plan.splits == 1) return status;
    return attention_combine(device, a.p, p, stream);
}

}  // namespace attile::gpu::sm90
