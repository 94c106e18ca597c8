// SPDX-License-Identifier: Apache-2.0
// What `attile explain --ranks` says: the time of each step of a ring over ranks, by its link and by its arithmetic. Computes nothing.
#pragma once

#include <string>
#include <vector>

#include "bench_cases.h"

namespace attile::cli {

// Steps that are alike. A rank computes with one shard of keys while it sends the next one to the rank behind it, and in a backward call
// the sums of dk and dv of the step before.
struct RingSteps {
    int64_t first, last;
    double flops, bytes;  // of a rank, in one step
    const char *sent;
};

// Of attention or its gradients with even shards, zigzag under a causal mask, so that all ranks do the same work; `flops`: of the whole.
std::vector<RingSteps> ring_steps(const bench::BenchCase &one, double flops, int64_t ranks);

// `link`: bytes a second of a rank, in each direction.
std::string ring_facts(const bench::BenchCase &one, double flops, int64_t ranks, double link, double peak_flops);

}  // namespace attile::cli
