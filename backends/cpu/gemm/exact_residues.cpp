// SPDX-License-Identifier: Apache-2.0
// Exact products of f64 by residues (Ozaki's scheme II, arXiv 2504.08009): rows and columns become integers, their residues by numbers of 8
// bits are multiplied with exact sums, and the sums' residues tell the sum of the integers. What rounding to integers has changed is in the
// interval that is tested. If many elements stay undecided, there are more moduli, and larger integers.
#include <algorithm>
#include <atomic>
#include <cmath>

#include "gemm/exact.h"
#include "gemm/exact_lines.h"
#include "gemm/integer.h"
#include "size.h"

namespace attile::cpu {
namespace {

constexpr int64_t kDepth = 1024, kRun = 256;  // of sums, and of what is made residues of at a time
constexpr int64_t kGroupRows = 96;            // of a piece of the product; kExactRun columns
constexpr int64_t kMostRows = 11 * kGroupRows, kMostColumns = 16 * kExactRun;
constexpr int64_t kMostCopied = int64_t{4} << 20, kCopyRest = 8;
constexpr int kUsualModuli = 20;

// Memory that all threads share.
struct Shared {
    int32_t *a, *b, *start;
    int8_t *sums;  // of pieces, if the depth is cut
    char *redo;    // pieces to do again
    Lines rows, columns;
    double *copy_of_a, *copy_of_b;  // lines, kCopyRest more than their numbers apart
};
Shared cut_shared(const ResiduePlan &plan, Cutter *cutter) {
    Shared shared{};
    shared.a = cutter->cut<int32_t>(plan.a_bytes / 4);
    shared.b = cutter->cut<int32_t>(plan.b_bytes / 4);
    shared.start = cutter->cut<int32_t>(plan.start_bytes / 4);
    shared.sums = cutter->cut<int8_t>(plan.sums_bytes);
    shared.redo = cutter->cut<char>(ceil_div(plan.shape.m, kGroupRows), ceil_div(plan.shape.n, kExactRun));
    for (Lines *lines : {&shared.rows, &shared.columns}) {
        lines->count = lines == &shared.rows ? plan.shape.m : plan.shape.n;
        const int64_t padded = Size(lines->count).rounded_up(kExactRun).value();
        lines->line = cutter->cut<Line>(padded);
        lines->scale = cutter->cut<int64_t>(padded);
        lines->size = cutter->cut<double>(padded);
        lines->error = cutter->cut<double>(padded);
    }
    shared.copy_of_a = cutter->cut<double>(plan.copies_a ? plan.shape.m : 0, (Size(plan.shape.k) + kCopyRest).value());
    shared.copy_of_b = cutter->cut<double>(plan.copies_b ? plan.shape.n : 0, (Size(plan.shape.k) + kCopyRest).value());
    return shared;
}

// And of a thread by itself.
struct Own {
    double *numbers;
    int32_t *pairs;
    int8_t *residues, *sums;
    double *values;
    SumMemory memory;
};
Own cut_own(Cutter *cutter) {
    Own own{};
    own.numbers = cutter->cut<double>(kExactRun, kRun + kCopyRest);
    own.pairs = cutter->cut<int32_t>(kExactRun, kMostPairs, kRun);
    own.residues = cutter->cut<int8_t>(kExactRun, kRun);
    own.sums = cutter->cut<int8_t>(kMostModuli, kGroupRows, kExactRun);
    own.values = cutter->cut<double>(kGroupRows, kExactRun);
    own.memory = cut_sum_memory(cutter);
    return own;
}

}  // namespace

int64_t ResiduePlan::block_rows(int moduli) const {
    const int64_t most_rows = most(1, kMostRows * kUsualModuli / most(moduli, kUsualModuli) / kGroupRows) * kGroupRows;
    return round_up(least(shape.m, most_rows), way->rows);
}
int64_t ResiduePlan::block_columns(int moduli) const {
    const int64_t most_columns = most(1, kMostColumns * kUsualModuli / most(moduli, kUsualModuli) / kExactRun) * kExactRun;
    return round_up(least(shape.n, most_columns), kExactRun);
}

ResiduePlan residue_plan(const State &state, const attile_gemm_problem &problem) {
    ResiduePlan plan;
    plan.way = &integer_way(state.target);
    plan.kernels = &exact_kernels<double>(state.target);
    GemmPlan &shape = plan.shape;
    shape.swapped = problem.d.stride[2] == 1 && problem.d.stride[3] != 1;
    shape.m = shape.swapped ? problem.n : problem.m;
    shape.n = shape.swapped ? problem.m : problem.n;
    shape.k = problem.k;
    shape.batch[0] = problem.batch[0];
    shape.batch[1] = problem.batch[1];
    plan.depth = least(problem.k, kDepth);
    plan.chunks = problem.k == 0 ? 0 : ceil_div(problem.k, plan.depth);
    const int64_t entries = (Size(shape.batch[0]) * shape.batch[1]).value();
    const double work = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) * 3;
    const double shares = work * static_cast<double>(entries) / kWorkForThread;
    plan.threads = shares >= state.threads ? state.threads : shares < 2 ? 1 : static_cast<int>(shares);
    plan.over_batch = entries > 1 && plan.threads > 1 && (entries >= 4 * plan.threads || work < 2 * kWorkForThread);

