// SPDX-License-Identifier: Apache-2.0
// The runtime's kernels: what they take, how many fit, launches.
#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

#include "runtime.h"

namespace attile::virtual_gpu {
namespace {

constexpr std::size_t kSharedWithoutAsking = 49152;

struct Call {
    dim3 grid, block;
    std::size_t shared;
    cudaStream_t stream;
};
thread_local std::vector<Call> calls;  // Between <<<>>> and the launch.

std::size_t allowed_shared(const Program &program) {
    return program.allowed_shared >= 0 ? static_cast<std::size_t>(program.allowed_shared)
                                       : kSharedWithoutAsking - std::min(kSharedWithoutAsking, program.shared_bytes());
}

cudaError_t allow_shared(const void *host, int bytes) {
    Program *program = nullptr;
    const cudaError_t error = find_program(host, &program);
    if (error != cudaSuccess) return error;
    const int most = device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
    if (bytes < 0 || static_cast<int>(program->shared_bytes()) + bytes > most) return cudaErrorInvalidValue;
    program->allowed_shared = bytes;
    return cudaSuccess;
}

// What the hardware takes.
cudaError_t check(const Program &program, const dim3 &grid, const dim3 &block, std::size_t shared, uint32_t cluster) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0 || grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (block.x == 0 || block.y == 0 || block.z == 0 || block.x > 1024 || block.y > 1024 || block.z > 64)
        return cudaErrorInvalidConfiguration;
    const uint64_t threads = uint64_t{block.x} * block.y * block.z;
    if (threads > 1024) return cudaErrorInvalidConfiguration;
    if (threads > static_cast<uint64_t>(program.kernel->most_threads)) return cudaErrorLaunchOutOfResources;
    if (shared > allowed_shared(program)) return cudaErrorInvalidValue;
    if (cluster > 1 && (capability() < 90 || cluster > 8 || grid.x % cluster != 0)) return cudaErrorInvalidConfiguration;
    return cudaSuccess;
}

cudaError_t launch(const void *host, const dim3 &blocks, const dim3 &threads, void **arguments, std::size_t shared, cudaStream_t stream,
                   uint32_t cluster) {
    Program *program = nullptr;
    cudaError_t error = find_program(host, &program);
    if (error == cudaSuccess) error = check(*program, blocks, threads, shared, cluster);
    if (error == cudaSuccess) error = need_own_stream(stream);
    if (error != cudaSuccess) return error;
    Grid grid;
    grid.kernel = program->kernel;
    grid.blocks[0] = blocks.x, grid.blocks[1] = blocks.y, grid.blocks[2] = blocks.z;
    grid.threads[0] = threads.x, grid.threads[1] = threads.y, grid.threads[2] = threads.z;
    grid.cluster = cluster;
    grid.dynamic_shared = shared;
    const std::vector<Kernel::Parameter> &parameters = program->kernel->parameters;
    if (!parameters.empty()) grid.parameters.resize(parameters.back().offset + parameters.back().bytes);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
        const Kernel::Parameter &parameter = parameters[i];
        std::memcpy(grid.parameters.data() + parameter.offset, arguments[i], parameter.bytes);
    }
    return submit(stream, [grid] {
        if (lasting_error() != cudaSuccess) return;
        Grid run = grid;  // A graph runs it again.
        try {
            run_grid(run);
        } catch (const std::exception &failed) {
            fail_lastingly(run.kernel->name + ": " + failed.what());
        }
    });
}

template <class T>
T round_up(T value, T unit) {
    return (value + unit - 1) / unit * unit;
}

int blocks_that_fit(const Program &program, int threads, std::size_t shared) {
    if (threads < 1 || threads > program.kernel->most_threads || shared > allowed_shared(program)) return 0;
    const int warps = (threads + kLanes - 1) / kLanes;
    const int of_threads = device_attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / (warps * kLanes);
    // Each of a multiprocessor's four quarters gives its warps registers in units of 256.
    const int of_registers =
        device_attribute(cudaDevAttrMaxRegistersPerMultiprocessor) / 4 / round_up(program.registers() * kLanes, 256) * 4 / warps;
    const std::size_t bytes = round_up<std::size_t>(program.shared_bytes() + shared, 128) +
                              static_cast<std::size_t>(device_attribute(cudaDevAttrReservedSharedMemoryPerBlock));
    const int of_shared =
        bytes == 0 ? 32 : static_cast<int>(static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor)) / bytes);
    return std::min({of_threads, of_registers, of_shared, device_attribute(cudaDevAttrMaxBlocksPerMultiprocessor)});
}

bool fits_at_once(uint32_t blocks, uint32_t threads, std::size_t shared, const void *host) {
    Program *program = nullptr;
    if (find_program(host, &program) != cudaSuccess) return true;  // The launch says so.
    const int of_unit = blocks_that_fit(*program, static_cast<int>(threads), shared);
    return blocks <= static_cast<uint32_t>(of_unit * device_attribute(cudaDevAttrMultiProcessorCount));
}

}  // namespace
}  // namespace attile::virtual_gpu

