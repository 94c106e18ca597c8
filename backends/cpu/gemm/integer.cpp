// SPDX-License-Identifier: Apache-2.0
// Products of int8: the loops around the kernels.
//
// All of a is packed; a thread packs some columns of b and multiplies all rows with them while they are in its cache. Sums over numbers
// that share their scales are exact, so that no bit depends on threads or blocks; in float32 they are scaled and added in the order of k.
#include "gemm/integer.h"

#include <cstdio>

#include "size.h"

namespace attile::cpu {
namespace {

// Depth of a sum that int32 holds, whatever the numbers: 2^31 - 1 over 128 * 128.
constexpr int64_t kMostDepth = 131071;
// Rows for which a thread would pack columns of b that another packs, too.
constexpr int64_t kRowsToShare = 48;
constexpr int64_t kMostPanels = 4;  // of b, packed together

struct IntegerPlan {
    const IntegerWay *way = nullptr;
    GemmPlan shape;                 // swapped, m, n, k, batch
    bool over_batch = false;        // threads take batch entries
    int64_t chunk = 0, chunks = 0;  // of the depth: sums that are exact
    int64_t steps = 0;              // of a chunk
    int64_t row_panels = 0, column_panels = 0, block = 1, blocks = 0, row_parts = 1;
    int64_t a_bytes = 0, shared_bytes = 0;   // a's panels, and its factors behind them
    int64_t b_bytes = 0, private_bytes = 0;  // of a thread: b's panels, what sums begin with, and factors
    int64_t start_bytes = 0;
    int threads = 1;
    int64_t workspace_bytes = 0;

    int64_t a_panel() const { return chunks * steps * way->rows; }  // places
    int64_t b_panel() const { return chunks * steps * way->columns; }
};

IntegerPlan integer_plan(const State &state, const attile_gemm_problem &problem) {
    IntegerPlan plan;
    plan.way = &integer_way(state.target);
    GemmPlan &shape = plan.shape;
    shape.swapped = problem.d.stride[2] == 1 && problem.d.stride[3] != 1;
    shape.m = shape.swapped ? problem.n : problem.m;
    shape.n = shape.swapped ? problem.m : problem.n;
    shape.k = problem.k;
    shape.batch[0] = problem.batch[0];
    shape.batch[1] = problem.batch[1];
    plan.chunk = least(problem.k, kMostDepth);
    if (problem.a_scale.dtype != 0) plan.chunk = least(plan.chunk, problem.a_group[1]);
    if (problem.b_scale.dtype != 0) plan.chunk = least(plan.chunk, problem.b_group[0]);
    plan.chunks = problem.k == 0 ? 0 : ceil_div(problem.k, plan.chunk);
    plan.steps = ceil_div(plan.chunk, plan.way->numbers);
    plan.row_panels = ceil_div(shape.m, plan.way->rows);
    plan.column_panels = ceil_div(shape.n, plan.way->columns);

    const int64_t entries = (Size(shape.batch[0]) * shape.batch[1]).value();
    const double work = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k + 1);
    const double shares = work * static_cast<double>(entries) / kWorkForThread;
    plan.threads = shares >= state.threads ? state.threads : shares < 2 ? 1 : static_cast<int>(shares);
    plan.over_batch = entries > 1 && plan.threads > 1 && (entries >= 4 * plan.threads || work < 2 * kWorkForThread);
    const int64_t team = plan.over_batch ? 1 : plan.threads;
    const int64_t panel_bytes = (Size(plan.chunks) * plan.steps * (4 * plan.way->columns)).value();
    plan.block = most(1, least(least(kMostPanels, state.caches.l2 / 2 / most(panel_bytes, 1)), ceil_div(plan.column_panels, team)));
    plan.blocks = ceil_div(plan.column_panels, plan.block);
    if (team > 1 && plan.blocks < kPiecesOfThread * team) {
        const int64_t most_parts = most(1, shape.m / kRowsToShare);
        plan.row_parts = least(least(most_parts, plan.row_panels), ceil_div(kPiecesOfThread * team, plan.blocks));
    }
    plan.a_bytes = bytes_for<int32_t>(plan.row_panels, plan.chunks, plan.steps, plan.way->rows).value();
    plan.shared_bytes = (Size(plan.a_bytes) + bytes_for<float>(plan.row_panels, plan.chunks, plan.way->rows)).value();
    plan.b_bytes = bytes_for<int32_t>(plan.block, plan.chunks, plan.steps, plan.way->columns).value();
    plan.start_bytes = bytes_for<int32_t>(plan.block, plan.chunks, plan.way->columns).value();
    plan.private_bytes = (Size(plan.b_bytes) + plan.start_bytes + plan.start_bytes).value();
    plan.workspace_bytes = (Size(plan.over_batch ? plan.threads : 1) * plan.shared_bytes + Size(plan.threads) * plan.private_bytes).value();
    return plan;
}

// One product. Threads have a private part of the memory each.
class IntegerProduct {
  public:
    IntegerProduct(const IntegerPlan &plan, const GemmView &view, char *shared, char *own)
        : plan_(plan),
          way_(*plan.way),
          view_(view),
          a_(reinterpret_cast<int32_t *>(shared)),
          a_factors_(reinterpret_cast<float *>(shared + plan.a_bytes)),
          own_(own) {}

