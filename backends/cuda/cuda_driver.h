// SPDX-License-Identifier: Apache-2.0
// The few functions of the NVIDIA driver that the backend calls itself, found at run time, so that it loads on a machine without one.
#pragma once

#include <cuda.h>

#include <string>

namespace attile::cuda {

struct Driver {
    CUresult (*init)(unsigned int flags) = nullptr;
    CUresult (*driver_version)(int *version) = nullptr;
    int version = 0;  // As cuDriverGetVersion says it: 12030 is 12.3.
    CUresult (*error_string)(CUresult error, const char **text) = nullptr;
    CUresult (*device_count)(int *count) = nullptr;
    CUresult (*device_get)(CUdevice *device, int ordinal) = nullptr;
    CUresult (*device_name)(char *name, int bytes, CUdevice device) = nullptr;
    CUresult (*device_attribute)(int *value, CUdevice_attribute attribute, CUdevice device) = nullptr;
    CUresult (*primary_retain)(CUcontext *context, CUdevice device) = nullptr;
    CUresult (*primary_release)(CUdevice device) = nullptr;
    CUresult (*current_get)(CUcontext *context) = nullptr;
    CUresult (*current_device)(CUdevice *device) = nullptr;
    CUresult (*current_push)(CUcontext context) = nullptr;
    CUresult (*current_pop)(CUcontext *context) = nullptr;
    CUresult (*pointer_attributes)(unsigned int count, CUpointer_attribute *attributes, void **values, CUdeviceptr pointer) = nullptr;
    CUresult (*exchange_capture_mode)(CUstreamCaptureMode *mode) = nullptr;
    CUresult (*stream_capturing)(CUstream stream, CUstreamCaptureStatus *status) = nullptr;
    CUresult (*stream_context)(CUstream stream, CUcontext *context) = nullptr;     // Drivers before 9.2 have none.
    CUresult (*stream_id)(CUstream stream, unsigned long long *number) = nullptr;  // Nor those before 12.0.
    CUresult (*function_set)(CUfunction function, CUfunction_attribute attribute, int value) = nullptr;
    CUresult (*launch)(CUfunction function, unsigned int grid_x, unsigned int grid_y, unsigned int grid_z, unsigned int block_x,
                       unsigned int block_y, unsigned int block_z, unsigned int shared, CUstream stream, void **arguments,
                       void **extra) = nullptr;
    CUresult (*launch_with)(const CUlaunchConfig *config, CUfunction function, void **arguments,
                            void **extra) = nullptr;  // Nor before 11.8.
    void *tensor_map_encode = nullptr;                // cuTensorMapEncodeTiled, for sm90/; drivers before 12.0 have none.

    // The driver's words for an error.
    std::string text(CUresult error) const;
};

// The driver, initialised; or nullptr and why in `reason`. Loads it once a process and never unloads it.
const Driver *driver(std::string *reason);

}  // namespace attile::cuda
