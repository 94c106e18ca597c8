// SPDX-License-Identifier: Apache-2.0
// What products.cpp and matrix.cpp share.
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

inline void need_whole_warp(Mask lanes, const char *what) {
    if (lanes != ~Mask{0})
        fault(std::string(what) + ": " + std::to_string(__builtin_popcount(lanes)) + " lanes of the warp, where it takes all");
}

// ldmatrix, stmatrix and movmatrix: decode_tensor()'s part.
bool decode_matrix(const Opcode &opcode, Instruction *instruction);

}  // namespace attile::virtual_gpu
