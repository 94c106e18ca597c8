// SPDX-License-Identifier: Apache-2.0
// repack: ggml's blocks to tensors. A thread has a group of 32 numbers, which it reads from its block by itself: blocks are of 18 to 210
// bytes, so that nothing is aligned, and those of neighbours come from the caches. Block 256 threads. Bound: memory.
#include <algorithm>
#include <cstdio>

#include "host/sizes.h"
#include "host/status.h"
#include "narrow.h"
#include "numeric.h"
#include "quantize/simt/plan.h"
#include "rows/rows.h"
#include "vec.h"

namespace attile::gpu {
namespace {

constexpr int kRepackThreads = 256;
constexpr int kRepackGroup = 32;

struct RepackArguments {
    const uint8_t *blocks;
    uint8_t *q;
    float *scale, *zero;  // Null: none.
    int64_t extent[4];    // The last one in groups.
    int64_t block_stride[3], q_stride[4], scale_stride[4], zero_stride[4];
    int64_t groups;
    int32_t format;
    bool is_four_bits, is_vector;  // Groups of q are contiguous, and aligned by 16 bytes.
};

ATTILE_LANE_FN float half_at(const uint8_t *bytes) {
    return to_compute(F16{static_cast<uint16_t>(bytes[0] | static_cast<uint32_t>(bytes[1]) << 8)});
}
ATTILE_LANE_FN int32_t signed_at(const uint8_t *bytes) { return static_cast<int8_t>(*bytes); }

struct RepackGroup {
    int32_t numbers[kRepackGroup];
    float scale, zero;
};

ATTILE_LANE_FN void read_q4_k(const uint8_t *block, int32_t g, RepackGroup &group) {
    const uint8_t *const packed = block + 4, *const pairs = block + 16 + g / 2 * kRepackGroup;
    const int32_t steps = g < 4 ? packed[g] & 63 : (packed[g + 4] & 15) | packed[g - 4] >> 6 << 4;
    const int32_t least = g < 4 ? packed[g + 4] & 63 : packed[g + 4] >> 4 | packed[g] >> 6 << 4;
    const float scale = rounded_product(half_at(block), static_cast<float>(steps));
    const float minimum = rounded_product(half_at(block + 2), static_cast<float>(least));
    const bool is_flat = scale == 0;
#pragma unroll
    for (int i = 0; i < kRepackGroup; ++i) group.numbers[i] = is_flat ? 0 : pairs[i] >> g % 2 * 4 & 15;
    group.scale = is_flat ? minimum : scale;
    group.zero = is_flat ? 1.0f : rounded_quotient(minimum, scale);
}

ATTILE_LANE_FN void read_q6_k(const uint8_t *block, int32_t g, RepackGroup &group) {
    const uint8_t *const low = block + g / 4 * 64 + g % 2 * kRepackGroup, *const high = block + 128 + g / 4 * kRepackGroup;
    const int32_t scales[2] = {signed_at(block + 192 + 2 * g), signed_at(block + 193 + 2 * g)};
    const float d = half_at(block + 208);
    int32_t most = 0;
#pragma unroll
    for (int i = 0; i < kRepackGroup; ++i) {
        const int32_t number = ((low[i] >> g % 4 / 2 * 4 & 15) | (high[i] >> g % 4 * 2 & 3) << 4) - 32;
        group.numbers[i] = number * scales[i / 16];
        most = max(most, group.numbers[i] < 0 ? -group.numbers[i] : group.numbers[i]);
    }
    int32_t divisor = scales[0] < 0 ? -scales[0] : scales[0], rest = scales[1] < 0 ? -scales[1] : scales[1];
    while (rest != 0) {
        const int32_t next = divisor % rest;
        divisor = rest;
        rest = next;
    }
    const bool is_exact = most <= 127 * divisor;  // Also of no scale, where most is 0.
    group.scale =
        is_exact ? rounded_product(d, static_cast<float>(divisor)) : rounded_quotient(rounded_product(d, static_cast<float>(most)), 127.0f);
    // 127 x / most to the nearest integer, of two the even one; or x / divisor, which leaves no rest.
    const uint32_t factor = is_exact ? 1 : 127, by = static_cast<uint32_t>(is_exact ? max(divisor, 1) : most);
#pragma unroll
    for (int i = 0; i < kRepackGroup; ++i) {
        const int32_t x = group.numbers[i];
        const uint32_t dividend = factor * static_cast<uint32_t>(x < 0 ? -x : x), steps = dividend / by,
                       twice = 2 * (dividend - steps * by);
        const int32_t nearest = static_cast<int32_t>(steps + (twice > by || (twice == by && steps % 2 != 0) ? 1 : 0));
        group.numbers[i] = x < 0 ? -nearest : nearest;
    }
}

ATTILE_LANE_FN void read_group(const RepackArguments &a, const uint8_t *row, int64_t number, RepackGroup &group) {
    group.zero = 0;
    if (a.format == ATTILE_GGML_Q4_K) return read_q4_k(row + number / 8 * 144, static_cast<int32_t>(number % 8), group);
    if (a.format == ATTILE_GGML_Q6_K) return read_q6_k(row + number / 8 * 210, static_cast<int32_t>(number % 8), group);
    const bool has_pairs = a.format == ATTILE_GGML_Q4_0;
    const uint8_t *const block = row + number * (has_pairs ? 18 : 34);
    group.scale = half_at(block);
#pragma unroll
    for (int i = 0; i < kRepackGroup; ++i)
        group.numbers[i] = has_pairs ? (block[2 + i % 16] >> i / 16 * 4 & 15) - 8 : signed_at(block + 2 + i);
}

ATTILE_LANE_FN void store_group(const RepackArguments &a, uint8_t *q, const RepackGroup &group) {
    if (a.is_four_bits) {
#pragma unroll
        for (int i = 0; i < kRepackGroup; i += 2)
            q[i / 2] = static_cast<uint8_t>((group.numbers[i] & 15) | (group.numbers[i + 1] & 15) << 4);
        return;
    }
    if (!a.is_vector) {
#pragma unroll
        for (int i = 0; i < kRepackGroup; ++i) q[i * a.q_stride[3]] = static_cast<uint8_t>(group.numbers[i]);
        return;
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Vec<uint32_t, 4> words;
#pragma unroll
        for (int i = 0; i < 16; ++i) {
            const uint32_t byte = static_cast<uint32_t>(group.numbers[16 * half + i]) & 0xffu;
            words[i / 4] = i % 4 == 0 ? byte : words[i / 4] | byte << i % 4 * 8;
        }
        store_vec(reinterpret_cast<uint32_t *>(q) + 4 * half, words);
    }
}

__global__ void ATTILE_LAUNCH_BOUNDS(kRepackThreads, 2) repack_groups(const RepackArguments parameter) {
    const RepackArguments &a = kernel_parameter(parameter);
    for (int64_t item = static_cast<int64_t>(blockIdx.x) * kRepackThreads + threadIdx.x; item < a.groups;
         item += static_cast<int64_t>(gridDim.x) * kRepackThreads) {
        const Division last = divide(item, a.extent[3]), row = divide(last.quotient, a.extent[2]),
                       plane = divide(row.quotient, a.extent[1]);
        const auto offset = [&](const auto &stride) {
            return plane.quotient * stride[0] + plane.remainder * stride[1] + row.remainder * stride[2];
        };
        RepackGroup group;
        read_group(a, a.blocks + offset(a.block_stride), last.remainder, group);
        a.scale[offset(a.scale_stride) + last.remainder * a.scale_stride[3]] = group.scale;
        if (a.zero != nullptr) a.zero[offset(a.zero_stride) + last.remainder * a.zero_stride[3]] = group.zero;
        const int64_t to = offset(a.q_stride) + last.remainder * kRepackGroup * a.q_stride[3];
        store_group(a, a.q + (a.is_four_bits ? to / 2 : to), group);
    }
}

struct RepackCall {
    const attile_repack_problem *problem;
    RepackArguments arguments;
    int64_t blocks;

