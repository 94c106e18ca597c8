// SPDX-License-Identifier: Apache-2.0
// The batch entries and heads that a tile of a bias's gradient is summed over, as far as they see any of it. One warp finds them, well
// before anyone looks at them; in shared memory and by calls, for want of registers.
#pragma once

#include "attention/block.h"
#include "attention_backward/mma/bias_tile.cuh"

namespace attile::gpu::mma {

// Fills in the member of an entry and head, if it sees any of the tile.
__device__ __forceinline__ void fill_member(const BackwardBiasTask &a, const BiasTile &tile, BiasMember &to, int batch, int head) {
    const AttentionParams &f = a.p.forward;
    const AttentionEntry entry = entry_of_thread(f, batch);
    to.rows = entry.len_q - tile.row;
    to.keys = entry.len_k - tile.key;
    const int rows = min(to.rows, kBiasTile), keys = min(to.keys, kBiasTile), shift = entry.shift + tile.row - tile.key;
    to.low = shift - f.window_left;
    to.high = shift + f.window_right;
    if (rows < 1 || keys < 1 || 1 - rows > to.high || keys - 1 < to.low) return;
    to.is_there = 1;
    to.is_whole = rows == kBiasTile && keys == kBiasTile && 1 - kBiasTile >= to.low && kBiasTile - 1 <= to.high;
    to.batch = batch;
    to.head = head;
    const auto place = [&](const AttentionOperand &x, int of_head, int64_t first) {
        return static_cast<const char *>(x.data) + (batch * x.stride[0] + of_head * x.stride[1] + first * x.stride[2]) * 2;
    };
    const int head_k = static_cast<int>(quotient(static_cast<uint32_t>(head), f.group));
    to.q = place(f.q, head, entry.first_q + tile.row);
    to.dout = place(a.p.dout, head, entry.first_q + tile.row);
    to.k = place(f.k, head_k, entry.first_k + tile.key);
    to.v = place(f.v, head_k, entry.first_k + tile.key);
    to.numbers =
        static_cast<const char *>(a.p.rows) + ((static_cast<int64_t>(batch) * f.heads.divisor + head) * a.p.rows_allotted + tile.row) * 8;
}
// The next that see any of the tile, one at least if there are any.
template <int kFound>
__device__ __noinline__ void find_members(const BackwardBiasTask &a, BiasMembers<kFound> &members) {
    const BiasTile tile(a, static_cast<int>(blockIdx.x) % a.tiles);
    const int heads = a.p.bias_extent[1] == 1 ? static_cast<int>(a.p.forward.heads.divisor) : 1;
    const int lane = static_cast<int>(threadIdx.x) % kWarpThreads, end = members.end, before = members.found;
    int next = members.next, found = before;
    for (; next < end && found == before; next += kFound) {
        const int number = next + lane;
        BiasMember one;
        one.is_there = 0;
        if (lane < kFound && number < end) fill_member(a, tile, one, tile.batch + number / heads, tile.head + number % heads);
        const unsigned there = __ballot_sync(~0u, one.is_there != 0);
        if (one.is_there != 0) members.known[(found + __popc(there & ((1u << lane) - 1))) % members.kKnown] = one;
        found += __popc(there);
    }
    __syncwarp();
    if (lane == 0) {
        if (next >= end) members.known[found % members.kKnown].is_there = 0;
        members.next = next;
        members.found = found;
    }
    __syncwarp();
}
// The first of the block's part.
template <int kFound>
__device__ __noinline__ void begin_members(const BackwardBiasTask &a, BiasMembers<kFound> &members) {
    const int part = static_cast<int>(blockIdx.x) / a.tiles;
    if (threadIdx.x % kWarpThreads == 0) {
        members.next = static_cast<int>(static_cast<int64_t>(a.members) * part / a.parts);
        members.end = static_cast<int>(static_cast<int64_t>(a.members) * (part + 1) / a.parts);
        members.found = 0;
    }
    __syncwarp();
    find_members(a, members);
}

}  // namespace attile::gpu::mma
