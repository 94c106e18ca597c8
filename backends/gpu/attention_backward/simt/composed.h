// SPDX-License-Identifier: Apache-2.0
// The kernel between the products of gradients that GEMM's products compose, as the host sees it. It is there for float32 and for float64.
#pragma once

#include "attention/simt/head_slice.h"
#include "attention_backward/params.h"

namespace attile::gpu::simt {

// Of a slice: `scores`, scale q.k, to probabilities; `gradients`, of those, to gradients of scale q.k; 0 of what is hidden. Gradients of
// scores to part_bias, if any.
struct GradientParams {
    AttentionBackwardParams backward;
    HeadSlice slice;
    void *scores, *gradients;
};
using GradientKernel = void (*)(GradientParams);
// kWideThreads. As attention_products_softmax_kernel().
GradientKernel attention_backward_composed_kernel(bool is_f64, bool block_a_row, bool sparse);

}  // namespace attile::gpu::simt