    const attile_operand &of_a = shape.swapped ? problem.b : problem.a, &of_b = shape.swapped ? problem.a : problem.b;
    plan.copies_a = of_a.stride[shape.swapped ? 2 : 3] != 1 && (Size(shape.m) * shape.k).value() <= kMostCopied;
    plan.copies_b = of_b.stride[shape.swapped ? 3 : 2] != 1 && (Size(shape.n) * shape.k).value() <= kMostCopied;

    const int64_t steps = ceil_div(plan.depth, plan.way->numbers);
    Size a = 0, b = 0, start = 0, sums = 0;
    const auto enlarge = [](Size *size, Size other) { *size = other.value() > size->value() ? other : *size; };
    for (int moduli = 1; moduli <= kMostModuli; ++moduli) {
        const int64_t rows = plan.block_rows(moduli), columns = plan.block_columns(moduli);
        enlarge(&a, bytes_for<int32_t>(moduli, rows, steps));
        enlarge(&b, bytes_for<int32_t>(moduli, columns, steps));
        enlarge(&start, bytes_for<int32_t>(moduli, columns));
        enlarge(&sums, bytes_for<int8_t>(moduli, round_up(rows, kGroupRows), columns));
    }
    plan.a_bytes = a.value();
    plan.b_bytes = b.value();
    plan.start_bytes = start.value();
    plan.sums_bytes = plan.chunks > 1 ? sums.value() : 0;
    Cutter shared(nullptr), own(nullptr);
    cut_shared(plan, &shared);
    cut_own(&own);
    plan.shared_bytes = shared.used();
    plan.private_bytes = own.used();
    plan.workspace_bytes = (Size(plan.over_batch ? plan.threads : 1) * plan.shared_bytes + Size(plan.threads) * plan.private_bytes).value();
    return plan;
}

namespace {

// One product. Threads have a private part of the memory each.
class ResidueProduct {
  public:
    ResidueProduct(const ResiduePlan &plan, const GemmView &view, const ExactEnd &end, char *shared, char *own)
        : plan_(plan), way_(*plan.way), kernels_(*plan.kernels), view_(view), end_(end), own_(own) {
        Cutter cutter(shared);
        shared_ = cut_shared(plan, &cutter);
        for (int64_t i = view.n; i < round_up(view.n, kExactRun); ++i) {  // joined, and not looked at
            columns_.scale[i] = 0;
            columns_.size[i] = columns_.error[i] = 0;
        }
        row_groups_ = ceil_div(view.m, kGroupRows);
        runs_ = ceil_div(view.n, kExactRun);
    }

