// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication inside the backend: what the planner (gemm/gemm.cpp), the loops (gemm/run.cpp) and the kernels of each target
// (gemm/kernels-inl.h) agree on.
#ifndef ATTILE_CPU_GEMM_H
#define ATTILE_CPU_GEMM_H

#include <atomic>
#include <cstdint>

#include "amx/amx.h"
#include "element.h"
#include "size.h"
#include "state.h"
#include "threads/threads.h"

namespace attile::cpu {

// One matrix of one batch entry; strides in elements along its rows and columns.
struct MatrixView {
    void *data = nullptr;
    int32_t dtype = 0;
    int64_t row = 0;
    int64_t column = 0;
};

// Scales of a matrix of numbers of 8 or 4 bits; without any all are 1. Rows and columns are those of the matrix.
struct ScaleView {
    const float *data = nullptr;
    int64_t row = 0, column = 0;              // strides
    int64_t row_group = 1, column_group = 1;  // rows and columns that share one
    const float *zero = nullptr;              // what is taken off the numbers before they are scaled; NULL: nothing
    int64_t zero_row = 0, zero_column = 0;

    ScaleView transposed() const { return {data, column, row, column_group, row_group, zero, zero_column, zero_row}; }
    // The zero points, looked up as scales are.
    ScaleView zeros() const { return {zero, zero_row, zero_column, row_group, column_group}; }
};

// One product, transposed if need be, so that the columns of d suit vectors better.
struct GemmView {
    int64_t m = 0, n = 0, k = 0;
    MatrixView a, b, c, d, bias;  // a: m x k, b: k x n, the others m x n; c and bias may be absent
    double alpha = 1, beta = 0;
    int32_t activation = 0;
    ScaleView a_scale, b_scale;
    ScaleView d_scale;  // one for each number of d, by strides
};

// A product of a piece of depth `depth` for a rectangle of d.
template <class T>
struct GemmBlock {
    int64_t row0, rows, column0, columns;
    int64_t depth;    // in steps
    int64_t numbers;  // and in numbers
    // Thin operand: panels of kernel rows, packed (panel_step = rows x depth, step = rows), or rows in place.
    const T *thin;
    int64_t thin_panel_step, thin_step;
    bool thin_by_rows;
    const void *rows_in_place;  // of kernels whose places are no numbers of the operand's own type: then thin is room for a panel
    // Wide operand: packed panels of kernel columns.
    const T *wide;
    int64_t wide_panel_step;
    bool first, last;  // of the pieces that the depth is cut into
    // Sums over the pieces so far, where d cannot hold them; its origin is (row0, column0).
    T *partial;
    int64_t partial_step;
};

// A small product, operands of its own type read where they lie; of a team's product the rectangle of one thread.
template <class T>
struct SmallProduct {
    int64_t m, n, k;
    const T *a;
    int64_t a_row, a_column;  // one of them 1
    const T *b;
    int64_t b_row;
    T *d;
    int64_t d_row;
    const T *c;  // NULL: not read
    int64_t c_row;
    T alpha, beta;
    const T *b_tail;       // the columns beyond whole tiles, copied as a panel, where the kernel does not mask them
    const GemmView *view;  // not NULL: its end for every tile instead of alpha, beta, c and d, at row0 and column0 of it
    int64_t row0, column0;
};

// Steps of k that are summed by themselves where rows are few.
constexpr int64_t kFewRowsPiece = 2048;

template <class T>
struct GemmKernels {
    int tile_rows, tile_columns;    // of packed products
    int step_numbers;               // of each operand that a step of the depth multiplies
    int step_places;                // of a row or column in a packed panel that they take
    int panel_rest;                 // elements behind a packed panel's steps
    int64_t most_depth;             // numbers of a piece of the depth; 0: what suits the caches
    int64_t chunk_depth;            // of those that are summed at a time, others in partial sums; 0: all of a piece
    bool tiled_partial;             // sums of pieces lie tile after tile, in d's stead
    int small_rows, small_columns;  // of products in place
    bool small_masks;               // columns in place need fill no tile
    // A block of the thin and of the wide operand as panels of panel_width; see gemm/pack-inl.h.
    void (*pack_thin)(const void *source, int32_t dtype, int64_t offset, int64_t width_stride, int64_t depth_stride, int64_t width,
                      int64_t depth, T *panels, int64_t panel_width);
    void (*pack)(const void *source, int32_t dtype, int64_t offset, int64_t width_stride, int64_t depth_stride, int64_t width,
                 int64_t depth, T *panels, int64_t panel_width);
    void (*multiply)(const GemmView &view, const GemmBlock<T> &block);
    void (*small)(const SmallProduct<T> &product);
    // Few rows: a as few_rows reads it, m x k.
    void (*few_rows_pack)(const GemmView &view, T *a_rows);
    // sums[i * n_count + j] = sum over k of a(i, k) b(k, j) for columns j0 .. j0 + n_count, b read in place, once. Of more than
    // kFewRowsPiece steps of k there is room behind them for as many again.
    void (*few_rows)(const GemmView &view, const T *a_rows, int64_t j0, int64_t n_count, T *sums);
    // d(i, j) = epilogue of sums, which are overwritten.
    void (*finish)(const GemmView &view, T *sums, int64_t sums_step, int64_t i0, int64_t j0, int64_t rows, int64_t columns);
    // The same for products of bfloat16, two numbers a step: targets that have_pairs. NULL: none.
    const GemmKernels *brain;
    // And by tiles: Target::kAmxBf16. NULL: none.
    const GemmKernels *tiles;