    void run(int threads) const {
        parallel_in_turn(
            threads, Loop{plan_.row_panels, [this](int64_t panel, int /*rank*/) { pack_a(panel); }},
            Loop{plan_.blocks * plan_.row_parts, [this](int64_t cell, int rank) { multiply(cell, own_ + rank * plan_.private_bytes); }});
    }

  private:
    int64_t depth_of(int64_t chunk) const { return least(plan_.chunk, view_.k - chunk * plan_.chunk); }

    void pack_a(int64_t panel) const {
        const int64_t row = panel * way_.rows, rows = least(way_.rows, view_.m - row);
        const int8_t *const source = static_cast<const int8_t *>(view_.a.data) + row * view_.a.row;
        for (int64_t c = 0; c < plan_.chunks; ++c) {
            int32_t *const places = a_ + panel * plan_.a_panel() + c * plan_.steps * way_.rows;
            way_.pack(source + c * plan_.chunk * view_.a.column, view_.a.row, view_.a.column, rows, depth_of(c), places, way_.rows);
            way_.make_thin(places, ceil_div(depth_of(c), way_.numbers) * way_.rows);
            if (view_.a_scale.data == nullptr) continue;
            const ScaleView &scale = view_.a_scale;
            for (int64_t i = 0; i < rows; ++i) {
                a_factors_[(panel * plan_.chunks + c) * way_.rows + i] =
                    scale.data[(row + i) / scale.row_group * scale.row + c * plan_.chunk / scale.column_group * scale.column];
            }
        }
    }

    void pack_b(int64_t panel, int32_t *places, int32_t *start, float *factors) const {
        const int64_t column = panel * way_.columns, columns = least(way_.columns, view_.n - column);
        const int8_t *const source = static_cast<const int8_t *>(view_.b.data) + column * view_.b.column;
        for (int64_t c = 0; c < plan_.chunks; ++c, places += plan_.steps * way_.columns, start += way_.columns, factors += way_.columns) {
            way_.pack(source + c * plan_.chunk * view_.b.row, view_.b.column, view_.b.row, columns, depth_of(c), places, way_.columns);
            way_.begin(ceil_div(depth_of(c), way_.numbers), places, start);
            if (view_.b_scale.data == nullptr) continue;
            const ScaleView &scale = view_.b_scale;
            for (int64_t j = 0; j < way_.columns; ++j) {
                factors[j] =
                    j < columns
                        ? scale.data[c * plan_.chunk / scale.row_group * scale.row + (column + j) / scale.column_group * scale.column]
                        : 0.0f;
            }
        }
    }

    void multiply(int64_t cell, char *own) const {
        int32_t *const places = reinterpret_cast<int32_t *>(own), *const start = reinterpret_cast<int32_t *>(own + plan_.b_bytes);
        float *const factors = reinterpret_cast<float *>(own + plan_.b_bytes + plan_.start_bytes);
        const int64_t first = cell / plan_.row_parts * plan_.block, count = least(plan_.block, plan_.column_panels - first);
        const int64_t part = cell % plan_.row_parts, begin = plan_.row_panels * part / plan_.row_parts,
                      end = plan_.row_panels * (part + 1) / plan_.row_parts;
        const int64_t starts = plan_.chunks * way_.columns;  // of a panel
        for (int64_t j = 0; j < count; ++j) pack_b(first + j, places + j * plan_.b_panel(), start + j * starts, factors + j * starts);
        for (int64_t i = begin; i < end; ++i) {
            for (int64_t j = 0; j < count; ++j) tile(i, first + j, places + j * plan_.b_panel(), start + j * starts, factors + j * starts);
        }
    }

