// SPDX-License-Identifier: Apache-2.0
// What the kernels of a bias's gradient are told, by value.
#pragma once

#include <cstdint>

#include "attention_backward/mma/task.h"

namespace attile::gpu::mma {

// A tile of the gradient is 128 rows by 128 keys of one entry and head of the bias. Operands stream by 64 columns at a time.
inline constexpr int32_t kBiasTile = 128, kBiasThreads = 256, kBiasColumns = 64, kBiasStages = 3;
inline constexpr int32_t kBiasOfThread = kBiasTile * kBiasTile / kBiasThreads;
// Of 16 rows that a warp has: 64 rows by 32 keys by mma.sync, 16 rows by 128 keys as a warp of a warpgroup.
inline constexpr int kWarpBiasBlocks = 4, kGroupBiasBlocks = 1;
// One of the entries and heads that a tile sums over, as far as it has the tile.
struct BiasMember {
    const char *q, *k, *dout, *v;  // The tile's first row or key.
    const char *numbers;           // Likewise: lse and delta.
    int32_t batch, head;
    int32_t rows, keys;  // From there on.
    int32_t low, high;   // Key minus query row of what is seen, both counted from there.
    int32_t is_there;    // 0: there are no more.
    int32_t is_whole;    // All of the tile is seen.
};
// A lane looks for each of kFound at a time. What was found last is in use while the next are written.
template <int32_t kFound>
struct BiasMembers {
    static_assert(kFound > 3, "as many are in use");
    static constexpr int32_t kKnown = 2 * kFound;
    BiasMember known[kKnown];
    int32_t next, end;  // Which are left, of all pairs of entry and head that share the bias.
    int32_t found;
};
inline constexpr int32_t kBiasOperandBytes = kBiasTile * kBiasColumns * 2, kBiasNumberBytes = 8 * kBiasTile;
// Stages of two operands, lse and delta of two members' rows, the bias in float32, members.
inline constexpr int32_t kBiasNumbersAt = kBiasStages * 2 * kBiasOperandBytes, kBiasAt = kBiasNumbersAt + 2 * kBiasNumberBytes,
                         kBiasMembersAt = kBiasAt + 4 * kBiasTile * kBiasTile;
inline constexpr int32_t kWarpBiasFound = 6, kGroupBiasFound = 16;
template <int32_t kFound>
constexpr int32_t bias_shared_bytes() {
    return kBiasMembersAt + static_cast<int32_t>(sizeof(BiasMembers<kFound>));
}
static_assert(bias_shared_bytes<kWarpBiasFound>() <= 163 * 1024, "what capability 8.0 has");

struct BackwardBiasTask : BackwardTask {
    int32_t row_tiles, key_tiles;
    int32_t tiles;    // Of all entries and heads of the bias.
    int32_t members;  // Pairs of batch entry and query head that an element sums over,
    int32_t parts;    // cut into so many parts, which different blocks have.
    float *sums;      // [part][tile][element of a thread / 4][thread][4]; null: there is one part, which is stored at once.
};

struct BackwardBiasKernels {
    const void *gradient, *add_parts;
    int32_t shared_bytes;
    double rate;            // Of products, as a share of the tensor cores' peak, and
    double member_seconds;  // what a member takes besides, as measured where members are many.
};
// For operands of a type, by mma.sync.
BackwardBiasKernels backward_bias_kernels(int32_t dtype);

}  // namespace attile::gpu::mma
