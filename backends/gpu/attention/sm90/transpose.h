// SPDX-License-Identifier: Apache-2.0
// V of 8 bits rewritten for products that read both operands contiguous along the depth, which of V are the keys:
// [batch][head][column][place]. Keys stand in the order of key_of_place(); those that no row sees are zeros.
#pragma once

#include <cstdint>

#include "attention/params.h"

namespace attile::gpu::sm90 {

struct TransposeArguments {
    AttentionParams p;
    uint8_t *to;
    int64_t row;      // Bytes of a column's row in `to`, whole tiles of keys.
    int32_t columns;  // Rows of a head in `to`.
    Divider heads;    // Key heads.
};

inline constexpr int kTransposeThreads = 256, kTransposedKeys = 128, kTransposedColumns = 128;

// Grid: tiles of kTransposedKeys keys, tiles of kTransposedColumns columns, batch entries times key heads.
const void *transpose_values_kernel();

}  // namespace attile::gpu::sm90
