// SPDX-License-Identifier: Apache-2.0
// merge, its gradients, reduce and softmax by SIMT, on every device. The workspace that merge and reduce ask for must not depend on
// alignment; softmax, where it does not know the addresses, asks for enough for any.
#pragma once

#include "host/family.h"

namespace attile::gpu::simt {

Planned<attile_attention_merge_problem> plan_merge(Device &device, const attile_attention_merge_problem &problem);
Planned<attile_attention_merge_backward_problem> plan_merge_backward(Device &device,
                                                                     const attile_attention_merge_backward_problem &problem);
Planned<attile_reduce_problem> plan_reduce(Device &device, const attile_reduce_problem &problem);
Planned<attile_softmax_problem> plan_softmax(Device &device, const attile_softmax_problem &problem);

}  // namespace attile::gpu::simt
