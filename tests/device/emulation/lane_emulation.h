// SPDX-License-Identifier: Apache-2.0
// What a device compiler knows and a host compiler does not, for running the SIMT kernels on the processor: included before everything else
// when their sources are compiled as C++. Each thread of a block is a fibre; a barrier or an exchange between lanes is where fibres switch,
// so a kernel runs with one thread after the other going as far as it can, in an order that can be chosen: missing barriers then show as
// wrong numbers, and barriers that not all threads reach, or lanes that call different functions, as faults.
//
// One block at a time, for which a static variable is shared memory. Device arithmetic is the processor's: a unit in the last place may
// differ.
#pragma once

#define ATTILE_SIMT_EMULATED 1

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define ATTILE_SIMT_DYNAMIC_SHARED(name) unsigned char *const name = attile::emulation::dynamic_shared()

namespace attile::emulation {

struct Index {
    uint32_t x = 0, y = 0, z = 0;
};

// What a group of lanes, or the block, does together. All must ask for the same.
enum class Meeting { kBlock, kGroup, kShuffle, kShuffleXor, kBallot };

unsigned char *dynamic_shared();
void meet_block();
void meet_group(Meeting what);
// Gives `value` to the group and takes what lane `source` gave.
uint32_t exchange(Meeting what, uint32_t value, int source);
uint32_t ballot(bool yes);
int lane();

float f16_to_float(uint16_t bits);
uint16_t f16_from_float(float x);

// Kernels are launched by address: this tells how one is called.
using Call = void (*)(const void *kernel, void **arguments);
void know(const void *kernel, Call call);

template <class... Parameters>
struct Caller {
    static void call(const void *kernel, void **arguments) {
        static_assert(sizeof...(Parameters) == 1, "every kernel takes one struct");
        reinterpret_cast<void (*)(Parameters...)>(const_cast<void *>(kernel))(
            *static_cast<std::remove_const_t<Parameters> *>(arguments[0])...);
    }
};
template <class... Parameters>
void know(void (*kernel)(Parameters...)) {
    know(reinterpret_cast<const void *>(kernel), &Caller<Parameters...>::call);
}

}  // namespace attile::emulation

extern attile::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

inline void __syncthreads() { attile::emulation::meet_block(); }
inline void __syncwarp() { attile::emulation::meet_group(attile::emulation::Meeting::kGroup); }
inline void __threadfence() {}
inline uint32_t __shfl_sync(uint32_t, uint32_t value, int source) {
    return attile::emulation::exchange(attile::emulation::Meeting::kShuffle, value, source);
}
inline uint32_t __shfl_xor_sync(uint32_t, uint32_t value, int mask) {
    return attile::emulation::exchange(attile::emulation::Meeting::kShuffleXor, value, attile::emulation::lane() ^ mask);
}
inline uint32_t __ballot_sync(uint32_t, bool yes) { return attile::emulation::ballot(yes); }
inline int __any_sync(uint32_t, bool yes) { return attile::emulation::ballot(yes) != 0; }

template <class T>
T __ldg(const T *address) {
    return *address;
}
template <class T>
T __ldcs(const T *address) {
    return *address;
}
template <class T>
void __stcs(T *address, T value) {
    *address = value;
}
template <class T, class U>
T atomicAdd(T *address, U add) {
    const T before = *address;
    *address = static_cast<T>(before + add);
    return before;
}

struct uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

inline float __uint_as_float(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}
inline uint32_t __float_as_uint(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
    return a < b ? a : b;
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
    return a > b ? a : b;
}
