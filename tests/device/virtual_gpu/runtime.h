// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime above the machine, among its files. Everything that a stream is given happens at once; what a kernel does wrong is told
// by the calls after its launch, as a device tells it that works at its own pace.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "failing_calls.h"
#include "ptx_machine.h"

// What the library shows. Each answers for the module that called it.
#define ATTILE_EXPORT extern "C" __attribute__((visibility("default")))
#define ATTILE_CALLER __builtin_return_address(0)

namespace attile::virtual_gpu {

// The devices, which are alike and have the same memory.
int device_count();    // ATTILE_VIRTUAL_DEVICES, or 1.
int current_device();  // The calling thread's.
bool set_device(int device);
int capability();                 // 90 for 9.0.
int device_attribute(int which);  // As CUdevice_attribute and cudaDeviceAttr number them; 0 where it is not known.
std::size_t memory_bytes();       // ATTILE_VIRTUAL_MEMORY in MiB, or 4 GiB.

// The error that all calls give since a kernel failed.
cudaError_t lasting_error();
void fail_lastingly(const std::string &what);
// Remembers an error for cudaGetLastError: the runtime is linked into each module by itself, so each has its own last error.
cudaError_t remember(cudaError_t error, const void *caller);
// What a test lets the call of this name give (failing_calls.h).
cudaError_t failure(const char *name);
template <class Act>
cudaError_t answer(const void *caller, const Act &act, const char *name = __builtin_FUNCTION()) {
    cudaError_t error = lasting_error();
    if (error == cudaSuccess) error = failure(name);
    return remember(error != cudaSuccess ? error : act(), caller);
}
// The same of a function of the driver: its errors have the runtime's numbers, but for what it calls an invalid value.
template <class Act>
CUresult driver_answer(const Act &act, const char *name = __builtin_FUNCTION()) {
    cudaError_t error = lasting_error();
    if (error == cudaSuccess) error = failure(name);
    if (error == cudaSuccess) error = act();
    return error == cudaErrorInvalidConfiguration ? CUDA_ERROR_INVALID_VALUE : static_cast<CUresult>(error);
}
// Of what ends something's life, which it does even where it has an earlier call's error to tell.
template <class Act>
cudaError_t answer_ending(const void *caller, const Act &act, const char *name = __builtin_FUNCTION()) {
    cudaError_t error = act();
    if (error == cudaSuccess) error = lasting_error();
    const cudaError_t failed = failure(name);
    return remember(error != cudaSuccess ? error : failed, caller);
}

// Kernels, by the address of the host's function.
struct Program {
    const Kernel *kernel = nullptr;
    int arch = 0;             // The text's.
    int allowed_shared = -1;  // What cudaFuncSetAttribute said.
    int registers() const;
    std::size_t shared_bytes() const { return static_cast<std::size_t>(kernel->shared_bytes); }
};
cudaError_t find_program(const void *host, Program **program);

// What a stream records while it is captured: memory that was taken on the way is held as long as the graph.
struct Recording {
    std::vector<std::function<void()>> steps;
    std::vector<void *> memory;
    cudaStream_t origin = nullptr;
    ~Recording();
};
// Does the work, or records it where the stream is captured. An error where there is no such stream.
cudaError_t submit(cudaStream_t stream, std::function<void()> work);
cudaError_t recording_of(cudaStream_t stream, std::shared_ptr<Recording> *recording);
// The device that a stream is of; -1 where there is no such stream.
int stream_device(cudaStream_t stream);
// Kernels are for streams of the device that is current; in another's they fault, as a kernel by CUDA 13 was seen to on two H100s.
cudaError_t need_own_stream(cudaStream_t stream);

int kind_of(const void *pointer);         // As cudaMemoryType numbers them.
bool take_back(void *pointer, int kind);  // As cudaMemoryType numbers them; -1: any.

}  // namespace attile::virtual_gpu
