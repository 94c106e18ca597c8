// SPDX-License-Identifier: Apache-2.0
// Partial results in host memory: set to 0, added up, merged, and written to where the caller wants them.
#ifndef ATTILE_CORE_DISTRIBUTED_SUMS_H
#define ATTILE_CORE_DISTRIBUTED_SUMS_H

#include "distributed/attention.h"

namespace attile::core {

// Of f32 or f64.
void store_number(void *to, int32_t dtype, int64_t index, double value);

// A dense tensor with these four extents.
attile_tensor dense_view(void *data, int32_t dtype, int64_t n0, int64_t n1, int64_t n2, int64_t n3);

// Four axes, f32 or f64 each. `from` has the extents of `to`; where `to` has an extent of 1 it takes the sum over that axis.
void add_up(const attile_tensor &from, const attile_tensor &to);

// Four axes, the last one dense.
void clear(const attile_tensor &tensor);

// Parts put together by the rank's own call.
int32_t merge_parts(const DeviceWork &work, const attile_tensor *o_parts, const attile_tensor *lse_parts, int64_t parts,
                    const attile_tensor &o, const attile_tensor &lse);
int32_t merge_parts(const DistributedAttention &p, const attile_tensor *o_parts, const attile_tensor *lse_parts, int64_t parts,
                    const attile_tensor &o, const attile_tensor &lse);

// A copy of a tensor with up to four axes in host memory to memory of any kind and layout, rounded to the type there.
int32_t write_out(const DistributedAttention &p, const attile_tensor &from, const attile_tensor &to);
int32_t write_out(attile_context *context, bool host_memory, void *stream, const attile_tensor &from, const attile_tensor &to);

}  // namespace attile::core

#endif