using namespace attile::virtual_gpu;

ATTILE_EXPORT cudaError_t cudaFuncGetAttributes(cudaFuncAttributes *attributes, const void *host) {
    return answer(ATTILE_CALLER, [&] {
        Program *program = nullptr;
        const cudaError_t error = find_program(host, &program);
        if (error != cudaSuccess) return error;
        *attributes = cudaFuncAttributes();
        attributes->sharedSizeBytes = program->shared_bytes();
        attributes->localSizeBytes = static_cast<std::size_t>(program->kernel->local_bytes);
        attributes->maxThreadsPerBlock = program->kernel->most_threads;
        attributes->numRegs = program->registers();
        attributes->ptxVersion = attributes->binaryVersion = program->arch;
        attributes->maxDynamicSharedSizeBytes = static_cast<int>(allowed_shared(*program));
        return cudaSuccess;
    });
}
ATTILE_EXPORT cudaError_t cudaFuncSetAttribute(const void *host, cudaFuncAttribute attribute, int value) {
    return answer(ATTILE_CALLER,
                  [&] { return attribute == cudaFuncAttributeMaxDynamicSharedMemorySize ? allow_shared(host, value) : cudaSuccess; });
}
ATTILE_EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *host, int threads, std::size_t shared) {
    return answer(ATTILE_CALLER, [&] {
        Program *program = nullptr;
        const cudaError_t error = find_program(host, &program);
        if (error == cudaSuccess) *blocks = blocks_that_fit(*program, threads, shared);
        return error;
    });
}

ATTILE_EXPORT cudaError_t cudaLaunchKernel(const void *host, dim3 grid, dim3 block, void **arguments, std::size_t shared,
                                           cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] { return launch(host, grid, block, arguments, shared, stream, 1); });
}
// A kernel's handles, the runtime's and the driver's, are the host function that stands for it.
ATTILE_EXPORT cudaError_t cudaGetFuncBySymbol(cudaFunction_t *function, const void *host) {
    return answer(ATTILE_CALLER, [&] {
        Program *program = nullptr;
        const cudaError_t error = find_program(host, &program);
        *function = error == cudaSuccess ? static_cast<cudaFunction_t>(const_cast<void *>(host)) : nullptr;
        return error;
    });
}
ATTILE_EXPORT CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
    return driver_answer([&] {
        return attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ? allow_shared(function, value) : cudaErrorNotSupported;
    });
}
ATTILE_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z,
                                      unsigned int block_x, unsigned int block_y, unsigned int block_z, unsigned int shared,
                                      CUstream stream, void **arguments, void **) {
    return driver_answer(
        [&] { return launch(function, dim3(grid_x, grid_y, grid_z), dim3(block_x, block_y, block_z), arguments, shared, stream, 1); });
}
ATTILE_EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function, void **arguments, void **) {
    return driver_answer([&] {
        const dim3 grid(config->gridDimX, config->gridDimY, config->gridDimZ);
        const dim3 block(config->blockDimX, config->blockDimY, config->blockDimZ);
        uint32_t cluster = 1;
        for (unsigned int i = 0; i < config->numAttrs; ++i) {
            const CUlaunchAttribute &attribute = config->attrs[i];
            if (attribute.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE && attribute.value.cooperative != 0 &&
                !fits_at_once(grid.x, block.x, config->sharedMemBytes, function))
                return cudaErrorCooperativeLaunchTooLarge;
            if (attribute.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) continue;  // The others are of time.
            if (attribute.value.clusterDim.y != 1 || attribute.value.clusterDim.z != 1) return cudaErrorNotSupported;
            cluster = attribute.value.clusterDim.x;
        }
        return launch(function, grid, block, arguments, config->sharedMemBytes, config->hStream, cluster);
    });
}

// What <<<>>> becomes.
ATTILE_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
    calls.push_back({grid, block, shared, stream});
    return 0;
}
ATTILE_EXPORT cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, std::size_t *shared, void *stream) {
    if (calls.empty()) return remember(cudaErrorInvalidConfiguration, ATTILE_CALLER);
    *grid = calls.back().grid;
    *block = calls.back().block;
    *shared = calls.back().shared;
    *static_cast<cudaStream_t *>(stream) = calls.back().stream;
    calls.pop_back();
    return cudaSuccess;
}
ATTILE_EXPORT cudaError_t __cudaGetKernel(struct CUkern_st **kernel, const void *host) {
    *kernel = static_cast<struct CUkern_st *>(const_cast<void *>(host));
    return cudaSuccess;
}
ATTILE_EXPORT cudaError_t cudaGetKernel(struct CUkern_st **kernel, const void *host) { return __cudaGetKernel(kernel, host); }
ATTILE_EXPORT cudaError_t __cudaLaunchKernel(struct CUkern_st *kernel, dim3 grid, dim3 block, void **arguments, std::size_t shared,
                                             cudaStream_t stream) {
    return answer(ATTILE_CALLER, [&] { return launch(kernel, grid, block, arguments, shared, stream, 1); });
}
