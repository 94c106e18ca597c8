// SPDX-License-Identifier: Apache-2.0
#include "attention/simt/int8_tile.cuh"
#include "attention/simt/kernels.h"

namespace attile::gpu::simt {
namespace {

template <class C>
AttentionTileKernel instance(const char *name, double share) {
    using Shape = Int8Shape<C>;
    const AttentionTile tile = {reinterpret_cast<const void *>(&attention_int8_kernel<C>), Shape::kBlockRows, Shape::kBlockKeys,
                                C::kThreads};
    return {name, tile, tile, {}, Shape::kColumns, C::kDepth, C::kDepth, share, {}};
}

}  // namespace

AttentionTileKernels attention_int8(bool integers) {
    static const AttentionTileKernel floats[] = {instance<Int8Cols64<false>>("attention_i8_cols64", 0.8),
                                                 instance<Int8Cols128<false>>("attention_i8_cols128", 0.8)};
    static const AttentionTileKernel both[] = {instance<Int8Cols64<true>>("attention_i8_fast_cols64", 1.2),
                                               instance<Int8Cols128<true>>("attention_i8_fast_cols128", 1.2)};
    return {integers ? both : floats, 2};
}

}  // namespace attile::gpu::simt
