// SPDX-License-Identifier: Apache-2.0
// A group of ranks that are threads, each with a context and a communicator.
#pragma once

#include <attile/attile_distributed.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "mail_transport.h"
#include "sharded_case.h"

namespace attile::test {

struct Rank : RankOfCase {
    std::int32_t created = ATTILE_OK;
    std::string why;  ///< of a failed creation
};

struct RanksOptions {
    int ranks = 2;
    std::string backend = "reference";
    Mail *mail = nullptr;  ///< callbacks; else threads
    std::function<void(attile_comm_callbacks *)> change = nullptr;
    double timeout = 60;  ///< so long that a test that hangs is seen, and a slow machine is not
    std::uint32_t flags = 0;
    std::vector<std::string> backends;  ///< of each rank, where they differ
    /// For other kinds: what a rank joins with, changed.
    std::function<void(int rank, attile_comm_options *)> join = nullptr;
    Placement placement = Placement::kHost;
};

std::string last_error();
bool opens(const std::string &backend);  ///< whether it is built and can run here
attile_context *open_context(const std::string &backend);

/// Runs `body` on every rank at once, when all have joined or failed to; all are done when it returns.
void run_ranks(const RanksOptions &options, const std::function<void(Rank &)> &body);

}  // namespace attile::test
