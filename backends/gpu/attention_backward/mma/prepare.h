// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace attile::gpu::mma {

// The kernel of attention_backward/mma/prepare.cuh for operands of a type and heads of up to so many columns, 256 at most. checks: NaN
// and infinity are looked for.
const void *backward_prepare(int32_t dtype, int64_t columns, bool checks);

}  // namespace attile::gpu::mma
