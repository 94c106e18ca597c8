// SPDX-License-Identifier: Apache-2.0
// Exact products: which way a problem goes, sums element by element, and what follows the sum.
#include "gemm/exact.h"

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <new>

#include "gemm/exact_sum.h"
#include "gemm/integer.h"
#include "size.h"

namespace attile::cpu {
namespace {

// Whether the caller's floating-point mode is the usual one: to nearest, with subnormal numbers. In any other only sums of integers are
// exact.
bool usual_mode() {
#if defined(__x86_64__)
    constexpr uint32_t kRounding = 0x6000, kFlush = 0x8000, kZeros = 0x0040;
    return (__builtin_ia32_stmxcsr() & (kRounding | kFlush | kZeros)) == 0;
#elif defined(__aarch64__)
    constexpr uint64_t kRounding = uint64_t{3} << 22, kFlush = uint64_t{1} << 24, kZeros = 1;
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return (mode & (kRounding | kFlush | kZeros)) == 0;
#else
    return false;
#endif
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
double sum_at(const GemmView &view, int64_t i, int64_t j) {
    const T *a = static_cast<const T *>(view.a.data) + i * view.a.row, *b = static_cast<const T *>(view.b.data) + j * view.b.column;
    double of_a[kSumRun], of_b[kSumRun];
    ExactSum sum;
    for (int64_t k = 0; k < view.k; k += kSumRun) {
        const int64_t count = least(kSumRun, view.k - k);
        for (int64_t c = 0; c < count; ++c) of_b[c] = ExactSum::widened(b[(k + c) * view.b.row]);
        for (int64_t c = 0; c < count; ++c) of_a[c] = ExactSum::widened(a[(k + c) * view.a.column]);
        for (int64_t c = 0; c < count; ++c) sum.add_product(of_a[c], of_b[c]);
    }
    return sum.take();
}

// Many of a run: b is copied a square at a time, whose rows are read in the order of memory.
template <class T>
void sums_of(const GemmView &view, int64_t i, int64_t j, uint64_t mask, const SumMemory &memory, double *sums) {
    const int64_t columns = 64 - std::countl_zero(mask);
    const T *a = static_cast<const T *>(view.a.data) + i * view.a.row, *b = static_cast<const T *>(view.b.data) + j * view.b.column;
    double of_a[kSumRun];
    for (int64_t c = 0; c < columns; ++c) new (&memory.sums[c]) ExactSum;
    for (int64_t k = 0; k < view.k; k += kSumRun) {
        const int64_t count = least(kSumRun, view.k - k);
        for (int64_t r = 0; r < count; ++r) {
            of_a[r] = ExactSum::widened(a[(k + r) * view.a.column]);
            const T *from = b + (k + r) * view.b.row;
            for (int64_t c = 0; c < columns; ++c) memory.numbers[c * kSumStep + r] = ExactSum::widened(from[c * view.b.column]);
        }
        for (uint64_t left = mask; left != 0; left &= left - 1) {
            const int c = std::countr_zero(left);
            for (int64_t r = 0; r < count; ++r) memory.sums[c].add_product(of_a[r], memory.numbers[c * kSumStep + r]);
        }
    }
    for (uint64_t left = mask; left != 0; left &= left - 1) {
        const int c = std::countr_zero(left);
        sums[c] = memory.sums[c].take();
    }
}

// Rows and columns of what a thread takes at a time.
int64_t runs_of(int64_t n) { return ceil_div(n, kExactRun); }

template <class T>
void sums_of_run(const GemmView &view, const ExactEnd &end, int64_t i, int64_t j, const SumMemory &memory) {
    double sums[kExactRun] = {};
    T results[kExactRun];
    const int64_t count = least(kExactRun, view.n - j);
    exact_sums(view, i, j, ~uint64_t{0} >> (kExactRun - count), memory, sums);
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

int sum_threads(const State &state, const attile_gemm_problem &problem) {
    const double work = static_cast<double>(problem.m) * static_cast<double>(problem.n) * static_cast<double>(problem.batch[0]) *
                        static_cast<double>(problem.batch[1]) * (static_cast<double>(problem.k) + 4) * 16;
    return work < 2 * kWorkForThread ? 1
                                     : static_cast<int>(least(state.threads, static_cast<int64_t>(std::fmin(work / kWorkForThread, 1e9))));
}

// In any mode but the usual one all ways end here.
int64_t sum_workspace(const State &state, const attile_gemm_problem &problem) {
    Cutter cutter(nullptr);
    cut_sum_memory(&cutter);
    return (Size(sum_threads(state, problem)) * cutter.used()).value();
}

void run_sums(const State &state, const attile_gemm_problem &problem, char *workspace) {
    const GemmPlan shape = plain_shape(problem);
    const ExactEnd end(problem);
    Cutter counter(nullptr);
    cut_sum_memory(&counter);
    const int64_t runs = runs_of(shape.n), entries = shape.batch[0] * shape.batch[1];
    parallel_for(sum_threads(state, problem), entries * shape.m * runs, [&](int64_t index, int rank) {
        Cutter cutter(workspace + rank * counter.used());
        const SumMemory memory = cut_sum_memory(&cutter);
        const int64_t run = index % runs, i = index / runs % shape.m, entry = index / runs / shape.m;
        const GemmView view = gemm_view(problem, shape, entry / shape.batch[1], entry % shape.batch[1]);
        (view.d.dtype == ATTILE_F32 ? sums_of_run<float> : sums_of_run<double>)(view, end, i, run * kExactRun, memory);
    });
}

}  // namespace

SumMemory cut_sum_memory(Cutter *cutter) {
    SumMemory memory{};
    memory.sums = cutter->cut<ExactSum>(kExactRun);
    memory.numbers = cutter->cut<double>(kExactRun, kSumStep);
    return memory;
}

void exact_sums(const GemmView &view, int64_t i, int64_t j, uint64_t mask, const SumMemory &memory, double *sums) {
    constexpr int kFew = 6;
    const bool f32 = view.a.dtype == ATTILE_F32;
    if (std::popcount(mask) > kFew) return (f32 ? sums_of<float> : sums_of<double>)(view, i, j, mask, memory, sums);
    for (; mask != 0; mask &= mask - 1) {
        const int c = std::countr_zero(mask);
        sums[c] = (f32 ? sum_at<float> : sum_at<double>)(view, i, j + c);
    }
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
                          integer_way_name(*plan.way, state.target));
            support->tile_m = plan.way->rows;
            support->tile_n = plan.way->columns;
            support->tile_k = reported(plan.depth);
            break;
        }
    }
    support->workspace_bytes = most(support->workspace_bytes, sum_workspace(state, problem));
    std::snprintf(support->text, sizeof support->text, "elements that the kernel leaves undecided are summed in fixed point");
}

int32_t exact_run(State &state, const attile_gemm_problem &problem) {
    const Way way = usual_mode() ? way_of(problem) : Way::kSums;
    int64_t bytes = sum_workspace(state, problem);
    IntervalPlan interval;
    ResiduePlan residues;
    if (way == Way::kInterval) interval = interval_plan(state, problem);
    if (way == Way::kResidues) residues = residue_plan(state, problem);
    bytes = most(bytes, most(interval.workspace_bytes, residues.workspace_bytes));
    const Workspace workspace(state, problem.launch, bytes);
    if (workspace.failed()) return out_of_workspace(bytes);
    if (way == Way::kSums) run_sums(state, problem, workspace.data());
    if (way == Way::kInterval) interval_run(state, interval, problem, workspace.data());
    if (way == Way::kResidues) residue_run(residues, problem, workspace.data());
    return ATTILE_OK;
}

}  // namespace attile::cpu
