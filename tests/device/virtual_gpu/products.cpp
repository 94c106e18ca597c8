// SPDX-License-Identifier: Apache-2.0
// Products of matrices and what moves matrices between registers and shared memory. wgmma runs when it is issued: what the compiler ties
// its registers to forbids to do it later.
#include <immintrin.h>

#include <algorithm>
#include <cstring>

#include "panel.h"
#include "products.h"

namespace attile::virtual_gpu {
namespace {

enum Type : int64_t { kF16, kBf16, kTf32 };
constexpr int kMostDepth = 16;
constexpr uint32_t kTf32Mask = ~uint32_t{0x1fff};  // The bits that a product sees.

// Operands as the sums lie in registers. A warp's 16 x 8 sums are four rows of lanes: row 2 h + p has, in lane l, row 8 h + l / 4 and
// column 2 (l % 4) + p.
struct Left {
    alignas(32) float at[kMostDepth][2][kLanes];  // Depth, h, lane.
};
struct Right {
    alignas(32) float at[kMostDepth][2][8];  // Depth, p, twice the four columns.
};

inline void convert(__m128i from, bool is_bf16, __m128 *low, __m128 *high) {
    const __m128i zero = _mm_setzero_si128();
    if (is_bf16) {
        *low = _mm_castsi128_ps(_mm_unpacklo_epi16(zero, from));
        *high = _mm_castsi128_ps(_mm_unpackhi_epi16(zero, from));
        return;
    }
    // The exponent is moved by a product, which makes normal numbers of subnormal ones; infinity and NaN get all of its bits.
    const auto widen = [](__m128i bits) {
        const __m128i magnitude = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x7fff)), 13);
        const __m128 x = _mm_mul_ps(_mm_castsi128_ps(magnitude), _mm_set1_ps(0x1p112f));
        const __m128 is_past = _mm_cmpge_ps(x, _mm_set1_ps(65536.0f));
        const __m128 past = _mm_and_ps(is_past, _mm_castsi128_ps(_mm_set1_epi32(0x7f800000)));
        const __m128i sign = _mm_slli_epi32(_mm_and_si128(bits, _mm_set1_epi32(0x8000)), 16);
        return _mm_or_ps(_mm_or_ps(x, past), _mm_castsi128_ps(sign));
    };
    *low = widen(_mm_unpacklo_epi16(from, zero));
    *high = widen(_mm_unpackhi_epi16(from, zero));
}

inline void set_columns(float (&to)[2][8], __m128 even, __m128 odd) {
    _mm_store_ps(to[0], even);
    _mm_store_ps(to[0] + 4, even);
    _mm_store_ps(to[1], odd);
    _mm_store_ps(to[1] + 4, odd);
}

// sums = left right + (keeps ? sums : 0), with AVX2 and with what every x86-64 has.
template <int kDepth>
__attribute__((target("avx2,fma"))) void multiply_wide(const Left &left, const Right &right, float *const (&sums)[4], bool keeps) {
    for (int h = 0; h < 2; ++h) {
        __m256 sum[2][4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            sum[0][v] = keeps ? _mm256_loadu_ps(sums[2 * h] + 8 * v) : _mm256_setzero_ps();
            sum[1][v] = keeps ? _mm256_loadu_ps(sums[2 * h + 1] + 8 * v) : _mm256_setzero_ps();
        }
        for (int k = 0; k < kDepth; ++k) {
            const __m256 even = _mm256_load_ps(right.at[k][0]), odd = _mm256_load_ps(right.at[k][1]);
#pragma GCC unroll 4
            for (int v = 0; v < 4; ++v) {
                const __m256 x = _mm256_load_ps(left.at[k][h] + 8 * v);
                sum[0][v] = _mm256_fmadd_ps(x, even, sum[0][v]);
                sum[1][v] = _mm256_fmadd_ps(x, odd, sum[1][v]);
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            _mm256_storeu_ps(sums[2 * h] + 8 * v, sum[0][v]);
            _mm256_storeu_ps(sums[2 * h + 1] + 8 * v, sum[1][v]);
        }
    }
}
template <int kDepth>
void multiply_narrow(const Left &left, const Right &right, float *const (&sums)[4], bool keeps) {
    for (int part = 0; part < 4; ++part) {
        const int h = part / 2, first = part % 2 * 16;
        float *const to[2] = {sums[2 * h] + first, sums[2 * h + 1] + first};
        __m128 sum[2][4];
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            sum[0][v] = keeps ? _mm_loadu_ps(to[0] + 4 * v) : _mm_setzero_ps();
            sum[1][v] = keeps ? _mm_loadu_ps(to[1] + 4 * v) : _mm_setzero_ps();
        }
        for (int k = 0; k < kDepth; ++k) {
            const __m128 even = _mm_load_ps(right.at[k][0]), odd = _mm_load_ps(right.at[k][1]);
#pragma GCC unroll 4
            for (int v = 0; v < 4; ++v) {
                const __m128 x = _mm_load_ps(left.at[k][h] + first + 4 * v);
                sum[0][v] = _mm_add_ps(sum[0][v], _mm_mul_ps(x, even));
                sum[1][v] = _mm_add_ps(sum[1][v], _mm_mul_ps(x, odd));
            }
        }
#pragma GCC unroll 4
        for (int v = 0; v < 4; ++v) {
            _mm_storeu_ps(to[0] + 4 * v, sum[0][v]);
            _mm_storeu_ps(to[1] + 4 * v, sum[1][v]);
        }
    }
}
template <int kDepth>
void multiply(const Left &left, const Right &right, float *const (&sums)[4], bool keeps) {
    static const bool is_wide = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    (is_wide ? multiply_wide<kDepth> : multiply_narrow<kDepth>)(left, right, sums, keeps);
}

