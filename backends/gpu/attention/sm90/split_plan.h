// SPDX-License-Identifier: Apache-2.0
// Attention forward of float32 by split TF32 on Hopper: which problems it takes. The rest is left to the kernels of sm80 and simt.
#pragma once

#include "attention/mma/plan.h"

namespace attile::sm90 {

using namespace tensor_core;

int32_t attention_split_query(simt::Device &device, const attile_attention_problem &problem, attile_support &support, bool &taken,
                              simt::Declined &declined);
int32_t attention_split_run(simt::Device &device, const attile_attention_problem &problem, simt::Workspace &workspace, simt::Stream stream);

}  // namespace attile::sm90
