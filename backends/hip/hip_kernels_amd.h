// SPDX-License-Identifier: Apache-2.0
// Kernels of the AMD platform by the host address of their __global__ function.
#pragma once

#include "hip_runtime_table.h"

namespace attile::hip {

// What is needed of the runtime to load the code objects compiled into the backend.
struct ModuleFunctions {
    hipError_t (*load)(hipModule_t *module, const void *image) = nullptr;
    hipError_t (*function)(hipFunction_t *function, hipModule_t module, const char *name) = nullptr;
    hipError_t (*attribute)(int *value, hipFunction_attribute attribute, hipFunction_t function) = nullptr;
    hipError_t (*launch)(hipFunction_t function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                         unsigned int block_y, unsigned int block_z, unsigned int shared, hipStream_t stream, void **arguments,
                         void **extra) = nullptr;
    hipError_t (*occupancy)(int *blocks, hipFunction_t function, int threads, std::size_t shared) = nullptr;
    hipError_t (*device_get)(int *device) = nullptr;
};

// Fills the table's kernel functions. `functions` is kept.
void use_modules(const ModuleFunctions &functions, Runtime *runtime);

}  // namespace attile::hip
