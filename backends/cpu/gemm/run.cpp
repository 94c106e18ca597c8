// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication: the loops around the kernels, one product by all threads or by each thread one.
#include "gemm/gemm.h"

#include <new>

#include "size.h"

namespace attile::cpu {
namespace {

// Piece `index` of `count` pieces of 0 .. extent, in multiples of `unit`.
struct Range {
    int64_t begin, end;
};
Range piece(int64_t extent, int64_t unit, int64_t index, int64_t count) {
    if (count == 1) return {0, extent};
    const int64_t units = ceil_div(extent, unit);
    return {least(extent, units * index / count * unit), least(extent, units * (index + 1) / count * unit)};
}

template <class T>
T *as(char *bytes) {
    return reinterpret_cast<T *>(bytes);
}

template <class T>
const T *at(const MatrixView &view, int64_t i, int64_t j) {
    return static_cast<const T *>(view.data) + i * view.row + j * view.column;
}

// Rows of a, or columns of b, from (width0, depth0) on.
NarrowBlock narrow_block(const MatrixView &x, const ScaleView &scale, bool is_b, int64_t width0, int64_t depth0) {
    NarrowBlock block{};
    const int64_t at = is_b ? depth0 * x.row + width0 * x.column : width0 * x.row + depth0 * x.column;
    block.data = static_cast<const char *>(x.data) + (is_four_bits(x.dtype) ? 0 : at);
    block.at = at;
    block.dtype = x.dtype;
    block.width_stride = is_b ? x.column : x.row;
    block.depth_stride = is_b ? x.row : x.column;
    block.scale = is_b ? scale.transposed() : scale;
    block.width0 = width0;
    block.depth0 = depth0;
    return block;
}

// A product of packed operands, one piece of the depth after the other. All threads pack its block of a; then each takes pieces of its own
// rectangle of d, and of others' when its own has none left. So rows of d and packed blocks of b mostly stay in one core's cache.
template <class T>
class Packed {
  public:
    // own: each thread's private memory.
    Packed(const GemmKernels<T> &kernels, const NarrowKernels<float> &narrow, const GemmPlan &plan, int threads, char *shared, char *own)
        : kernels_(kernels),
          narrow_(narrow),
          plan_(plan),
          packed_a_(as<T>(shared)),
          partial_(plan.need_partial ? as<T>(shared + plan.packed_a_bytes) : nullptr),
          homes_(as<GemmHome>(shared + plan.shared_bytes - bytes_for<GemmHome>(threads).value())),
          own_(own),
          tile_m_(kernels.tile_rows),
          tile_n_(kernels.tile_columns),
          cells_(int64_t{plan.grid_m} * plan.grid_n),
          supers_(ceil_div(plan.n, plan.super_n)),
          depths_(plan.k == 0 ? 1 : ceil_div(plan.k, plan.block_k)),
          packs_(plan.in_place_a ? 0
                 : threads == 1  ? 1
                                 : kPiecesOfThread * threads),
          blocks_(ceil_div(ceil_div(ceil_div(plan.super_n, tile_n_), plan.grid_n) * tile_n_, plan.block_n)),
          row_pieces_(threads == 1 ? 1 : kPiecesOfThread) {
        for (int home = 0; home < threads; ++home) new (homes_ + home) GemmHome;
    }

    Work work() const {
        Work work;
        work.rounds = ceil_div(plan_.m, plan_.block_m) * supers_ * depths_;
        work.pieces[0] = packs_;
        work.pieces[1] = cells_ * blocks_ * row_pieces_;
        return work;
    }

