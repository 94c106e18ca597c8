// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows, each with a B of its own, by the tiles of GEMM (gemm/simt/tile.cuh), which says what they take of registers
// and shared memory. A tile's rows are of one group; those that the group does not have are computed and not stored.
#include "gemm/simt/grouped.h"

#include "gemm/simt/grouped_place.cuh"
#include "gemm/simt/instances.cuh"

namespace attile::gpu::simt {
namespace {

template <class Config, class Element, GemmAccess kAccess>
__global__ void ATTILE_LAUNCH_BOUNDS((GemmMicro<Config, Compute<Element>>::kThreads), Config::kBlocksPerUnit)
    gemm_grouped_kernel(const GemmGroupedParams parameter) {
    const GemmGroupedParams &p = kernel_parameter(parameter);
    RowTile tile;
    const uint32_t row_tile = blockIdx.x / p.product.tiles_n;
    if (!find_row_tile(p.groups, p.first_tile + row_tile, Config::kM, tile)) return;
    const GroupedPlace<Config> at(p.product, tile, blockIdx.x - row_tile * p.product.tiles_n);
    gemm_make_tile<Config, Element, kAccess, kAccess, false>(p.product, at);
}

template <class Config, class Element, GemmAccess kAccess>
const void *kernel() {
    return reinterpret_cast<const void *>(&gemm_grouped_kernel<Config, Element, kAccess>);
}

template <class Element>
const GemmGroupedTile *tiles_of(const char *large, const char *small) {
    constexpr auto kVector = GemmAccess::kVector, kUnaligned = GemmAccess::kUnaligned, kStrided = GemmAccess::kScalar;
    static const GemmGroupedTile tiles[kGemmGroupedTiles] = {
        {large, Gemm128x128::kM, Gemm128x128::kN, gemm_threads<Gemm128x128>(), kernel<Gemm128x128, Element, kVector>(), nullptr, nullptr},
        {small, Gemm64x64::kM, Gemm64x64::kN, gemm_threads<Gemm64x64>(), kernel<Gemm64x64, Element, kVector>(),
         kernel<Gemm64x64Strided, Element, kUnaligned>(), kernel<Gemm64x64Strided, Element, kStrided>()}};
    return tiles;
}

const GemmGroupedTile *tiles_of_f64() {
    static const GemmGroupedTile tiles[kGemmGroupedTiles] = {
        {"gemm_grouped_f64_64x64x8", Gemm64x64Double::kM, Gemm64x64Double::kN, gemm_threads<Gemm64x64Double>(),
         kernel<Gemm64x64Double, double, GemmAccess::kVector>(), kernel<Gemm64x64DoubleUnaligned, double, GemmAccess::kUnaligned>(),
         kernel<Gemm64x64Double, double, GemmAccess::kScalar>()},
        {}};
    return tiles;
}

// The activation of rows that belong to groups, in place: D is of the type of the sums, so that nothing was rounded in between.
__global__ void ATTILE_LAUNCH_BOUNDS(kGemmGroupedActivateThreads, 1) activate_rows(const GemmGroupedParams p) {
    const GemmOutput &d = p.product.d;
    const int64_t first = p.groups.first_row[0], count = (p.groups.first_row[p.groups.groups] - first) * p.product.n;
    const int64_t step = static_cast<int64_t>(gridDim.x) * kGemmGroupedActivateThreads;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * kGemmGroupedActivateThreads + threadIdx.x; i < count; i += step) {
        double *const at = static_cast<double *>(d.data) + (first + i / p.product.n) * d.row + i % p.product.n * d.col;
        *at = gemm_activate(*at, p.product.activation);
    }
}

}  // namespace

const GemmGroupedTile *gemm_grouped_tiles(int32_t dtype) {
    switch (dtype) {
        case ATTILE_F64:
            return tiles_of_f64();
        case ATTILE_F16:
            return tiles_of<F16>("gemm_grouped_16bit_128x128x8", "gemm_grouped_16bit_64x64x8");
        case ATTILE_BF16:
            return tiles_of<BF16>("gemm_grouped_16bit_128x128x8", "gemm_grouped_16bit_64x64x8");
        default:
            return tiles_of<float>("gemm_grouped_f32_128x128x8", "gemm_grouped_f32_64x64x8");
    }
}

const void *gemm_grouped_activate_f64() { return reinterpret_cast<const void *>(&activate_rows); }

}  // namespace attile::gpu::simt
