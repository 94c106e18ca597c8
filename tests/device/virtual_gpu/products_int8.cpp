// SPDX-License-Identifier: Apache-2.0
// wgmma of int8, whose operands both lie in shared memory and are contiguous along the depth, and mma.sync of uint8.
#include <cstring>

#include "panel.h"

namespace attile::virtual_gpu {
namespace {

constexpr int kDepth = 32;

// Eight rows of A, or columns of B, from depth 0 on.
void load_rows(const Panel &panel, uint32_t group, int8_t (&to)[8][kDepth]) {
    for (uint32_t row = 0; row < 8; ++row)
        for (uint32_t part = 0; part < 2; ++part) {
            const __m128i bytes = panel.row(group, row, part);
            std::memcpy(to[row] + 16 * part, &bytes, sizeof bytes);
        }
}

Outcome wgmma_int8(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "wgmma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const int columns = static_cast<int>(instruction.number[1]);
    const bool keeps = uniform(warp, arguments[3].value, "whether sums are kept") != 0;
    int8_t left[2][8][kDepth], right[8][kDepth];
    const Panel a(warp, static_cast<uint64_t>(uniform(warp, arguments[1].value, "a descriptor")), false);
    for (uint32_t h = 0; h < 2; ++h) load_rows(a, static_cast<uint32_t>(warp.number % 4 * 2) + h, left[h]);
    begin_reading(warp, a.first(), a.end());
    const Panel b(warp, static_cast<uint64_t>(uniform(warp, arguments[2].value, "a descriptor")), false);
    for (int group = 0; group < columns / 8; ++group) {
        load_rows(b, static_cast<uint32_t>(group), right);
        for (int i = 0; i < 4; ++i) {
            int32_t *const sums = warp.row<int32_t>(arguments[0].braces[static_cast<std::size_t>(4 * group + i)]);
            for (int lane = 0; lane < kLanes; ++lane) {
                const int8_t *const x = left[i / 2][lane / 4], *const y = right[lane % 4 * 2 + i % 2];
                uint32_t sum = keeps ? static_cast<uint32_t>(sums[lane]) : 0;  // Sums wrap around.
                for (int k = 0; k < kDepth; ++k) sum += static_cast<uint32_t>(x[k] * y[k]);
                sums[lane] = static_cast<int32_t>(sum);
            }
        }
    }
    begin_reading(warp, b.first(), b.end());
    return Outcome::kNext;
}

// 16 rows by 8 columns, 16 or 32 of depth. Four numbers a register: of A of row lane / 4 and the one eight below, then 16 of depth further;
// of B of column lane / 4.
Outcome mma_uint8(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "mma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const auto depth = static_cast<std::size_t>(instruction.number[1]);
    uint8_t left[16][kDepth], right[8][kDepth];
    const auto spread = [&](const Argument &operand, std::size_t i, uint8_t(&row)[kDepth], std::size_t from, int lane) {
        const uint32_t word = warp.row<uint32_t>(operand.braces[i])[lane];
        std::memcpy(row + from + 4 * static_cast<std::size_t>(lane % 4), &word, sizeof word);
    };
    for (int lane = 0; lane < kLanes; ++lane)
        for (std::size_t part = 0; part < depth / 16; ++part) {
            for (std::size_t h = 0; h < 2; ++h)
                spread(arguments[1], 2 * part + h, left[static_cast<std::size_t>(lane / 4) + 8 * h], 16 * part, lane);
            spread(arguments[2], part, right[lane / 4], 16 * part, lane);
        }
    for (std::size_t i = 0; i < 4; ++i) {
        uint32_t sums[kLanes];
        for (int lane = 0; lane < kLanes; ++lane) {
            const uint8_t *const x = left[static_cast<std::size_t>(lane / 4) + i / 2 * 8],
                                 *const y = right[static_cast<std::size_t>(lane % 4) * 2 + i % 2];
            sums[lane] = warp.row<uint32_t>(arguments[3].braces[i])[lane];
            for (std::size_t k = 0; k < depth; ++k) sums[lane] += static_cast<uint32_t>(x[k]) * y[k];
        }
        std::memcpy(warp.row<uint32_t>(arguments[0].braces[i]), sums, sizeof sums);
    }
    return Outcome::kNext;
}

}  // namespace

bool decode_mma_uint8(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    const int depth = number_after(parts[3], 'k');
    if (parts[3].substr(0, 6) != "m16n8k" || (depth != 16 && depth != 32) || parts[4] != "row" || parts[5] != "col" || parts[6] != "s32" ||
        parts[7] != "u8" || parts[8] != "u8" || parts[9] != "s32")
        return false;
    const std::vector<Argument> &arguments = instruction->arguments;
    const auto count = static_cast<std::size_t>(depth / 8);
    if (arguments.size() != 4 || arguments[0].braces.size() != 4 || arguments[1].braces.size() != count ||
        arguments[2].braces.size() != count / 2 || arguments[3].braces.size() != 4)
        return false;
    instruction->number[1] = depth;
    instruction->run = mma_uint8;
    return true;
}

bool decode_wgmma_int8(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    if (parts[1] != "mma_async" || parts[6] != "s8" || parts[7] != "s8") return false;
    const int columns = number_after(parts[4], 'n');
    const bool is_shape = columns >= 8 && columns <= 256 && (columns % 16 == 0 || columns == 8 || columns == 24);
    if (number_after(parts[4], 'm') != 64 || number_after(parts[4], 'k') != kDepth || !is_shape) return false;
    const std::vector<Argument> &arguments = instruction->arguments;
    if (arguments.size() != 4 || arguments[0].braces.size() != static_cast<std::size_t>(columns / 2) || !arguments[1].braces.empty())
        return false;
    instruction->number[1] = columns;
    instruction->run = wgmma_int8;
    return true;
}

}  // namespace attile::virtual_gpu
