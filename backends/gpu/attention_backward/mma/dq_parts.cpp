// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/dq_parts.h"

#include <algorithm>

#include "attention/run.h"
#include "attention_backward/mma/add_parts.h"
#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kFewestTiles = 8;  // Of a part: fewer would take less time than adding up one more.

}  // namespace

BackwardDqParts backward_dq_parts(const DeviceProperties &device, const attile_attention_problem &p, const AttentionBackwardPlan &plan,
                                  const BackwardSumShape &shape) {
    BackwardDqParts parts;
    parts.tiles = std::max<int64_t>(ceil_div(p.len_k, shape.keys), 1);
    // What an entry gets must not depend on how many there are. Of packed sequences, rows that none has would be added up as well.
    if ((p.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0 || is_present(p.cu_len_q) || plan.slice < plan.pairs) return parts;
    const int64_t blocks = std::max<int64_t>(p.batch * p.heads_q * ceil_div(p.len_q, shape.rows()), 1),
                  slots = static_cast<int64_t>(std::max(device.compute_units, 1)) * shape.blocks;
    const int64_t left = p.window_left, right = p.window_right;
    int64_t seen = parts.tiles;
    if (left >= 0 && right >= 0)
        seen = std::min(seen, ceil_div(std::min(left, p.len_k) + std::min(right, p.len_k) + shape.rows(), shape.keys) + 1);
    const int64_t most = std::min(slots / blocks, seen / kFewestTiles);
    if (most < 2) return parts;
    parts.tiles = ceil_div(seen, most);
    parts.count = ceil_div(seen, parts.tiles);
    return parts;
}

int64_t BackwardDqParts::workspace(const attile_attention_problem &p) const {
    return count > 1 ? workspace_piece(4 * count * p.batch * p.heads_q * p.len_q * p.head_dim) : 0;
}

bool BackwardDqParts::place(const attile_attention_problem &p, const BackwardTask &task, Workspace &workspace, BackwardSumTask &to) const {
    static_cast<BackwardTask &>(to) = task;
    to.to = task.p.dq;
    to.parts = static_cast<int32_t>(count);
    to.part_tiles = static_cast<int32_t>(tiles);
    if (count == 1) return true;
    attile_operand x = {};
    x.dtype = ATTILE_F32;
    x.data = workspace.take<float>(count * p.batch * p.heads_q * p.len_q * p.head_dim);
    to.part_stride = p.len_q * p.head_dim;
    const int64_t stride[] = {p.heads_q * count * to.part_stride, count * to.part_stride, p.head_dim, 1};
    std::copy(stride, stride + 4, x.stride);
    to.to = attention_operand(x, p.head_dim);
    return x.data != nullptr;
}

int32_t BackwardDqParts::add(Device &device, const attile_attention_backward_problem &problem, const BackwardSumTask &task,
                             Stream stream) const {
    if (count == 1) return ATTILE_OK;
    const attile_attention_problem &p = *problem.forward;
    BackwardPartSums sums = {};
    sums.dk = backward_part_sum(problem.dq, static_cast<const float *>(task.to.data), p.len_q, p.head_dim);
    sums.parts = static_cast<int32_t>(count);
    sums.rows = static_cast<int32_t>(p.len_q);
    sums.heads = static_cast<int32_t>(p.heads_q);
    sums.all_rows = p.batch * p.heads_q * p.len_q;
    return add_backward_parts(device, p.q.dtype, sums, stream);
}

}  // namespace attile::gpu::mma
