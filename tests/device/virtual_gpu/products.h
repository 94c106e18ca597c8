// SPDX-License-Identifier: Apache-2.0
// What products.cpp, products_f64.cpp and matrix.cpp share.
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

// decode_tensor()'s parts: mma.sync of float64; ldmatrix, stmatrix and movmatrix.
bool decode_mma_f64(Instruction *instruction);
bool decode_matrix(const Opcode &opcode, Instruction *instruction);

}  // namespace attile::virtual_gpu
