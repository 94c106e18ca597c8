// SPDX-License-Identifier: Apache-2.0
// Elementary functions of vectors: exponentials for softmax, tanh, erf and the activations.
#if defined(ATTILE_CPU_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef ATTILE_CPU_MATH_INL_H
#undef ATTILE_CPU_MATH_INL_H
#else
#define ATTILE_CPU_MATH_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>

#include <cmath>

#include "cpu_microkernel-inl.h"
#include "cpu_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

// 2^x for x <= 126 (double: 1022), within 2 ulp; results below the normal range are 0; NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp2_clamped(D d, hn::Vec<D> x) {
    using T = hn::TFromD<D>;
    const hn::RebindToSigned<D> di;
    if constexpr (sizeof(T) == 4) {
        x = at_least(d, hn::Set(d, -127.0f), x);
        // Adding 1.5 x 2^23 leaves the nearest integer in the low bits of the sum, adding 127 too makes it an exponent.
        const auto magic = hn::Set(d, 12582912.0f + 127.0f);
        const auto shifted = hn::Add(x, magic);
        const auto f = hn::Sub(x, hn::Sub(shifted, magic));
        // Minimax on [-1/2, 1/2] with the constant fixed to 1; relative error below 2^-28.
        auto p = hn::Set(d, 1.55946782e-4f);
        p = hn::MulAdd(p, f, hn::Set(d, 1.34066439e-3f));
        p = hn::MulAdd(p, f, hn::Set(d, 9.61769297e-3f));
        p = hn::MulAdd(p, f, hn::Set(d, 5.55031055e-2f));
        p = hn::MulAdd(p, f, hn::Set(d, 2.40226528e-1f));
        p = hn::MulAdd(p, f, hn::Set(d, 6.93147215e-1f));
        p = hn::MulAdd(p, f, hn::Set(d, 1.0f));
        const auto exponent = hn::ShiftLeft<23>(hn::BitCast(di, shifted));
        return hn::Mul(p, hn::BitCast(d, exponent));
    } else {
        x = at_least(d, hn::Set(d, -1023.0), x);
        const auto magic = hn::Set(d, 6755399441055744.0 + 1023.0);  // 1.5 x 2^52
        const auto shifted = hn::Add(x, magic);
        const auto f = hn::Sub(x, hn::Sub(shifted, magic));
        // Taylor's series of exp(f ln 2): the first term left out is below 2^-56.
        auto p = hn::Set(d, 2.5678435993488206e-11);
        p = hn::MulAdd(p, f, hn::Set(d, 4.4455382718708116e-10));
        p = hn::MulAdd(p, f, hn::Set(d, 7.054911620801123e-09));
        p = hn::MulAdd(p, f, hn::Set(d, 1.01780860092397e-07));
        p = hn::MulAdd(p, f, hn::Set(d, 1.321548679014431e-06));
        p = hn::MulAdd(p, f, hn::Set(d, 1.5252733804059841e-05));
        p = hn::MulAdd(p, f, hn::Set(d, 0.0001540353039338161));
        p = hn::MulAdd(p, f, hn::Set(d, 0.0013333558146428443));
        p = hn::MulAdd(p, f, hn::Set(d, 0.009618129107628477));
        p = hn::MulAdd(p, f, hn::Set(d, 0.05550410866482158));
        p = hn::MulAdd(p, f, hn::Set(d, 0.24022650695910072));
        p = hn::MulAdd(p, f, hn::Set(d, 0.6931471805599453));
        p = hn::MulAdd(p, f, hn::Set(d, 1.0));
        const auto exponent = hn::ShiftLeft<52>(hn::BitCast(di, shifted));
        return hn::Mul(p, hn::BitCast(d, exponent));
    }
}

// The same for several vectors, step by step side by side: one after the other, a processor's window holds too few of the long chains to
// keep its multipliers busy.
template <int kCount, class D>
HWY_INLINE void exp2_clamped_each(D d, hn::Vec<D> (&x)[kCount]) {
    if constexpr (sizeof(hn::TFromD<D>) == 8) {
        for (int i = 0; i < kCount; ++i) x[i] = exp2_clamped(d, x[i]);
    } else {
        const hn::RebindToSigned<D> di;
        const auto magic = hn::Set(d, 12582912.0f + 127.0f);
        hn::Vec<D> shifted[kCount], p[kCount];
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) x[i] = at_least(d, hn::Set(d, -127.0f), x[i]);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) shifted[i] = hn::Add(x[i], magic);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) p[i] = hn::Sub(shifted[i], magic);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) x[i] = hn::Sub(x[i], p[i]);
        const auto first = hn::Set(d, 1.55946782e-4f);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) p[i] = hn::MulAdd(first, x[i], hn::Set(d, 1.34066439e-3f));
        const auto next = [&](float term) HWY_ATTR {
            const auto constant = hn::Set(d, term);
            ATTILE_CPU_UNROLL
            for (int i = 0; i < kCount; ++i) p[i] = hn::MulAdd(p[i], x[i], constant);
        };
        next(9.61769297e-3f);
        next(5.55031055e-2f);
        next(2.40226528e-1f);
        next(6.93147215e-1f);
        next(1.0f);
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kCount; ++i) x[i] = hn::Mul(p[i], hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(di, shifted[i]))));
    }
}

