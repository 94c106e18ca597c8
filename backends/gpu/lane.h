// SPDX-License-Identifier: Apache-2.0
// Lanes, with one meaning on every vendor: a lane group is 32 consecutive threads of a block. On NVIDIA it is the warp; a wave of 64 on AMD
// holds two, and every function here stays within its group. All 32 lanes must call, converged, unless it says otherwise.
#pragma once

#include "compiler.h"

namespace attile::gpu {

inline constexpr int kLanes = 32;

// Number of this thread within its lane group, and of the group within a block of one dimension.
ATTILE_LANE_FN int lane_index() { return static_cast<int>(threadIdx.x % kLanes); }
ATTILE_LANE_FN int lane_group_index() { return static_cast<int>(threadIdx.x / kLanes); }

// Orders the group's shared-memory accesses: what lanes wrote before is seen by all after. Costs no block barrier.
ATTILE_LANE_FN void lane_sync() {
#if defined(ATTILE_GPU_WAVES)
    __builtin_amdgcn_fence(__ATOMIC_ACQ_REL, "wavefront");
    __builtin_amdgcn_wave_barrier();
#else
    __syncwarp();
#endif
}

// Compilers for NVIDIA's GPUs since 7.0, whose threads of a warp may part.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 700
#define ATTILE_GPU_WARPS_MAY_PART
#endif

// The barrier of a block of kThreads threads, counted: lane groups may stand at different barriers of the program, as long as every group
// passes as many. (__syncthreads() promises less: there all threads must have come to the same one.) Waves of 64 pass a barrier whole: a
// branch around one asks wave_all() or wave_any(). kTogether: all come to the same one after all; else compute-sanitizer must not take it
// for one where they have to.
template <int kThreads, bool kTogether>
ATTILE_LANE_FN void block_sync_counted() {
#if defined(ATTILE_GPU_WAVES) || defined(ATTILE_GPU_EMULATED)
    __syncthreads();  // AMD's barrier counts waves.
#elif defined(ATTILE_GPU_WARPS_MAY_PART)
    if (kTogether)
        asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
    else
        asm volatile("barrier.sync 0, %0;" ::"n"(kThreads) : "memory");
#else
    asm volatile("bar.sync 0, %0;" ::"n"(kThreads) : "memory");
#endif
}

namespace lane_detail {

ATTILE_LANE_FN uint32_t shuffle_word(uint32_t value, int source) {
#if defined(ATTILE_GPU_WAVES)
    return static_cast<uint32_t>(__shfl(static_cast<int>(value), source, kLanes));
#else
    return __shfl_sync(0xffffffffu, value, source);
#endif
}

ATTILE_LANE_FN uint32_t shuffle_xor_word(uint32_t value, int mask) {
#if defined(ATTILE_GPU_WAVES)
    // One instruction, without the address that a shuffle by any index needs. The mask is a constant wherever loops are unrolled.
    const int word = static_cast<int>(value);
    switch (mask) {
        case 1:
            return static_cast<uint32_t>(__builtin_amdgcn_ds_swizzle(word, 1 << 10 | 31));
        case 2:
            return static_cast<uint32_t>(__builtin_amdgcn_ds_swizzle(word, 2 << 10 | 31));
        case 4:
            return static_cast<uint32_t>(__builtin_amdgcn_ds_swizzle(word, 4 << 10 | 31));
        case 8:
            return static_cast<uint32_t>(__builtin_amdgcn_ds_swizzle(word, 8 << 10 | 31));
        case 16:
            return static_cast<uint32_t>(__builtin_amdgcn_ds_swizzle(word, 16 << 10 | 31));
        default:
            return static_cast<uint32_t>(__shfl_xor(word, mask, kLanes));
    }
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
#if defined(ATTILE_GPU_WAVES)
    const uint64_t wave = __ballot(yes);
    return static_cast<uint32_t>(wave >> (threadIdx.x & (warpSize - kLanes)));
#else
    return __ballot_sync(0xffffffffu, yes);
#endif
}

ATTILE_LANE_FN bool lane_any(bool yes) {
#if defined(ATTILE_GPU_WAVES)
    return lane_ballot(yes) != 0;
#else
    return __any_sync(0xffffffffu, yes) != 0;
#endif
}

ATTILE_LANE_FN bool lane_all(bool yes) { return !lane_any(!yes); }

// The same of the hardware's wave: one lane group, or two on AMD's GPUs with waves of 64. `yes` is the same in all of a lane group, and all
// of the wave calls, converged.
ATTILE_LANE_FN bool wave_any(bool yes) {
#if defined(ATTILE_GPU_WAVES)
    return __any(yes) != 0;
#else
    return yes;
#endif
}
ATTILE_LANE_FN bool wave_all(bool yes) { return !wave_any(!yes); }

// `yes`, which is the same in all of the wave: a vote tells compilers for NVIDIA's GPUs so. Else they take the warp for parted in all that
// follows a branch on it, and compile what lies around a barrier twice, up to 12 % slower.
ATTILE_LANE_FN bool same_in_wave(bool yes) {
#if defined(ATTILE_GPU_WARPS_MAY_PART)
    return __any_sync(0xffffffffu, yes) != 0;
#else
    return yes;
#endif
}

// What another block wrote, once it has been published: not what this unit's cache remembers.
template <class T>
ATTILE_LANE_FN T load_fresh(const T *address) {
    return *static_cast<const volatile T *>(address);
}

// A value that is the same in all threads of the block, which AMD's compilers cannot know of what is loaded: branches on it then take whole
// waves, and it lives in a register of the wave. T has 4 or 8 bytes.
template <class T>
ATTILE_LANE_FN T same_in_block(T value) {
#if defined(ATTILE_GPU_WAVES)
    static_assert(sizeof(T) % 4 == 0, "whole words");
    int words[sizeof(T) / 4];
    copy_bits(words, value);
    for (int &word : words) word = __builtin_amdgcn_readfirstlane(word);
    copy_bits(value, words);
#endif
    return value;
}

// Folds `combine` over kWidth neighbouring lanes (a power of two, at most 32); each of them gets the same bits.
template <int kWidth = kLanes, class T, class Combine>
ATTILE_LANE_FN T lane_fold(T value, Combine combine) {
    static_assert(kWidth >= 1 && kWidth <= kLanes && (kWidth & (kWidth - 1)) == 0, "a power of two within the group");
#pragma unroll
    for (int step = kWidth / 2; step > 0; step /= 2) value = combine(value, shuffle_xor(value, step));
    return value;
}

}  // namespace attile::gpu
