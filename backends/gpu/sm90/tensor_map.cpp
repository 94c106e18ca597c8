// SPDX-License-Identifier: Apache-2.0
#include "sm90/tensor_map.h"

#include <attile/attile_backend.h>

#include "host/status.h"

namespace attile::gpu::sm90 {
namespace {

using EncodeFn = CUresult (*)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *, const cuuint64_t *,
                              const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave, CUtensorMapSwizzle, CUtensorMapL2promotion,
                              CUtensorMapFloatOOBfill);
constexpr int64_t kElementBytes = 2;

}  // namespace

int32_t TensorMaps::make(const void *data, int32_t dtype, const TensorMapShape &shape, CUtensorMap *map) const {
    cuuint64_t extent[kMostAxes], stride[kMostAxes];
    cuuint32_t box[kMostAxes], step[kMostAxes];
    for (int i = 0; i < shape.axes; ++i) {
        extent[i] = static_cast<cuuint64_t>(shape.extent[i]);
        box[i] = static_cast<cuuint32_t>(shape.box[i]);
        step[i] = 1;
        // A broadcast axis never moves, so its stride may be anything that TMA takes.
        if (i > 0) stride[i - 1] = static_cast<cuuint64_t>(shape.stride[i] > 0 ? shape.stride[i] * kElementBytes : kReachBytes);
    }
    const CUresult made = reinterpret_cast<EncodeFn>(encode_)(
        map, dtype == ATTILE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, static_cast<cuuint32_t>(shape.axes),
        const_cast<void *>(data), extent, stride, box, step, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        shape.is_fetched_by_lines ? CU_TENSOR_MAP_L2_PROMOTION_L2_128B : CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (made == CUDA_SUCCESS) return ATTILE_OK;
    return fail(ATTILE_ERROR_INTERNAL, "the driver makes no tensor map of the array at %p: error %d", data, static_cast<int>(made));
}

}  // namespace attile::gpu::sm90
