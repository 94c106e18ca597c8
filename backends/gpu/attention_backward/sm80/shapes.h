// SPDX-License-Identifier: Apache-2.0
// The shape of a tile of the sm_80 kernels of attention's gradients. Which there are, with their budget:
// attention_backward/sm80/instances.cmake.
#pragma once

#include "attention_backward/mma/task.h"

namespace attile::gpu::sm80 {

// A block keeps `groups` times 32 rows of two operands in shared memory, K and V or Q and dO, and lets tiles of the other two stream by.
struct BackwardShape {
    int depth;   // Most columns of a head.
    int groups;  // Of warps: a group has 32 of the kept rows.
    int splits;  // Warps of a group: each makes scores of its part of a streamed tile, and sums of its part of the columns.
    int part;    // Streamed rows whose scores a warp makes at a time.
    int parts;   // Of a tile, one after the other.
    int blocks;  // That a multiprocessor holds by registers, at least.
    bool bias, allowed, alibi, softcap;  // What scores may pass through besides a mask; neither bias nor ALiBi after softcap.
    bool by_element;                     // Through all of it, one score after the other.
    bool of_keys;                        // Keys are kept, for dK and dV; else query rows, for dQ.

    constexpr int options() const { return bias + allowed + alibi + softcap; }
    constexpr bool modifies() const { return options() > 0; }
    constexpr int rows() const { return 32 * groups; }
    constexpr int tile() const { return part * parts * splits; }
    constexpr int columns() const { return depth / splits; }
    constexpr int threads() const { return 32 * groups * splits; }
    constexpr int kept_bytes() const { return rows() * depth * 2; }  // Of one operand.
    constexpr int tile_bytes() const { return tile() * depth * 2; }  // Likewise.
    constexpr int number_bytes() const { return 8 * (of_keys ? tile() : rows()); }
    constexpr int place_bytes() const { return 2 * tile_bytes() + (of_keys ? number_bytes() : 0); }
    constexpr int exchange_bytes() const { return splits > 1 ? rows() * tile() * (of_keys ? 4 : 2) : 0; }
    constexpr int record_bytes() const { return options() == 1 ? mma::kModifierRecord * threads() / 32 : 0; }
    constexpr int shared_bytes() const {
        return 2 * kept_bytes() + 2 * place_bytes() + exchange_bytes() + (of_keys ? 0 : number_bytes()) + record_bytes();
    }
};

}  // namespace attile::gpu::sm80
