// SPDX-License-Identifier: Apache-2.0
// As much of CUDA as the ladder uses, on the host, so that its kernels are tested where no GPU is. The threads of a block are fibers of one
// thread, run in a different order after every barrier: a missing barrier shows. A barrier that only some threads reach is an error. Device
// memory and shared memory start as NaN, and device memory ends at a page that may not be touched.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __restrict__
#define CUDART_VERSION 11080

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(16) float4 {
    float x, y, z, w;
};
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// Of the fiber that runs.
inline dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulate {

using Stream = int *;

struct Launch {
    dim3 grid, block;
    size_t shared;
    Launch(dim3 grid_, dim3 block_, size_t shared_ = 0, Stream = nullptr) : grid(grid_), block(block_), shared(shared_) {}
    void run(const std::function<void()> &kernel) const;
};

void *dynamic_shared();
void poison_shared(void *array, size_t bytes);  // The first time that a block comes by.
void block_barrier();
void warp_barrier();
float exchange(float value, int source_lane);  // Every lane gives a value and takes that of another.
int lane();

}  // namespace emulate

// ---- Device functions.
inline void __syncthreads() { emulate::block_barrier(); }
inline void __syncwarp(unsigned = 0xFFFFFFFFu) { emulate::warp_barrier(); }
inline float __shfl_down_sync(unsigned, float value, int distance) {
    const int source = emulate::lane() + distance;
    return emulate::exchange(value, source < 32 ? source : emulate::lane());
}
inline float __shfl_xor_sync(unsigned, float value, int mask) { return emulate::exchange(value, emulate::lane() ^ mask); }
inline unsigned atomicAdd(unsigned *to, unsigned value) { return *to += value, *to - value; }
inline float __expf(float x) { return expf(x); }
using std::max;
using std::min;

// ---- The runtime.
using cudaError_t = int;
using cudaStream_t = emulate::Stream;
constexpr cudaError_t cudaSuccess = 0;
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaDeviceAttr {
    cudaDevAttrClockRate,
    cudaDevAttrMemoryClockRate,
    cudaDevAttrGlobalMemoryBusWidth,
    cudaDevAttrMultiProcessorCount,
    cudaDevAttrMaxThreadsPerMultiProcessor,
    cudaDevAttrL2CacheSize,
    cudaDevAttrManagedMemory,
    cudaDevAttrConcurrentManagedAccess
};
struct cudaDeviceProp {
    char name[64];
    int major, minor, multiProcessorCount, maxThreadsPerMultiProcessor;
    size_t sharedMemPerBlock, sharedMemPerMultiprocessor;
};
struct cudaFuncAttributes {
    int binaryVersion, ptxVersion, numRegs;
    size_t localSizeBytes;
};
struct EmulatedEvent {
    double ms;
};
using cudaEvent_t = EmulatedEvent *;

cudaError_t cudaMalloc(void **pointer, size_t bytes);
cudaError_t cudaFree(void *pointer);
inline cudaError_t cudaMallocHost(void **pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
inline cudaError_t cudaFreeHost(void *pointer) { return cudaFree(pointer); }
inline cudaError_t cudaMallocManaged(void **pointer, size_t bytes) { return cudaMalloc(pointer, bytes); }
inline cudaError_t cudaMemPrefetchAsync(const void *, size_t, int) { return cudaSuccess; }
inline cudaError_t cudaMemset(void *to, int value, size_t bytes) { return std::memset(to, value, bytes), cudaSuccess; }
inline cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind) {
    return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, cudaMemcpyKind, cudaStream_t = nullptr) {
    return std::memcpy(to, from, bytes), cudaSuccess;
}
inline cudaError_t cudaMemcpy2D(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width, size_t rows, cudaMemcpyKind) {
    for (size_t i = 0; i < rows; ++i)
        std::memcpy(static_cast<char *>(to) + i * to_pitch, static_cast<const char *>(from) + i * from_pitch, width);
    return cudaSuccess;
}
cudaError_t cudaGetLastError();
const char *cudaGetErrorString(cudaError_t error);
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
inline cudaError_t cudaDriverGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
inline cudaError_t cudaRuntimeGetVersion(int *version) { return *version = CUDART_VERSION, cudaSuccess; }
inline cudaError_t cudaStreamCreate(cudaStream_t *stream) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventCreate(cudaEvent_t *event) { return *event = new EmulatedEvent{0}, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t event) { return delete event, cudaSuccess; }
cudaError_t cudaEventRecord(cudaEvent_t event);
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t stop) {
    return *ms = static_cast<float>(stop->ms - start->ms), cudaSuccess;
}
// A Pascal device of two multiprocessors.
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp *device, int) {
    return *device = {"emulated device", 6, 1, 2, 2048, 49152, 98304}, cudaSuccess;
}
inline cudaError_t cudaDeviceGetAttribute(int *value, cudaDeviceAttr which, int) {
    constexpr int values[] = {1000000, 1000000, 64, 2, 2048, 1 << 20, 1, 1};
    return *value = values[which], cudaSuccess;
}
template <class Kernel>
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, Kernel) {
    return *attributes = {61, 61, 32, 0}, cudaSuccess;
}
template <class Kernel>
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Kernel, int threads, size_t) {
    return *blocks = 2048 / threads, cudaSuccess;
}
