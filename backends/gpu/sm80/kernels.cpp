// SPDX-License-Identifier: Apache-2.0
#include "sm80/kernels.h"

#include "attention/sm80/instances.h"

namespace attile::gpu::sm80 {

const void *some_kernel() { return attention_bf16_cols64().kernel; }

}  // namespace attile::gpu::sm80