    // Elements of a packed panel.
    int64_t panel_size(int64_t width, int64_t depth) const { return width * step_places * ceil_div(depth, step_numbers) + panel_rest; }
};

template <class T>
const GemmKernels<T> &gemm_kernels(Target target);

// Numbers of 8 or 4 bits and their scales along the two axes of a block: width and depth as in gemm/pack-inl.h.
struct NarrowBlock {
    const void *data;  // its first number, or what number `at`, of 4 bits, is counted from
    int32_t dtype;
    int64_t width_stride, depth_stride;
    ScaleView scale;         // rows: along the width, columns: along the depth
    int64_t width0, depth0;  // of the first number in its matrix
    int64_t at;
};

// What products with sums in float32 do otherwise where an operand has numbers of 8 bits: each becomes a float times its scale, as it is
// packed, or the sum of those that share a scale is multiplied by it. The panels are those of the table that gemm_kernels() picks.
template <class T>
struct NarrowKernels {
    void (*pack)(const NarrowBlock &block, int64_t width, int64_t depth, T *panels, int64_t panel_width);
    // As of GemmKernels; pack: a has numbers of 8 bits; few_rows: b has.
    void (*few_rows_pack)(const GemmView &view, T *a_rows);
    void (*few_rows)(const GemmView &view, const T *a_rows, int64_t j0, int64_t n_count, T *sums);
    // Of b of 4 bits: rows of a, packed, as few_rows reads them instead, behind those, in room for few_rows_places() as many.
    void (*few_rows_arrange)(const GemmView &view, T *a_rows);
};

// Elements of a row of a that products of few rows by numbers of 4 bits have room for: whole blocks of the widest vectors, and a sum for
// each eight numbers.
constexpr int64_t kFewRowsBlock = 128;
constexpr int64_t few_rows_places(int64_t k) { return ceil_div(k, kFewRowsBlock) * (kFewRowsBlock + kFewRowsBlock / 8); }

template <class T>
const NarrowKernels<T> &narrow_kernels(Target target);
// Whether tiles suit a problem. With BATCH_INVARIANT its rows do not decide.
bool gemm_suits_tiles(const attile_gemm_problem &problem);
// Those of a problem: others for bfloat16 where the target has them.
template <class T>
const GemmKernels<T> &gemm_kernels_for(Target target, const attile_gemm_problem &problem) {
    const GemmKernels<T> &kernels = gemm_kernels<T>(target);
    const bool brain = has_pairs(target) && problem.a.dtype == ATTILE_BF16 && problem.b.dtype == ATTILE_BF16;
    if (!brain || kernels.brain == nullptr) return kernels;
    const bool tiles = target == Target::kAmxBf16 && kernels.tiles != nullptr && gemm_suits_tiles(problem) && amx_refusal() == nullptr;
    return tiles ? *kernels.tiles : *kernels.brain;
}

enum class GemmPath { kPacked, kInPlace, kFewRows };

// Pieces that a thread's share of a product is cut into, so that no thread waits long for one that lost its processor while it had a piece.
constexpr int kPiecesOfThread = 4;

// Of a packed product: each rectangle of the grid is a thread's home, where it begins and ends as long as there is something to do.
struct alignas(64) GemmHome {
    std::atomic<int64_t> taken{0};  // pieces of the rectangle, in all rounds
    int64_t packed = -1;            // number of the block of b that lies in the thread's memory
};

struct GemmPlan {
    GemmPath path = GemmPath::kPacked;
    bool swapped = false;         // d is computed as its transpose
    bool over_batch = false;      // threads take batch entries, not parts of one
    int64_t m = 0, n = 0, k = 0;  // after transposition
    int64_t batch[2] = {1, 1};
    int threads = 1;
    int grid_m = 1, grid_n = 1;  // the rectangles of d that threads take
    int64_t block_m = 0, block_n = 0, block_k = 0;
    int64_t super_n = 0;            // columns of d between two packings of a; all of them unless partial sums need room
    bool in_place_a = false;        // packed path: the rows of a are read where they lie
    bool need_partial = false;      // of all of a block: the depth is cut into pieces
    int64_t partial_row_bytes = 0;  // of a row of panels, in each thread's memory: pieces are cut into chunks
    int64_t panel_bytes = 0;        // of one of a, likewise: rows are packed when they are needed
    int64_t packed_a_bytes = 0;
    int64_t shared_bytes = 0, private_bytes = 0, workspace_bytes = 0;
};

GemmPlan gemm_plan(const State &state, const attile_gemm_problem &problem);
GemmView gemm_view(const attile_gemm_problem &problem, const GemmPlan &plan, int64_t x, int64_t y);

// Operations that a thread must have for waking it to pay.
constexpr double kWorkForThread = 1.0e6;

// The smallest of plain products, for which a plan would be much of the work: false if these are none.
template <class T>
bool gemm_run_small(const State &state, const attile_gemm_problem &problem);

// As of the interface.
int32_t gemm_query(void *state, const attile_gemm_problem *problem, attile_support *support);

template <class T>
void gemm_run(const State &state, const GemmPlan &plan, const attile_gemm_problem &problem, char *workspace);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_GEMM_H
