// SPDX-License-Identifier: Apache-2.0
// What async.cpp and tma.cpp share: operands, and copies that arrive at transaction barriers or are committed in groups.
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

inline uint64_t value(const Warp &warp, const Operand &operand, int lane) {
    if (operand.kind == Kind::kWide) return warp.row<uint64_t>(operand)[lane];
    if (operand.kind == Kind::kNarrow) return warp.row<uint32_t>(operand)[lane];
    return warp.predicate(operand) >> lane & 1;
}

// A shared or generic address in 32 bits, a block's rank with it.
uint32_t shared_address(uint64_t address);

// A transaction barrier and where it lies.
struct Place {
    Block *block;
    uint32_t address;
    TransactionBarrier *barrier;
};
Place barrier_at(Block &own, uint64_t address);
// Ends the barrier's phase if nothing is missing.
void settle(TransactionBarrier &barrier);
// TMA or tensor cores read bytes of the block's shared memory, which whoever wrote them has fenced, or the warp itself.
void need_fenced(const Warp &warp, uint32_t first, std::size_t bytes);
// By threads, to be fenced.
void note_written(Warp &warp, std::size_t first, std::size_t bytes);
// Where a copy goes: no product may read it any more, and until the copy comes it is NaN.
void clear_way(const Warp &warp, Block &block, unsigned char *to, std::size_t bytes);
// Leaves a copy to those who wait at the barrier.
template <class Copy>
void put_off(Warp &warp, const Place &place, std::size_t bytes, Copy copy) {
    TransactionBarrier *barrier = place.barrier;
    release_to(warp, barrier->gathered);
    barrier->late.emplace_back([barrier, bytes, copy = std::move(copy)] {
        copy();
        barrier->bytes -= static_cast<int64_t>(bytes);
        settle(*barrier);
    });
}

using Groups = std::deque<std::vector<std::function<void()>>>;
// Performs the oldest groups until so many are left.
void finish_groups(Groups &groups, std::size_t pending);

// TMA's part of decode_async().
bool decode_tma(const Opcode &opcode, Instruction *instruction);

}  // namespace attile::virtual_gpu
