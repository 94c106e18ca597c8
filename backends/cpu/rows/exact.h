// SPDX-License-Identifier: Apache-2.0
// reduce, softmax and merge with EXACT_PRODUCTS: what their loops and the kernels of each target agree on. Sums are in fixed point; exp and
// log are steps of float64 (docs/numerics.md), the same bits on every target.
#ifndef ATTILE_CPU_ROWS_EXACT_H
#define ATTILE_CPU_ROWS_EXACT_H

#include <attile/attile_backend.h>

#include <bit>
#include <cstdint>
#include <limits>

#include "element.h"
#include "gemm/exact_sum.h"
#include "rows/rows.h"
#include "size.h"
#include "state.h"

namespace attile::cpu {

inline bool is_exact(const attile_launch &launch) { return (launch.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0; }

// ln 2 in two parts, the first of so few bits that its product with any exponent is exact.
inline constexpr double kStepsLog2e = 0x1.71547652b82fep+0, kStepsLn2High = 0x1.62e4p-1, kStepsLn2Low = 0x1.7f7d1cf79abcap-20;
inline constexpr double kStepsLowest = -746;  // e^x is below half of the least number
constexpr double inverse_factorial(int k) {
    double factorial = 1;
    for (int i = 2; i <= k; ++i) factorial *= i;
    return 1 / factorial;
}

// ln z for z >= 1, which is finite.
double log_by_steps(double z);

template <class T>
struct ExactRowKernels {
    // weights = e^(x - top), in place if weights is x; x is at most top, and may be minus infinity.
    void (*weigh)(const double *x, int64_t count, double top, double *weights);
};
template <class T>
const ExactRowKernels<T> &exact_row_kernels(Target target);

inline constexpr double kNoNumber = -std::numeric_limits<double>::infinity();

// The larger, +0 of zeros of both signs; NaN if either is.
inline double larger(double a, double b) { return a != a || a > b || (a == b && std::bit_cast<int64_t>(b) < 0) ? a : b; }

// What a row has whose largest x, or lse, is not finite: zeros if there is none but minus infinity, else NaN.
inline bool has_weights(double top) { return top - top == 0; }
inline double without_weights(double top) { return top == kNoNumber ? 0 : std::bit_cast<double>(ExactSum::kNan); }

// Every NaN of a result is the one that is quiet, positive and without payload.
inline void store_exact(const attile_operand &x, int64_t offset, double value) {
    store_element<double>(x.data, x.dtype, offset, value != value ? std::bit_cast<double>(ExactSum::kNan) : value);
}

// Up to kExactPiece numbers `stride` apart, whatever the caller's mode takes subnormal numbers for.
inline constexpr int64_t kExactPiece = 512;
void widen_exactly(const attile_operand &x, int64_t offset, int64_t stride, int64_t count, double *to);

// Sums of weights times rows of numbers, element by element.
class WeightedSums {
  public:
    static constexpr int64_t kMost = 16;
    // The elements that follow are added to: at most kMost.
    void add(double weight, const attile_operand &x, int64_t offset, int64_t stride, int64_t count);
    double take(int64_t i) { return sums_[i].take(); }

  private:
    ExactSum sums_[kMost];
};

int32_t exact_reduce_query(const State &state, const attile_reduce_problem &p, attile_support *support);
int32_t exact_reduce_run(State &state, const attile_reduce_problem &p);
int32_t exact_softmax_query(const State &state, const attile_softmax_problem &p, attile_support *support);
int32_t exact_softmax_run(const State &state, const attile_softmax_problem &p);
int32_t exact_merge_query(const State &state, const attile_attention_merge_problem &p, attile_support *support);
int32_t exact_merge_run(State &state, const attile_attention_merge_problem &p);

}  // namespace attile::cpu

#endif  // ATTILE_CPU_ROWS_EXACT_H