// A warp's left operand, 16 rows, from four registers, or two if its depth is half.
void left_of_registers(const Warp &warp, const std::vector<Operand> &from, Type type, Left *to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
        const uint32_t *bits = warp.row<uint32_t>(from[i]);
        const std::size_t h = i % 2;
        for (int row = 0; row < 8; ++row) {
            alignas(16) float x[8];
            const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bits + 4 * row));
            if (type == kTf32) {
                _mm_store_ps(x, _mm_castsi128_ps(_mm_and_si128(four, _mm_set1_epi32(static_cast<int>(kTf32Mask)))));
                for (std::size_t k = 0; k < 4; ++k) _mm_store_ps(to->at[i / 2 * 4 + k][h] + 4 * row, _mm_set1_ps(x[k]));
            } else {
                __m128 low, high;
                convert(four, type == kBf16, &low, &high);
                _mm_store_ps(x, low);
                _mm_store_ps(x + 4, high);
                for (std::size_t k = 0; k < 8; ++k) _mm_store_ps(to->at[i / 2 * 8 + k][h] + 4 * row, _mm_set1_ps(x[k]));
            }
        }
    }
}

// mma's right operand, eight columns, from two registers, or one.
void right_of_registers(const Warp &warp, const std::vector<Operand> &from, Type type, Right *to) {
    for (std::size_t i = 0; i < from.size(); ++i) {
        const uint32_t *bits = warp.row<uint32_t>(from[i]);
        for (int column = 0; column < 8; ++column) {
            alignas(16) float x[8];
            const __m128i four = _mm_loadu_si128(reinterpret_cast<const __m128i *>(bits + 4 * column));
            const std::size_t depth = type == kTf32 ? 4 : 8;
            if (type == kTf32) {
                _mm_store_ps(x, _mm_castsi128_ps(_mm_and_si128(four, _mm_set1_epi32(static_cast<int>(kTf32Mask)))));
            } else {
                __m128 low, high;
                convert(four, type == kBf16, &low, &high);
                _mm_store_ps(x, low);
                _mm_store_ps(x + 4, high);
            }
            for (std::size_t k = 0; k < depth; ++k) {
                float(&at)[8] = to->at[i * depth + k][column % 2];
                at[column / 2] = at[column / 2 + 4] = x[k];
            }
        }
    }
}

Outcome mma(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "mma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const Type type = static_cast<Type>(instruction.number[0]);
    Left left;
    Right right;
    left_of_registers(warp, arguments[1].braces, type, &left);
    right_of_registers(warp, arguments[2].braces, type, &right);
    // Sums that are added to may lie in registers of other sums.
    alignas(32) float sum[4][kLanes];
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(sum[i], warp.row<float>(arguments[3].braces[i]), sizeof sum[i]);
    float *const sums[4] = {sum[0], sum[1], sum[2], sum[3]};
    if (type == kTf32 || arguments[2].braces.size() == 1)
        multiply<8>(left, right, sums, true);
    else
        multiply<16>(left, right, sums, true);
    for (std::size_t i = 0; i < 4; ++i) std::memcpy(warp.row<float>(arguments[0].braces[i]), sum[i], sizeof sum[i]);
    return Outcome::kNext;
}

constexpr uint32_t kEvenFirst[8] = {0, 2, 4, 6, 1, 3, 5, 7};

