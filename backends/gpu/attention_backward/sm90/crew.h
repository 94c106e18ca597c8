// SPDX-License-Identifier: Apache-2.0
// How blocks of attention's gradients on Hopper share out the device: how many of the same pair of batch entry and key head run at a time,
// with which rows they begin, and how many sums of dq they add to.
#pragma once

#include <cstdint>

#include "attention_backward/mma/plan.h"
#include "attention_backward/sm90/arguments.h"
#include "device.h"

namespace attile::gpu::sm90 {

// Blocks of the same pair read the same rows at nearly the same time, and wait for each other's sums of dq at most at the start.
struct BackwardCrew {
    int64_t blocks = 0;    // That run at once.
    int64_t chunk = 0;     // Pairs that they are of.
    int64_t together = 0;  // Those of a pair.
    int64_t levels = 0;    // Blocks of a pair, some of which may be empty.
    int64_t gang = 1;      // BackwardWalk
    int64_t apart = 1;     // Likewise.
    bool is_near = false;  // A gang that begins close together.
};

// For `pairs` pairs of a launch. is_summed: the kernel adds up dq.
BackwardCrew backward_crew(const DeviceProperties &device, const attile_attention_problem &problem, const AttentionBackwardPlan &plan,
                           const BackwardShape &shape, int64_t pairs, bool is_summed);

// Sums of dq of each tile of rows. Blocks of keys add to the same sum one after the other. Where many see few rows, they would wait for
// each other most of the time: there a tile has several sums, to which they add round-robin, and which the last kernel adds up. As many as
// make waiting and adding up shortest, of those that `most` elements hold. words: of one sum of all rows of a pair.
int64_t backward_chains(const DeviceProperties &device, const attile_attention_problem &problem, const AttentionBackwardPlan &plan,
                        const BackwardShape &shape, int64_t words, int64_t most);

}  // namespace attile::gpu::sm90