    void run(int threads) {
        for (int64_t i = 0; i < row_groups_ * runs_; ++i) shared_.redo[i] = 0;
        parallel_in_turn(threads, Loop{ceil_div(view_.m, kExactRun), [this](int64_t unit, int rank) { measure(true, unit, rank); }},
                         Loop{runs_, [this](int64_t unit, int rank) { measure(false, unit, rank); }});
        // From here on the copies are the operands.
        if (plan_.copies_a) view_.a = {shared_.copy_of_a, ATTILE_F64, view_.k + kCopyRest, 1};
        if (plan_.copies_b) view_.b = {shared_.copy_of_b, ATTILE_F64, 1, view_.k + kCopyRest};
        const double a_bits = bits_of(rows_), b_bits = bits_of(columns_);
        const bool fixed = plan_.fixed_moduli > 0;
        const double usual = fixed ? 1 : usual_bits(rows_, columns_, view_.k);
        const int first = choose(a_bits, b_bits, usual);
        last_ = std::fmin(a_bits, usual) + std::fmin(b_bits, usual) + 8 > std::fmin(a_bits, kMostBits) + std::fmin(b_bits, kMostBits);
        last_ = last_ || fixed || first == kMostModuli;
        multiply(threads);
        if (to_redo_.load(std::memory_order_relaxed) == 0) return;
        choose(a_bits, b_bits, usual + kMoreBits);
        last_ = again_ = true;
        multiply(threads);
    }

  private:
    // Moduli and scales, for norms of so many bits at most where rows and columns have to be rounded.
    int choose(double a_bits, double b_bits, double limit) {
        limit = std::fmin(limit, kMostBits);
        double a = std::fmin(a_bits, limit), b = std::fmin(b_bits, limit);
        const int moduli = plan_.fixed_moduli > 0 ? plan_.fixed_moduli : moduli_for(a + b);
        const double rest = exact_bits(moduli) - kBitsBelowModulus - a - b;
        const bool a_rounds = a < a_bits, b_rounds = b < b_bits;
        if (a_rounds) a = std::fmin(a + (b_rounds ? rest / 2 : rest), kMostBits);
        if (b_rounds) b = std::fmin(b + (a_rounds ? rest / 2 : rest), kMostBits);
        choose_scales(a, view_.k, &rows_);
        choose_scales(b, view_.k, &columns_);
        if (plan_.fixed_moduli > 0) {
            rows_.forget_rounding();
            columns_.forget_rounding();
        }
        weights_ = exact_weights(moduli);
        for (int i = 0; i < moduli; ++i) {
            modulus_[i] = exact_modulus(i);
            exact_digit_weights(modulus_[i], rows_.words, digits_[0][i]);
            exact_digit_weights(modulus_[i], columns_.words, digits_[1][i]);
        }
        return moduli;
    }

    Own own(int rank) const {
        Cutter cutter(own_ + rank * plan_.private_bytes);
        return cut_own(&cutter);
    }

    // Numbers of some lines from `first` on, `step` from line to line: where they are, or copied, with the step that was given.
    const double *numbers(bool of_a, int64_t first, int64_t lines, int64_t k, int64_t count, double *copy, int64_t *step) const {
        const MatrixView &x = of_a ? view_.a : view_.b;
        const int64_t width = of_a ? x.row : x.column, depth = of_a ? x.column : x.row;
        const double *const from = static_cast<const double *>(x.data) + first * width + k * depth;
        if (depth == 1) {
            *step = width;
            return from;
        }
        constexpr int64_t kSquare = 8;
        for (int64_t c = 0; c < count; c += kSquare) {
            const int64_t some = least(kSquare, count - c);
            for (int64_t line = 0; line < lines; ++line)
                for (int64_t i = 0; i < some; ++i) copy[line * *step + c + i] = from[line * width + (c + i) * depth];
        }
        return copy;
    }

