// SPDX-License-Identifier: Apache-2.0
// Tensor maps, made by the driver's cuTensorMapEncodeTiled, which CUDA has since 12.0, as it has the kernels that want them.
#include <cstring>

#include "cuda_device.h"
#include "host/status.h"

namespace attile::cuda {

#if CUDA_VERSION >= 12000

namespace {

using EncodeFn = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                              const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);
constexpr int64_t kElementBytes = 2;
constexpr cuuint64_t kAnyStride = 16;  // Bytes, that the driver takes.

}  // namespace

int32_t CudaDevice::make_tensor_map(const void *data, int32_t dtype, const gpu::TensorMapShape &shape, gpu::TensorMap *map) {
    const TensorMapCache::Key key(data, dtype, shape);
    if (maps_.find(key, map)) return ATTILE_OK;
    cuuint64_t extent[gpu::kMostAxes], stride[gpu::kMostAxes];
    cuuint32_t box[gpu::kMostAxes], step[gpu::kMostAxes];
    for (int i = 0; i < shape.axes; ++i) {
        extent[i] = static_cast<cuuint64_t>(shape.extent[i]);
        box[i] = static_cast<cuuint32_t>(shape.box[i]);
        step[i] = 1;
        // A broadcast axis never moves, so its stride may be anything that TMA takes.
        if (i > 0) stride[i - 1] = shape.stride[i] > 0 ? static_cast<cuuint64_t>(shape.stride[i] * kElementBytes) : kAnyStride;
    }
    CUtensorMap made;
    static_assert(sizeof made == sizeof *map && alignof(CUtensorMap) <= alignof(gpu::TensorMap), "a map as kernels take it");
    const CUresult result = reinterpret_cast<EncodeFn>(driver_.tensor_map_encode)(
        &made, dtype == ATTILE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        static_cast<cuuint32_t>(shape.axes), const_cast<void *>(data), extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, shape.is_fetched_by_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != CUDA_SUCCESS)
        return gpu::fail(ATTILE_ERROR_INTERNAL, "the driver makes no tensor map of the array at %p: error %d", data,
                         static_cast<int>(result));
    std::memcpy(map, &made, sizeof made);
    maps_.keep(key, *map);
    return ATTILE_OK;
}

#else

int32_t CudaDevice::make_tensor_map(const void *data, int32_t dtype, const gpu::TensorMapShape &shape, gpu::TensorMap *map) {
    return Device::make_tensor_map(data, dtype, shape, map);
}

#endif

}  // namespace attile::cuda
