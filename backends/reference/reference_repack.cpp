// SPDX-License-Identifier: Apache-2.0
// ggml's blocks to tensors: what each number of a block is, and the scale of each 32 of them.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <numeric>

#include "reference_backend.h"
#include "reference_element.h"

namespace attile::reference {
namespace {

constexpr int kGroup = 32;

int nibble(std::uint8_t byte, int half) { return byte >> 4 * half & 15; }

float half_at(const std::uint8_t *bytes) { return static_cast<float>(decode_f16(static_cast<std::uint16_t>(bytes[0] | bytes[1] << 8))); }

// Numbers and bytes of a block.
std::int64_t block_numbers(std::int32_t format) { return format == ATTILE_GGML_Q4_K || format == ATTILE_GGML_Q6_K ? 256 : 32; }
std::int64_t block_bytes(std::int32_t format) {
    switch (format) {
        case ATTILE_GGML_Q4_0:
            return 18;
        case ATTILE_GGML_Q8_0:
            return 34;
        default:
            return format == ATTILE_GGML_Q4_K ? 144 : 210;
    }
}

// Number i of a block.
int number_of(std::int32_t format, const std::uint8_t *block, int i) {
    switch (format) {
        case ATTILE_GGML_Q8_0:
            return static_cast<std::int8_t>(block[2 + i]);
        case ATTILE_GGML_Q4_0:
            return nibble(block[2 + i % 16], i / 16) - 8;
        case ATTILE_GGML_Q4_K:
            return nibble(block[16 + i / 64 * 32 + i % 32], i / 32 % 2);
        default:
            return (nibble(block[i / 128 * 64 + i % 64], i / 64 % 2) | (block[128 + i / 128 * 32 + i % 32] >> i / 32 % 4 * 2 & 3) << 4) -
                   32;
    }
}

// Group g of Q4_K has the six bits of a scale and of a minimum in these twelve bytes.
int q4_k_scale(const std::uint8_t *bytes, int g) { return g < 4 ? bytes[g] & 63 : (bytes[g + 4] & 15) | (bytes[g - 4] >> 6) << 4; }
int q4_k_minimum(const std::uint8_t *bytes, int g) { return g < 4 ? bytes[g + 4] & 63 : bytes[g + 4] >> 4 | (bytes[g] >> 6) << 4; }

struct Group {
    int numbers[kGroup];
    float scale, zero;
};

void divide_by_most(Group &group, float d, int most) {
    for (int &number : group.numbers) {
        const int twice = 254 * number, steps = static_cast<int>(std::floor(static_cast<double>(twice) / (2 * most)));
        const int rest = twice - 2 * most * steps;  // of 2 most
        number = rest > most || (rest == most && steps % 2 != 0) ? steps + 1 : steps;
    }
    group.scale = d * static_cast<float>(most) / 127.0f;
}

void fill_q6_k(Group &group, const std::uint8_t *block, int g) {
    const float d = half_at(block + 208);
    const int scales[2] = {static_cast<std::int8_t>(block[192 + 2 * g]), static_cast<std::int8_t>(block[193 + 2 * g])};
    const int divisor = std::gcd(scales[0], scales[1]);
    int most = 0;
    for (int i = 0; i < kGroup; ++i) {
        group.numbers[i] *= scales[i / 16];
        most = std::max(most, std::abs(group.numbers[i]));
    }
    if (divisor != 0 && most / divisor > 127) return divide_by_most(group, d, most);
    group.scale = d * static_cast<float>(divisor);
    for (int &number : group.numbers) number = divisor != 0 ? number / divisor : 0;
}

Group read_group(std::int32_t format, const std::uint8_t *block, int g) {
    Group group;
    for (int i = 0; i < kGroup; ++i) group.numbers[i] = number_of(format, block, kGroup * g + i);
    group.zero = 0;
    if (format == ATTILE_GGML_Q6_K) {
        fill_q6_k(group, block, g);
        return group;
    }
    group.scale = half_at(block);
    if (format != ATTILE_GGML_Q4_K) return group;
    group.scale *= static_cast<float>(q4_k_scale(block + 4, g));
    const float minimum = half_at(block + 2) * static_cast<float>(q4_k_minimum(block + 4, g));
    group.zero = minimum / group.scale;
    if (group.scale == 0) {
        std::fill(group.numbers, group.numbers + kGroup, 0);
        group.scale = minimum;
        group.zero = 1;
    }
    return group;
}

std::int32_t run(void *, const attile_repack_problem *p) {
    const std::int64_t per_block = block_numbers(p->format) / kGroup;
    for (std::int64_t i = 0; i < p->shape[0]; ++i)
        for (std::int64_t j = 0; j < p->shape[1]; ++j)
            for (std::int64_t l = 0; l < p->shape[2]; ++l)
                for (std::int64_t g = 0; g < p->shape[3] / kGroup; ++g) {
                    const std::uint8_t *const block = static_cast<const std::uint8_t *>(p->blocks.data) +
                                                      offset_of(p->blocks, i, j, l, g / per_block * block_bytes(p->format));
                    const Group group = read_group(p->format, block, static_cast<int>(g % per_block));
                    for (int n = 0; n < kGroup; ++n) store_integer(p->q, group.numbers[n], offset_of(p->q, i, j, l, kGroup * g + n));
                    store(p->scale, static_cast<double>(group.scale), i, j, l, g);
                    if (present(p->zero)) store(p->zero, static_cast<double>(group.zero), i, j, l, g);
                }
    return ATTILE_OK;
}

std::int32_t query(void *, const attile_repack_problem *p, attile_support *support) {
    const double rows = static_cast<double>(p->shape[0]) * static_cast<double>(p->shape[1]) * static_cast<double>(p->shape[2]);
    const double numbers = static_cast<double>(p->shape[3]), groups = numbers / kGroup;
    answer(support, "reference_repack", 0, rows * numbers,
           rows * (static_cast<double>(p->row_bytes) + numbers * bytes_of(p->q) + groups * (bytes_of(p->scale) + bytes_of(p->zero))));
    return ATTILE_OK;
}

}  // namespace

const attile_repack_interface repack_interface = {sizeof(attile_repack_interface), 1, query, run};

}  // namespace attile::reference
