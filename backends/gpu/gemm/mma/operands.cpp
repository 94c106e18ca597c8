// SPDX-License-Identifier: Apache-2.0
#include "gemm/mma/operands.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "gemm/plan.h"
#include "host/sizes.h"
#include "host/status.h"
#include "mma/pack.h"

namespace attile::gpu::mma {
namespace {

constexpr int64_t kPackRow = 8;                    // Elements that packed rows are a multiple of.
constexpr int64_t kMostExtent = 0x7fffffff - 512;  // Coordinates are 32-bit.

bool strides_reachable(const GemmPanel &panel, int64_t bytes) {
    const int64_t stride[3] = {panel.outer_first ? (panel.depth > 1 ? panel.row : kPackRow) : (panel.outer > 1 ? panel.row : kPackRow),
                               panel.count_y > 1 ? panel.batch_y : kPackRow, panel.count_x > 1 ? panel.batch_x : kPackRow};
    // To TMA an axis with stride 0 has extent 1; operands whose rows have stride 0 are packed.
    return stride[0] > 0 && is_reachable(nullptr, stride, 3, bytes);
}

// D's contiguous axis becomes its columns.
void orient(GemmParams &p) {
    if (p.d.col == 1 || p.d.row != 1) return;
    std::swap(p.a, p.b);
    std::swap(p.m, p.n);
    for (GemmOutput *o : {&p.c, &p.d, &p.bias}) std::swap(o->row, o->col);
}

GemmPanel gemm_panel(const GemmInput &input, int64_t outer, int64_t depth, int64_t batch_x, int64_t batch_y, bool packed) {
    GemmPanel panel = {};
    panel.outer = outer;
    panel.depth = depth;
    panel.outer_first = input.depth != 1 && input.outer == 1;
    panel.row = panel.outer_first ? input.depth : input.outer;
    panel.count_x = input.batch_x != 0 ? batch_x : 1;
    panel.count_y = input.batch_y != 0 ? batch_y : 1;
    panel.batch_x = input.batch_x;
    panel.batch_y = input.batch_y;
    if (packed) {
        panel.row = ceil_div(panel.outer_first ? outer : depth, kPackRow) * kPackRow;
        panel.batch_y = panel.row * (panel.outer_first ? depth : outer);
        panel.batch_x = panel.batch_y * panel.count_y;
    }
    return panel;
}

PackMatrix pack_matrix(const GemmOperands &operands, bool is_a, void *to) {
    const GemmInput &input = is_a ? operands.params.a : operands.params.b;
    const GemmPanel panel = operands.panel(is_a);
    PackMatrix m = {};
    m.from = input.data;
    m.to = to;
    m.batch_x = input.batch_x;
    m.batch_y = input.batch_y;
    m.row = panel.outer_first ? input.depth : input.outer;
    m.col = panel.outer_first ? input.outer : input.depth;
    m.to_row = panel.row;
    m.rows = panel.outer_first ? panel.depth : panel.outer;
    m.cols = panel.outer_first ? panel.outer : panel.depth;
    m.count_y = panel.count_y;
    pack_deal(m, panel.count_x * panel.count_y, operands.element_bytes);
    return m;
}

}  // namespace

bool is_plain(const GemmParams &p, int32_t dtype) { return p.c.dtype == 0 && !gemm_has_epilogue(p) && p.d.dtype == dtype && p.d.col == 1; }
bool is_wide(const GemmOutput &output, int64_t rows, int64_t batch_y, int64_t batch_x) {
    const int64_t bytes = (output.dtype & 0xff) / 8, whole = kReachBytes / bytes;  // An axis of extent 1 may have any stride.
    const int64_t stride[3] = {rows > 1 ? output.row : whole, batch_y > 1 ? output.batch_y : whole, batch_x > 1 ? output.batch_x : whole};
    return stride[0] > 0 && stride[1] > 0 && stride[2] > 0 && is_reachable(output.data, stride, 3, bytes);
}

int64_t gemm_panel_bytes(const GemmPanel &panel, int64_t element_bytes) {
    return panel.row * (panel.outer_first ? panel.depth : panel.outer) * panel.count_x * panel.count_y * element_bytes;
}

GemmPanel GemmOperands::panel(bool is_a) const {
    return gemm_panel(is_a ? params.a : params.b, is_a ? params.m : params.n, params.k, batches / params.batch_y, params.batch_y,
                      is_a ? pack_a : pack_b);
}

GemmOperands gemm_operands(const attile_gemm_problem &problem) {
    const GemmShape shape = gemm_shape(problem);
    const bool is_invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    GemmOperands operands;
    operands.params = shape.params;
    operands.batches = shape.batches;
    operands.element_bytes = (problem.a.dtype & 0xff) / 8;
    orient(operands.params);
    const GemmParams &p = operands.params;
    const auto decline = [&](const char *why) {
        std::snprintf(operands.declined, sizeof operands.declined, "%s", why);
        return operands;
    };
    const int64_t batch_x = operands.batches / p.batch_y;
    if (std::max({p.m, p.n, p.k, p.batch_y, batch_x}) > kMostExtent) return decline("an extent of A or B is beyond 2^31");
    const auto examine = [&](const GemmInput &input, int64_t outer, bool *pack) {
        const GemmPanel as_is = gemm_panel(input, outer, p.k, batch_x, p.batch_y, false);
        const GemmPanel packed = gemm_panel(input, outer, p.k, batch_x, p.batch_y, true);
        const double bytes = static_cast<double>(outer) * static_cast<double>(p.k) * static_cast<double>(as_is.count_x * as_is.count_y) *
                             static_cast<double>(operands.element_bytes);
        const bool has_unit = input.depth == 1 || input.outer == 1;
        const bool fits = has_unit && strides_reachable(as_is, operands.element_bytes);
        operands.input_bytes += bytes;
        // Workspace must not depend on addresses: where they alone stand in the way, packing is for batch-invariant products only.
        if (!fits || is_invariant) operands.workspace_bytes += workspace_piece(gemm_panel_bytes(packed, operands.element_bytes));
        const bool aligned = reinterpret_cast<uintptr_t>(input.data) % kReachBytes == 0;
        *pack = !fits || !aligned;
        if (*pack) operands.packed_bytes += bytes;
        return aligned || !fits || is_invariant;
    };
    const bool a_ok = examine(p.a, p.m, &operands.pack_a), b_ok = examine(p.b, p.n, &operands.pack_b);
    if (!a_ok || !b_ok) return decline("A or B does not begin at a multiple of 16 bytes");
    return operands;
}

bool groups_reachable(const GemmOperands &operands) {
    const GemmParams &p = operands.params;
    if (p.a.depth != 1 || (p.b.depth != 1 && p.b.outer != 1)) return false;
    if (std::max({p.m, p.n, p.k, p.batch_y}) > kMostExtent) return false;
    for (const bool is_a : {true, false}) {
        const GemmInput &input = is_a ? p.a : p.b;
        if (reinterpret_cast<uintptr_t>(input.data) % kReachBytes != 0) return false;
        if (!strides_reachable(operands.panel(is_a), operands.element_bytes)) return false;
    }
    return !operands.panel(true).outer_first;
}

int32_t gemm_pack(Device &device, const GemmOperands &operands, Workspace &workspace, Stream stream, const void **a, const void **b) {
    PackArguments<2> arguments = {};
    const auto place = [&](bool is_a, PackMatrix *matrix, const void **data) {
        void *const to = workspace.take<char>(gemm_panel_bytes(operands.panel(is_a), operands.element_bytes));
        if (to == nullptr) return false;
        *matrix = pack_matrix(operands, is_a, to);
        *data = to;
        return true;
    };
    if ((operands.pack_a && !place(true, &arguments.matrix[0], a)) || (operands.pack_b && !place(false, &arguments.matrix[1], b))) {
        return fail(ATTILE_ERROR_INTERNAL, "gemm: the workspace is smaller than the query asked for");
    }
    const int64_t vectors = arguments.matrix[0].vectors + arguments.matrix[1].vectors;
    const int64_t most = int64_t{32} * std::max(1, device.properties().compute_units);
    const int64_t blocks = std::min(most, (vectors + kPackThreads - 1) / kPackThreads);
    void *pointers[] = {&arguments, nullptr};
    return device.launch(pack_kernel(operands.element_bytes), Dim3{static_cast<uint32_t>(blocks), 1, 1}, Dim3{kPackThreads, 1, 1}, 0,
                         pointers, stream);
}

bool gemm_is_left_to_simt(const DeviceProperties &properties, const attile_gemm_problem &problem, const GemmOperands &operands,
                          double seconds, Declined &declined) {
    constexpr int64_t kFewRows = 64;
    // Of the time by the two models: of few rows they are that far apart from what is measured.
    const bool is_packed = operands.pack_a || operands.pack_b, is_f64 = problem.a.dtype == ATTILE_F64;
    const bool is_wide = is_f64 || problem.a.dtype == ATTILE_F32;
    const double clearly_faster = is_f64 ? 1.0 : is_wide ? 1.1 : 0.8;
    if ((problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return false;
    if (!is_packed && !is_wide && std::min(problem.m, problem.n) > kFewRows) return false;
    if (gpu::gemm_plan(properties, gemm_shape(problem), false).seconds > clearly_faster * seconds) return false;
    std::snprintf(declined.text, sizeof declined.text, "%s",
                  is_wide     ? "this shape runs as fast without"
                  : is_packed ? "copying A or B to rows of a multiple of 16 bytes takes longer"
                              : "matrices so small run as fast without");
    return true;
}

}  // namespace attile::gpu::mma
