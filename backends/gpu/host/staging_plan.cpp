// SPDX-License-Identifier: Apache-2.0
// Cuts one dimension after another, in the call's order, until chunks are small enough.
#include "host/staging_plan.h"

#include <algorithm>

namespace attile::gpu {
namespace {

// A chunk of this size takes a millisecond or so to copy, long beside a launch, short beside a large call.
constexpr int64_t kSmallestChunk = 8 << 20;
constexpr int64_t kLargestChunk = 64 << 20;
constexpr int64_t kChunksWanted = 12;

// Bytes of a chunk's moving operands, once, and of all buffers.
struct ChunkBytes {
    int64_t moving = 0, buffers = 0;
};

ChunkBytes chunk_bytes(const StagedCall &call, const std::vector<bool> &staged, const int64_t count[kStagedDims]) {
    ChunkBytes bytes;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        if (!staged[i]) continue;
        const int64_t one = staged_bytes(call.operands[i], call.units, count);
        bool moves = false;
        for (int32_t dim = 0; dim < kStagedDims; ++dim) moves |= count[dim] < call.units[dim] && follows(call.operands[i], dim);
        bytes.moving += moves ? one : 0;
        bytes.buffers += moves ? 2 * one : one;
    }
    return bytes;
}

}  // namespace

int64_t staged_bytes(const StagedOperand &operand, const int64_t units[kStagedDims], const int64_t count[kStagedDims]) {
    int64_t elements = 1;
    for (int axis = 0; axis < 4; ++axis) {
        if (operand.stride[axis] == 0 || operand.extent[axis] == 1) continue;
        const int32_t dim = operand.dim[axis];
        elements *= dim >= 0 && count[dim] < units[dim] ? count[dim] * operand.per_unit[axis] : operand.extent[axis];
    }
    return elements * operand.element_bytes;
}

bool follows(const StagedOperand &operand, int32_t dim) {
    for (int axis = 0; axis < 4; ++axis) {
        if (operand.dim[axis] == dim && operand.stride[axis] != 0 && operand.extent[axis] != 1) return true;
    }
    return false;
}

bool plan_chunks(const StagedCall &call, const std::vector<bool> &staged, int64_t budget, ChunkPlan *plan) {
    std::copy(call.units, call.units + kStagedDims, plan->count);
    int64_t total = 0;
    for (std::size_t i = 0; i < call.operands.size(); ++i) {
        if (staged[i]) total += staged_bytes(call.operands[i], call.units, call.units);
    }
    const int64_t wanted = std::min(kLargestChunk, std::max(kSmallestChunk, total / kChunksWanted));
    for (int step = 0; step < kStagedDims; ++step) {
        const int32_t dim = call.cut_order[step];
        const int64_t full = call.units[dim];
        if (full <= 1) continue;
        const bool for_overlap = step < call.cut_for_overlap;
        // With this dimension cut to one granule, what is the least? Between that and the whole, sizes grow linearly.
        for (int64_t parts = 1;; parts *= 2) {
            const int64_t granules = (full + call.granule[dim] - 1) / call.granule[dim];
            const int64_t per_part = (granules + std::min(parts, granules) - 1) / std::min(parts, granules);
            plan->count[dim] = std::min(full, per_part * call.granule[dim]);
            const ChunkBytes bytes = chunk_bytes(call, staged, plan->count);
            const bool is_small = bytes.moving == 0 ? parts > 1 : bytes.moving <= wanted;
            // Nothing cut yet: the whole counts as moving, or small calls would be cut without need.
            const bool is_whole_small = parts == 1 && bytes.moving == 0 && total <= wanted;
            if (bytes.buffers <= budget && (!for_overlap || is_small || is_whole_small)) break;
            if (parts >= granules) break;
        }
    }
    plan->bytes = chunk_bytes(call, staged, plan->count).buffers;
    return plan->bytes <= budget;
}

}  // namespace attile::gpu