// e^x over the whole range: infinity above it, subnormals and 0 below, NaN stays NaN.
template <class D>
HWY_INLINE hn::Vec<D> exp_whole(D d, hn::Vec<D> x) {
    using T = hn::TFromD<D>;
    constexpr bool kFloat = sizeof(T) == 4;
    const hn::RebindToSigned<D> di;
    x = at_least(d, hn::Set(d, static_cast<T>(kFloat ? -105.0 : -746.0)), x);
    x = at_most(d, hn::Set(d, static_cast<T>(kFloat ? 89.0 : 710.0)), x);
    // log2 e in two parts, so that the fraction keeps its last bits for large x.
    const auto high = hn::Set(d, static_cast<T>(kFloat ? 0x1.715476p+0 : 0x1.71547652b82fep+0));
    const auto low = hn::Set(d, static_cast<T>(kFloat ? 0x1.4ae0cp-26 : 0x1.777d0ffda0d24p-56));
    const auto magic = hn::Set(d, static_cast<T>(kFloat ? 12582912.0 : 6755399441055744.0));
    const auto shifted = hn::MulAdd(x, high, magic);
    const auto n = hn::Sub(shifted, magic);
    const auto p = exp2_clamped(d, hn::MulAdd(x, low, hn::MulSub(x, high, n)));
    // 2^n as two factors: either alone is in range.
    constexpr int kMantissa = kFloat ? 23 : 52;
    using I = hn::TFromD<decltype(di)>;
    const auto bias = hn::Set(di, static_cast<I>(kFloat ? 127 : 1023));
    const auto whole = hn::Sub(hn::BitCast(di, shifted), hn::BitCast(di, magic));
    const auto half = kFloat
                          ? hn::ShiftRight<1>(whole)
                          : hn::Sub(hn::BitCast(di, hn::Add(hn::Mul(n, hn::Set(d, static_cast<T>(0.5))), magic)), hn::BitCast(di, magic));
    const auto rest = hn::Sub(whole, half);
    const auto first = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::Add(half, bias)));
    const auto second = hn::BitCast(d, hn::ShiftLeft<kMantissa>(hn::Add(rest, bias)));
    return hn::Mul(hn::Mul(p, first), second);
}

// An activation on `count` elements in place.
template <class T>
HWY_NOINLINE void activate(int32_t activation, T *x, int64_t count) {
    const Tag<T> d;
    const auto half = hn::Set(d, static_cast<T>(0.5));
    const auto one = hn::Set(d, T{1});
    if (activation == ATTILE_ACTIVATION_GELU) {
        for (int64_t i = 0; i < count; ++i) x[i] = x[i] / 2 * (1 + std::erf(x[i] * static_cast<T>(0.7071067811865475244)));
        return;
    }
    for (int64_t i = 0; i < count; i += kLanes<T>) {
        const auto v = load_first(d, x + i, count - i);
        auto y = v;
        if (activation == ATTILE_ACTIVATION_RELU) {
            y = hn::IfThenElse(hn::Lt(v, hn::Zero(d)), hn::Zero(d), v);
        } else if (activation == ATTILE_ACTIVATION_GELU_TANH) {
            const auto cubic = hn::MulAdd(hn::Mul(hn::Mul(v, v), v), hn::Set(d, static_cast<T>(0.044715)), v);
            const auto t = hn::Tanh(d, hn::Mul(hn::Set(d, static_cast<T>(0.79788456080286535588)), cubic));
            y = hn::Mul(hn::Mul(half, v), hn::Add(one, t));
        } else {
            const auto e = exp_whole(d, hn::Neg(v));
            y = hn::Div(v, hn::Add(one, e));
        }
        store_first(d, y, x + i, count - i);
    }
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#endif  // include guard per target
