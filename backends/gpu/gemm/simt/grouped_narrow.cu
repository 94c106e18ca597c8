// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows by matrices of 8 or 4 bits: the tiles of gemm/simt/grouped.cu, whose B becomes float32, scaled, on its way to
// shared memory. Bound: arithmetic; a number of B is converted once for each tile of rows.
#include "gemm/row_groups.cuh"
#include "gemm/simt/configs.h"
#include "gemm/simt/grouped.h"
#include "gemm/simt/grouped_place.cuh"
#include "gemm/simt/load_narrow.h"
#include "gemm/simt/tile.cuh"

namespace attile::gpu::simt {
namespace {

template <class Config, class Element, GemmAccess kAccessA>
__global__ void ATTILE_LAUNCH_BOUNDS((GemmMicro<Config, float>::kThreads), Config::kBlocksPerUnit)
    gemm_grouped_narrow_kernel(const GemmGroupedNarrowParams parameter) {
    using Micro = GemmMicro<Config, float>;
    using PanelA = GemmPanel<Element, Config::kM, Micro::kThreads, kAccessA>;
    using PanelB = GemmNarrowPanel<Config::kN, Micro::kThreads>;
    constexpr int kStages = 2 * kGemmChunk * (PanelA::kRow + PanelB::kRow);
    constexpr int kStrips = Micro::kThreads / kLanes * GemmStrip<Micro>::kFloats;
    alignas(16) __shared__ float shared[kStrips > kStages ? kStrips : kStages];
    __shared__ GemmOrigin origin;
    const GemmGroupedNarrowParams &p = kernel_parameter(parameter);
    const GemmParams &product = p.grouped.product;
    RowTile tile;
    const uint32_t row_tile = blockIdx.x / product.tiles_n;
    if (!find_row_tile(p.grouped.groups, p.grouped.first_tile + row_tile, Config::kM, tile)) return;
    const GroupedPlace<Config> at(product, tile, blockIdx.x - row_tile * product.tiles_n);
    PanelA panel_a(product.a, 0, at.batch_y, at.row_first, at.row_end(product), 0);
    PanelB panel_b(product.b, p.narrow, at.batch_y, at.col_first, product.n);
    float sum[Config::kMicroM][Config::kMicroN] = {};
    if (at.depth > 0)
        multiply_tile<Config, float, GemmOrder<Config, kAccessA, GemmAccess::kScalar>>(panel_a, panel_b, at.depth, shared, sum);
    store_by_strips<Config>(product, at, shared, origin, sum);
}

template <class Element>
GemmGroupedTile tile_of() {
    using Config = Gemm64x64Strided;
    return {"gemm_grouped_narrow_64x64x8",
            Config::kM,
            Config::kN,
            gemm_threads<Config>(),
            reinterpret_cast<const void *>(&gemm_grouped_narrow_kernel<Config, Element, GemmAccess::kVector>),
            nullptr,
            reinterpret_cast<const void *>(&gemm_grouped_narrow_kernel<Config, Element, GemmAccess::kScalar>)};
}

}  // namespace

const GemmGroupedTile *gemm_grouped_narrow_tile(int32_t a_dtype) {
    static const GemmGroupedTile tiles[] = {tile_of<float>(), tile_of<F16>(), tile_of<BF16>()};
    return &tiles[a_dtype == ATTILE_F32 ? 0 : a_dtype == ATTILE_F16 ? 1 : 2];
}

}  // namespace attile::gpu::simt
