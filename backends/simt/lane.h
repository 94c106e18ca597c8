// SPDX-License-Identifier: Apache-2.0
// Lanes, with one meaning on every vendor: a lane group is 32 consecutive threads of a block. On NVIDIA it is the warp; a wave of 64 on AMD
// holds two, and every function here stays within its group. All 32 lanes must call, converged, unless it says otherwise.
#pragma once

#if defined(__HIP__) || defined(__HIPCC__)
#define ATTILE_SIMT_HIP 1
#include <hip/hip_runtime.h>  // hipcc has no built-in threadIdx without it.
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#define ATTILE_LANE_FN __device__ __forceinline__

// Before a kernel's name: the threads of a block at most, and the blocks that a unit shall hold at least. AMD's compilers take the first
// alone: there registers are plenty, and the second would mean waves of a SIMD.
#if defined(ATTILE_SIMT_HIP)
#define ATTILE_LAUNCH_BOUNDS(threads, blocks) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#else
#define ATTILE_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, blocks)
#endif
// Declares the block's dynamic shared memory, an array of bytes aligned to 16. tests/device/emulation has its own.
#if !defined(ATTILE_SIMT_DYNAMIC_SHARED)
#define ATTILE_SIMT_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

namespace attile::simt {

inline constexpr int kLanes = 32;

// Kernels that come within a few registers of what a block's size leaves rather fetch less ahead: AMD's compilers would spill.
#if defined(ATTILE_SIMT_HIP)
inline constexpr bool kSparesRegisters = true;
#else
inline constexpr bool kSparesRegisters = false;
#endif

// Number of this thread within its lane group, and of the group within a block of one dimension.
ATTILE_LANE_FN int lane_index() { return static_cast<int>(threadIdx.x % kLanes); }
ATTILE_LANE_FN int lane_group_index() { return static_cast<int>(threadIdx.x / kLanes); }

// Orders the group's shared-memory accesses: what lanes wrote before is seen by all after. Costs no block barrier.
ATTILE_LANE_FN void lane_sync() {
#if defined(ATTILE_SIMT_HIP)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp();
#endif
}

// What these numbers come from is computed here, nothing of it later. AMD's compilers would fetch the operands of a whole unrolled loop
// before they multiply any, and then spill; ptxas does not, and is better left alone. An array counts with all its elements.
template <class T>
ATTILE_LANE_FN void schedule_fence(T &numbers) {
#if defined(ATTILE_SIMT_HIP)
    if constexpr (std::is_array<T>::value) {
#pragma unroll
        for (auto &element : numbers) schedule_fence(element);
    } else {
        asm volatile("" : "+v"(numbers)::"memory");
    }
#else
    static_cast<void>(numbers);
#endif
}

// The bits of one object as another of the same size. HIP's memcpy on the device is a loop over bytes, and what it touches ends up in
// scratch memory.
template <class To, class From>
ATTILE_LANE_FN void copy_bits(To &to, const From &from) {
    static_assert(sizeof(To) == sizeof(From), "as many bits");
#if defined(ATTILE_SIMT_HIP)
    __builtin_memcpy(&to, &from, sizeof to);
#else
    memcpy(&to, &from, sizeof to);
#endif
}

// One of two values. The conditional operator would choose between places where they are in memory, and keep registers from being one.
template <class T>
ATTILE_LANE_FN T pick(bool first, T one, T other) {
    return first ? one : other;
}

// A kernel's one parameter, where it lies. AMD's compilers copy a struct that is indexed at run time into scratch memory first.
template <class Parameter>
ATTILE_LANE_FN const Parameter &kernel_parameter(const Parameter &parameter) {
#if defined(ATTILE_SIMT_HIP)
    static_cast<void>(parameter);  // It lies where this points.
    return *(const Parameter *)__builtin_amdgcn_kernarg_segment_ptr();
#else
    return parameter;
#endif
}

// The barrier of a block of kThreads threads, counted: lane groups may stand at different barriers of the program, as long as every group
// passes as many. (__syncthreads() promises less: there all threads must have come to the same one.)
template <int kThreads>
ATTILE_LANE_FN void block_sync_counted() {
#if defined(ATTILE_SIMT_HIP) || defined(ATTILE_SIMT_EMULATED)
    __syncthreads();  // AMD's barrier counts waves.
#else
    asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
#endif
}

namespace lane_detail {

ATTILE_LANE_FN uint32_t shuffle_word(uint32_t value, int source) {
#if defined(ATTILE_SIMT_HIP)
    return static_cast<uint32_t>(__shfl(static_cast<int>(value), source, kLanes));
#else
    return __shfl_sync(0xffffffffu, value, source);
#endif
}

ATTILE_LANE_FN uint32_t shuffle_xor_word(uint32_t value, int mask) {
#if defined(ATTILE_SIMT_HIP)
    return static_cast<uint32_t>(__shfl_xor(static_cast<int>(value), mask, kLanes));
#else
    return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

}  // namespace lane_detail

// The value that lane `source` (0..31) holds. T has 4 or 8 bytes.
template <class T>
ATTILE_LANE_FN T shuffle(T value, int source) {
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32_t words[sizeof(T) / 4];
    copy_bits(words, value);
    for (uint32_t &word : words) word = lane_detail::shuffle_word(word, source);
    copy_bits(value, words);
    return value;
}

// The value that the lane whose number differs by the bits of `mask` holds. T has 4 or 8 bytes.
template <class T>
ATTILE_LANE_FN T shuffle_xor(T value, int mask) {
    static_assert(sizeof(T) % 4 == 0, "whole words");
    uint32_t words[sizeof(T) / 4];
    copy_bits(words, value);
    for (uint32_t &word : words) word = lane_detail::shuffle_xor_word(word, mask);
    copy_bits(value, words);
    return value;
}

// Bit i is set if lane i says yes.
ATTILE_LANE_FN uint32_t lane_ballot(bool yes) {
#if defined(ATTILE_SIMT_HIP)
    const uint64_t wave = __ballot(yes);
    return static_cast<uint32_t>(wave >> (__lane_id() / kLanes * kLanes));
#else
    return __ballot_sync(0xffffffffu, yes);
#endif
}

ATTILE_LANE_FN bool lane_any(bool yes) {
#if defined(ATTILE_SIMT_HIP)
    return lane_ballot(yes) != 0;
#else
    return __any_sync(0xffffffffu, yes) != 0;
#endif
}

ATTILE_LANE_FN bool lane_all(bool yes) { return !lane_any(!yes); }

// What another block wrote, once it has been published: not what this unit's cache remembers.
template <class T>
ATTILE_LANE_FN T load_fresh(const T *address) {
    return *static_cast<const volatile T *>(address);
}

// Folds `combine` over kWidth neighbouring lanes (a power of two, at most 32); each of them gets the same bits.
template <int kWidth = kLanes, class T, class Combine>
ATTILE_LANE_FN T lane_fold(T value, Combine combine) {
    static_assert(kWidth >= 1 && kWidth <= kLanes && (kWidth & (kWidth - 1)) == 0, "a power of two within the group");
#pragma unroll
    for (int step = kWidth / 2; step > 0; step /= 2) value = combine(value, shuffle_xor(value, step));
    return value;
}

}  // namespace attile::simt
