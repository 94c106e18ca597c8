// SPDX-License-Identifier: Apache-2.0
// The kernels of exact products, as the host sees them. A line is a row of A or a column of B. Lines become integers and these residues of
// int8, whose products other families sum; what the residues of the sums tell, and leave undecided, is found here (docs/exact.md).
#pragma once

#include <cstdint>

#include "device.h"
#include "divider.h"
#include "gemm/exact/moduli.h"
#include "gemm/params.h"

namespace attile::gpu::exact {

// Lines of A or B where they are: `entries` of the inner batch axis, `count` lines each. Strides in elements.
struct Numbers {
    const void *data;
    int64_t batch, outer, depth;
    int64_t entries, count;
    int32_t along_outer;  // Neighbouring threads read neighbouring lines.
    int32_t reserved;
};

// What is known of a part of a line, and of it all. Of numbers that are finite and not 0; without one of these squares are 0.
struct PartOfLine {
    double squares;    // Their sum over 4^exponent.
    int32_t exponent;  // Of the largest: 2^exponent at least, less than twice as much.
    int32_t last;      // The least exponent of a last bit.
    int32_t is_special, reserved;
};
struct alignas(16) Line {
    // What joins read, at once.
    int32_t scale;       // Integers are the numbers times 2^scale, rounded.
    int32_t is_special;  // NaN or infinity is among the numbers.
    uint32_t rounded;    // Numbers that are no integers, counted as residues are made: each is changed by a half at most.
    float size;          // A bound of the 2-norm of the integers, rounded or not.
    int32_t exponent, last;
    int32_t reserved[2];
};

// Statistics of parts of lines: of A's lines, then of B's, kMeasureLines at a time. `parts` for each line, one after the other.
struct MeasureParams {
    Numbers a, b;
    int64_t k, part_depth;
    int32_t parts, reserved;
    PartOfLine *to;
};
inline constexpr int kMeasureThreads = 256, kMeasureLines = 32;
using MeasureKernel = void (*)(MeasureParams);
MeasureKernel measure_kernel(bool f64);

// Lines of their parts. Norms of integers are 2^most_bits at most.
struct ScaleParams {
    const PartOfLine *from;
    Line *to;
    int64_t lines, k;
    double most_bits;
    int32_t parts, reserved;
};
inline constexpr int kScaleThreads = 128;
using ScaleKernel = void (*)(ScaleParams);
ScaleKernel scale_kernel();

// Numbers of a line that are no integers are listed, by their places in it, in no order, up to so many.
inline constexpr uint32_t kMostListed = 32;

// Residues of integers, for each modulus a plane of dense rows along the depth. Of a block's lines; those of entry y are line + y * step.
struct ResidueSide {
    Numbers numbers;
    Line *lines;
    uint32_t *listed;  // kMostListed of each line.
    int64_t line_step;
    int8_t *to;
    int64_t plane;
    int32_t counts, reserved;  // Is it the first time that these are made?
};
struct ResidueParams {
    ResidueSide a, b;
    int64_t first;       // Number of its lines.
    int64_t depth, row;  // Numbers of a line, and elements of its row: those past the numbers are zeros.
    Divider across;      // Tiles along the depth.
    int32_t moduli;
    ResidueModulus modulus[kMostModuli];
};
inline constexpr int kResidueThreads = 256, kResidueLines = 16, kResidueDepth = 128;
using ResidueKernel = void (*)(ResidueParams);
ResidueKernel residue_kernel(bool f64, bool wide);  // Wide: integers of more than kNarrowBits.

// Adds sums of a chunk of the depth, modulo each modulus, to those of the chunks before.
struct FoldParams {
    const int32_t *sums;
    int32_t *totals;
    int64_t plane;  // Elements for each modulus, a multiple of four.
    int32_t moduli, is_first;
    ResidueModulus modulus[kMostModuli];
};
inline constexpr int kFoldThreads = 256;
using FoldKernel = void (*)(FoldParams);
FoldKernel fold_kernel();

// What follows a sum (docs/numerics.md). D, C and bias are those of the block.
struct End {
    GemmOutput c, d, bias;
    double alpha, beta;
    int32_t relu, is_plain;  // Plain: the sum itself, without C, bias or relu.
};

// A block of D: entries x rows x columns. Undecided elements are listed by their number in the block.
struct Block {
    End end;
    const Line *rows, *columns;
    int64_t row_step, column_step;  // Lines from entry to entry.
    int64_t entries, m, n;
    uint32_t *undecided, *undecided_count;
};

// Numbers of a block, and which of each line were rounded.
struct Listed {
    Numbers a, b;
    const uint32_t *rows, *columns;
    int32_t f64, reserved;
};

// D of the residues of sums, as far as their first bits tell; of sums of int32. Without moduli there is no product, and no line is read.
struct JoinParams {
    Block block;
    Listed listed;
    const void *sums;  // int32, or residues of sums + 2^31, a byte each.
    int64_t plane, sum_row;
    int32_t of_residues, reserved;
    JoinNumbers numbers;
};
inline constexpr int kJoinThreads = 128;
using JoinKernel = void (*)(JoinParams);
JoinKernel join_kernel(int limbs);

// The elements of that list once more, from sums or residues. Those that are stored leave kDecided in their place.
inline constexpr uint32_t kDecided = ~0u;
inline constexpr int kRefineThreads = 128;
using RefineKernel = void (*)(JoinParams);
RefineKernel refine_kernel(int limbs);

// join_kernel() of residues of sums + 2^31, a byte each, for tensor cores. A piece is 16 bytes of a row of sums, and rows are whole pieces.
struct JoinPiecesParams {
    Block block;
    const uint8_t *residues;
    int64_t plane;
    uint32_t pieces;           // Of a plane.
    Divider of_row, of_entry;  // Pieces of a row, and rows of an entry.
    JoinNumbers numbers;
};
inline constexpr int kJoinPiecesThreads = 256, kJoinPiecesOfWarp = 4;
using JoinPiecesKernel = void (*)(JoinPiecesParams);

// The steps that are made for tensor cores, where the device runs them (gemm/families.cpp); else null.
ResidueKernel residue_mma_kernel(bool f64, bool wide);
JoinPiecesKernel join_pieces_kernel(int limbs);
struct TensorCoreSteps {
    ResidueKernel (*residues)(bool f64, bool wide);
    JoinPiecesKernel (*join_pieces)(int limbs);
};
const TensorCoreSteps *tensor_core_steps(Device &device);

// Undecided elements, summed in fixed point.
struct SumParams {
    Block block;
    Numbers a, b;
    int64_t k;
};
inline constexpr int kSumThreads = 256;
using SumKernel = void (*)(SumParams);
SumKernel sum_kernel(bool f64);

}  // namespace attile::gpu::exact