    void measure(bool of_a, int64_t unit, int rank) const {
        const Lines &all = of_a ? rows_ : columns_;
        const int64_t first = unit * kExactRun, lines = least(kExactRun, all.count - first);
        for (int64_t i = 0; i < lines; ++i) all.line[first + i] = {};
        for (int64_t k = 0; k < view_.k; k += kRun) {
            const int64_t count = least(kRun, view_.k - k);
            const bool copies = of_a ? plan_.copies_a : plan_.copies_b;
            int64_t step = copies ? view_.k + kCopyRest : kRun + kCopyRest;
            double *const copy = copies ? (of_a ? shared_.copy_of_a : shared_.copy_of_b) + first * step + k : own(rank).numbers;
            const double *const x = numbers(of_a, first, lines, k, count, copy, &step);
            for (int64_t i = 0; i < lines; ++i) kernels_.statistics(x + i * step, count, &all.line[first + i].found);
        }
        for (int64_t i = 0; i < lines; ++i) {
            Line &line = all.line[first + i];
            if (line.found.special || line.found.last_bit == 0) continue;
            line.bits = line.found.exponent + std::log2(line.found.squares) / 2;
            line.needed = line.bits - std::ilogb(line.found.last_bit) + 1e-6;
        }
    }

    // Residues of `lines` rows of a or columns of b by every modulus, in panels of `width` lines.
    void pack(bool of_a, int64_t first, int64_t lines, int64_t k0, int64_t depth, int64_t width, int32_t *panels, int64_t modulus_step,
              int rank) const {
        const Lines &all = of_a ? rows_ : columns_;
        const Own mine = own(rank);
        const int64_t pair_step = kRun, line_step = kMostPairs * kRun, places = steps_ * width;
        for (int64_t k = 0; k < depth; k += kRun) {
            const int64_t count = least(kRun, depth - k);
            int64_t step = kRun + kCopyRest;
            const double *const x = numbers(of_a, first, lines, k0 + k, count, mine.numbers, &step);
            for (int64_t i = 0; i < lines; ++i) {
                int32_t *const pairs = mine.pairs + i * line_step;
                if (all.line[first + i].found.special) {
                    std::fill(pairs, pairs + line_step, 0);
                    continue;
                }
                const int scale = static_cast<int>(all.scale[first + i]), half = scale / 2;
                const double changes =
                    kernels_.digits(x + i * step, count, std::ldexp(1.0, half), std::ldexp(1.0, scale - half), all.words, pairs, pair_step);
                Line &line = all.line[first + i];
                if (!line.rounds) continue;
                line.changes = k0 + k == 0 ? changes : line.changes + changes;
                all.error[first + i] = std::sqrt(line.changes) * (1 + 0x1p-20) + kUnderflown;
            }
            for (int m = 0; m < weights_.moduli; ++m) {
                for (int64_t i = 0; i < lines; ++i)
                    kernels_.residues(mine.pairs + i * line_step, pair_step, count, all.words, digits_[of_a ? 0 : 1][m], modulus_[m],
                                      mine.residues + i * kRun);
                int32_t *panel = panels + m * modulus_step + k / way_.numbers * width;
                for (int64_t i = 0; i < lines; i += width, panel += places)
                    way_.pack(mine.residues + i * kRun, kRun, 1, least(width, lines - i), count, panel, width);
            }
        }
    }

    void pack_a(int64_t i0, int64_t rows, int64_t unit, int64_t k0, int64_t depth, int rank) const {
        const int64_t width = way_.rows, unit_lines = kRowsOfUnit / width * width, first = unit * unit_lines;
        const int64_t lines = least(unit_lines, rows - first), places = steps_ * width, panels = ceil_div(lines, width);
        int32_t *const base = shared_.a + first / width * places;
        pack(true, i0 + first, lines, k0, depth, width, base, a_step_, rank);
        for (int m = 0; m < weights_.moduli; ++m)
            for (int64_t p = 0; p < panels; ++p) way_.make_thin(base + m * a_step_ + p * places, ceil_div(depth, way_.numbers) * width);
    }

    void pack_b(int64_t j0, int64_t columns, int64_t unit, int64_t k0, int64_t depth, int rank) const {
        const int64_t width = way_.columns, first = unit * kExactRun, lines = least(kExactRun, columns - first);
        const int64_t places = steps_ * width, panels = ceil_div(lines, width);
        int32_t *const base = shared_.b + first / width * places;
        pack(false, j0 + first, lines, k0, depth, width, base, b_step_, rank);
        for (int m = 0; m < weights_.moduli; ++m)
            for (int64_t p = 0; p < panels; ++p)
                way_.begin(ceil_div(depth, way_.numbers), base + m * b_step_ + p * places,
                           shared_.start + m * start_step_ + first + p * width);
    }

