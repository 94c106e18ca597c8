// SPDX-License-Identifier: Apache-2.0
// Chains of multiply-adds and sums over memory, compiled once per target.
#include "targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "roof_kernels.cpp"
#include <hwy/foreach_target.h>

#include "gemm/microkernel-inl.h"
#include "roof.h"
#include "simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace attile::cpu {
namespace HWY_NAMESPACE {
#if HWY_TARGET != HWY_SCALAR

template <class T>
double multiply_add(int64_t rounds) {
    // Enough chains for the latency of two units; with their factor and term they fit the registers of every target.
    constexpr int kChains = 12;
    const Tag<T> d;
    const Vec<T> factor = hn::Set(d, static_cast<T>(0.5)), term = hn::Set(d, static_cast<T>(1));
    Vec<T> acc[kChains];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kChains; ++i) acc[i] = hn::Set(d, static_cast<T>(i));
    for (int64_t round = 0; round < rounds; ++round) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kChains; ++i) acc[i] = hn::MulAdd(acc[i], factor, term);
    }
    ATTILE_CPU_UNROLL
    for (int i = 1; i < kChains; ++i) acc[0] = hn::Add(acc[0], acc[i]);
    // The chains end near 2 each: the product is the count of operations, and they cannot be left out.
    const double end = static_cast<double>(hn::GetLane(acc[0]));
    return end > 0 ? static_cast<double>(rounds) * (2 * kChains * kLanes<T>) : 0;
}

uint64_t read_all(const char *memory, int64_t bytes) {
    constexpr int kStreams = 8;
    const Tag<uint64_t> d;
    const uint64_t *p = reinterpret_cast<const uint64_t *>(memory);
    Vec<uint64_t> sum[kStreams];
    ATTILE_CPU_UNROLL
    for (int i = 0; i < kStreams; ++i) sum[i] = hn::Zero(d);
    for (const uint64_t *end = p + bytes / 8; p < end; p += kStreams * kLanes<uint64_t>) {
        ATTILE_CPU_UNROLL
        for (int i = 0; i < kStreams; ++i) sum[i] = hn::Add(sum[i], hn::LoadU(d, p + i * kLanes<uint64_t>));
    }
    ATTILE_CPU_UNROLL
    for (int i = 1; i < kStreams; ++i) sum[0] = hn::Add(sum[0], sum[i]);
    // Lane by lane: GCC's own sum of a vector adds signed numbers, at whose overflow UBSan stops.
    HWY_ALIGN uint64_t lanes[static_cast<size_t>(kLanes<uint64_t>)];
    hn::Store(sum[0], d, lanes);
    uint64_t all = 0;
    for (const uint64_t lane : lanes) all += lane;
    return all;
}

const RoofKernels &roof() {
    static constexpr RoofKernels kTable = {&multiply_add<float>, &multiply_add<double>, &read_all};
    return kTable;
}

#endif  // HWY_TARGET != HWY_SCALAR
}  // namespace HWY_NAMESPACE
}  // namespace attile::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "dispatch.h"
namespace attile::cpu {
ATTILE_CPU_DISPATCH(const RoofKernels &roof_kernels, roof)
}  // namespace attile::cpu
#endif  // HWY_ONCE