    void run(const GemmView &view, const Piece &ticket) const {
        const int64_t area = ticket.round / depths_, p0 = ticket.round % depths_ * plan_.block_k;
        const int64_t i0 = area / supers_ * plan_.block_m, s0 = area % supers_ * plan_.super_n;
        const int64_t rows = least(plan_.block_m, view.m - i0), depth = least(plan_.block_k, view.k - p0);
        if (ticket.phase == 1) return multiply(view, ticket, i0, rows, s0, p0, depth);
        const Range mine = piece(ceil_div(rows, tile_m_), 1, ticket.index, packs_);
        if (depth <= 0 || mine.end <= mine.begin) return;
        const int64_t first = mine.begin * tile_m_, step = kernels_.panel_size(tile_m_, depth);
        if constexpr (sizeof(T) == sizeof(float)) {
            if (is_narrow(view.a.dtype)) {
                return narrow_.pack(narrow_block(view.a, view.a_scale, false, i0 + first, p0), least(rows, mine.end * tile_m_) - first,
                                    depth, packed_a_ + mine.begin * step, tile_m_);
            }
        }
        kernels_.pack_thin(view.a.data, view.a.dtype, (i0 + first) * view.a.row + p0 * view.a.column, view.a.row, view.a.column,
                           least(rows, mine.end * tile_m_) - first, depth, packed_a_ + mine.begin * step, tile_m_);
    }

  private:
    // A ticket stands for one piece of this round, whichever is left: of the own rectangle, else of the next.
    int64_t choose(const Piece &ticket, int64_t *cell) const {
        const int64_t pieces = blocks_ * row_pieces_, begin = ticket.round * pieces;
        for (*cell = ticket.rank % cells_;; *cell = *cell + 1 == cells_ ? 0 : *cell + 1) {
            std::atomic<int64_t> &taken = homes_[*cell].taken;
            int64_t next = taken.load(std::memory_order_relaxed);
            while (next < begin + pieces) {
                if (taken.compare_exchange_weak(next, next + 1, std::memory_order_relaxed)) return next - begin;
            }
        }
    }

    // Some rows of one block of columns of one rectangle.
    void multiply(const GemmView &view, const Piece &ticket, int64_t i0, int64_t rows, int64_t s0, int64_t p0, int64_t depth) const {
        int64_t cell = 0;
        const int64_t index = choose(ticket, &cell), block_index = index / row_pieces_;
        const Range cell_rows = piece(rows, tile_m_, cell / plan_.grid_n, plan_.grid_m);
        const Range some_rows = piece(cell_rows.end - cell_rows.begin, tile_m_, index % row_pieces_, row_pieces_);
        const Range cell_columns = piece(least(plan_.super_n, view.n - s0), tile_n_, cell % plan_.grid_n, plan_.grid_n);
        // Blocks of equal size: no sliver at the end.
        const Range part = piece(cell_columns.end - cell_columns.begin, tile_n_, block_index, blocks_);
        if (some_rows.begin == some_rows.end || part.begin == part.end) return;
        const int64_t first = cell_rows.begin + some_rows.begin, j0 = cell_columns.begin + part.begin;
        GemmBlock<T> block{};
        block.depth = ceil_div(depth, kernels_.step_numbers);
        block.numbers = depth;
        block.row0 = i0 + first;
        block.rows = some_rows.end - some_rows.begin;
        block.column0 = s0 + j0;
        block.columns = part.end - part.begin;
        char *const end_of_own = own_ + (ticket.rank + 1) * plan_.private_bytes;
        if (plan_.in_place_a) {
            block.thin_by_rows = true;
            block.thin_step = view.a.row;
            if (plan_.panel_bytes > 0) {
                block.rows_in_place = static_cast<const char *>(view.a.data) + ((i0 + first) * view.a.row + p0) * dtype_bytes(view.a.dtype);
                block.thin = as<T>(end_of_own - plan_.partial_row_bytes - plan_.panel_bytes);
            } else {
                block.thin = at<T>(view.a, i0 + first, p0);
                block.thin_panel_step = tile_m_ * view.a.row;
            }
        } else {
            block.thin_panel_step = kernels_.panel_size(tile_m_, depth);
            block.thin = packed_a_ + first / tile_m_ * block.thin_panel_step;
            block.thin_step = tile_m_;
        }
        T *const packed_b = as<T>(own_ + ticket.rank * plan_.private_bytes);
        int64_t &packed = homes_[ticket.rank].packed;
        // The same block of b for all blocks of rows.
        const int64_t number = (ticket.round % (supers_ * depths_) * cells_ + cell) * blocks_ + block_index;
        if (depth > 0 && packed != number) {
            pack_b(view, block.column0, block.columns, p0, depth, packed_b);
            packed = number;
        }
        block.wide = packed_b;
        block.wide_panel_step = kernels_.panel_size(tile_n_, depth);
        block.first = p0 == 0;
        block.last = p0 + depth >= view.k;
        if (partial_ != nullptr) {
            block.partial = partial_ + first * plan_.super_n + j0 * (kernels_.tiled_partial ? tile_m_ : 1);
            block.partial_step = plan_.super_n;
        } else if (plan_.partial_row_bytes > 0) {
            block.partial = as<T>(end_of_own - plan_.partial_row_bytes);
        }
        kernels_.multiply(view, block);
    }

