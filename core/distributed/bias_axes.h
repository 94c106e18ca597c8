// SPDX-License-Identifier: Apache-2.0
// Which axes a bias or mask broadcasts, and a dbias sums over: by extents of 1, or by strides of 0 where it has elements. A rank without
// rows may have none, and takes what the others say.
#ifndef ATTILE_CORE_DISTRIBUTED_BIAS_AXES_H
#define ATTILE_CORE_DISTRIBUTED_BIAS_AXES_H

#include "distributed/agreement.h"
#include "distributed/attention.h"

namespace attile::core {

// Bias and dbias with four axes, and extents of 1 where sums are asked for by strides of 0.
void name_sums(DistributedAttention *problem);

// The set of axes with an extent of 1: 1 for batch, 2 for heads, 4 for keys, and 8 for rows, of these only where every rank has all.
int64_t broadcast_axes(const DistributedAttention &problem, const attile_tensor &tensor);

// What a rank says of the sums of its dbias, and then those of all ranks. Bias and dbias get extents of 1 where this rank said nothing and
// others have sums.
void describe_sums(const DistributedAttention &problem, Announcement *announcement);
int32_t agree_on_sums(const Agreement &agreement, DistributedAttention *problem);

}  // namespace attile::core

#endif
