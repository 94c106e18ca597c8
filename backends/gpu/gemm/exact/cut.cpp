// SPDX-License-Identifier: Apache-2.0
#include "gemm/exact/cut.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "gemm/families.h"
#include "host/sizes.h"

namespace attile::gpu::exact {
namespace {

// Less than half of the product of the moduli is what sums may be: 0.41 of it, as twice so many bits for both norms.
constexpr double kBitsBelowProduct = 1.3;
// Norms have so many bits more than log2 of the depth: few of ordinary numbers are rounded then, and one in a thousand elements undecided.
constexpr double kBitsF64 = 56.5, kBitsF32 = 29.8;
constexpr int64_t kCountedDepth = 128;                        // As the least: there a modulus takes little, and numbers may be spread.
constexpr int64_t kMostExactDepth = 131071, kDepthUnit = 32;  // (2^31 - 1) / 128^2
constexpr int64_t kMostChunk = kMostExactDepth / kDepthUnit * kDepthUnit;
constexpr int64_t kMostWorkspace = int64_t{4} << 30, kShareOfMemory = 16;
constexpr int64_t kMostElements = int64_t{1} << 28, kFewestLines = 256, kFewestDepth = 1024;
constexpr int64_t kMostParts = 64, kFewestOfPart = 256;

// A half, in units, but for the last.
int64_t half_of(int64_t extent, int64_t unit) { return ceil_div(ceil_div(extent, 2), unit) * unit; }

attile_operand transposed(attile_operand x) {
    std::swap(x.stride[2], x.stride[3]);
    return x;
}

}  // namespace

int64_t residue_row(int64_t depth) { return ceil_div(depth, kDepthUnit) * kDepthUnit; }
int64_t Cut::sum_row(int64_t columns) const {
    const int64_t unit = stores_residues ? kResidueRow : 4;
    return ceil_div(columns, unit) * unit;
}

int64_t Cut::plane_a(const Part &of) const { return entries_of(p.a, of.entries) * of.rows * residue_row(of.depth); }
int64_t Cut::plane_b(const Part &of) const { return entries_of(p.b, of.entries) * of.columns * residue_row(of.depth); }
int64_t Cut::plane_d(const Part &of) const { return of.entries * of.rows * sum_row(of.columns); }

attile_gemm_problem Cut::sums(const Part &of, void *a, void *b, void *d) const {
    attile_gemm_problem q = {};
    q.struct_size = sizeof q;
    q.compute = ATTILE_I32;
    q.batch[0] = moduli;
    q.batch[1] = of.entries;
    q.m = of.rows;
    q.n = of.columns;
    q.k = residue_row(of.depth);
    q.alpha = 1;
    const int64_t step_a = p.a.stride[1] != 0 && of.entries > 1 ? of.rows * q.k : 0;
    const int64_t step_b = p.b.stride[1] != 0 && of.entries > 1 ? of.columns * q.k : 0;
    const int64_t row = sum_row(of.columns);
    q.a = {a, ATTILE_I8, 0, {plane_a(of), step_a, q.k, 1}};
    q.b = {b, ATTILE_I8, 0, {plane_b(of), step_b, 1, q.k}};
    q.d = {d, ATTILE_I32, 0, {plane_d(of), of.entries > 1 ? of.rows * row : 0, row, 1}};
    return q;
}

ResidueSums Cut::residue_sums(const Part &of, void *a, void *b, void *d) const {
    ResidueSums of_sums = {sums(of, a, b, d), {}};
    for (int i = 0; i < moduli; ++i) of_sums.largest[i] = static_cast<uint8_t>(residue_modulus(i).p - 1);
    return of_sums;
}

// The products of int8 may want more where a part is smaller.
int64_t Cut::bytes(Device &device, const Part &of) const {
    const auto sizes = [](int64_t extent, int64_t largest) {
        const int64_t rest = extent % largest;
        return std::pair<int64_t, int64_t>{largest, rest == 0 ? largest : rest};
    };
    const auto entries = sizes(p.batch[1], of.entries), rows = sizes(p.m, of.rows), columns = sizes(p.n, of.columns),
               depths = sizes(p.k, of.depth);
    int64_t products = 0;
    for (int i = 0; i < 16; ++i) {
        const auto pick = [&](int bit, const std::pair<int64_t, int64_t> &of_two) {
            return (i >> bit & 1) != 0 ? of_two.second : of_two.first;
        };
        const Part some = {pick(0, entries), pick(1, rows), pick(2, columns), pick(3, depths)};
        const bool is_new = ((i & 1) == 0 || entries.first != entries.second) && ((i & 2) == 0 || rows.first != rows.second) &&
                            ((i & 4) == 0 || columns.first != columns.second) && ((i & 8) == 0 || depths.first != depths.second);
        if (!is_new) continue;
        const ResidueSums of_part = residue_sums(some, nullptr, nullptr, nullptr);
        products = std::max(products, stores_residues ? plan_residue_sums(device, of_part).workspace_bytes()
                                                      : plan_step(device, of_part.sums, kGemmFamilies).workspace_bytes());
    }
    const int64_t chunks = of.depth < p.k ? 2 : 1;
    return workspace_piece(lines(of.entries) * static_cast<int64_t>(sizeof(Line))) +
           workspace_piece(lines(of.entries) * kMostListed * static_cast<int64_t>(sizeof(uint32_t))) +
           workspace_piece(lines(of.entries) * parts * static_cast<int64_t>(sizeof(PartOfLine))) + workspace_piece(moduli * plane_a(of)) +
           workspace_piece(moduli * plane_b(of)) + chunks * workspace_piece(sum_bytes() * moduli * plane_d(of)) +
           workspace_piece(4 * of.entries * of.rows * of.columns) + workspace_piece(4) + products;
}

bool Memory::take(const Cut &cut, Workspace &from) {
    const Part &of = cut.part;
    lines = from.take<Line>(cut.lines(of.entries));
    listed = from.take<uint32_t>(cut.lines(of.entries) * kMostListed);
    parts = from.take<PartOfLine>(cut.lines(of.entries) * cut.parts);
    a = from.take<int8_t>(cut.moduli * cut.plane_a(of));
    b = from.take<int8_t>(cut.moduli * cut.plane_b(of));
    sums = totals = from.take<char>(cut.sum_bytes() * cut.moduli * cut.plane_d(of));
    if (cut.is_chunked()) totals = from.take<char>(cut.sum_bytes() * cut.moduli * cut.plane_d(of));
    undecided = from.take<uint32_t>(of.entries * of.rows * of.columns);
    undecided_count = from.take<uint32_t>(1);
    rest = from;
    return lines != nullptr && listed != nullptr && parts != nullptr && a != nullptr && b != nullptr && sums != nullptr &&
           totals != nullptr && undecided != nullptr && undecided_count != nullptr;
}

void Cut::move_to(const attile_gemm_problem &problem) {
    p.a.data = (swapped ? problem.b : problem.a).data;
    p.b.data = (swapped ? problem.a : problem.b).data;
    p.c.data = problem.c.data;
    p.d.data = problem.d.data;
    p.bias.data = problem.bias.data;
}

Cut::Cut(Device &device, const attile_gemm_problem &problem)
    : p(problem),
      f64(problem.a.dtype == ATTILE_F64),
      swapped(problem.d.stride[3] != 1 && problem.d.stride[2] == 1),
      moduli(0),
      stores_residues(false),
      most_bits(0),
      part{},
      parts(1),
      part_depth(0),
      workspace(0) {
    if (swapped) {
        std::swap(p.m, p.n);
        p.a = transposed(problem.b);
        p.b = transposed(problem.a);
        for (attile_operand *x : {&p.c, &p.d, &p.bias}) *x = transposed(*x);
    }
    if (p.batch[1] == 1) {
        std::swap(p.batch[0], p.batch[1]);
        for (attile_operand *x : {&p.a, &p.b, &p.c, &p.d, &p.bias}) std::swap(x->stride[0], x->stride[1]);
    }
    part = {p.batch[1], p.m, p.n, p.k};
    const auto elements = [&] { return part.entries * part.rows * part.columns; };
    while (part.entries > 1 && elements() > kMostElements) part.entries = half_of(part.entries, 1);
    while (elements() > kMostElements)
        part.rows > part.columns ? part.rows = half_of(part.rows, 1) : part.columns = half_of(part.columns, 4);
    if (p.k == 0 || elements() == 0) return;

    const double wanted = (f64 ? kBitsF64 : kBitsF32) + std::log2(static_cast<double>(std::max(p.k, kCountedDepth)));
    const auto bits_of = [](int of) { return std::min((bits_of_product(of) - kBitsBelowProduct) / 2, static_cast<double>(kMostBits)); };
    for (moduli = 8; moduli < kMostModuli && bits_of(moduli) < wanted;) ++moduli;
    most_bits = bits_of(moduli);
    part.depth = std::min(p.k, kMostChunk);
    stores_residues = !is_chunked() && plan_residue_sums(device, residue_sums(part, nullptr, nullptr, nullptr)).has_plan();
    // Blocks that measure a line's parts fill the device.
    const int64_t groups = ceil_div(lines(part.entries), kMeasureLines), units = std::max(1, device.properties().compute_units);
    parts = std::max<int64_t>(std::min({ceil_div(4 * units, groups), p.k / kFewestOfPart, kMostParts}), 1);
    part_depth = ceil_div(p.k, parts);

    const int64_t memory = device.properties().memory_total;
    const int64_t most = memory > 0 ? std::min(kMostWorkspace, memory / kShareOfMemory) : kMostWorkspace;
    for (;;) {
        workspace = bytes(device, part);
        if (workspace <= most) break;
        if (part.entries > 1) {
            part.entries = half_of(part.entries, 1);
        } else if (part.rows > 4 * kFewestLines ||
                   (part.rows > kFewestLines && part.columns <= part.rows)) {  // All columns once, if there is room.
            part.rows = half_of(part.rows, kFewestLines);
        } else if (part.columns > kFewestLines) {
            part.columns = half_of(part.columns, kFewestLines);
        } else if (part.depth > kFewestDepth) {
            part.depth = half_of(part.depth, kFewestDepth);
            stores_residues = false;
        } else {
            break;
        }
    }
}

}  // namespace attile::gpu::exact
