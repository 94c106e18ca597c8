// SPDX-License-Identifier: Apache-2.0
#include "attention_backward/simt/kernels.h"
#include "attention_backward/simt/products.cuh"
#include "attention_backward/simt/scores.cuh"

namespace attile::gpu::simt {
namespace {

template <int kCols>
AttentionBackwardProducts products(const char *name) {
    using C = BackwardProducts<kCols>;
    return {name,
            &attention_backward_scores<C, BackwardScores::kMasked>,
            &attention_backward_scores<C, BackwardScores::kModified>,
            &attention_backward_scores<C, BackwardScores::kCapped>,
            &attention_backward_products<C, true>,
            &attention_backward_products<C, false>,
            C::kUnitRows,
            C::kBlockKeys,
            C::kThreads,
            kCols,
            C::kUnitRows / C::ScoreTile::kM,
            kCols / C::GradientTile::kN,
            C::kBlockKeys / C::GradientTile::kM};
}

}  // namespace

AttentionBackwardProducts attention_backward_products_of(int32_t depth) {
    if (depth == 64) return products<64>("attention_backward_products_cols64");
    if (depth == 128) return products<128>("attention_backward_products_cols128");
    if (depth == 256) return products<256>("attention_backward_products_cols256");
    return {};
}

}  // namespace attile::gpu::simt
