// SPDX-License-Identifier: Apache-2.0
// A row of a head a group of threads, four numbers each at a time. Bound: memory, each float once there and a byte back.
#include "quantize/attention_result.h"

#include <algorithm>

#include "host/status.h"
#include "quantize/simt/numbers.cuh"

namespace attile::gpu {
namespace {

constexpr int32_t kThreads = 256, kRowThreads = 16, kRowsAtOnce = kThreads / kRowThreads, kAtOnce = 4;

struct ResultArguments {
    simt::QuantizeArguments numbers;  // What they are made with; nothing of where they are.
    const float *from;
    uint8_t *to;
    const float *scale;  // Null: all are 1.
    int64_t from_entry, from_head, from_row;
    int64_t to_stride[4], scale_stride[4];
    const int32_t *starts;  // Of the sequences' rows; null: they are not packed.
    int64_t starts_stride, total_rows;
    uint32_t pairs;  // Of entry and head.
    Divider heads, group;
    int32_t rows, columns;
    bool vector, one_scale;  // Four numbers lie in an aligned word; they share a scale.
};

__global__ void ATTILE_LAUNCH_BOUNDS(kThreads, 1) attention_result(const ResultArguments a) {
    for (uint32_t pair = blockIdx.y; pair < a.pairs; pair += gridDim.y) {
        const int64_t entry = quotient(pair, a.heads), head = remainder(pair, a.heads);
        int64_t first = 0, end = a.rows;
        if (a.starts != nullptr) {
            first = min(max(int64_t{a.starts[entry * a.starts_stride]}, int64_t{0}), a.total_rows);
            end = min(min(int64_t{a.starts[(entry + 1) * a.starts_stride]}, a.total_rows) - first, end);
        }
        const float *const from = a.from + entry * a.from_entry + head * a.from_head;
        for (int64_t i = int64_t{blockIdx.x} * kRowsAtOnce + threadIdx.x / kRowThreads; i < end; i += int64_t{gridDim.x} * kRowsAtOnce) {
            const int64_t row = first + i, to = entry * a.to_stride[0] + head * a.to_stride[1] + row * a.to_stride[2];
            const int64_t scales = entry * a.scale_stride[0] + head * a.scale_stride[1] + row * a.scale_stride[2];
            for (int col = static_cast<int>(threadIdx.x) % kRowThreads * kAtOnce; col < a.columns; col += kRowThreads * kAtOnce) {
                const Vec<float, kAtOnce> loaded = load_vec<kAtOnce>(from + row * a.from_row + col);
                const auto scale_at = [&](int column) {
                    const int64_t at = scales + quotient(static_cast<uint32_t>(column), a.group) * a.scale_stride[3];
                    return simt::BlockScale{a.scale != nullptr ? a.scale[at] : 1.0f, 0.0f};
                };
                uint32_t numbers[kAtOnce];
                if (a.one_scale) {
                    float x[kAtOnce];
#pragma unroll
                    for (int e = 0; e < kAtOnce; ++e) x[e] = loaded[e];
                    simt::make_numbers(a.numbers, scale_at(col), x, numbers);
                } else {
#pragma unroll 1
                    for (int e = 0; e < kAtOnce; ++e) {
                        const float x[1] = {pick(e == 0, loaded[0], pick(e == 1, loaded[1], pick(e == 2, loaded[2], loaded[3])))};
                        uint32_t number[1];
                        simt::make_numbers(a.numbers, scale_at(min(col + e, a.columns - 1)), x, number);
                        if (col + e < a.columns) a.to[to + (col + e) * a.to_stride[3]] = static_cast<uint8_t>(number[0]);
                    }
                    continue;
                }
                if (a.vector) {
                    uint32_t word = 0;
#pragma unroll
                    for (int e = 0; e < kAtOnce; ++e) word |= (numbers[e] & 0xffu) << 8 * e;
                    *reinterpret_cast<uint32_t *>(a.to + to + col) = word;
                    continue;
                }
#pragma unroll
                for (int e = 0; e < kAtOnce; ++e)
                    if (col + e < a.columns) a.to[to + (col + e) * a.to_stride[3]] = static_cast<uint8_t>(numbers[e]);
            }
        }
    }
}

}  // namespace

int32_t round_attention_result(Device &device, const attile_attention_problem &p, const float *result, Stream stream) {
    constexpr int64_t kMostBlocks = (1 << 16) - 1;
    const bool packed = is_present(p.cu_len_q);
    ResultArguments a = {};
    simt::set_numbers(p.o.dtype, a.numbers);
    a.numbers.from = simt::ScaleFrom::kTensor;
    a.from = result;
    a.to = static_cast<uint8_t *>(p.o.data);
    a.scale = static_cast<const float *>(p.o_scale.data);
    a.from_row = attention_result_row(p);
    a.from_head = attention_result_head(p);
    a.from_entry = packed ? 0 : a.from_head * p.heads_q;
    std::copy(p.o.stride, p.o.stride + 4, a.to_stride);
    std::copy(p.o_scale.stride, p.o_scale.stride + 4, a.scale_stride);
    a.starts = packed ? static_cast<const int32_t *>(p.cu_len_q.data) : nullptr;
    a.starts_stride = p.cu_len_q.stride[0];
    a.total_rows = p.total_q;
    a.pairs = static_cast<uint32_t>(p.batch * p.heads_q);
    a.heads = Divider(p.heads_q);
    a.group = Divider(std::max<int64_t>(p.o_group, 1));
    a.rows = static_cast<int32_t>(p.len_q);
    a.columns = static_cast<int32_t>(p.head_dim_v);
    a.one_scale = !is_present(p.o_scale) || p.o_scale.stride[3] == 0 || p.o_group % kAtOnce == 0;
    a.vector = p.head_dim_v % kAtOnce == 0 && p.o.stride[3] == 1 && reinterpret_cast<uintptr_t>(p.o.data) % kAtOnce == 0;
    for (int axis = 0; axis < 3; ++axis) a.vector = a.vector && p.o.stride[axis] % kAtOnce == 0;
    Dim3 grid, block;
    grid.x = static_cast<uint32_t>(std::clamp<int64_t>(ceil_div(p.len_q, kRowsAtOnce), 1, kMostBlocks));
    grid.y = static_cast<uint32_t>(std::min<int64_t>(a.pairs, kMostBlocks));
    block.x = kThreads;
    return launch(device, attention_result, grid, block, 0, stream, a);
}

}  // namespace attile::gpu
