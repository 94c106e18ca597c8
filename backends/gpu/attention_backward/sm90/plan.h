// SPDX-License-Identifier: Apache-2.0
// Which problems the Hopper kernels of attention's gradients take, and their launches. As simt::Accelerator describes the functions.
#pragma once

#include "host/accelerator.h"
#include "sm90/tensor_map.h"

namespace attile::sm90 {

int32_t attention_backward_query(simt::Device &device, const attile_attention_backward_problem &problem, attile_support &support,
                                 bool &taken, simt::Declined &declined);
int32_t attention_backward_run(simt::Device &device, const TensorMaps &maps, const attile_attention_backward_problem &problem,
                               simt::Workspace &workspace, simt::Stream stream);

}  // namespace attile::sm90
