// SPDX-License-Identifier: Apache-2.0
// Exact products of f32: a product in float64, whose error is bounded, mostly decides what the exact one is rounded to.
//
// Products of two f32 are exact in float64, and all that follows a sum is monotone in it: where both ends of the sum's interval give the
// same f32, that is the result. Where the numbers are multiples of so large a power of two that float64 holds all sums of their products,
// the interval is one number.
#include <bit>
#include <cmath>

#include "gemm/exact.h"
#include "size.h"

namespace attile::cpu {
namespace {

constexpr int64_t kMostSums = int64_t{4} << 20;                    // doubles that are kept
constexpr int64_t kBlock = 2048;                                   // rows and columns of one that is cut
constexpr int64_t kLines = 16, kLineRun = 256, kRowsOfPiece = 16;  // of what a thread takes at a time

// d as it is computed: d's columns are the contiguous axis, if one is.
attile_gemm_problem untransposed(const attile_gemm_problem &problem) {
    attile_gemm_problem result = problem;
    const auto swap = [](attile_operand operand) {
        const int64_t rows = operand.stride[2];
        operand.stride[2] = operand.stride[3];
        operand.stride[3] = rows;
        return operand;
    };
    if (problem.d.stride[2] == 1 && problem.d.stride[3] != 1) {
        result.m = problem.n;
        result.n = problem.m;
        result.a = swap(problem.b);
        result.b = swap(problem.a);
        result.c = swap(problem.c);
        result.d = swap(problem.d);
        result.bias = swap(problem.bias);
    }
    if (result.batch[1] == 1 && result.batch[0] > 1) {
        for (attile_operand *operand : {&result.a, &result.b, &result.c, &result.d, &result.bias}) operand->stride[1] = operand->stride[0];
        result.batch[1] = result.batch[0];
        result.batch[0] = 1;
    }
    return result;
}

attile_operand at(attile_operand operand, int64_t x, int64_t y, int64_t row, int64_t column) {
    const int64_t offset = x * operand.stride[0] + y * operand.stride[1] + row * operand.stride[2] + column * operand.stride[3];
    if (operand.data != nullptr) operand.data = static_cast<char *>(operand.data) + offset * dtype_bytes(operand.dtype);
    return operand;
}

struct Part {
    int64_t x, y, entries, row, rows, column, columns;
};

// The approximate product of a part, dense.
attile_gemm_problem product_of(const attile_gemm_problem &problem, const Part &part, double *sums) {
    attile_gemm_problem product{};
    product.struct_size = sizeof product;
    product.compute = ATTILE_F64;
    product.batch[0] = 1;
    product.batch[1] = part.entries;
    product.m = part.rows;
    product.n = part.columns;
    product.k = problem.k;
    product.a = at(problem.a, part.x, part.y, part.row, 0);
    product.b = at(problem.b, part.x, part.y, 0, part.column);
    product.d = {sums, ATTILE_F64, 0, {0, part.rows * part.columns, part.columns, 1}};
    product.alpha = 1;
    return product;
}

class Interval {
  public:
    Interval(const State &state, const IntervalPlan &plan, const attile_gemm_problem &problem, char *workspace)
        : state_(state), plan_(plan), problem_(problem), kernels_(exact_kernels<double>(state.target)), end_(problem) {
        Cutter cutter(workspace);
        sums_ = cutter.cut<double>(plan.sums_bytes / 8);
        rows_.size = cutter.cut<double>(plan.entries, plan.rows);
        rows_.ratio = cutter.cut<double>(plan.entries, plan.rows);
        columns_.size = cutter.cut<double>(plan.entries, plan.columns);
        columns_.ratio = cutter.cut<double>(plan.entries, plan.columns);
        own_ = cutter.cut<char>(Size(plan.threads) * plan.own_bytes);
        product_ = cutter.cut<char>(plan.product_bytes);
    }

