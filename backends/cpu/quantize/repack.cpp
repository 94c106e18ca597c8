// SPDX-License-Identifier: Apache-2.0
// ggml's blocks to tensors: groups of 32 numbers, each read from its block by itself.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "element.h"
#include "state.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int64_t kGroup = 32;
constexpr int64_t kGroupsForThreads = 1 << 10;
constexpr int64_t kGroupsOfTask = 256;

struct Group {
    int32_t numbers[kGroup];
    float scale, zero = 0;
};

float half_at(const uint8_t *bytes) { return half_to_float(static_cast<uint16_t>(bytes[0] | bytes[1] << 8)); }

void read_q8_0(const uint8_t *block, int64_t, Group &group) {
    group.scale = half_at(block);
    for (int64_t i = 0; i < kGroup; ++i) group.numbers[i] = static_cast<int8_t>(block[2 + i]);
}

void read_q4_0(const uint8_t *block, int64_t, Group &group) {
    group.scale = half_at(block);
    for (int64_t i = 0; i < kGroup / 2; ++i) {
        group.numbers[i] = (block[2 + i] & 15) - 8;
        group.numbers[i + kGroup / 2] = (block[2 + i] >> 4) - 8;
    }
}

// Twelve bytes hold eight scales and eight minima of six bits: those of the first four groups whole, with the upper two bits of the others.
void read_q4_k(const uint8_t *block, int64_t g, Group &group) {
    const uint8_t *const packed = block + 4;
    int scale = packed[g] & 63, minimum = packed[g + 4] & 63;
    if (g >= 4) {
        scale = (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
        minimum = packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    }
    const uint8_t *const pairs = block + 16 + g / 2 * kGroup;
    const int shift = static_cast<int>(g % 2) * 4;
    group.scale = half_at(block) * static_cast<float>(scale);
    const float least = half_at(block + 2) * static_cast<float>(minimum);
    if (group.scale == 0) {
        std::fill(group.numbers, group.numbers + kGroup, 0);
        group.scale = least;
        group.zero = 1;
        return;
    }
    group.zero = least / group.scale;
    for (int64_t i = 0; i < kGroup; ++i) group.numbers[i] = pairs[i] >> shift & 15;
}

// To the nearest of so many steps, of two the even one. Both are positive.
int32_t nearest_steps(int32_t dividend, int32_t divisor) {
    const int32_t steps = dividend / divisor, rest = 2 * (dividend % divisor);
    return steps + (rest > divisor || (rest == divisor && steps % 2 != 0) ? 1 : 0);
}

void read_q6_k(const uint8_t *block, int64_t g, Group &group) {
    const uint8_t *const low = block + g / 4 * 64 + g % 2 * kGroup, *const high = block + 128 + g / 4 * kGroup;
    const int low_shift = g % 4 >= 2 ? 4 : 0, high_shift = static_cast<int>(g % 4) * 2;
    const int32_t scales[2] = {static_cast<int8_t>(block[192 + 2 * g]), static_cast<int8_t>(block[193 + 2 * g])};
    int32_t most = 0;
    for (int64_t i = 0; i < kGroup; ++i) {
        const int32_t number = ((low[i] >> low_shift & 15) | (high[i] >> high_shift & 3) << 4) - 32;
        group.numbers[i] = number * scales[i / 16];
        most = std::max(most, std::abs(group.numbers[i]));
    }
    const float d = half_at(block + 208);
    const int32_t divisor = std::max(std::gcd(scales[0], scales[1]), 1);
    if (most / divisor <= 127) {
        group.scale = d * static_cast<float>(std::gcd(scales[0], scales[1]));
        for (int32_t &number : group.numbers) number /= divisor;
        return;
    }
    group.scale = d * static_cast<float>(most) / 127.0f;
    for (int32_t &number : group.numbers) {
        const int32_t steps = nearest_steps(127 * std::abs(number), most);
        number = number < 0 ? -steps : steps;
    }
}

struct Format {
    void (*read)(const uint8_t *block, int64_t g, Group &group);
    int64_t groups, bytes;  // of a block
};
Format format_of(int32_t number) {
    switch (number) {
        case ATTILE_GGML_Q4_0:
            return {read_q4_0, 1, 18};
        case ATTILE_GGML_Q8_0:
            return {read_q8_0, 1, 34};
        case ATTILE_GGML_Q4_K:
            return {read_q4_k, 8, 144};
        default:
            return {read_q6_k, 8, 210};
    }
}

// The group of a row, by its indices.
void repack_group(const attile_repack_problem &p, const Format &format, const int64_t *at) {
    const auto offset = [&](const attile_operand &x, int64_t last) {
        return at[0] * x.stride[0] + at[1] * x.stride[1] + at[2] * x.stride[2] + last * x.stride[3];
    };
    Group group;
    const uint8_t *const blocks = static_cast<const uint8_t *>(p.blocks.data);
    format.read(blocks + offset(p.blocks, at[3] / format.groups * format.bytes), at[3] % format.groups, group);
    static_cast<float *>(p.scale.data)[offset(p.scale, at[3])] = group.scale;
    if (p.zero.dtype != 0) static_cast<float *>(p.zero.data)[offset(p.zero, at[3])] = group.zero;
    uint8_t *q = static_cast<uint8_t *>(p.q.data);
    if (!is_four_bits(p.q.dtype)) {
        q += offset(p.q, at[3] * kGroup);
        for (int64_t i = 0; i < kGroup; ++i) q[i * p.q.stride[3]] = static_cast<uint8_t>(group.numbers[i]);
        return;
    }
    q += offset(p.q, at[3] * kGroup) / 2;
    for (int64_t i = 0; i < kGroup / 2; ++i) {
        q[i] = static_cast<uint8_t>((group.numbers[2 * i] & 15) | (group.numbers[2 * i + 1] & 15) << 4);
    }
}

int64_t count_groups(const attile_repack_problem &p) {
    return (Size(p.shape[0]) * p.shape[1] * p.shape[2] * (p.shape[3] / kGroup)).value();
}

int32_t query(void *opaque, const attile_repack_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    const attile_repack_problem &p = *problem;
    const int64_t groups = count_groups(p);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_repack");
    const double rows = static_cast<double>(p.shape[0]) * static_cast<double>(p.shape[1]) * static_cast<double>(p.shape[2]);
    support->flops = static_cast<double>(groups) * kGroup;
    support->bytes = rows * static_cast<double>(p.row_bytes) +
                     static_cast<double>(groups) * (4.0 * dtype_bits(p.q.dtype) + dtype_bytes(p.scale.dtype) + dtype_bytes(p.zero.dtype));
    support->threads = 1;
    support->splits = 1;
    support->blocks = groups < kGroupsForThreads || state.threads == 1 ? 1 : ceil_div(groups, kGroupsOfTask);
    return ATTILE_OK;
}

int32_t run(void *opaque, const attile_repack_problem *problem) {
    const State &state = *static_cast<State *>(opaque);
    const attile_repack_problem &p = *problem;
    const Format format = format_of(p.format);
    const int64_t groups = count_groups(p), in_row = p.shape[3] / kGroup;
    parallel_for(groups < kGroupsForThreads ? 1 : state.threads, ceil_div(groups, kGroupsOfTask), [&](int64_t task, int) {
        for (int64_t i = task * kGroupsOfTask; i < least(groups, (task + 1) * kGroupsOfTask); ++i) {
            const int64_t row = i / in_row, plane = row / p.shape[2];
            const int64_t at[4] = {plane / p.shape[1], plane % p.shape[1], row % p.shape[2], i % in_row};
            repack_group(p, format, at);
        }
    });
    return ATTILE_OK;
}

}  // namespace

const attile_repack_interface g_repack_interface = {sizeof(attile_repack_interface), 1, query, run};

}  // namespace attile::cpu
