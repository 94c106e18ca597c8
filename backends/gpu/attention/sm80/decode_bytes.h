// SPDX-License-Identifier: Apache-2.0
// Decoding with keys and values of 8 bits and q of 16 on tensor cores: for what the plain instances of the SIMT kernel of four rows take,
// in tiles of as many keys, so that the plan of those is this one's.
#pragma once

#include <cstdint>

#include <attile/attile_backend.h>

#include "attention/params.h"

namespace attile::gpu::sm80 {

// Scales that differ from key to key: there are none, one for each key, or one for each 32 columns of it or a multiple.
enum class KeyScales { kNone, kOne, kGroups };

struct DecodeBytesKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;             // Null: there is none.
    int32_t rows = 0, keys = 0, threads = 0;  // A block's rows, and its tile of keys.
};
// storage: kI8 or kE4M3; columns: of each of K and V, all of them.
DecodeBytesKernel attention_decode_bytes(AttentionStorage storage, int64_t columns, KeyScales scales);
// For a problem of plain rows.
DecodeBytesKernel plan_decode_bytes(const attile_attention_problem &problem);

}  // namespace attile::gpu::sm80
