// SPDX-License-Identifier: Apache-2.0
// Exact products: which way a problem goes, sums element by element, and what follows the sum.
#include "gemm/exact.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "gemm/exact_sum.h"
#include "gemm/integer.h"
#include "size.h"

namespace attile::cpu {
namespace {

// Whether the caller's floating-point mode is the usual one: to nearest, with subnormal numbers. In any other only sums of integers are
// exact.
bool usual_mode() {
    volatile double tiny = 0x1p-1074, small = 0x1p-1022, one = 1, above = 0x1.8p-53, below = 0x1p-54;
    return tiny * 0x1p1000 != 0 && small * 0.5 != 0 && one + above > one && one + below == one && -one - above < -one;
}

enum class Way { kSums, kInterval, kResidues };

// Times per step, in nanoseconds: of a sum of integers; of residues of a number, of multiplying a pair, and of an element of the result.
constexpr double kSumCost = 2.5, kResidueCost = 7, kProductCost = 0.1, kJoinCost = 30, kStartCost = 20'000;

Way way_of(const attile_gemm_problem &problem) {
    if (problem.k == 0 || problem.m == 0 || problem.n == 0) return Way::kSums;
    if (problem.a.dtype == ATTILE_F32) return Way::kInterval;
    const double m = static_cast<double>(problem.m), n = static_cast<double>(problem.n), k = static_cast<double>(problem.k);
    const double sums = kSumCost * m * n * k;
    const double residues = kResidueCost * (m + n) * k + m * n * (kProductCost * k + kJoinCost) + kStartCost;
    return sums < residues ? Way::kSums : Way::kResidues;
}

template <class T>
double element(const MatrixView &view, int64_t i, int64_t j) {
    return static_cast<double>(static_cast<const T *>(view.data)[i * view.row + j * view.column]);
}
double element_of(const MatrixView &view, int64_t i, int64_t j) {
    return view.dtype == ATTILE_F32 ? element<float>(view, i, j) : element<double>(view, i, j);
}

// Numbers are copied first: where they are far apart, many of their lines are then on their way at a time.
template <class T>
double sum_at(const GemmView &view, int64_t i, int64_t j, ExactSum *sum) {
    constexpr int64_t kCopied = 256;
    const T *a = static_cast<const T *>(view.a.data) + i * view.a.row, *b = static_cast<const T *>(view.b.data) + j * view.b.column;
    double of_a[kCopied], of_b[kCopied];
    for (int64_t k = 0; k < view.k; k += kCopied) {
        const int64_t count = least(kCopied, view.k - k);
        for (int64_t c = 0; c < count; ++c) of_b[c] = static_cast<double>(b[(k + c) * view.b.row]);
        for (int64_t c = 0; c < count; ++c) of_a[c] = static_cast<double>(a[(k + c) * view.a.column]);
        for (int64_t c = 0; c < count; ++c) sum->add_product(of_a[c], of_b[c]);
    }
    return sum->take();
}

// Rows and columns of what a thread takes at a time.
int64_t runs_of(int64_t n) { return ceil_div(n, kExactRun); }

template <class T>
void sums_of_run(const GemmView &view, const ExactEnd &end, int64_t i, int64_t j) {
    ExactSum sum;
    double sums[kExactRun] = {};
    T results[kExactRun];
    const int64_t count = least(kExactRun, view.n - j);
    for (int64_t c = 0; c < count; ++c) sums[c] = exact_sum_at(view, i, j + c, &sum);
    exact_finish(view, end, i, j, count, sums, results);
    exact_store(view, i, j, count, results);
}

GemmPlan plain_shape(const attile_gemm_problem &problem) {
    GemmPlan shape;
    shape.m = problem.m;
    shape.n = problem.n;
    shape.k = problem.k;
    shape.batch[0] = problem.batch[0];
    shape.batch[1] = problem.batch[1];
    return shape;
}

void run_sums(const State &state, const attile_gemm_problem &problem) {
    const GemmPlan shape = plain_shape(problem);
    const ExactEnd end(problem);
    const int64_t runs = runs_of(shape.n), entries = shape.batch[0] * shape.batch[1];
    const double work = static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(entries) *
                        (static_cast<double>(shape.k) + 4) * 16;
    const int threads = work < 2 * kWorkForThread ? 1 : static_cast<int>(least(state.threads, static_cast<int64_t>(work / kWorkForThread)));
    parallel_for(threads, entries * shape.m * runs, [&](int64_t index, int /*rank*/) {
        const int64_t run = index % runs, i = index / runs % shape.m, entry = index / runs / shape.m;
        const GemmView view = gemm_view(problem, shape, entry / shape.batch[1], entry % shape.batch[1]);
        (view.d.dtype == ATTILE_F32 ? sums_of_run<float> : sums_of_run<double>)(view, end, i, run * kExactRun);
    });
}

}  // namespace

double exact_sum_at(const GemmView &view, int64_t i, int64_t j, ExactSum *sum) {
    return view.a.dtype == ATTILE_F32 ? sum_at<float>(view, i, j, sum) : sum_at<double>(view, i, j, sum);
}

template <class T>
void exact_finish(const GemmView &view, const ExactEnd &end, int64_t i, int64_t j, int64_t count, const double *sums, T *results) {
    double values[kExactRun];
    for (int64_t c = 0; c < count; ++c) values[c] = end.has_product ? end.alpha * sums[c] : 0;
    if (view.beta != 0) {
        for (int64_t c = 0; c < count; ++c) {
            const double product = view.beta * element_of(view.c, i, j + c);
            values[c] = values[c] + product;
        }
    }
    if (view.bias.data != nullptr) {
        for (int64_t c = 0; c < count; ++c) values[c] = values[c] + element_of(view.bias, i, j + c);
    }
    if (end.relu) {
        for (int64_t c = 0; c < count; ++c) values[c] = values[c] > 0 || values[c] != values[c] ? values[c] : 0;
    }
    for (int64_t c = 0; c < count; ++c) {
        results[c] = values[c] != values[c] ? std::numeric_limits<T>::quiet_NaN() : static_cast<T>(values[c]);
    }
}

template <class T>
void exact_store(const GemmView &view, int64_t i, int64_t j, int64_t count, const T *results) {
    T *d = static_cast<T *>(view.d.data) + i * view.d.row + j * view.d.column;
    if (view.d.column == 1) {
        std::memcpy(d, results, static_cast<size_t>(count) * sizeof(T));
        return;
    }
    for (int64_t c = 0; c < count; ++c, d += view.d.column) *d = results[c];
}

template void exact_finish<float>(const GemmView &, const ExactEnd &, int64_t, int64_t, int64_t, const double *, float *);
template void exact_finish<double>(const GemmView &, const ExactEnd &, int64_t, int64_t, int64_t, const double *, double *);
template void exact_store<float>(const GemmView &, int64_t, int64_t, int64_t, const float *);
template void exact_store<double>(const GemmView &, int64_t, int64_t, int64_t, const double *);

void exact_query(const State &state, const attile_gemm_problem &problem, attile_support *support) {
    const char *const target = kernel_target_name(state.target);
    switch (way_of(problem)) {
        case Way::kSums:
            std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_exact_sums");
            support->blocks = (Size(problem.batch[0]) * problem.batch[1] * problem.m * runs_of(problem.n)).value();
            break;
        case Way::kInterval: {
            const IntervalPlan plan = interval_plan(state, problem);
            support->workspace_bytes = plan.workspace_bytes;
            std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_exact_interval_f64_%s", target);
            support->tile_m = reported(plan.rows);
            support->tile_n = reported(plan.columns);
            support->tile_k = reported(problem.k);
            break;
        }
        case Way::kResidues: {
            const ResiduePlan plan = residue_plan(state, problem);
            support->workspace_bytes = plan.workspace_bytes;
            std::snprintf(support->kernel, sizeof support->kernel, "cpu_gemm_exact_residues_%dx%d_%s", plan.way->rows, plan.way->columns,
                          plan.way->numbers == 4 ? "avx512vnni" : target);
            support->tile_m = plan.way->rows;
            support->tile_n = plan.way->columns;
            support->tile_k = reported(plan.depth);
            break;
        }
    }
    std::snprintf(support->text, sizeof support->text, "elements that the kernel leaves undecided are summed in fixed point");
}

int32_t exact_run(State &state, const attile_gemm_problem &problem) {
    const Way way = usual_mode() ? way_of(problem) : Way::kSums;
    if (way == Way::kSums) {
        run_sums(state, problem);
    } else if (way == Way::kInterval) {
        const IntervalPlan plan = interval_plan(state, problem);
        const Workspace workspace(state, problem.launch, plan.workspace_bytes);
        if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
        interval_run(state, plan, problem, workspace.data());
    } else {
        const ResiduePlan plan = residue_plan(state, problem);
        const Workspace workspace(state, problem.launch, plan.workspace_bytes);
        if (workspace.failed()) return out_of_workspace(plan.workspace_bytes);
        residue_run(plan, problem, workspace.data());
    }
    return ATTILE_OK;
}

}  // namespace attile::cpu