// The eight columns (or rows) that are `group`.
void load_group(const Panel &panel, uint32_t group, Type type, Right *to) {
    if (type == kTf32) {
        const __m128i mask = _mm_set1_epi32(static_cast<int>(kTf32Mask));
        for (uint32_t part = 0; part < 2; ++part) {
            __m128 x[8];
            for (int i = 0; i < 8; ++i) x[i] = _mm_castsi128_ps(_mm_and_si128(panel.row(group, kEvenFirst[i], part), mask));
            _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
            _MM_TRANSPOSE4_PS(x[4], x[5], x[6], x[7]);
            for (uint32_t k = 0; k < 4; ++k) set_columns(to->at[4 * part + k], x[k], x[4 + k]);
        }
        return;
    }
    __m128 low, high;
    if (panel.is_outer()) {
        for (uint32_t k = 0; k < 16; ++k) {
            convert(panel.depth(group, k), type == kBf16, &low, &high);
            set_columns(to->at[k], _mm_shuffle_ps(low, high, 0x88), _mm_shuffle_ps(low, high, 0xdd));
        }
        return;
    }
    for (uint32_t part = 0; part < 2; ++part) {
        __m128i x[8], y[8];
        for (int i = 0; i < 8; ++i) x[i] = panel.row(group, kEvenFirst[i], part);
        for (int i = 0; i < 4; ++i) {  // Rows become columns in three steps, each of which makes runs along rows twice as long.
            y[2 * i] = _mm_unpacklo_epi16(x[i], x[i + 4]);
            y[2 * i + 1] = _mm_unpackhi_epi16(x[i], x[i + 4]);
        }
        for (int i = 0; i < 4; ++i) {
            x[2 * i] = _mm_unpacklo_epi16(y[i], y[i + 4]);
            x[2 * i + 1] = _mm_unpackhi_epi16(y[i], y[i + 4]);
        }
        for (int i = 0; i < 4; ++i) {
            y[2 * i] = _mm_unpacklo_epi16(x[i], x[i + 4]);
            y[2 * i + 1] = _mm_unpackhi_epi16(x[i], x[i + 4]);
        }
        for (uint32_t k = 0; k < 8; ++k) {
            convert(y[k], type == kBf16, &low, &high);
            set_columns(to->at[8 * part + k], low, high);
        }
    }
}

Outcome wgmma(Warp &warp, const Instruction &instruction, Mask lanes) {
    need_whole_warp(lanes, "wgmma");
    const std::vector<Argument> &arguments = instruction.arguments;
    const Type type = static_cast<Type>(instruction.number[0]);
    const int columns = static_cast<int>(instruction.number[1]), depth = type == kTf32 ? 8 : 16;
    const bool has_panel = arguments[1].braces.empty();
    const bool keeps = uniform(warp, arguments[3].value, "whether sums are kept") != 0;
    const int64_t sign_a = uniform(warp, arguments[4].value, "a sign"), sign_b = uniform(warp, arguments[5].value, "a sign");
    if ((sign_a != 1 && sign_a != -1) || (sign_b != 1 && sign_b != -1)) fault("wgmma: a sign that is neither 1 nor -1");
    bool is_outer_a = false, is_outer_b = false;
    if (type != kTf32) {
        is_outer_a = has_panel && uniform(warp, arguments[6].value, "an order") != 0;
        is_outer_b = uniform(warp, arguments[has_panel ? 7 : 6].value, "an order") != 0;
    }

    Left left;
    Right right;
    if (has_panel) {
        const Panel panel(warp, static_cast<uint64_t>(uniform(warp, arguments[1].value, "a descriptor")), is_outer_a);
        for (int h = 0; h < 2; ++h) {
            load_group(panel, static_cast<uint32_t>(warp.number % 4 * 2 + h), type, &right);
            for (int k = 0; k < depth; ++k)
                for (int row = 0; row < 8; ++row) _mm_store_ps(left.at[k][h] + 4 * row, _mm_set1_ps(right.at[k][row % 2][row / 2]));
        }
        begin_reading(warp, panel.first(), panel.end());
    } else {
        left_of_registers(warp, arguments[1].braces, type, &left);
    }
    if (sign_a != sign_b)
        for (int k = 0; k < depth; ++k)
            for (int h = 0; h < 2; ++h)
                for (float &x : left.at[k][h]) x = -x;

    const Panel panel(warp, static_cast<uint64_t>(uniform(warp, arguments[2].value, "a descriptor")), is_outer_b);
    for (int group = 0; group < columns / 8; ++group) {
        load_group(panel, static_cast<uint32_t>(group), type, &right);
        const Operand *to = arguments[0].braces.data() + 4 * group;
        float *const sums[4] = {warp.row<float>(to[0]), warp.row<float>(to[1]), warp.row<float>(to[2]), warp.row<float>(to[3])};
        if (type == kTf32)
            multiply<8>(left, right, sums, keeps);
        else
            multiply<16>(left, right, sums, keeps);
    }
    begin_reading(warp, panel.first(), panel.end());
    return Outcome::kNext;
}

Outcome nothing(Warp &, const Instruction &, Mask) { return Outcome::kNext; }