    // All blocks of d; the second time those with something to do again.
    void multiply(int threads) {
        const int64_t most_rows = plan_.block_rows(weights_.moduli), most_columns = plan_.block_columns(weights_.moduli);
        steps_ = ceil_div(plan_.depth, way_.numbers);
        a_step_ = round_up(most_rows, way_.rows) * steps_;
        b_step_ = most_columns * steps_;
        start_step_ = most_columns;
        int64_t packed_rows = -1, packed_columns = -1;
        for (int64_t i0 = 0; i0 < view_.m; i0 += most_rows)
            for (int64_t j0 = 0; j0 < view_.n; j0 += most_columns) {
                const int64_t rows = least(most_rows, view_.m - i0), columns = least(most_columns, view_.n - j0);
                if (again_ && !any_to_redo(i0, rows, j0, columns)) continue;
                for (int64_t chunk = 0; chunk < plan_.chunks; ++chunk) {
                    const int64_t k0 = chunk * plan_.depth, depth = least(plan_.depth, view_.k - k0);
                    const int64_t a_units = ceil_div(rows, kRowsOfUnit / way_.rows * way_.rows), b_units = ceil_div(columns, kExactRun);
                    const int64_t pieces = ceil_div(rows, kGroupRows) * b_units;
                    const bool has_a = plan_.chunks == 1 && packed_rows == i0, has_b = plan_.chunks == 1 && packed_columns == j0;
                    parallel_in_turn(
                        threads, Loop{has_a ? 0 : a_units, [&](int64_t unit, int rank) { pack_a(i0, rows, unit, k0, depth, rank); }},
                        Loop{has_b ? 0 : b_units, [&](int64_t unit, int rank) { pack_b(j0, columns, unit, k0, depth, rank); }},
                        Loop{pieces, [&](int64_t piece, int rank) { multiply_piece(i0, rows, j0, columns, piece, chunk, depth, rank); }});
                }
                packed_rows = i0;
                packed_columns = j0;
            }
    }

    bool any_to_redo(int64_t i0, int64_t rows, int64_t j0, int64_t columns) const {
        for (int64_t i = i0; i < i0 + rows; i += kGroupRows)
            for (int64_t j = j0; j < j0 + columns; j += kExactRun)
                if (shared_.redo[i / kGroupRows * runs_ + j / kExactRun] != 0) return true;
        return false;
    }

    void multiply_piece(int64_t i0, int64_t rows, int64_t j0, int64_t columns, int64_t piece, int64_t chunk, int64_t depth, int rank) {
        const int64_t runs = ceil_div(columns, kExactRun), i = piece / runs * kGroupRows, j = piece % runs * kExactRun;
        if (again_ && shared_.redo[(i0 + i) / kGroupRows * runs_ + (j0 + j) / kExactRun] == 0) return;
        const Own mine = own(rank);
        constexpr int64_t kPiece = kGroupRows * kExactRun;
        int8_t *const residues = plan_.chunks == 1 ? mine.sums : shared_.sums + piece * weights_.moduli * kPiece;
        const int64_t piece_rows = least(kGroupRows, rows - i), piece_columns = least(kExactRun, columns - j);
        const int64_t steps = ceil_div(depth, way_.numbers);
        for (int m = 0; m < weights_.moduli; ++m)
            for (int64_t r = 0; r < piece_rows; r += way_.rows)
                for (int64_t c = 0; c < piece_columns; c += way_.columns) {
                    alignas(64) int32_t tile[kMostTile];
                    const int64_t tile_rows = least(way_.rows, piece_rows - r);
                    way_.tile(tile_rows, steps, shared_.a + m * a_step_ + (i + r) * steps_, shared_.b + m * b_step_ + (j + c) * steps_,
                              shared_.start + m * start_step_ + j + c, tile);
                    int8_t *const to = residues + m * kPiece + r * kExactRun + c;
                    if (way_.columns == kExactRun) {
                        kernels_.reduce(tile, tile_rows * kExactRun, modulus_[m], chunk == 0 ? nullptr : to, to);
                    } else {
                        for (int64_t t = 0; t < tile_rows; ++t)
                            kernels_.reduce(tile + t * way_.columns, way_.columns, modulus_[m], chunk == 0 ? nullptr : to + t * kExactRun,
                                            to + t * kExactRun);
                    }
                }
        if (chunk + 1 == plan_.chunks) finish(i0 + i, piece_rows, j0 + j, piece_columns, residues, mine.values, mine.memory);
    }

