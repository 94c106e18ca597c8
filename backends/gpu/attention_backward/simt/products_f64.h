// SPDX-License-Identifier: Apache-2.0
// The kernel between the products of float64 gradients, as the host sees it.
#pragma once

#include "attention/simt/head_slice.h"
#include "attention_backward/params.h"

namespace attile::gpu::simt {

// Of a slice: `scores`, scale q.k, to probabilities; `gradients`, of those, to gradients of scale q.k; 0 of what is hidden. Gradients of
// scores to part_bias, if any.
struct GradientParams {
    AttentionBackwardParams backward;
    HeadSlice slice;
    double *scores, *gradients;
};
using GradientKernel = void (*)(GradientParams);
GradientKernel attention_backward_f64_scores_kernel(bool block_a_row);  // kWideThreads

}  // namespace attile::gpu::simt
