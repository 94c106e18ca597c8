// SPDX-License-Identifier: Apache-2.0
// Few rows of q of 16 bits over keys and values of 8 and 4 bits on tensor cores, in place of SIMT's kernels that stream keys.
#pragma once

#include <cstddef>
#include <cstdint>

#include <attile/attile_backend.h>

#include "attention/params.h"

namespace attile::gpu::sm80 {

// Scales that differ from key to key: there are none, one for each key, or one for each 32 columns of it or a multiple.
enum class KeyScales { kNone, kOne, kGroups };

struct DecodeNarrowKernel {
    const char *name = nullptr;
    const void *kernel = nullptr;             // Null: there is none.
    int32_t rows = 0, keys = 0, threads = 0;  // A block's rows, and its tile of keys.
    std::size_t shared = 0;                   // Dynamic shared memory.
};
// storage: kI8, kE4M3 or kI4; columns: 64 or 128, of each of K and V, all of them; shared: what a block may have of it.
DecodeNarrowKernel attention_decode_narrow(AttentionStorage storage, int64_t columns, KeyScales scales, int64_t shared);
// For scores that are modified, keys in pages, and rows that are shorter.
DecodeNarrowKernel attention_decode_narrow_any(AttentionStorage storage, int64_t columns, KeyScales scales, int64_t shared);
// Whether there is one depends on the problem and on where its keys and values lie, too.
DecodeNarrowKernel plan_decode_narrow(const attile_attention_problem &problem, int64_t shared);

}  // namespace attile::gpu::sm80