    void run(const Part &part) {
        const attile_gemm_problem product = product_of(problem_, part, sums_);
        const GemmPlan gemm = gemm_plan(state_, product);
        gemm_run<double>(state_, gemm, product, product_);
        // Terms that follow one another: of a piece of the depth, or all there are, and of the pieces.
        const int64_t depth = gemm.path == GemmPath::kPacked ? gemm.block_k : problem_.k;
        const double terms = static_cast<double>(depth) + 2 * static_cast<double>(ceil_div(problem_.k, depth)) + 8;
        factor_ = terms * 0x1p-53 * (1 + 0x1p-10);
        const int64_t row_units = ceil_div(part.rows, kLines), column_units = ceil_div(part.columns, kLines);
        const int64_t pieces = ceil_div(part.rows, kRowsOfPiece);
        parallel_in_turn(
            plan_.threads,
            Loop{part.entries * row_units, [&](int64_t unit, int rank) { measure(part, unit / row_units, unit % row_units, true, rank); }},
            Loop{part.entries * column_units,
                 [&](int64_t unit, int rank) { measure(part, unit / column_units, unit % column_units, false, rank); }},
            Loop{part.entries * pieces, [&](int64_t piece, int rank) { decide(part, piece / pieces, piece % pieces, rank); }});
    }

  private:
    // What is known of some rows of a or columns of b; sizes are infinite where NaN or infinity is among the numbers.
    void measure(const Part &part, int64_t entry, int64_t unit, bool rows, int rank) const {
        const attile_operand &x = rows ? problem_.a : problem_.b;
        const int64_t first = unit * kLines, all = rows ? part.rows : part.columns, lines = least(kLines, all - first);
        const int64_t width = x.stride[rows ? 2 : 3], depth = x.stride[rows ? 3 : 2];
        const attile_operand from =
            rows ? at(x, part.x, part.y + entry, part.row + first, 0) : at(x, part.x, part.y + entry, 0, part.column + first);
        const float *const data = static_cast<const float *>(from.data);
        float *const copy = reinterpret_cast<float *>(own_ + rank * plan_.own_bytes);
        LineStatistics lines_statistics[kLines];
        for (int64_t k = 0; k < problem_.k; k += kLineRun) {
            const int64_t count = least(kLineRun, problem_.k - k);
            if (depth != 1) {
                for (int64_t c = 0; c < count; ++c)
                    for (int64_t line = 0; line < lines; ++line) copy[line * kLineRun + c] = data[line * width + (k + c) * depth];
            }
            for (int64_t line = 0; line < lines; ++line)
                kernels_.statistics_f32(depth == 1 ? data + line * width + k : copy + line * kLineRun, count, &lines_statistics[line]);
        }
        const Lines &result = rows ? rows_ : columns_;
        for (int64_t line = 0; line < lines; ++line) {
            const LineStatistics &found = lines_statistics[line];
            const double size = found.special ? HUGE_VAL : std::ldexp(std::sqrt(found.squares) * (1 + 0x1p-20), found.exponent);
            result.size[entry * all + first + line] = size;
            result.ratio[entry * all + first + line] = size > 0 ? size / found.last_bit : 0;
        }
    }

    void decide(const Part &part, int64_t entry, int64_t piece, int rank) const {
        Cutter cutter(own_ + rank * plan_.own_bytes);
        cutter.cut<float>(kLines, kLineRun);
        const SumMemory memory = cut_sum_memory(&cutter);
        GemmPlan shape;
        shape.m = problem_.m;
        shape.n = problem_.n;
        shape.k = problem_.k;
        const GemmView view = gemm_view(problem_, shape, part.x, part.y + entry);
        const int64_t begin = piece * kRowsOfPiece, last = least(part.rows, begin + kRowsOfPiece);
        for (int64_t i = begin; i < last; ++i) {
            const double *const sums = sums_ + (entry * part.rows + i) * part.columns;
            const double *const sizes = columns_.size + entry * part.columns, *const ratios = columns_.ratio + entry * part.columns;
            const double size = factor_ * rows_.size[entry * part.rows + i], ratio = rows_.ratio[entry * part.rows + i];
            for (int64_t j = 0; j < part.columns; j += kExactRun) {
                const int64_t count = least(kExactRun, part.columns - j), row = part.row + i, column = part.column + j;
                double low[kExactRun], high[kExactRun], errors[kExactRun];
                float at_low[kExactRun], at_high[kExactRun];
                for (int64_t c = 0; c < count; ++c) {
                    errors[c] = ratio * ratios[j + c] <= 0x1p53 ? 0 : size * sizes[j + c];
                    low[c] = sums[j + c] - errors[c] + 0.0;  // A product of 0 is +0.
                    high[c] = sums[j + c] + errors[c] + 0.0;
                }
                exact_finish(view, end_, row, column, count, low, at_low);
                exact_finish(view, end_, row, column, count, high, at_high);
                uint64_t undecided = 0;
                for (int64_t c = 0; c < count; ++c) {
                    const bool bounded = errors[c] < HUGE_VAL;  // not NaN either
                    const bool same = std::bit_cast<uint32_t>(at_low[c]) == std::bit_cast<uint32_t>(at_high[c]);
                    undecided |= static_cast<uint64_t>(bounded && same ? 0 : 1) << c;
                }
                if (undecided != 0) {
                    exact_sums(view, row, column, undecided, memory, low);
                    for (; undecided != 0; undecided &= undecided - 1) {
                        const int c = std::countr_zero(undecided);
                        exact_finish(view, end_, row, column + c, 1, low + c, at_low + c);
                    }
                }
                exact_store(view, row, column, count, at_low);
            }
        }
    }

