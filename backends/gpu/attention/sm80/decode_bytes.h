// SPDX-License-Identifier: Apache-2.0
// Decoding with keys and values of 8 bits on tensor cores: for what the plain instances of the SIMT kernel of four rows take, in tiles of
// as many keys, so that the plan of those is this one's.
#pragma once

#include <cstdint>

#include "attention/params.h"

namespace attile::gpu::sm80 {

struct DecodeBytesKernel {
    const char *name;  // Null: there is none.
    const void *kernel;
    int32_t rows, keys, threads;  // A block's rows, and its tile of keys.
};
// storage: kI8 or kE4M3; scales_by_key: K or V has scales that differ from key to key.
DecodeBytesKernel attention_decode_bytes(AttentionStorage storage, int64_t columns, bool scales_by_key);

}  // namespace attile::gpu::sm80