// Of both operands, whose names stand from parts[first] on; sums are of float32.
bool find_type(const Opcode &opcode, std::size_t first, Type *type) {
    if (opcode.parts.size() < first + 2 || opcode.parts[first] != opcode.parts[first + 1]) return false;
    const std::string_view name = opcode.parts[first];
    *type = name == "f16" ? kF16 : name == "bf16" ? kBf16 : kTf32;
    return *type != kTf32 || name == "tf32";
}

bool decode_mma(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    if (parts.size() == 10 && parts[3] == "m8n8k4" && parts[6] == "f64") return decode_mma_f64(instruction);
    if (parts.size() == 10 && parts[7] == "u8") return decode_mma_uint8(opcode, instruction);
    if (parts.size() == 10 && parts[3] == "m16n8k32") return decode_mma_float8(opcode, instruction);
    Type type;
    if (parts.size() != 10 || parts[4] != "row" || parts[5] != "col" || parts[6] != "f32" || parts[9] != "f32") return false;
    if (!find_type(opcode, 7, &type)) return false;
    const bool is_half = type != kTf32 && parts[3] == "m16n8k8";
    if (!is_half && parts[3] != (type == kTf32 ? "m16n8k8" : "m16n8k16")) return false;
    const std::vector<Argument> &arguments = instruction->arguments;
    if (arguments.size() != 4 || arguments[0].braces.size() != 4 || arguments[1].braces.size() != (is_half ? 2 : 4) ||
        arguments[2].braces.size() != (is_half ? 1 : 2) || arguments[3].braces.size() != 4)
        return false;
    instruction->number[0] = type;
    instruction->run = mma;
    return true;
}

bool decode_wgmma(const Opcode &opcode, Instruction *instruction) {
    const std::vector<std::string_view> &parts = opcode.parts;
    if (parts[1] == "fence") instruction->run = nothing;
    if (parts[1] == "commit_group") instruction->run = commit_products;
    if (parts[1] == "wait_group" && instruction->arguments.size() == 1) instruction->run = wait_products;
    if (instruction->run != nullptr) return true;
    if (parts.size() == 8 && parts[5] == "s32") return decode_wgmma_int8(opcode, instruction);
    if (parts.size() == 8 && parts[5] == "f32" && parts[6].size() == 4 && parts[6][0] == 'e')
        return decode_wgmma_float8(opcode, instruction);
    Type type;
    if (parts[1] != "mma_async" || parts.size() != 8 || parts[5] != "f32" || !find_type(opcode, 6, &type)) return false;
    const int columns = number_after(parts[4], 'n'), depth = number_after(parts[4], 'k');
    if (number_after(parts[4], 'm') != 64 || columns % 8 != 0 || columns < 8 || columns > 256 || depth != (type == kTf32 ? 8 : 16))
        return false;
    const std::vector<Argument> &arguments = instruction->arguments;
    if (arguments.size() < 6 || arguments[0].braces.size() != static_cast<std::size_t>(columns / 2)) return false;
    const bool has_panel = arguments[1].braces.empty();
    if ((!has_panel && arguments[1].braces.size() != 4) || arguments.size() != (type == kTf32 ? 6u : has_panel ? 8u : 7u)) return false;
    instruction->number[0] = type;
    instruction->number[1] = columns;
    instruction->run = wgmma;
    return true;
}

}  // namespace

bool decode_tensor(const Opcode &opcode, Instruction *instruction) {
    bool is_known = false;
    if (opcode.parts.size() < 3) return false;
    if (opcode.is("mma") && opcode.parts[1] == "sync")
        is_known = decode_mma(opcode, instruction);
    else if (opcode.is("wgmma"))
        is_known = decode_wgmma(opcode, instruction);
    else if (opcode.is("ldmatrix") || opcode.is("stmatrix") || opcode.is("movmatrix"))
        is_known = decode_matrix(opcode, instruction);
    if (is_known) instruction->is_together = true;
    return is_known;
}

float from_f16(uint16_t bits) {
    __m128 low, high;
    convert(_mm_set1_epi16(static_cast<short>(bits)), false, &low, &high);
    return _mm_cvtss_f32(low);
}

uint16_t to_f16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffff;
    if (bits > 0x7f800000) return 0x7fff;
    if (bits >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // From the middle between the largest number and 65536 on.
    if (bits < 0x38800000) {
        // Subnormal ones count in steps of 2^-24, as float32 does from a half on.
        float sum;
        std::memcpy(&sum, &bits, sizeof sum);
        sum += 0.5f;
        std::memcpy(&bits, &sum, sizeof bits);
        return static_cast<uint16_t>(sign | (bits - 0x3f000000));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return static_cast<uint16_t>(sign | (bits - 0x38000000) >> 13);
}

uint16_t to_bf16(float x) {
    uint32_t bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fff;
    return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

}  // namespace attile::virtual_gpu
