// SPDX-License-Identifier: Apache-2.0
// What products.cpp, products_f64.cpp, products_int8.cpp, products_float8.cpp and matrix.cpp share.
#pragma once

#include "ptx_machine.h"

namespace attile::virtual_gpu {

inline void need_whole_warp(Mask lanes, const char *what) {
    if (lanes != ~Mask{0})
        fault(std::string(what) + ": " + std::to_string(__builtin_popcount(lanes)) + " lanes of the warp, where it takes all");
}

// The number after a letter, as in "m64n128k16".
inline int number_after(std::string_view shape, char letter) {
    const std::size_t at = shape.find(letter);
    int number = 0;
    for (std::size_t i = at == shape.npos ? shape.size() : at + 1; i < shape.size() && shape[i] >= '0' && shape[i] <= '9'; ++i)
        number = 10 * number + (shape[i] - '0');
    return number;
}

// wgmma's operands in the block's shared memory, from its issue until it is waited for (reading.cpp).
void begin_reading(Warp &warp, uint32_t first, uint32_t end);
Outcome commit_products(Warp &warp, const Instruction &instruction, Mask lanes);
Outcome wait_products(Warp &warp, const Instruction &instruction, Mask lanes);

// decode_tensor()'s parts: mma.sync of float64, of uint8 and of 8-bit floats; wgmma of int8 and of 8-bit floats; ldmatrix, stmatrix and
// movmatrix.
bool decode_mma_f64(Instruction *instruction);
bool decode_mma_uint8(const Opcode &opcode, Instruction *instruction);
bool decode_wgmma_int8(const Opcode &opcode, Instruction *instruction);
bool decode_wgmma_float8(const Opcode &opcode, Instruction *instruction);
bool decode_mma_float8(const Opcode &opcode, Instruction *instruction);
bool decode_matrix(const Opcode &opcode, Instruction *instruction);

}  // namespace attile::virtual_gpu
