// SPDX-License-Identifier: Apache-2.0
// Exact rows: exp by the steps that define it. None is a fused multiply-add, so that targets without one have the same bits.
#if defined(ATTILE_CPU_ROWS_EXACT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_ROWS_EXACT_INL_H
#undef ATTILE_CPU_ROWS_EXACT_INL_H
#else
#define ATTILE_CPU_ROWS_EXACT_INL_H
#endif

#include "gemm/microkernel-inl.h"  // ATTILE_CPU_UNROLL
#include "rows/exact.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// e^t for t <= 0, which is no NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp_by_steps(D d, hn::Vec<D> t) {
    const hn::RebindToSigned<D> di;
    const auto magic = hn::Set(d, 0x1.8p52);  // what it is added to becomes an integer, in its low bits
    t = hn::Max(t, hn::Set(d, kStepsLowest));
    const auto shifted = hn::Add(hn::Mul(t, hn::Set(d, kStepsLog2e)), magic), n = hn::Sub(shifted, magic);
    const auto r = hn::Sub(hn::Sub(t, hn::Mul(n, hn::Set(d, kStepsLn2High))), hn::Mul(n, hn::Set(d, kStepsLn2Low)));
    auto q = hn::Set(d, inverse_factorial(13));
    ATTILE_CPU_UNROLL
    for (int k = 12; k >= 2; --k) q = hn::Add(hn::Mul(q, r), hn::Set(d, inverse_factorial(k)));
    const auto e = hn::Add(hn::Set(d, 1.0), hn::Add(r, hn::Mul(hn::Mul(r, r), q)));
    // 2^n as two factors, each of which is a normal number: the second product alone may be rounded.
    const auto bias = hn::Set(di, int64_t{1023}), zero = hn::BitCast(di, magic);
    const auto whole = hn::Sub(hn::BitCast(di, shifted), zero);
    const auto half = hn::Sub(hn::BitCast(di, hn::Add(hn::Mul(n, hn::Set(d, 0.5)), magic)), zero);
    const auto first = hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(half, bias)));
    const auto second = hn::BitCast(d, hn::ShiftLeft<52>(hn::Add(hn::Sub(whole, half), bias)));
    return hn::Mul(hn::Mul(e, first), second);
}

void weigh(const double *x, int64_t count, double top, double *weights) {
    const Tag<double> d;
    const auto base = hn::Set(d, top);
    for (int64_t i = 0; i < count; i += kLanes<double>) {
        store_first(d, exp_by_steps(d, hn::Sub(load_first(d, x + i, count - i), base)), weights + i, count - i);
    }
}

template <class T>
const ExactRowKernels<T> &kernels() {
    static constexpr ExactRowKernels<T> kTable = {&weigh};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
