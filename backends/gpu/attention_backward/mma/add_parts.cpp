// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/mma/add_parts.h"

#include <algorithm>

#include "attention/run.h"
#include "host/sizes.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kBlocksOfUnit = 16;

}  // namespace

BackwardPartSum backward_part_sum(const attile_operand &to, const float *parts, int64_t rows, int64_t columns) {
    BackwardPartSum sum = {};
    sum.to = attention_operand(to, columns);
    sum.parts = parts;
    sum.columns = static_cast<int32_t>(columns);
    sum.pieces = static_cast<int32_t>(columns / kAddedColumns);
    sum.part_stride = rows * columns;
    return sum;
}

int32_t add_backward_parts(Device &device, int32_t dtype, BackwardPartSums &sums, Stream stream) {
    const int64_t tasks = sums.all_rows * std::max(sums.dk.pieces, sums.dv.pieces),
                  most = kBlocksOfUnit * std::max<int64_t>(device.properties().compute_units, 1);
    const int64_t blocks = std::clamp<int64_t>(ceil_div(tasks, kAddPartsThreads), 1, most);
    void *pointers[] = {&sums, nullptr};
    return device.launch_early(backward_add_parts(dtype), Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{kAddPartsThreads, 1, 1}, 0,
                               pointers, stream);
}

}  // namespace attile::gpu::mma
