// SPDX-License-Identifier: Apache-2.0
#include "mma/aligned_copy.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "host/sizes.h"
#include "host/status.h"
#include "mma/reach.h"

namespace attile::gpu::mma {
namespace {

constexpr int32_t kWarpBits = 5;
constexpr int64_t kBlocksOfUnit = 32;
constexpr int64_t kColumnsAtOnce = 8;  // That kernels store, of any type: a row of the copy ends with whole ones.

}  // namespace

void pack_deal(PackMatrix &m, int64_t batches, int64_t element_bytes) {
    const int64_t vectors = ceil_div(m.to_row * element_bytes, kReachBytes), count_x = batches / std::max<int64_t>(m.count_y, 1);
    m.lane_bits = 0;
    while (m.lane_bits < kWarpBits && (int64_t{1} << m.lane_bits) < vectors) ++m.lane_bits;
    m.lines = m.rows * batches;
    m.vectors = m.lines * vectors;
    m.of_row = Divider(std::max<int64_t>(vectors, 1));
    m.of_entry = Divider(std::max<int64_t>(m.rows, 1));
    m.of_count = Divider(std::max<int64_t>(m.count_y, 1));
    m.lowest = m.highest = static_cast<const char *>(m.from);
    const int64_t extent[4] = {count_x, m.count_y, m.rows, m.cols}, stride[4] = {m.batch_x, m.batch_y, m.row, m.col};
    for (int axis = 0; axis < 4; ++axis) (stride[axis] < 0 ? m.lowest : m.highest) += (extent[axis] - 1) * stride[axis] * element_bytes;
    m.highest += element_bytes;
    m.across = ceil_div(m.to_row, pack_piece_elements(element_bytes));
    m.pieces = m.across * ceil_div(m.lines, int64_t{1} << (kWarpBits - m.lane_bits));
}

AlignedCopy aligned_copy(const attile_operand &operand, int64_t batch, int64_t heads, int64_t rows, int64_t columns) {
    AlignedCopy copy;
    copy.element_bytes = (operand.dtype & 0xff) / 8;
    const int64_t whole = std::max(kReachBytes / copy.element_bytes, kColumnsAtOnce);
    copy.extent[0] = operand.stride[0] == 0 ? 1 : batch;
    copy.extent[1] = operand.stride[1] == 0 ? 1 : heads;
    copy.extent[2] = rows;
    copy.extent[3] = columns;
    copy.stride[3] = 1;
    copy.stride[2] = ceil_div(columns, whole) * whole;
    copy.stride[1] = operand.stride[1] == 0 ? 0 : copy.stride[2] * rows;
    copy.stride[0] = operand.stride[0] == 0 ? 0 : copy.stride[2] * rows * copy.extent[1];
    return copy;
}

void name_copies(attile_support &support, const char *names) {
    const auto append = [](char *text, std::size_t capacity, const char *format, const char *what) {
        const std::size_t used = std::strlen(text);
        std::snprintf(text + used, capacity - used, format, what);
    };
    append(support.kernel, sizeof support.kernel, "%s", "_packed");
    append(support.text, sizeof support.text, "; %s copied to aligned rows", names);
}

bool AlignedCopies::place(const AlignedCopy &copy, attile_operand &operand, Workspace &workspace, bool is_result) {
    if (!copy.is_made()) return true;
    void *const to = workspace.take<char>(copy.bytes());
    if (to == nullptr || count_ == kMost) return false;
    PackMatrix m = {};
    m.from = operand.data;
    m.to = to;
    m.batch_x = operand.stride[0];
    m.batch_y = operand.stride[1];
    m.row = operand.stride[2];
    m.col = operand.stride[3];
    m.to_row = copy.stride[2];
    m.rows = copy.extent[2];
    m.cols = copy.extent[3];
    m.count_y = copy.extent[1];
    pack_deal(m, copy.extent[0] * copy.extent[1], copy.element_bytes);
    one_[count_++] = {m, copy.element_bytes, is_result};
    operand.data = to;
    std::copy(std::begin(copy.stride), std::end(copy.stride), operand.stride);
    return true;
}

int32_t AlignedCopies::launch(Device &device, Stream stream, bool back) const {
    for (const int64_t bytes : {1, 2, 4}) {
        PackArguments<kMostPacked> arguments = {};
        int count = 0;
        int64_t threads = 0;
        for (int i = 0; i < count_; ++i) {
            if (one_[i].element_bytes != bytes || one_[i].is_result != back) continue;
            if (count == kMostPacked) return fail(ATTILE_ERROR_INTERNAL, "more copies than one launch makes");
            arguments.matrix[count++] = one_[i].matrix;
            threads += back ? one_[i].matrix.pieces * 32 : one_[i].matrix.vectors;
        }
        if (threads == 0) continue;
        const int64_t most = kBlocksOfUnit * std::max(1, device.properties().compute_units);
        const int64_t blocks = std::min(most, ceil_div(threads, kPackThreads));
        void *pointers[] = {&arguments, nullptr};
        const void *const kernel = back ? unpack_several_kernel(bytes) : pack_several_kernel(bytes);
        const int32_t status =
            device.launch(kernel, Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{kPackThreads, 1, 1}, 0, pointers, stream);
        if (status != ATTILE_OK) return status;
    }
    return ATTILE_OK;
}

}  // namespace attile::gpu::mma
