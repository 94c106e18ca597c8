// SPDX-License-Identifier: Apache-2.0
// merge, its gradients, reduce, softmax: their families. Operands are reachable by the device.
#pragma once

#include "host/family.h"

namespace attile::gpu {

extern const Families<attile_attention_merge_problem> kMergeFamilies;
extern const Families<attile_attention_merge_backward_problem> kMergeBackwardFamilies;
extern const Families<attile_reduce_problem> kReduceFamilies;
extern const Families<attile_softmax_problem> kSoftmaxFamilies;

}  // namespace attile::gpu
