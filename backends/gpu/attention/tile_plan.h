// SPDX-License-Identifier: Apache-2.0
// Plans of tiles of rows: which kernel of a configuration a problem gets, how its keys are split, and what that takes.
#pragma once

#include <cstdlib>

#include "attention/plan.h"
#include "host/sizes.h"

namespace attile::gpu {

inline bool is_aligned_16(const attile_operand &x) { return reinterpret_cast<uintptr_t>(x.data) % 16 == 0; }
// Are rows of 8 or 4 bits contiguous, and do they begin at multiples of 16 bytes?
inline bool lies_in_pieces(const attile_operand &x) {
    const int64_t piece = 128 / dtype_bits(x.dtype);
    return is_aligned_16(x) && x.stride[3] == 1 && x.stride[0] % piece == 0 && x.stride[1] % piece == 0 && x.stride[2] % piece == 0;
}
// Bytes from row to row fit 32 bits.
inline bool has_short_stride(const attile_operand &x) { return std::llabs(x.stride[2]) < (int64_t{1} << 29); }

constexpr int64_t kMostAttentionSplits = 256;
constexpr double kSplitLaunchSeconds = 3e-6;

// Of all pairs of row and key.
double visible_share(const attile_attention_problem &problem);
// Most tiles of keys, from the first that it sees, that a block of `rows` rows has, `pack` to a query row: its splits share those out.
int64_t seen_tiles(const attile_attention_problem &problem, int64_t rows, int64_t pack, int64_t keys);
// What splits take besides: a launch, and the way of their results to memory and back.
double split_seconds(const attile_attention_problem &problem, int32_t splits);

// `start` is what is known before a kernel is chosen; `best` becomes this kernel's plan if that is the first or the cheapest.
void plan_tile(Device &device, const attile_attention_problem &problem, const simt::AttentionTileKernel &kernel, bool invariant,
               const AttentionPlan &start, AttentionPlan &best);

}  // namespace attile::gpu
