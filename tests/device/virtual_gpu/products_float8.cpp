// SPDX-License-Identifier: Apache-2.0
// wgmma of 8-bit floats, whose operands are contiguous along the depth, the left one in shared memory or in registers, and mma.sync of
// them. Hopper adds up 32 products and the
// sum that there was in fixed point, each cut off at 2^-13 of the largest power of two, and keeps as many bits of the result. A product's
// power of two is that of its factors' exponents, a subnormal number having that of the least normal one. An H200 gave the same bits for
// every element of products of random numbers, 16 to 256 deep.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "panel.h"

namespace attile::virtual_gpu {
namespace {

constexpr int kDepth = 32, kBits = 13;
enum : int64_t { kE4m3, kE5m2 };

struct Values {
    float of[2][256];
    Values() {
        for (int bits = 0; bits < 256; ++bits)
            for (const int64_t type : {kE4m3, kE5m2}) {
                const int fraction_bits = type == kE4m3 ? 3 : 2, bias = type == kE4m3 ? 7 : 15;
                const int fraction = bits & ((1 << fraction_bits) - 1), exponent = (bits & 0x7f) >> fraction_bits;
                float x = exponent == 0 ? std::ldexp(static_cast<float>(fraction), 1 - bias - fraction_bits)
                                        : std::ldexp(static_cast<float>(fraction | 1 << fraction_bits), exponent - bias - fraction_bits);
                if (type == kE4m3 ? (bits & 0x7f) == 0x7f : exponent == 31 && fraction != 0) x = std::numeric_limits<float>::quiet_NaN();
                if (type == kE5m2 && exponent == 31 && fraction == 0) x = std::numeric_limits<float>::infinity();
                of[type][bits] = (bits & 0x80) != 0 ? -x : x;
            }
    }
};
const Values kValues;

// Eight rows of A, or columns of B, from depth 0 on.
void load_rows(const Panel &panel, uint32_t group, int64_t type, float (&to)[8][kDepth]) {
    for (uint32_t row = 0; row < 8; ++row)
        for (uint32_t part = 0; part < 2; ++part) {
            unsigned char bytes[16];
            const __m128i loaded = panel.row(group, row, part);
            std::memcpy(bytes, &loaded, sizeof bytes);
            for (uint32_t i = 0; i < 16; ++i) to[row][16 * part + i] = kValues.of[type][bytes[i]];
        }
}

// A's 16 rows of a warp from registers, four numbers each: rows lane / 4, alternating with those eight below, depths 4 (lane % 4) and the
// next, then those 16 further.
void load_left(const Warp &warp, const std::vector<Operand> &from, int64_t type, float (&to)[2][8][kDepth]) {
    for (int i = 0; i < 4; ++i) {
        const uint32_t *const words = warp.row<uint32_t>(from[static_cast<std::size_t>(i)]);
        for (int lane = 0; lane < kLanes; ++lane)
            for (int e = 0; e < 4; ++e)
                to[i % 2][lane / 4][16 * (i / 2) + 4 * (lane % 4) + e] = kValues.of[type][words[lane] >> 8 * e & 255];
    }
}

// 2^exponent, of normal numbers.
float power_of_two(int exponent) {
    const uint32_t bits = static_cast<uint32_t>(exponent + 127) << 23;
    float x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
}

// Of a normal float.
int exponent_of(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    return static_cast<int>(bits >> 23 & 255) - 127;
}

// of_x, of_y: the types.
float add_up(const float *x, const float *y, int64_t of_x, int64_t of_y, float sum) {
    constexpr int kNone = -1000, kLeast[] = {-6, -14};
    float products[kDepth], all = sum;
    int exponent = sum != 0 ? exponent_of(sum) : kNone;
    for (int k = 0; k < kDepth; ++k) {
        products[k] = x[k] * y[k];
        if (products[k] != 0)
            exponent = std::max(exponent, std::max(exponent_of(x[k]), kLeast[of_x]) + std::max(exponent_of(y[k]), kLeast[of_y]));
        all += products[k];
    }
    if (!(std::fabs(all) <= std::numeric_limits<float>::max())) return all;
    if (exponent == kNone) return 0.0f;
    uint32_t bits;
    const float to_units = power_of_two(kBits - exponent);
    int32_t units = static_cast<int32_t>(sum * to_units);
    for (int k = 0; k < kDepth; ++k) units += static_cast<int32_t>(products[k] * to_units);
    float result = static_cast<float>(units) * power_of_two(exponent - kBits);
    std::memcpy(&bits, &result, sizeof bits);
    bits &= ~((1u << (23 - kBits)) - 1);
    std::memcpy(&result, &bits, sizeof result);
    return result;
}

Outcome wgmma_float8(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "wgmma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const int columns = static_cast<int>(instruction.number[1]);
    const bool keeps = uniform(warp, arguments[3].value, "whether sums are kept") != 0;
    for (const std::size_t sign : {4, 5})
        if (uniform(warp, arguments[sign].value, "a sign") != 1) fault("wgmma: a sign that is not 1 is not known of 8-bit floats");
    float left[2][8][kDepth], right[8][kDepth];
    if (arguments[1].braces.empty()) {
        const Panel a(warp, static_cast<uint64_t>(uniform(warp, arguments[1].value, "a descriptor")), false);
        for (uint32_t h = 0; h < 2; ++h) load_rows(a, static_cast<uint32_t>(warp.number % 4 * 2) + h, instruction.number[0], left[h]);
        begin_reading(warp, a.first(), a.end());
    } else {
        load_left(warp, arguments[1].braces, instruction.number[0], left);
    }
    const Panel b(warp, static_cast<uint64_t>(uniform(warp, arguments[2].value, "a descriptor")), false);
    for (int group = 0; group < columns / 8; ++group) {
        load_rows(b, static_cast<uint32_t>(group), instruction.number[2], right);
        for (int i = 0; i < 4; ++i) {
            float *const sums = warp.row<float>(arguments[0].braces[static_cast<std::size_t>(4 * group + i)]);
            for (int lane = 0; lane < kLanes; ++lane)
                sums[lane] = add_up(left[i / 2][lane / 4], right[lane % 4 * 2 + i % 2], instruction.number[0], instruction.number[2],
                                    keeps ? sums[lane] : 0.0f);
        }
    }
    begin_reading(warp, b.first(), b.end());
    return Outcome::kNext;
}

Outcome mma_float8(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "mma");
    const std::vector<Argument> &arguments = instruction.arguments;
    float left[2][8][kDepth], right[8][kDepth];
    load_left(warp, arguments[1].braces, kE4m3, left);
    for (std::size_t i = 0; i < 2; ++i) {
        const uint32_t *const words = warp.row<uint32_t>(arguments[2].braces[i]);
        for (int lane = 0; lane < kLanes; ++lane)
            for (std::size_t e = 0; e < 4; ++e)
                right[lane / 4][16 * i + 4 * static_cast<std::size_t>(lane % 4) + e] = kValues.of[kE4m3][words[lane] >> 8 * e & 255];
    }
    for (std::size_t i = 0; i < 4; ++i) {
        float *const to = warp.row<float>(arguments[0].braces[i]);
        const float *const sums = warp.row<float>(arguments[3].braces[i]);
        for (int lane = 0; lane < kLanes; ++lane)
            to[lane] = add_up(left[i / 2][lane / 4], right[static_cast<std::size_t>(lane % 4) * 2 + i % 2], kE4m3, kE4m3, sums[lane]);
    }
    return Outcome::kNext;
}

}  // namespace

