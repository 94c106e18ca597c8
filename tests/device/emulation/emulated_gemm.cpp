// SPDX-License-Identifier: Apache-2.0
#include "emulated_gemm.h"

#include <attile/attile.h>

#include <algorithm>
#include <initializer_list>

#include "gemm/narrow/kernels.h"
#include "gemm/params.h"
#include "gemm/row_groups.h"
#include "gemm/simt/grouped.h"
#include "gemm/simt/table.h"

namespace attile::gpu::simt {

// Nobody asks the emulated device for products of these.
const GemmKernels &gemm_kernels_f16() {
    static const GemmKernels none = {};
    return none;
}
const GemmKernels &gemm_kernels_bf16() { return gemm_kernels_f16(); }

}  // namespace attile::gpu::simt

namespace attile::test {

namespace {

bool is_gemm_product(const gpu::simt::GemmKernels &all, const void *kernel) {
    bool is_one = false;
    const auto ask = [&](const void *other) { is_one = is_one || (other != nullptr && other == kernel); };
    for (const gpu::simt::GemmTileKernels &tile : all.tiles) {
        for (const auto &layouts : tile.direct)
            for (const void *direct : layouts) ask(direct);
        for (const void *other : {tile.aligned, tile.unaligned, tile.strided, tile.unaligned_rows}) ask(other);
    }
    for (const gpu::simt::GemmSkinnyKernels &skinny : all.skinny)
        for (int layout = 0; layout < 2; ++layout)
            for (const void *other : {skinny.vectors[layout], skinny.scalars[layout], skinny.once[layout]}) ask(other);
    return is_one;
}

bool is_grouped_product(const void *kernel) {
    for (const std::int32_t dtype : {ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16}) {
        const gpu::simt::GemmGroupedTile *const tiles = gpu::simt::gemm_grouped_tiles(dtype);
        for (int i = 0; i < gpu::simt::kGemmGroupedTiles && tiles[i].name != nullptr; ++i)
            for (const void *other : {tiles[i].vectors, tiles[i].unaligned, tiles[i].strided})
                if (other != nullptr && other == kernel) return true;
    }
    return kernel == gpu::simt::gemm_grouped_activate_f64();
}

bool is_product_of_int8(const void *kernel) {
    const gpu::narrow::ProductTile *const tiles = gpu::narrow::product_tiles();
    return std::any_of(tiles, tiles + gpu::narrow::kProductTiles,
                       [&](const gpu::narrow::ProductTile &tile) { return kernel == tile.kernel || kernel == tile.grouped; });
}

template <class Params>
constexpr emulation::Call kCall = &emulation::Caller<const Params>::call;

}  // namespace

emulation::Call call_of_gemm(const void *kernel) {
    for (const gpu::simt::GemmKernels *all : {&gpu::simt::gemm_kernels_f32(), &gpu::simt::gemm_kernels_f64()})
        if (is_gemm_product(*all, kernel)) return kCall<gpu::GemmParams>;
    for (const void *combine : {gpu::simt::gemm_combine_f32(), gpu::simt::gemm_combine_f64(), gpu::simt::gemm_combine_plain_f32(false),
                                gpu::simt::gemm_combine_plain_f32(true)})
        if (kernel == combine) return kCall<gpu::GemmCombineParams>;
    if (is_grouped_product(kernel)) return kCall<gpu::simt::GemmGroupedParams>;
    for (const std::int32_t dtype : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) {
        const gpu::simt::GemmGroupedTile *const tile = gpu::simt::gemm_grouped_narrow_tile(dtype);
        if (kernel == tile->vectors || kernel == tile->strided) return kCall<gpu::simt::GemmGroupedNarrowParams>;
    }
    if (kernel == gpu::find_row_groups_kernel()) return kCall<gpu::FindRowGroupsParams>;
    if (is_product_of_int8(kernel)) return kCall<gpu::narrow::ProductParams>;
    if (kernel == gpu::narrow::rewrite_kernel()) return kCall<gpu::narrow::RewriteParams>;
    return kernel == gpu::narrow::finish_kernel() ? kCall<gpu::narrow::FinishParams> : nullptr;
}

}  // namespace attile::test
