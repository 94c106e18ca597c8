// SPDX-License-Identifier: Apache-2.0
// How kernels are declared for each compiler, and what a compiler has to be told so that what a kernel holds stays in registers. Where it
// says AMD's compilers, Debian's clang 15 was seen to want it (tests/budget). A vendor's own declarations come from its compiler: nvcc has
// them built in, and backends/hip has hipcc include its header before each file.
#pragma once

#if defined(__HIP__) || defined(__HIPCC__)
#define ATTILE_GPU_HIP 1
#define ATTILE_GPU_WAVES 1  // Lanes come in waves of 32 or 64, with AMD's instructions for them; tests/device/emulation has some, too.
#endif

#include <cstdint>
#include <cstring>
#include <type_traits>

#define ATTILE_LANE_FN __device__ __forceinline__

// Before a kernel's name: the threads of a block at most, and the blocks that a unit shall hold at least. AMD's compilers take the first
// alone: there registers are plenty, and the second would mean waves of a SIMD. NVIDIA's are told no more blocks than the architecture
// holds: ptxas warns of more, and takes none of it.
#if defined(ATTILE_GPU_HIP)
#define ATTILE_LAUNCH_BOUNDS(threads, blocks) __attribute__((amdgpu_flat_work_group_size(1, threads)))
#else
#define ATTILE_LAUNCH_BOUNDS(threads, blocks) __launch_bounds__(threads, attile::gpu::resident_blocks(threads, blocks))
#endif
// Declares the block's dynamic shared memory, an array of bytes aligned to 16. tests/device/emulation has its own.
#if !defined(ATTILE_GPU_DYNAMIC_SHARED)
#define ATTILE_GPU_DYNAMIC_SHARED(name) extern __shared__ __align__(16) unsigned char name[]
#endif

namespace attile::gpu {

// Of `blocks` blocks of so many threads those that a multiprocessor of the architecture at hand can hold.
constexpr int resident_blocks(int threads, int blocks) {
#if !defined(__CUDA_ARCH__)
    constexpr int kThreads = 2048, kBlocks = 32;
#elif __CUDA_ARCH__ == 750
    constexpr int kThreads = 1024, kBlocks = 16;
#elif __CUDA_ARCH__ == 860 || __CUDA_ARCH__ == 870 || __CUDA_ARCH__ == 880
    constexpr int kThreads = 1536, kBlocks = 16;
#elif __CUDA_ARCH__ == 890 || __CUDA_ARCH__ >= 1100
    constexpr int kThreads = 1536, kBlocks = 24;
#else
    constexpr int kThreads = 2048, kBlocks = 32;
#endif
    const int held = kThreads / threads < kBlocks ? kThreads / threads : kBlocks;
    return blocks < held ? blocks : held;
}

// Kernels that come within a few registers of what a block's size leaves rather fetch less ahead: AMD's compilers would spill.
#if defined(ATTILE_GPU_WAVES)
inline constexpr bool kSparesRegisters = true;
#else
inline constexpr bool kSparesRegisters = false;
#endif

// What these numbers come from is computed here, nothing of it later. AMD's compilers would fetch the operands of a whole unrolled loop
// before they multiply any, and then spill; ptxas does not, and is better left alone. An array counts with all its elements.
template <class T>
ATTILE_LANE_FN void schedule_fence(T &numbers) {
#if defined(ATTILE_GPU_HIP)
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
#if defined(ATTILE_GPU_HIP)
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
#if defined(ATTILE_GPU_HIP)
    static_cast<void>(parameter);
    return *(const Parameter *)__builtin_amdgcn_kernarg_segment_ptr();
#else
    return parameter;
#endif
}

// A value, the same in all of the block, of which the compiler knows nothing: what is computed from it is not shared between places of use,
// so it need not be kept in registers from one to the next.
ATTILE_LANE_FN uint32_t fresh(uint32_t value) {
#if defined(ATTILE_GPU_HIP)
    asm volatile("" : "+s"(value));
#else
    asm volatile("" : "+r"(value));
#endif
    return value;
}
// One that may differ from lane to lane.
ATTILE_LANE_FN int fresh_of_lane(int value) {
#if defined(ATTILE_GPU_HIP)
    asm volatile("" : "+v"(value));
#else
    asm volatile("" : "+r"(value));
#endif
    return value;
}
ATTILE_LANE_FN float fresh(float value) {
#if defined(ATTILE_GPU_HIP)
    asm volatile("" : "+v"(value));
#elif !defined(ATTILE_GPU_EMULATED)
    asm volatile("" : "+f"(value));
#endif
    return value;
}

// A pointer into shared memory, for members of structs. Of a plain one AMD's compilers would learn too late where it points, and keep two
// registers for each address that they compute from it.
template <class T>
class SharedPointer {
  public:
#if defined(ATTILE_GPU_HIP)
    ATTILE_LANE_FN SharedPointer(T *pointer) : pointer_((Pointer)pointer) {}
    ATTILE_LANE_FN operator T *() const { return (T *)pointer_; }
    // The address of an element, which constants are to be added to. AMD's compilers would add them to the part that all lanes have in
    // common, and keep a register for each sum, where an instruction has room for the constant.
    ATTILE_LANE_FN T *at(int index) const {
        Pointer pointer = pointer_ + index;
        asm("" : "+v"(pointer));
        return (T *)pointer;
    }

  private:
    using Pointer = __attribute__((address_space(3))) T *;
#else
    ATTILE_LANE_FN SharedPointer(T *pointer) : pointer_(pointer) {}
    ATTILE_LANE_FN operator T *() const { return pointer_; }
    ATTILE_LANE_FN T *at(int index) const { return pointer_ + index; }

  private:
    using Pointer = T *;
#endif
    Pointer pointer_;
};

// A condition, the same in all of the block, of which AMD's compilers know nothing: they make no copy of the code behind it for its value.
ATTILE_LANE_FN bool unknown(bool value) {
#if defined(ATTILE_GPU_HIP)
    uint32_t bits = value ? 1 : 0;
    asm volatile("" : "+s"(bits));
    return bits != 0;
#else
    return value;
#endif
}

// A number of this thread's, computed here once and kept. In a loop, NVIDIA's compilers would rather compute it again and again, and keep
// what it is computed from, in more registers than one.
ATTILE_LANE_FN int kept(int value) {
#if !defined(ATTILE_GPU_HIP) && !defined(ATTILE_GPU_EMULATED)
    asm volatile("" : "+r"(value));
#endif
    return value;
}
// A number of this lane's, for what is computed from it in a loop: AMD's compilers would compute all of that before the loop, and keep it
// in more registers than there are.
ATTILE_LANE_FN int recomputed(int value) {
#if defined(ATTILE_GPU_HIP)
    asm volatile("" : "+v"(value));
#endif
    return value;
}
// The thread's number, of which no compiler knows anything. Unsigned: a division of it by a power of two is then a shift, whatever the
// compiler knows.
ATTILE_LANE_FN unsigned fresh_thread() {
    unsigned value = threadIdx.x;
#if defined(ATTILE_GPU_HIP)
    asm volatile("" : "+v"(value));
#else
    asm volatile("" : "+r"(value));
#endif
    return value;
}

}  // namespace attile::gpu
