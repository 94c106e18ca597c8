// SPDX-License-Identifier: Apache-2.0
// 8 x 8 matrices of 16-bit elements between a warp's registers and shared memory.
#include <cstring>

#include "products.h"

namespace attile::virtual_gpu {
namespace {

// 8 x 8 matrices of 16 bits: lane l's register has, of row l / 4, columns 2 (l % 4) and the next.
using Matrix = uint16_t[8][8];

void spread(const Matrix &matrix, bool is_turned, uint32_t *to) {
    for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        const uint32_t low = is_turned ? matrix[column][row] : matrix[row][column];
        const uint32_t high = is_turned ? matrix[column + 1][row] : matrix[row][column + 1];
        to[lane] = low | high << 16;
    }
}
void collect(const uint32_t *from, bool is_turned, Matrix &matrix) {
    for (int lane = 0; lane < kLanes; ++lane) {
        const int row = lane / 4, column = lane % 4 * 2;
        (is_turned ? matrix[column][row] : matrix[row][column]) = static_cast<uint16_t>(from[lane]);
        (is_turned ? matrix[column + 1][row] : matrix[row][column + 1]) = static_cast<uint16_t>(from[lane] >> 16);
    }
}

// The registers of ldmatrix and stmatrix: one may stand without braces.
const Operand &matrix_register(const Argument &argument, int i) {
    return argument.braces.empty() ? argument.value : argument.braces[static_cast<std::size_t>(i)];
}

Outcome ldmatrix(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "ldmatrix");
    const int count = static_cast<int>(instruction.number[0]);
    Matrix matrix[4];
    for (int lane = 0; lane < 8 * count; ++lane) {
        const unsigned char *from = shared_at(*warp.block, warp.address(instruction.arguments[1], lane), 16, 16);
        read_words(warp, static_cast<std::size_t>(from - warp.block->shared_base()), 16);
        std::memcpy(matrix[lane / 8][lane % 8], from, 16);
    }
    for (int i = 0; i < count; ++i)
        spread(matrix[i], instruction.number[1] != 0, warp.row<uint32_t>(matrix_register(instruction.arguments[0], i)));
    return Outcome::kNext;
}

Outcome stmatrix(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "stmatrix");
    const int count = static_cast<int>(instruction.number[0]);
    for (int i = 0; i < count; ++i) {
        Matrix matrix;
        collect(warp.row<uint32_t>(matrix_register(instruction.arguments[1], i)), instruction.number[1] != 0, matrix);
        for (int row = 0; row < 8; ++row) {
            const uint64_t address = warp.address(instruction.arguments[0], 8 * i + row);
            write_shared(warp, shared_at(*warp.block, address, 16, 16), matrix[row], 16);
        }
    }
    return Outcome::kNext;
}

Outcome movmatrix(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "movmatrix");
    Matrix matrix;
    collect(warp.row<uint32_t>(instruction.arguments[1].value), false, matrix);
    spread(matrix, true, warp.row<uint32_t>(instruction.arguments[0].value));
    return Outcome::kNext;
}

}  // namespace

bool decode_matrix(const Opcode &opcode, Instruction *instruction) {
    const std::vector<Argument> &arguments = instruction->arguments;
    if (!opcode.has("m8n8") || !opcode.has("b16") || arguments.size() != 2) return false;
    if (opcode.is("movmatrix")) {
        instruction->run = movmatrix;
        return opcode.has("trans");
    }
    const bool is_load = opcode.is("ldmatrix");
    const std::size_t count = opcode.has("x4") ? 4 : opcode.has("x2") ? 2 : opcode.has("x1") ? 1 : 0;
    const Argument &registers = arguments[is_load ? 0 : 1];
    if (count == 0 || !(opcode.has("shared") || opcode.has("shared::cta"))) return false;
    if (registers.braces.size() != count && !(count == 1 && registers.braces.empty())) return false;
    instruction->number[0] = static_cast<int64_t>(count);
    instruction->number[1] = opcode.has("trans");
    instruction->run = is_load ? ldmatrix : stmatrix;
    return true;
}

}  // namespace attile::virtual_gpu
