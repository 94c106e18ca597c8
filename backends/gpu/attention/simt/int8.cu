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
template <Int8Weights kWeights>
struct Instances {
    Instances(const char *name64, const char *name128, double share)
        : all{instance<Int8Cols64<kWeights>>(name64, share), instance<Int8Cols128<kWeights>>(name128, share)} {}
    AttentionTileKernel all[2];
};

}  // namespace

AttentionTileKernels attention_int8(Int8Product product) {
    static const Instances<Int8Weights::kFloat> floats("attention_i8_cols64", "attention_i8_cols128", 0.8);
    static const Instances<Int8Weights::kSteps> steps("attention_i8_fast_cols64", "attention_i8_fast_cols128", 1.2);
    if (product == Int8Product::kFloats) return {floats.all, 2};
    if (product == Int8Product::kSteps) return {steps.all, 2};
    if constexpr (kSparesRegisters) {
        return {nullptr, 0};  // AMD's compilers lack the registers.
    } else {
        static const Instances<Int8Weights::kSigned> with_scales("attention_i8_fast_tokens_cols64", "attention_i8_fast_tokens_cols128",
                                                                 1.1);
        return {with_scales.all, 2};
    }
}

}  // namespace attile::gpu::simt
