// SPDX-License-Identifier: Apache-2.0
// What products.cpp and matrix.cpp share.
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

inline void need_whole_warp(Mask lanes, const char *what) {
    if (lanes != ~Mask{0})
        fault(std::string(what) + ": " + std::to_string(__builtin_popcount(lanes)) + " lanes of the warp, where it takes all");
}

// wgmma's operands in the block's shared memory, from its issue until it is waited for (reading.cpp).
void begin_reading(Warp &warp, uint32_t first, uint32_t end);
Outcome commit_products(Warp &warp, const Instruction &instruction, Mask lanes);
Outcome wait_products(Warp &warp, const Instruction &instruction, Mask lanes);

// ldmatrix, stmatrix and movmatrix: decode_tensor()'s part.
bool decode_matrix(const Opcode &opcode, Instruction *instruction);

}  // namespace attile::virtual_gpu