    const State &state_;
    const IntervalPlan &plan_;
    const attile_gemm_problem &problem_;
    const ExactKernels<double> &kernels_;
    const ExactEnd end_;
    // 2-norms, and these over the least value of a last bit.
    struct Lines {
        double *size, *ratio;
    };
    double *sums_;
    Lines rows_{}, columns_{};
    char *own_, *product_;
    double factor_ = 0;
};

// Every size of a part that interval_run() has.
template <class Body>
void for_parts(const IntervalPlan &plan, const attile_gemm_problem &problem, Body &&body) {
    for (int64_t x = 0; x < problem.batch[0]; ++x)
        for (int64_t y = 0; y < problem.batch[1]; y += plan.entries)
            for (int64_t row = 0; row < problem.m; row += plan.rows)
                for (int64_t column = 0; column < problem.n; column += plan.columns)
                    body(Part{x, y, least(plan.entries, problem.batch[1] - y), row, least(plan.rows, problem.m - row), column,
                              least(plan.columns, problem.n - column)});
}

}  // namespace

IntervalPlan interval_plan(const State &state, const attile_gemm_problem &original) {
    const attile_gemm_problem problem = untransposed(original);
    IntervalPlan plan;
    const int64_t all = (Size(problem.m) * problem.n).value();
    const bool cut = all > kMostSums;
    plan.rows = cut ? least(problem.m, most(kBlock, kMostSums / most(problem.n, 1))) : problem.m;
    plan.columns = cut ? least(problem.n, most(kBlock, kMostSums / most(plan.rows, 1))) : problem.n;
    plan.entries = cut ? 1 : least(problem.batch[1], most(1, kMostSums / most(all, 1)));
    const double work = 2.0 * static_cast<double>(plan.rows) * static_cast<double>(plan.columns) * static_cast<double>(plan.entries) *
                        static_cast<double>(problem.k + 16);
    plan.threads = work < 2 * kWorkForThread ? 1 : static_cast<int>(least(state.threads, static_cast<int64_t>(work / kWorkForThread)));
    plan.sums_bytes = bytes_for<double>(plan.entries, plan.rows, plan.columns).value();
    plan.lines_bytes =
        (Size(2) * bytes_for<double>(plan.entries, plan.rows) + Size(2) * bytes_for<double>(plan.entries, plan.columns)).value();
    Cutter own(nullptr);
    own.cut<float>(kLines, kLineRun);
    cut_sum_memory(&own);
    plan.own_bytes = own.used();
    // The workspace of a product depends on its extents: the last parts may be smaller and want more.
    const auto consider = [&](int64_t entries, int64_t rows, int64_t columns) {
        const attile_gemm_problem product = product_of(problem, {0, 0, entries, 0, rows, 0, columns}, nullptr);
        plan.product_bytes = most(plan.product_bytes, gemm_plan(state, product).workspace_bytes);
    };
    const auto rest = [](int64_t all_of, int64_t part) { return all_of % part == 0 ? part : all_of % part; };
    for (const int64_t entries : {plan.entries, rest(problem.batch[1], plan.entries)})
        for (const int64_t rows : {plan.rows, rest(problem.m, plan.rows)})
            for (const int64_t columns : {plan.columns, rest(problem.n, plan.columns)}) consider(entries, rows, columns);
    plan.workspace_bytes = (Size(plan.sums_bytes) + plan.lines_bytes + bytes_for<char>(Size(plan.threads).value(), plan.own_bytes) +
                            bytes_for<char>(plan.product_bytes))
                               .value();
    return plan;
}

void interval_run(const State &state, const IntervalPlan &plan, const attile_gemm_problem &original, char *workspace) {
    const attile_gemm_problem problem = untransposed(original);
    Interval interval(state, plan, problem, workspace);
    for_parts(plan, problem, [&](const Part &part) { interval.run(part); });
}

}  // namespace attile::cpu