bool decode_mma_float8(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    const std::vector<Argument> &arguments = instruction->arguments;
    if (parts[3] != "m16n8k32" || parts[4] != "row" || parts[5] != "col" || parts[6] != "f32" || parts[7] != "e4m3" || parts[8] != "e4m3" ||
        parts[9] != "f32")
        return false;
    if (arguments.size() != 4 || arguments[0].braces.size() != 4 || arguments[1].braces.size() != 4 || arguments[2].braces.size() != 2 ||
        arguments[3].braces.size() != 4)
        return false;
    instruction->run = mma_float8;
    return true;
}

bool decode_wgmma_float8(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    const auto is_type = [](std::string_view name) { return name == "e4m3" || name == "e5m2"; };
    if (parts[1] != "mma_async" || !is_type(parts[6]) || !is_type(parts[7])) return false;
    const int columns = number_after(parts[4], 'n');
    if (number_after(parts[4], 'm') != 64 || number_after(parts[4], 'k') != kDepth || columns % 8 != 0 || columns < 8 || columns > 256)
        return false;
    const std::vector<Argument> &arguments = instruction->arguments;
    if (arguments.size() != 6 || arguments[0].braces.size() != static_cast<std::size_t>(columns / 2) ||
        (!arguments[1].braces.empty() && arguments[1].braces.size() != 4))
        return false;
    instruction->number[0] = parts[6] == "e4m3" ? kE4m3 : kE5m2;
    instruction->number[1] = columns;
    instruction->number[2] = parts[7] == "e4m3" ? kE4m3 : kE5m2;
    instruction->run = wgmma_float8;
    return true;
}

}  // namespace attile::virtual_gpu
