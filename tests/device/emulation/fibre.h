// SPDX-License-Identifier: Apache-2.0
// Runs a block of threads as fibres; see lane_emulation.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "lane_emulation.h"

namespace attile::emulation {

// The order in which threads get their turn.
enum class Order { kForward, kBackward, kShuffled };

// Runs every block of the grid, one after the other. Returns what went wrong, empty if nothing did.
std::string run_grid(const void *kernel, Call call, void **arguments, Index grid, Index block, std::size_t dynamic_bytes, Order order);

// How a kernel is called, or null.
Call call_of(const void *kernel);

}  // namespace attile::emulation