    void finish(int64_t i, int64_t rows, int64_t j, int64_t columns, const int8_t *residues, double *values, const SumMemory &memory) {
        uint64_t masks[kGroupRows];
        int64_t undecided = 0;
        ExactRow row{columns, residues, kGroupRows * kExactRun, 0, columns_.scale + j, 0, 0, columns_.size + j, columns_.error + j};
        for (int64_t r = 0; r < rows; ++r, row.residues += kExactRun) {
            row.row_scale = rows_.scale[i + r];
            row.row_size = rows_.size[i + r];
            row.row_error = rows_.error[i + r];
            masks[r] = kernels_.join(weights_, row, values + r * kExactRun);
            undecided += std::popcount(masks[r]);
        }
        if (!last_ && undecided * kShareToRedo > rows * columns) {
            shared_.redo[i / kGroupRows * runs_ + j / kExactRun] = 1;
            to_redo_.fetch_add(1, std::memory_order_relaxed);
            return;
        }
        double results[kExactRun];
        const bool plain = end_.alpha == 1 && view_.beta == 0 && view_.bias.data == nullptr && !end_.relu;
        for (int64_t r = 0; r < rows; ++r) {
            double *const sums = values + r * kExactRun;
            if (masks[r] != 0) exact_sums(view_, i + r, j, masks[r], memory, sums);
            if (plain) {
                exact_store(view_, i + r, j, columns, sums);
                continue;
            }
            exact_finish(view_, end_, i + r, j, columns, sums, results);
            exact_store(view_, i + r, j, columns, results);
        }
    }

    static constexpr int64_t kShareToRedo = 32, kRowsOfUnit = 48;

    const ResiduePlan &plan_;
    const IntegerWay &way_;
    const ExactKernels<double> &kernels_;
    GemmView view_;
    const ExactEnd &end_;
    char *const own_;
    Shared shared_{};
    Lines &rows_ = shared_.rows, &columns_ = shared_.columns;
    int64_t row_groups_, runs_;
    ExactWeights weights_;
    ExactModulus modulus_[kMostModuli];
    int32_t digits_[2][kMostModuli][kMostPairs];  // weights of digits, of a's and of b's numbers
    int64_t steps_ = 0, a_step_ = 0, b_step_ = 0, start_step_ = 0;
    std::atomic<int64_t> to_redo_{0};
    bool last_ = false, again_ = false;  // no more moduli after these; only what is to be done again
};

}  // namespace

void residue_run(const ResiduePlan &plan, const attile_gemm_problem &problem, char *workspace) {
    const ExactEnd end(problem);
    const int64_t entries = plan.shape.batch[0] * plan.shape.batch[1];
    const auto entry_of = [&](int64_t entry, int threads, char *shared, char *own) {
        const GemmView view = gemm_view(problem, plan.shape, entry / plan.shape.batch[1], entry % plan.shape.batch[1]);
        ResidueProduct(plan, view, end, shared, own).run(threads);
    };
    if (plan.over_batch) {
        parallel_for(plan.threads, entries, [&](int64_t entry, int rank) {
            char *const shared = workspace + rank * (plan.shared_bytes + plan.private_bytes);
            entry_of(entry, 1, shared, shared + plan.shared_bytes);
        });
        return;
    }
    for (int64_t entry = 0; entry < entries; ++entry) entry_of(entry, plan.threads, workspace, workspace + plan.shared_bytes);
}

}  // namespace attile::cpu