    void pack_b(const GemmView &view, int64_t column0, int64_t columns, int64_t p0, int64_t depth, T *panels) const {
        if constexpr (sizeof(T) == sizeof(float)) {
            if (is_narrow(view.b.dtype))
                return narrow_.pack(narrow_block(view.b, view.b_scale, true, column0, p0), columns, depth, panels, tile_n_);
        }
        kernels_.pack(view.b.data, view.b.dtype, p0 * view.b.row + column0 * view.b.column, view.b.column, view.b.row, columns, depth,
                      panels, tile_n_);
    }

    const GemmKernels<T> &kernels_;
    const NarrowKernels<float> &narrow_;
    const GemmPlan &plan_;
    T *const packed_a_, *const partial_;
    GemmHome *const homes_;
    char *const own_;
    const int64_t tile_m_, tile_n_, cells_, supers_, depths_, packs_, blocks_, row_pieces_;
};

// Rows by which threads divide small products: whole tiles would leave one of them a tile more.
constexpr int64_t kRowUnit = 4;

// Small products: both operands are read where they lie; only columns that do not fill a tile are copied, if the kernel wants them so.
template <class T>
void run_in_place(const GemmKernels<T> &kernels, const GemmPlan &plan, const GemmView &view, int64_t cell, char *own) {
    const int64_t tile_n = kernels.small_columns;
    const bool reads_c = view.beta != 0 && view.c.data != nullptr;
    const bool plain = view.d.dtype == view.a.dtype && view.d.column == 1 && view.bias.data == nullptr &&
                       view.activation == ATTILE_ACTIVATION_NONE && (!reads_c || view.c.column == 1);
    const int64_t cell_m = plan.grid_m == 1 ? 0 : cell / plan.grid_n;
    const Range rows = piece(view.m, kRowUnit, cell_m, plan.grid_m);
    const Range columns = piece(view.n, tile_n, cell - cell_m * plan.grid_n, plan.grid_n);
    if (rows.begin == rows.end || columns.begin == columns.end) return;
    SmallProduct<T> product{};
    product.m = rows.end - rows.begin;
    product.n = columns.end - columns.begin;
    product.k = view.k;
    product.a = at<T>(view.a, rows.begin, 0);
    product.a_row = view.a.row;
    product.a_column = view.a.column;
    product.b = at<T>(view.b, 0, columns.begin);
    product.b_row = view.b.row;
    const int64_t tail = product.n & (tile_n - 1);  // a power of two
    if (tail != 0 && !kernels.small_masks) {
        kernels.pack(view.b.data, view.b.dtype, (columns.end - tail) * view.b.column, view.b.column, view.b.row, tail, view.k, as<T>(own),
                     tile_n);
        product.b_tail = as<T>(own);
    }
    if (plain) {
        product.d = const_cast<T *>(at<T>(view.d, rows.begin, columns.begin));
        product.d_row = view.d.row;
        product.c = reads_c ? at<T>(view.c, rows.begin, columns.begin) : nullptr;
        product.c_row = view.c.row;
        product.alpha = static_cast<T>(view.alpha);
        product.beta = static_cast<T>(view.beta);
    } else {
        product.view = &view;
        product.row0 = rows.begin;
        product.column0 = columns.begin;
    }
    kernels.small(product);
}

// A run of columns; a_rows: a, packed.
template <class T>
void run_few_rows(const GemmKernels<T> &kernels, const NarrowKernels<float> &narrow, const GemmPlan &plan, const GemmView &view,
                  int64_t cell, const T *a_rows, char *own) {
    T *const sums = as<T>(own);
    const int64_t j0 = cell * plan.block_n, count = least(plan.block_n, view.n - j0);
    if constexpr (sizeof(T) == sizeof(float)) {
        (is_narrow(view.b.dtype) ? narrow.few_rows : kernels.few_rows)(view, a_rows, j0, count, sums);
    } else {
        kernels.few_rows(view, a_rows, j0, count, sums);
    }
    kernels.finish(view, sums, count, 0, j0, view.m, count);
}

// A product by `threads` threads. private_bytes of `own` belong to each.
template <class T>
void run_product(const GemmKernels<T> &kernels, const NarrowKernels<float> &narrow, const GemmPlan &plan, const GemmView &view, int threads,
                 char *shared, char *own) {
    switch (plan.path) {
        case GemmPath::kPacked: {
            const Packed<T> packed(kernels, narrow, plan, threads, shared, own);
            parallel_phases(threads, packed.work(), [&](const Piece &ticket) { packed.run(view, ticket); });
            return;
        }
        case GemmPath::kInPlace:
            parallel_for(threads, int64_t{plan.grid_m} * plan.grid_n,
                         [&](int64_t cell, int rank) { run_in_place(kernels, plan, view, cell, own + rank * plan.private_bytes); });
            return;
        case GemmPath::kFewRows:
            // By the caller, before other threads are called: waiting for it would take them longer.
            if constexpr (sizeof(T) == sizeof(float)) {
                (is_narrow(view.a.dtype) ? narrow.few_rows_pack : kernels.few_rows_pack)(view, as<T>(shared));
                if (is_four_bits(view.b.dtype)) narrow.few_rows_arrange(view, as<T>(shared));
            } else {
                kernels.few_rows_pack(view, as<T>(shared));
            }
            parallel_for(threads, plan.grid_n, [&](int64_t cell, int rank) {
                run_few_rows(kernels, narrow, plan, view, cell, as<const T>(shared), own + rank * plan.private_bytes);
            });
            return;
    }
}

}  // namespace

namespace {

GemmView view_of_entry(const attile_gemm_problem &problem, const GemmPlan &plan, int64_t entry) {
    if (plan.batch[1] == 1) return gemm_view(problem, plan, entry, 0);
    return gemm_view(problem, plan, entry / plan.batch[1], entry % plan.batch[1]);
}

}  // namespace

template <class T>
void gemm_run(const State &state, const GemmPlan &plan, const attile_gemm_problem &problem, char *workspace) {
    const GemmKernels<T> &kernels = gemm_kernels_for<T>(state.target, problem);
    const NarrowKernels<float> &narrow = narrow_kernels<float>(state.target);
    const int64_t entries = plan.batch[0] * plan.batch[1];
    if (plan.m == 0 || plan.n == 0) return;
    if (plan.over_batch) {
        parallel_for(plan.threads, entries, [&](int64_t entry, int rank) {
            char *shared = workspace + rank * (plan.shared_bytes + plan.private_bytes);
            run_product(kernels, narrow, plan, view_of_entry(problem, plan, entry), 1, shared, shared + plan.shared_bytes);
        });
        return;
    }
    for (int64_t entry = 0; entry < entries; ++entry) {
        run_product(kernels, narrow, plan, view_of_entry(problem, plan, entry), plan.threads, workspace, workspace + plan.shared_bytes);
    }
}

namespace {

// The first entry of a problem of small, plain products of one thread each: limits within those of gemm_plan's path in place.
template <class T>
bool small_product(const State &state, const GemmKernels<T> &kernels, const attile_gemm_problem &problem, SmallProduct<T> *product) {
    const int64_t m = problem.m, n = problem.n, k = problem.k;
    const int64_t low = least(m, n), high = most(m, n);
    if (low <= 2 || (low <= 16 && high > 4 * low) || high > 512 || k <= 0 || k > 128) return false;
    if (m * n * k > 160 * 160 * 160 || (state.threads > 1 && static_cast<double>(m * n * k) >= kWorkForThread)) return false;
    if (problem.launch.flags != 0 || problem.bias.data != nullptr || problem.activation != ATTILE_ACTIVATION_NONE) return false;
    constexpr int32_t kOwn = sizeof(T) == 4 ? ATTILE_F32 : ATTILE_F64;
    if (problem.a.dtype != kOwn || problem.b.dtype != kOwn || problem.d.dtype != kOwn) return false;
    // Row-major, or the transpose of a column-major product.
    const bool swapped = problem.d.stride[3] != 1;
    const int row = swapped ? 3 : 2, column = swapped ? 2 : 3;
    const attile_operand &a = swapped ? problem.b : problem.a, &b = swapped ? problem.a : problem.b;
    if (problem.d.stride[column] != 1 || b.stride[column] != 1 || (a.stride[row] != 1 && a.stride[column] != 1)) return false;
    const bool reads_c = problem.beta != 0 && problem.c.data != nullptr;
    if (reads_c && problem.c.stride[column] != 1) return false;
    product->m = swapped ? n : m;
    product->n = swapped ? m : n;
    if (!kernels.small_masks && (product->n & (kernels.small_columns - 1)) != 0) return false;
    product->k = k;
    product->a = static_cast<const T *>(a.data);
    product->a_row = a.stride[row];
    product->a_column = a.stride[column];
    product->b = static_cast<const T *>(b.data);
    product->b_row = b.stride[row];
    product->d = static_cast<T *>(problem.d.data);
    product->d_row = problem.d.stride[row];
    product->c = reads_c ? static_cast<const T *>(problem.c.data) : nullptr;
    product->c_row = problem.c.stride[row];
    product->alpha = static_cast<T>(problem.alpha);
    product->beta = static_cast<T>(problem.beta);
    // One by one: clearing all fields at once compiles to a single instruction that is slower than all of this.
    product->b_tail = nullptr;
    product->view = nullptr;
    product->row0 = product->column0 = 0;
    return true;
}

}  // namespace

template <class T>
bool gemm_run_small(const State &state, const attile_gemm_problem &problem) {
    const GemmKernels<T> &kernels = gemm_kernels<T>(state.target);
    SmallProduct<T> first;
    if (!small_product(state, kernels, problem, &first)) return false;
    const int64_t entries = problem.batch[0] * problem.batch[1];
    if (entries == 1) {
        kernels.small(first);
        return true;
    }
    const double work = 2.0 * static_cast<double>(first.m * first.n * first.k) * static_cast<double>(entries);
    const int threads = work < 2 * kWorkForThread ? 1 : static_cast<int>(least(state.threads, static_cast<int64_t>(work / kWorkForThread)));
    if (entries < threads) return false;
    const bool swapped = problem.d.stride[3] != 1;
    const attile_operand &a = swapped ? problem.b : problem.a, &b = swapped ? problem.a : problem.b;
    parallel_for(threads, entries, [&](int64_t entry, int /*rank*/) {
        const int64_t x = problem.batch[1] == 1 ? entry : entry / problem.batch[1],
                      y = problem.batch[1] == 1 ? 0 : entry % problem.batch[1];
        SmallProduct<T> product = first;
        product.a += x * a.stride[0] + y * a.stride[1];
        product.b += x * b.stride[0] + y * b.stride[1];
        product.d += x * problem.d.stride[0] + y * problem.d.stride[1];
        if (product.c != nullptr) product.c += x * problem.c.stride[0] + y * problem.c.stride[1];
        kernels.small(product);
    });
    return true;
}

template bool gemm_run_small<float>(const State &, const attile_gemm_problem &);
template bool gemm_run_small<double>(const State &, const attile_gemm_problem &);
template void gemm_run<float>(const State &, const GemmPlan &, const attile_gemm_problem &, char *);
template void gemm_run<double>(const State &, const GemmPlan &, const attile_gemm_problem &, char *);

}  // namespace attile::cpu