    void tile(int64_t row_panel, int64_t column_panel, const int32_t *wide, const int32_t *start, const float *factors) const {
        alignas(64) int32_t sums[kMostTile];
        alignas(64) float out[kMostTile];
        const int64_t row = row_panel * way_.rows, column = column_panel * way_.columns;
        const int64_t rows = least(way_.rows, view_.m - row), columns = least(way_.columns, view_.n - column);
        if (plan_.chunks == 0) {
            for (int64_t i = 0; i < kMostTile; ++i) {
                sums[i] = 0;
                out[i] = 0;
            }
        }
        const bool keeps_integers = view_.d.dtype == ATTILE_I32;
        for (int64_t c = 0; c < plan_.chunks; ++c) {
            const int32_t *const thin = a_ + row_panel * plan_.a_panel() + c * plan_.steps * way_.rows;
            way_.tile(rows, ceil_div(depth_of(c), way_.numbers), thin, wide + c * plan_.steps * way_.columns, start + c * way_.columns,
                      sums);
            if (keeps_integers) break;  // There is one.
            const float *const row_factors =
                view_.a_scale.data == nullptr ? nullptr : a_factors_ + (row_panel * plan_.chunks + c) * way_.rows;
            way_.scale(rows, sums, row_factors, view_.b_scale.data == nullptr ? nullptr : factors + c * way_.columns, plan_.shape.swapped,
                       c == 0, out);
        }
        if (!keeps_integers) return way_.finish(view_, out, row, column, rows, columns);
        int32_t *const d = static_cast<int32_t *>(view_.d.data) + row * view_.d.row + column * view_.d.column;
        for (int64_t i = 0; i < rows; ++i)
            for (int64_t j = 0; j < columns; ++j) d[i * view_.d.row + j * view_.d.column] = sums[i * way_.columns + j];
    }

    const IntegerPlan &plan_;
    const IntegerWay &way_;
    const GemmView &view_;
    int32_t *const a_;
    float *const a_factors_;
    char *const own_;
};

}  // namespace

const IntegerWay &integer_way(Target target) {
    const IntegerKernels<int32_t> &kernels = integer_kernels<int32_t>(target);
    const IntegerWay *way = target == Target::kNeonI8mm ? kernels.matrices : has_quads(target) ? kernels.quads : nullptr;
    return way != nullptr ? *way : kernels.pairs;
}

const char *integer_way_name(const IntegerWay &way, Target target) { return way.name != nullptr ? way.name : kernel_target_name(target); }

void integer_query(const State &state, const attile_gemm_problem &problem, attile_support *support) {
    const IntegerPlan plan = integer_plan(state, problem);
    support->workspace_bytes = plan.workspace_bytes;
    std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_i8_%dx%d_%s", plan.way->rows, plan.way->columns,
                  integer_way_name(*plan.way, state.target));
    support->tile_m = plan.way->rows;
    support->tile_n = reported(plan.block * plan.way->columns);
    support->tile_k = reported(plan.chunk);
    support->blocks = (Size(plan.blocks) * plan.row_parts).value();
}

int32_t integer_run(State &state, const attile_gemm_problem &problem) {
    const IntegerPlan plan = integer_plan(state, problem);
    const Workspace workspace(state, problem.launch, plan.workspace_bytes);
    if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
    const int64_t entries = plan.shape.batch[0] * plan.shape.batch[1];
    const auto entry_of = [&](int64_t entry, int threads, char *shared, char *own) {
        const GemmView view = gemm_view(problem, plan.shape, entry / plan.shape.batch[1], entry % plan.shape.batch[1]);
        IntegerProduct(plan, view, shared, own).run(threads);
    };
    if (plan.over_batch) {
        parallel_for(plan.threads, entries, [&](int64_t entry, int rank) {
            char *const shared = workspace.data() + rank * (plan.shared_bytes + plan.private_bytes);
            entry_of(entry, 1, shared, shared + plan.shared_bytes);
        });
        return ATTILE_OK;
    }
    for (int64_t entry = 0; entry < entries; ++entry) entry_of(entry, plan.threads, workspace.data(), workspace.data() + plan.shared_bytes);
    return ATTILE_OK;
}

}  // namespace attile::cpu
