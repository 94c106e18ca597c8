// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication: how a problem is transposed, cut and divided among threads, and the interface.
//
// The sum over k is cut by the shape and the target alone, and every element of d is one chain of multiply-adds within a piece; so the
// number of threads and the grid below change no bit of the result.
#include "gemm/gemm.h"

#include <cmath>
#include <cstdio>

#include "gemm/exact.h"
#include "gemm/integer.h"

namespace attile::cpu {
namespace {

// With few rows, reading an element of b from memory takes as long as this many operations.
constexpr double kWorkForElement = 16;

// Columns of a thread up to which the rows of a are read in place: packing them pays only where they are read often.
constexpr int64_t kColumnsInPlace = 1024;

// Products of few rows: columns of b in a run, if there are enough for all threads. Short runs of a row-major b cost translations of pages
// (docs/kernels/cpu.md); where each column is contiguous a run may have few.
constexpr int64_t kColumnsOfRun = 2048, kColumnsAcross = 64;

MatrixView matrix(const attile_operand &operand, bool swapped, int64_t x, int64_t y) {
    MatrixView view;
    view.dtype = operand.dtype;
    if (operand.data != nullptr) {
        view.data = static_cast<char *>(operand.data) + (x * operand.stride[0] + y * operand.stride[1]) * dtype_bits(operand.dtype) / 8;
    }
    view.row = operand.stride[swapped ? 3 : 2];
    view.column = operand.stride[swapped ? 2 : 3];
    return view;
}

ScaleView scales(const attile_operand &operand, const int64_t (&group)[2], int64_t x, int64_t y) {
    if (operand.data == nullptr) return {};
    return {static_cast<const float *>(operand.data) + x * operand.stride[0] + y * operand.stride[1], operand.stride[2], operand.stride[3],
            group[0], group[1]};
}

// Of b, with the zero points.
ScaleView scales_of_b(const attile_gemm_problem &problem, int64_t x, int64_t y) {
    ScaleView view = scales(problem.b_scale, problem.b_group, x, y);
    const attile_operand &zero = problem.b_zero;
    if (zero.data == nullptr) return view;
    view.zero = static_cast<const float *>(zero.data) + x * zero.stride[0] + y * zero.stride[1];
    view.zero_row = zero.stride[2];
    view.zero_column = zero.stride[3];
    return view;
}

// Few rows of one side: the side with the fewer becomes the rows of d.
bool few(int64_t rows, int64_t columns) { return rows <= 16 && columns > 4 * rows; }

// Products of bfloat16 by tiles (docs/kernels/cpu.md): so few rows or columns go without; and so many rows, unless their other operand
// has no more elements than these.
constexpr int64_t kTooFewForTiles = 4, kRowsInPlace = 10, kElementsToPack = 256 << 10;

struct Grid {
    int m, n;
};

// Rectangles for `threads` threads: the larger the piece a thread packs is used for, the better; whole tiles each.
Grid choose_grid(int threads, int64_t m, int64_t n, int tile_m, int tile_n) {
    if (threads == 1) return {1, 1};
    Grid best{1, threads};
    double best_cost = 1e300;
    for (int grid_m = 1; grid_m <= threads; ++grid_m) {
        if (threads % grid_m != 0) continue;
        const int grid_n = threads / grid_m;
        const int64_t rows = round_up(ceil_div(m, grid_m), tile_m);
        const int64_t columns = round_up(ceil_div(n, grid_n), tile_n);
        // Work of the busiest thread, and its share of packing b, which the threads of a column of the grid each do.
        const double cost =
            static_cast<double>(least(rows, m)) * static_cast<double>(least(columns, n)) + 24.0 * static_cast<double>(columns);
        if (cost < best_cost * 0.999) {
            best_cost = cost;
            best = {grid_m, grid_n};
        }
    }
    return best;
}

}  // namespace

namespace {

struct TileSizes {
    int rows, columns, small_rows, small_columns;
    bool small_masks;
    int step_numbers, step_places, panel_rest;
    int64_t most_depth, chunk_depth;
    bool tiled_partial;
};
template <class T>
TileSizes tile_sizes(const State &state, const attile_gemm_problem &problem) {
    const GemmKernels<T> &kernels = gemm_kernels_for<T>(state.target, problem);
    return {kernels.tile_rows,   kernels.tile_columns, kernels.small_rows,   kernels.small_columns,
            kernels.small_masks, kernels.step_numbers, kernels.step_places,  kernels.panel_rest,
            kernels.most_depth,  kernels.chunk_depth,  kernels.tiled_partial};
}
TileSizes tile_sizes_of(const State &state, const attile_gemm_problem &problem) {
    return problem.compute == ATTILE_F64 ? tile_sizes<double>(state, problem) : tile_sizes<float>(state, problem);
}

}  // namespace

namespace {

// The rest of the plan of a packed product by a team of so many threads.
void plan_packed(const State &state, const attile_gemm_problem &problem, const TileSizes &sizes, int team, GemmPlan *plan) {
    const bool f64 = problem.compute == ATTILE_F64, cut = plan->block_k < plan->k;
    const int element = f64 ? 8 : 4;
    const int32_t own = f64 ? ATTILE_F64 : ATTILE_F32;
    const attile_operand &a = plan->swapped ? problem.b : problem.a;
    const int64_t a_column = a.stride[plan->swapped ? 2 : 3];
    const Grid grid = choose_grid(team, plan->m, plan->n, sizes.rows, sizes.columns);
    plan->grid_m = grid.m;
    plan->grid_n = grid.n;
    const int64_t row_bytes = ceil_div(plan->block_k, sizes.step_numbers) * sizes.step_places * element,
                  rest_bytes = sizes.panel_rest * element;
    plan->block_n = most(sizes.columns, state.caches.l2 * 3 / 5 / row_bytes / sizes.columns * sizes.columns);
    plan->block_m = most(sizes.rows, least(state.caches.l3 / 4, 16 << 20) / row_bytes / sizes.rows * sizes.rows);
    // Where all columns of b lie packed: rows of a are packed when they are needed, or as few at a time as stay in L2.
    const bool b_fits = sizes.tiled_partial && plan->k > 0 && ceil_div(plan->n, grid.n) <= plan->block_n;
    const bool on_demand = b_fits && a_column == 1;
    if (b_fits && !cut && !on_demand) plan->block_m = most(sizes.rows * team, state.caches.l2 / 4 / row_bytes / sizes.rows * sizes.rows);
    // Equal blocks: b is packed once for each.
    plan->block_m = round_up(ceil_div(plan->m, most(1, ceil_div(plan->m, plan->block_m))), sizes.rows);
    plan->need_partial = cut && (problem.d.dtype != own || sizes.tiled_partial);
    plan->super_n = sizes.tiled_partial ? round_up(plan->n, sizes.columns) : plan->n;
    if (plan->need_partial) {
        plan->super_n = least(plan->super_n, 4 * plan->block_n * grid.n);
        plan->block_m = least(plan->block_m, 64 * sizes.rows);
    }
    plan->block_n = least(plan->block_n, round_up(ceil_div(plan->super_n, grid.n), sizes.columns));
    plan->in_place_a = on_demand || (a.dtype == own && a_column == 1 && plan->k > 0 && ceil_div(plan->n, grid.n) <= kColumnsInPlace);
    if (on_demand) plan->panel_bytes = bytes_for<char>(sizes.rows * row_bytes + rest_bytes).value();
    plan->packed_a_bytes = plan->in_place_a ? 0 : bytes_for<char>(plan->block_m / sizes.rows, sizes.rows * row_bytes + rest_bytes).value();
    plan->shared_bytes = plan->packed_a_bytes;
    if (plan->need_partial) {
        plan->shared_bytes = (Size(plan->shared_bytes) + bytes_for<char>(plan->block_m, plan->super_n, element)).value();
    }
    plan->shared_bytes = (Size(plan->shared_bytes) + bytes_for<GemmHome>(team)).value();
    if (!plan->need_partial && sizes.chunk_depth > 0 && plan->block_k > sizes.chunk_depth) {
        plan->partial_row_bytes = bytes_for<char>(sizes.rows, plan->block_n, element).value();
    }
    plan->private_bytes = bytes_for<char>(plan->block_n / sizes.columns, sizes.columns * row_bytes + rest_bytes).value();
    plan->private_bytes = (Size(plan->private_bytes) + plan->partial_row_bytes + plan->panel_bytes).value();
}

}  // namespace

bool gemm_suits_tiles(const attile_gemm_problem &problem) {
    if ((problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0) return true;
    if (problem.m <= kTooFewForTiles || problem.n <= kTooFewForTiles) return false;
    // A few rows of a matrix that comes from memory are bound by reading it, and packing it would be more of that.
    const bool swapped = problem.d.stride[2] == 1 && problem.d.stride[3] != 1;
    const int64_t rows = swapped ? problem.n : problem.m, columns = swapped ? problem.m : problem.n;
    return rows > kRowsInPlace || (Size(columns) * problem.k).value() <= kElementsToPack;
}

GemmPlan gemm_plan(const State &state, const attile_gemm_problem &problem) {
    GemmPlan plan;
    const bool f64 = problem.compute == ATTILE_F64;
    const int element = f64 ? 8 : 4;
    const bool invariant = (problem.launch.flags & ATTILE_FLAG_BATCH_INVARIANT) != 0;
    plan.k = problem.k;
    plan.batch[0] = problem.batch[0];
    plan.batch[1] = problem.batch[1];
    const int64_t *d = problem.d.stride;

    // With BATCH_INVARIANT a row of d must not depend on how many rows there are: then the shape does not decide whether d is transposed.
    bool swapped = d[2] == 1 && d[3] != 1;
    if (!invariant && problem.n == 1) swapped = problem.m > 1;
    if (!invariant && problem.m == 1) swapped = false;
    const TileSizes sizes = tile_sizes_of(state, problem);
    // Tiles take few columns as well as few rows.
    if (!invariant && !sizes.tiled_partial && few(problem.n, problem.m)) swapped = true;
    if (!invariant && !sizes.tiled_partial && few(problem.m, problem.n)) swapped = false;
    plan.swapped = swapped;
    plan.m = swapped ? problem.n : problem.m;
    plan.n = swapped ? problem.m : problem.n;
    const attile_operand &b = swapped ? problem.a : problem.b;
    const attile_operand &a = swapped ? problem.b : problem.a;
    const int64_t b_row = b.stride[swapped ? 3 : 2];
    const int64_t b_column = b.stride[swapped ? 2 : 3];
    const int64_t a_row = a.stride[swapped ? 3 : 2];
    const int64_t a_column = a.stride[swapped ? 2 : 3];
    const int32_t own = f64 ? ATTILE_F64 : ATTILE_F32;

    const double flops = 2.0 * static_cast<double>(plan.m) * static_cast<double>(plan.n) * static_cast<double>(plan.k);
    const int64_t entries = (Size(plan.batch[0]) * plan.batch[1]).value();

    // Depth: equal pieces, short enough for a thin panel to take about half of L1. (Divisions are avoided where
    // they can be: for the smallest products they would be most of the work.)
    // And short enough for four tiles of the wide operand in L2 (docs/kernels/cpu.md).
    const int64_t of_first = round_up(state.caches.l1 * 15 / (f64 ? 2048 : 1024), 16);
    const int64_t of_second = state.caches.l2 * 3 / 5 / (4 * sizes.columns * element) / 16 * 16;
    const int64_t depth_limit = sizes.most_depth > 0 ? sizes.most_depth : most(128, least(of_first, of_second)) * sizes.step_numbers;
    const int64_t pieces = plan.k <= depth_limit ? 1 : ceil_div(plan.k, depth_limit);
    plan.block_k = pieces == 1 ? most(1, plan.k) : round_up(ceil_div(plan.k, pieces), sizes.step_numbers);

    const bool along = b_column == 1 || plan.n == 1;
    const bool across = b_row == 1;
    if (!invariant && !sizes.tiled_partial && plan.m <= 16 && plan.k > 0 && plan.n >= 1 && (along || across) &&
        (plan.m <= 2 || few(plan.m, plan.n)) && flops > 4096) {
        plan.path = GemmPath::kFewRows;
    } else if (pieces == 1 && a.dtype == own && b.dtype == own && along && plan.k > 0 && (a_row == 1 || a_column == 1) &&
               flops <= 2.0 * 160 * 160 * 160) {
        plan.path = GemmPath::kInPlace;
    }
    double work = flops;
    if (plan.path == GemmPath::kFewRows) {
        work = std::fmax(flops, kWorkForElement * static_cast<double>(plan.n) * static_cast<double>(plan.k));
    }
    const double shares = work * static_cast<double>(entries) / kWorkForThread;
    const int threads = shares >= state.threads ? state.threads : shares < 2 ? 1 : static_cast<int>(shares);
    if (entries >= threads && threads > 1) {
        // Whole entries for each thread where that leaves none idle for long, or where one is too small to be shared.
        plan.over_batch = entries % threads == 0 || entries >= 4 * threads || work < 2 * kWorkForThread || plan.path == GemmPath::kInPlace;
    }
    const int team = plan.over_batch ? 1 : threads;
    plan.threads = threads;
    switch (plan.path) {
        case GemmPath::kFewRows: {
            const int64_t columns = ceil_div(plan.n, team);  // of a thread
            const int64_t runs = team == 1 ? 1 : most(1, least(kPiecesOfThread, columns / (along ? kColumnsOfRun : kColumnsAcross)));
            const int64_t chunk = round_up(ceil_div(columns, runs), sizes.small_columns);
            plan.grid_n = static_cast<int>(ceil_div(plan.n, chunk));
            plan.block_n = chunk;
            plan.block_m = plan.m;
            plan.shared_bytes = bytes_for<char>(plan.m, plan.k, element).value();
            if (is_four_bits(b.dtype)) {
                plan.shared_bytes = (Size(plan.shared_bytes) + bytes_for<char>(plan.m, few_rows_places(plan.k), element)).value();
            }
            plan.private_bytes = bytes_for<char>(plan.m, chunk, element, plan.k > kFewRowsPiece || is_narrow(b.dtype) ? 2 : 1).value();
            break;
        }
        case GemmPath::kInPlace: {
            // By rows where there are some for each thread: two threads that write halves of the same rows exchange the lines between the
            // halves.
            const Grid grid = plan.m >= team * int64_t{2} * sizes.small_rows
                                  ? Grid{team, 1}
                                  : choose_grid(team, plan.m, plan.n, sizes.small_rows, sizes.small_columns);
            plan.grid_m = grid.m;
            plan.grid_n = grid.n;
            plan.block_m = plan.m;
            plan.block_n = plan.n;
            const bool copies = !sizes.small_masks && (plan.n & (sizes.small_columns - 1)) != 0;
            plan.private_bytes = copies ? bytes_for<char>(sizes.small_columns, plan.k, element).value() : 0;
            break;
        }
        case GemmPath::kPacked:
            plan_packed(state, problem, sizes, team, &plan);
            break;
    }
    // A shared part for each team and a private one for each thread.
    plan.workspace_bytes = (Size(plan.over_batch ? threads : 1) * plan.shared_bytes + Size(threads) * plan.private_bytes).value();
    return plan;
}

GemmView gemm_view(const attile_gemm_problem &problem, const GemmPlan &plan, int64_t x, int64_t y) {
    GemmView view;
    view.m = plan.m;
    view.n = plan.n;
    view.k = plan.k;
    view.a = matrix(plan.swapped ? problem.b : problem.a, plan.swapped, x, y);
    view.b = matrix(plan.swapped ? problem.a : problem.b, plan.swapped, x, y);
    view.c = matrix(problem.c, plan.swapped, x, y);
    view.d = matrix(problem.d, plan.swapped, x, y);
    view.bias = matrix(problem.bias, plan.swapped, x, y);
    view.a_scale = scales(problem.a_scale, problem.a_group, x, y);
    view.b_scale = scales_of_b(problem, x, y);
    view.d_scale = scales(problem.d_scale, {1, 1}, x, y);
    if (plan.swapped) {
        const ScaleView of_a = view.a_scale;
        view.a_scale = view.b_scale.transposed();
        view.b_scale = of_a.transposed();
        view.d_scale = view.d_scale.transposed();
    }
    // An axis of extent 1 has stride 0 or anything: 1 lets it count as contiguous.
    if (view.n == 1) view.b.column = view.c.column = view.d.column = view.bias.column = 1;
    view.alpha = problem.alpha;
    view.beta = problem.c.data == nullptr ? 0 : problem.beta;
    view.activation = problem.activation;
    return view;
}

namespace {

// What a query says of the plan of a product with sums in floating point.
void describe_plan(const State &state, const attile_gemm_problem *problem, attile_support *support) {
    const GemmPlan plan = gemm_plan(state, *problem);
    const bool f64 = problem->compute == ATTILE_F64;
    support->workspace_bytes = plan.workspace_bytes;
    const TileSizes sizes = tile_sizes_of(state, *problem);
    const bool packed = plan.path == GemmPath::kPacked, brain = packed && sizes.step_numbers > 1, by_tiles = sizes.tiled_partial;
    const bool narrow = is_narrow(problem->a.dtype) || is_narrow(problem->b.dtype), four = is_four_bits(problem->b.dtype);
    static constexpr const char *kPaths[] = {"packed", "in_place", "few_rows"};
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_%s_%s_%dx%d_%s", kPaths[static_cast<int>(plan.path)],
                  f64      ? "f64"
                  : brain  ? "bf16"
                  : four   ? "4bit_f32"
                  : narrow ? "8bit_f32"
                           : "f32",
                  packed ? sizes.rows : sizes.small_rows, packed ? sizes.columns : sizes.small_columns,
                  brain ? target_name(by_tiles ? Target::kAmxBf16 : Target::kAvx512Bf16) : kernel_target_name(state.target));
    if (brain && !by_tiles && state.target == Target::kAmxBf16 && gemm_suits_tiles(*problem)) {
        std::snprintf(support->text, sizeof support->text, "%s", amx_refusal());
    }
    support->tile_m = reported(plan.block_m);
    support->tile_n = reported(plan.block_n);
    support->tile_k = reported(plan.block_k);
    support->blocks = plan.over_batch ? (Size(plan.batch[0]) * plan.batch[1]).value() : int64_t{plan.grid_m} * plan.grid_n;
}

}  // namespace

int32_t gemm_query(void *opaque, const attile_gemm_problem *problem, attile_support *support) {
    const State &state = *static_cast<State *>(opaque);
    support->level = ATTILE_SUPPORT_NATIVE;
    support->status = ATTILE_OK;
    if ((problem->launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0) {
        exact_query(state, *problem, support);
    } else if (problem->compute == ATTILE_I32) {
        integer_query(state, *problem, support);
    } else {
        describe_plan(state, problem, support);
    }
    const double entries = static_cast<double>(problem->batch[0]) * static_cast<double>(problem->batch[1]);
    const double m = static_cast<double>(problem->m), n = static_cast<double>(problem->n), k = static_cast<double>(problem->k);
    support->flops = 2 * entries * m * n * k;
    const auto bytes_of = [&](const attile_operand &operand, double elements) {
        if (operand.dtype == 0) return 0.0;
        for (int axis = 0; axis < 2; ++axis) {
            if (problem->batch[axis] == 1 || operand.stride[axis] != 0) elements *= static_cast<double>(problem->batch[axis]);
        }
        return elements * dtype_bits(operand.dtype) / 8;
    };
    support->bytes = bytes_of(problem->d, m * n) + bytes_of(problem->bias, problem->bias.stride[2] == 0 ? n : m);
    if (problem->k > 0) support->bytes += bytes_of(problem->a, m * k) + bytes_of(problem->b, k * n);
    if (problem->beta != 0) support->bytes += bytes_of(problem->c, m * n);
    const auto blocks = [](double extent, int64_t group) { return group > 0 ? extent / static_cast<double>(group) : 0.0; };
    support->bytes += bytes_of(problem->a_scale, blocks(m, problem->a_group[0]) * blocks(k, problem->a_group[1]));
    for (const attile_operand *of_b : {&problem->b_scale, &problem->b_zero}) {
        support->bytes += bytes_of(*of_b, blocks(k, problem->b_group[0]) * blocks(n, problem->b_group[1]));
    }
    support->bytes += bytes_of(problem->d_scale, (problem->d_scale.stride[2] != 0 ? m : 1) * (problem->d_scale.stride[3] != 0 ? n : 1));
    support->threads = 1;
    support->splits = 1;
    return ATTILE_OK;
}

namespace {

int32_t run(void *opaque, const attile_gemm_problem *problem) {
    State &state = *static_cast<State *>(opaque);
    if ((problem->launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0) return exact_run(state, *problem);
    if (problem->compute == ATTILE_I32) return integer_run(state, *problem);
    const bool f64 = problem->compute == ATTILE_F64;
    if (f64 ? gemm_run_small<double>(state, *problem) : gemm_run_small<float>(state, *problem)) return ATTILE_OK;
    const GemmPlan plan = gemm_plan(state, *problem);
    const Workspace workspace(state, problem->launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    if (f64) {
        gemm_run<double>(state, plan, *problem, workspace.data());
    } else {
        gemm_run<float>(state, plan, *problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace

const attile_gemm_interface g_gemm_interface = {sizeof(attile_gemm_interface), 3, gemm_query, run};

}  // namespace attile::cpu
