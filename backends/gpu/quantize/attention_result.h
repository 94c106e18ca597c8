// SPDX-License-Identifier: Apache-2.0
// The last step of attention whose result is of 8 bits: from dense rows of float32 to o, each number over its scale, with quantisation's
// bits. Rows that belong to no sequence are left alone.
#pragma once

#include <attile/attile_backend.h>

#include "device.h"
#include "host/sizes.h"

namespace attile::gpu {

// Floats of a row, whole vectors, and of a head's rows, all sequences' where they are packed.
inline int64_t attention_result_row(const attile_attention_problem &p) { return ceil_div(p.head_dim_v, 4) * 4; }
inline int64_t attention_result_head(const attile_attention_problem &p) { return attention_result_row(p) * p.total_q; }

int32_t round_attention_result(Device &device, const attile_attention_problem &problem, const float *result, Stream stream);

}  // namespace attile::gpu
