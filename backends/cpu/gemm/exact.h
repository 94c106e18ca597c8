// SPDX-License-Identifier: Apache-2.0
// Exact products: what the loops (gemm/exact.cpp, gemm/exact_residues.cpp) and the kernels of each target (gemm/exact-inl.h) agree on.
//
// Every way computes an interval that the exact sum lies in. Where both ends round to the same number, that is the result (Ziv's test); the
// elements that stay undecided are summed by ExactSum. So what is chosen here, and from what, decides no bit.
#ifndef ATTILE_CPU_EXACT_H
#define ATTILE_CPU_EXACT_H

#include <cstdint>

#include "gemm/gemm.h"
#include "size.h"

namespace attile::cpu {

// Of the numbers of a row of a, or of a column of b.
struct LineStatistics {
    bool special = false;  // NaN or infinity is among them
    int exponent = 0;      // of the largest number, by which the squares are scaled; of no meaning without one other than 0
    double squares = 0;    // their sum, over 4^exponent
    double last_bit = 0;   // the least of the values of last bits; 0: all numbers are 0
};

// One modulus: numbers become residues from -p/2 to p/2.
struct ExactModulus {
    int32_t p;
    float inverse;
};

// A number of the interpolation, in limbs of kLimbBits.
constexpr int kLimbBits = 40, kMostLimbs = 6;
constexpr int kMostModuli = 31;
// What the residues of one element are put together by: sum of residue times weight, modulo the product of the moduli.
struct ExactWeights {
    int moduli, limbs;
    double weight[kMostModuli][kMostLimbs];  // lowest limb first
    double modulus[kMostLimbs];              // the product
    double inverse;                          // 2^(kLimbBits (limbs - 1)) over the product
};

// A row of elements.
struct ExactRow {
    int64_t count;
    const int8_t *residues;  // of the first modulus
    int64_t modulus_step;    // from one modulus to the next
    int64_t row_scale;       // the row's numbers were multiplied by 2 to this
    const int64_t *column_scales;
    double row_size, row_error;  // 2-norms: of the row of integers, of what rounding it has changed
    const double *column_sizes, *column_errors;
};

constexpr int64_t kExactRun = 64;  // elements of a row that a mask of 64 bits tells of

// Integers up to 2^kWordBits in a word, of which up to three make a number; three digits of 15 bits each.
constexpr int kWordBits = 45, kMostWords = 3, kMostPairs = 5;
constexpr int pairs_of(int words) { return words == 1 ? 2 : words == 2 ? 3 : 5; }

template <class T>
struct ExactKernels {
    // Adds `count` numbers side by side to what is known.
    void (*statistics)(const double *numbers, int64_t count, LineStatistics *line);
    void (*statistics_f32)(const float *numbers, int64_t count, LineStatistics *line);
    // Pairs of digits, each pair `step` after the last, of numbers times first times second, rounded; returns the sum of the squares of
    // what rounding has changed, but for numbers of which these underflow.
    double (*digits)(const double *numbers, int64_t count, double first, double second, int words, int32_t *pairs, int64_t step);
    // Residues by one modulus, from pairs of digits; weights: 2^(15 i) modulo p in the order of the pairs.
    void (*residues)(const int32_t *pairs, int64_t step, int64_t count, int words, const int32_t *weights, const ExactModulus &modulus,
                     int8_t *residues);
    // Residues of `count` sums; those before are added unless NULL, and may be the result's.
    void (*reduce)(const int32_t *sums, int64_t count, const ExactModulus &modulus, const int8_t *before, int8_t *residues);
    // Up to kExactRun elements; returns which of them are undecided. Their values are of no meaning.
    uint64_t (*join)(const ExactWeights &weights, const ExactRow &row, double *values);
};
template <class T>
const ExactKernels<T> &exact_kernels(Target target);

// What becomes of sums: each step is rounded by itself.
struct ExactEnd {
    explicit ExactEnd(const attile_gemm_problem &problem)
        : alpha(problem.alpha), has_product(problem.k > 0), relu(problem.activation == ATTILE_ACTIVATION_RELU) {}
    double alpha;
    bool has_product, relu;
};
// Of up to kExactRun elements of a row, in the type of d.
template <class T>
void exact_finish(const GemmView &view, const ExactEnd &end, int64_t i, int64_t j, int64_t count, const double *sums, T *results);
template <class T>
void exact_store(const GemmView &view, int64_t i, int64_t j, int64_t count, const T *results);

// Elements summed in fixed point: those of a run that the mask names. The memory is a thread's own.
class ExactSum;
constexpr int64_t kSumRun = 256, kSumStep = kSumRun + 8;  // numbers at a time, and from column to column of b's
struct SumMemory {
    ExactSum *sums;
    double *numbers;
};
SumMemory cut_sum_memory(Cutter *cutter);
void exact_sums(const GemmView &view, int64_t i, int64_t j, uint64_t mask, const SumMemory &memory, double *sums);

// What an approximate product in float64 leaves open: of f32.
struct IntervalPlan {
    GemmPlan shape;                 // swapped, m, n, k, batch
    int64_t rows = 0, columns = 0;  // of d that are computed together
    int64_t entries = 0;            // likewise, if they are all of d
    int64_t sums_bytes = 0, lines_bytes = 0, own_bytes = 0, product_bytes = 0, workspace_bytes = 0;
    int threads = 1;
};
IntervalPlan interval_plan(const State &state, const attile_gemm_problem &problem);
void interval_run(const State &state, const IntervalPlan &plan, const attile_gemm_problem &problem, char *workspace);

// Residues: of f64.
struct ResiduePlan {
    const struct IntegerWay *way = nullptr;
    const ExactKernels<double> *kernels = nullptr;
    GemmPlan shape;
    bool over_batch = false;        // threads take batch entries
    int64_t depth = 0, chunks = 0;  // of sums in int32
    int64_t a_bytes = 0, b_bytes = 0, start_bytes = 0, sums_bytes = 0;
    bool copies_a = false, copies_b = false;  // rows of a, columns of b that are not contiguous
    int64_t shared_bytes = 0, private_bytes = 0, workspace_bytes = 0;
    int threads = 1;
    int fixed_moduli = 0;  // of a benchmark: so many, whatever that leaves out; results are what residues are put together to

    // Of d that are computed together: the more moduli, the fewer.
    int64_t block_rows(int moduli) const;
    int64_t block_columns(int moduli) const;
};
ResiduePlan residue_plan(const State &state, const attile_gemm_problem &problem);
void residue_run(const ResiduePlan &plan, const attile_gemm_problem &problem, char *workspace);

// The first kMostModuli pairwise coprime numbers up to 256, largest first, and log2 of the product of so many.
ExactModulus exact_modulus(int index);
double exact_bits(int moduli);
ExactWeights exact_weights(int moduli);
// The digits' places in the order of their pairs, modulo p.
void exact_digit_weights(const ExactModulus &modulus, int words, int32_t (&weights)[kMostPairs]);

void exact_query(const State &state, const attile_gemm_problem &problem, attile_support *support);
int32_t exact_run(State &state, const attile_gemm_problem &problem);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_EXACT_H
