// SPDX-License-Identifier: Apache-2.0
// What the decode kernel is launched with.
#pragma once

#include "attention/params.h"

namespace attile::gpu::simt {

// Besides, how the last block of a row block's splits finds that it is (attention/simt/decode_merge.cuh): a word for each row block of all
// heads, and this call's number, in the bits from kCountBits on. `counts` is null where a kernel of its own puts splits together.
struct DecodeParams : AttentionParams {
    static constexpr int kCountBits = 10;  // More splits than there ever are.
    unsigned long long *counts = nullptr;
    unsigned long long call = 0;
};

// Instances that put splits together themselves, where K and V are plain rows: of float, but for the smallest, which would lose one of its
// three blocks a unit to the registers.
constexpr bool decode_merges(bool is_float, int rows, int cols) { return is_float && (rows > 1 || cols > 64); }

}  // namespace attile::gpu::simt