    int32_t describe(Device &device, attile_support &support) const {
        const attile_repack_problem &p = *problem;
        support.level = ATTILE_SUPPORT_NATIVE;
        std::snprintf(support.kernel, sizeof support.kernel, "simt_repack_groups");
        const double groups = static_cast<double>(arguments.groups), rows = groups / static_cast<double>(arguments.extent[3]);
        support.flops = groups * kRepackGroup;
        support.bytes = rows * static_cast<double>(p.row_bytes) +
                        groups / 8 * (kRepackGroup * dtype_bits(p.q.dtype) + dtype_bits(p.scale.dtype) + dtype_bits(p.zero.dtype));
        support.splits = 1;
        support.blocks = blocks;
        return fill_resources(device, reinterpret_cast<const void *>(repack_groups), kRepackThreads, support);
    }

    int32_t launch(Device &device, Workspace &, Stream stream) const {
        RepackArguments a = arguments;
        a.blocks = static_cast<const uint8_t *>(problem->blocks.data);
        a.q = static_cast<uint8_t *>(problem->q.data);
        a.scale = static_cast<float *>(problem->scale.data);
        a.zero = static_cast<float *>(problem->zero.data);
        return gpu::launch(device, repack_groups, Dim3{static_cast<uint32_t>(blocks)}, Dim3{kRepackThreads}, 0, stream, a);
    }
};

}  // namespace

Planned<attile_repack_problem> simt::plan_repack(Device &device, const attile_repack_problem &problem) {
    RepackArguments a = {};
    a.format = problem.format;
    a.is_four_bits = dtype_bits(problem.q.dtype) == 4;
    a.is_vector = !a.is_four_bits && problem.q.stride[3] == 1 && is_aligned(problem.q.data, 16);
    a.groups = problem.shape[3] / kRepackGroup;
    for (int i = 0; i < 4; ++i) {
        a.extent[i] = i < 3 ? problem.shape[i] : a.groups;
        a.q_stride[i] = problem.q.stride[i];
        a.scale_stride[i] = problem.scale.stride[i];
        a.zero_stride[i] = problem.zero.stride[i];
        if (i < 3) a.block_stride[i] = problem.blocks.stride[i];
        if (i < 3) a.is_vector = a.is_vector && problem.q.stride[i] % 16 == 0;
    }
    for (int i = 0; i < 3; ++i) a.groups *= problem.shape[i];
    return Planned<attile_repack_problem>(RepackCall{&problem, a, row_grid(device, a.groups, kRepackThreads)}, 0);
}

}  // namespace attile::gpu
