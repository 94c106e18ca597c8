// SPDX-License-Identifier: Apache-2.0
// Products of int8 with exact sums in int32: what the loops (gemm/integer.cpp) and the kernels of each target (gemm/integer-inl.h) agree
// on.
#ifndef ATTILE_CPU_INTEGER_H
#define ATTILE_CPU_INTEGER_H

#include <cstdint>

#include "gemm/gemm.h"

namespace attile::cpu {

// Two or four numbers of the depth lie in a place of 32 bits. A panel has a place for each step of the depth and each row or column.
struct IntegerWay {
    const char *name;   // of the instructions, where not each processor of the target has them; else NULL
    int rows, columns;  // of a tile, and of panels of the thin and of the wide operand
    int numbers;        // in a place
    // A panel, with zeros beyond width and depth.
    void (*pack)(const int8_t *source, int64_t width_stride, int64_t depth_stride, int64_t width, int64_t depth, int32_t *panel,
                 int64_t panel_width);
    // Makes a packed panel a thin one.
    void (*make_thin)(int32_t *panel, int64_t places);
    // What the sums of each column begin with.
    void (*begin)(int64_t steps, const int32_t *wide, int32_t *start);
    // sums[i * columns + j], for the rows that are there.
    void (*tile)(int64_t rows, int64_t steps, const int32_t *thin, const int32_t *wide, const int32_t *start, int32_t *sums);
    // out = row factor times column factor times sums, or that is added to out. NULL: factors of 1.
    // rows_first: which of two factors a sum is multiplied by first, b's, whatever side it is on.
    void (*scale)(int64_t rows, const int32_t *sums, const float *row_factors, const float *column_factors, bool rows_first, bool first,
                  float *out);
    // d(i0 + i, j0 + j) = epilogue of out, which is overwritten.
    void (*finish)(const GemmView &view, float *out, int64_t i0, int64_t j0, int64_t rows, int64_t columns);
};

template <class T>
struct IntegerKernels {
    IntegerWay pairs;
    const IntegerWay *quads;     // of targets that have them; NULL: none
    const IntegerWay *matrices;  // of kNeonI8mm
};
template <class T>
const IntegerKernels<T> &integer_kernels(Target target);

// The best that a target has, and what a query calls it.
const IntegerWay &integer_way(Target target);
const char *integer_way_name(const IntegerWay &way, Target target);

// Elements of the largest tile.
constexpr int64_t kMostTile = 6 * 64;

void integer_query(const State &state, const attile_gemm_problem &problem, attile_support *support);
int32_t integer_run(State &state, const attile_gemm_problem &problem);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_INTEGER_H
