// SPDX-License-Identifier: Apache-2.0
// What a device compiler knows and a host compiler does not, for running the SIMT kernels on the processor: included before everything else
// when their sources are compiled as C++. Each thread of a block is a fibre; a barrier or an exchange between lanes is where fibres switch,
// so a kernel runs with one thread after the other going as far as it can, in an order that can be chosen: missing barriers then show as
// wrong numbers, and barriers that not all threads reach, or lanes that call different functions, as faults.
//
// One block at a time, for which a static variable is shared memory. Device arithmetic is the processor's: a unit in the last place may
// differ.
//
// ATTILE_EMULATED_WAVE is 32, NVIDIA's warp, or 64: two lane groups in lockstep, with the functions for lanes that AMD's compilers have. A
// wave of 64 whose halves have come to different places goes on by halves, and a lane that is elsewhere takes no part, as on the hardware;
// what counts whole waves, block barriers foremost, is a fault there.
#pragma once

#if !defined(ATTILE_EMULATED_WAVE)
#define ATTILE_EMULATED_WAVE 32
#endif

#define ATTILE_GPU_EMULATED 1

#if ATTILE_EMULATED_WAVE == 64
#define ATTILE_GPU_WAVES 1
#endif

#include <math.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>

#define __host__
#define __device__
#define __global__
#define __grid_constant__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))
#define ATTILE_GPU_DYNAMIC_SHARED(name) unsigned char *const name = attile::emulation::dynamic_shared()

namespace attile::emulation {

struct Index {
    uint32_t x = 0, y = 0, z = 0;
};

// What a group of lanes, a wave or the block does together. All must ask for the same.
enum class Meeting { kBlock, kWave, kGroup, kShuffle, kShuffleXor, kBallot, kFirst };

unsigned char *dynamic_shared();
// Each notes the place of the program that it is called from: lanes are together where they are at one place. Clang is told here that a
// place is one; GCC by the options that these files are compiled with.
#if defined(__clang__)
#define ATTILE_ONE_PLACE __attribute__((convergent, noduplicate, nomerge))
#else
#define ATTILE_ONE_PLACE
#endif
ATTILE_ONE_PLACE void meet_block();
ATTILE_ONE_PLACE void meet_group();
// Gives `value` to the group and takes what lane `source` of it gave.
ATTILE_ONE_PLACE uint32_t exchange(Meeting what, uint32_t value, int source);
// Who says yes: bit 0 is the wave's first lane. Of kBallot lanes elsewhere say no; for kWave there must be none.
ATTILE_ONE_PLACE uint64_t ballot(Meeting what, bool yes);
// A value that must be the same in all lanes that ask.
ATTILE_ONE_PLACE uint32_t first_lane(uint32_t value);
int lane();  // Within its group.

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

// Inlined, so that each place of the program calls from an address of its own.
__forceinline__ void __syncthreads() { attile::emulation::meet_block(); }
inline void __threadfence() {}
#if defined(ATTILE_GPU_WAVES)
constexpr int warpSize = ATTILE_EMULATED_WAVE;
inline void __builtin_amdgcn_fence(int, const char *) {}
__forceinline__ void __builtin_amdgcn_wave_barrier() { attile::emulation::meet_group(); }
// Only widths of a lane group are asked for.
__forceinline__ int __shfl(int value, int source, int) {
    return static_cast<int>(attile::emulation::exchange(attile::emulation::Meeting::kShuffle, static_cast<uint32_t>(value), source));
}
__forceinline__ int __shfl_xor(int value, int mask, int) {
    const int source = attile::emulation::lane() ^ mask;
    return static_cast<int>(attile::emulation::exchange(attile::emulation::Meeting::kShuffleXor, static_cast<uint32_t>(value), source));
}
// As the manual has it: within 32 lanes, lane ((i & pattern[4:0]) | pattern[9:5]) ^ pattern[14:10].
__forceinline__ int __builtin_amdgcn_ds_swizzle(int value, int pattern) {
    const int source = ((attile::emulation::lane() & (pattern & 31)) | (pattern >> 5 & 31)) ^ (pattern >> 10 & 31);
    return static_cast<int>(attile::emulation::exchange(attile::emulation::Meeting::kShuffleXor, static_cast<uint32_t>(value), source));
}
__forceinline__ uint64_t __ballot(bool yes) { return attile::emulation::ballot(attile::emulation::Meeting::kBallot, yes); }
__forceinline__ int __any(int yes) { return attile::emulation::ballot(attile::emulation::Meeting::kWave, yes != 0) != 0; }
__forceinline__ int __builtin_amdgcn_readfirstlane(int value) {
    return static_cast<int>(attile::emulation::first_lane(static_cast<uint32_t>(value)));
}
#else
__forceinline__ void __syncwarp() { attile::emulation::meet_group(); }
__forceinline__ uint32_t __shfl_sync(uint32_t, uint32_t value, int source) {
    return attile::emulation::exchange(attile::emulation::Meeting::kShuffle, value, source);
}
__forceinline__ uint32_t __shfl_xor_sync(uint32_t, uint32_t value, int mask) {
    return attile::emulation::exchange(attile::emulation::Meeting::kShuffleXor, value, attile::emulation::lane() ^ mask);
}
__forceinline__ uint32_t __ballot_sync(uint32_t, bool yes) {
    return static_cast<uint32_t>(attile::emulation::ballot(attile::emulation::Meeting::kBallot, yes));
}
__forceinline__ int __any_sync(uint32_t, bool yes) { return attile::emulation::ballot(attile::emulation::Meeting::kBallot, yes) != 0; }
#endif

template <class T>
T __ldg(const T *address) {
    return *address;
}
template <class T>
T __ldcs(const T *address) {
    return *address;
}
template <class T>
T __ldcg(const T *address) {
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
template <class T>
T atomicMax(T *address, T value) {
    const T before = *address;
    if (value > before) *address = value;
    return before;
}
template <class T>
T atomicCAS(T *address, T expected, T value) {
    const T before = *address;
    if (before == expected) *address = value;
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
