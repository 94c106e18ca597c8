// SPDX-License-Identifier: Apache-2.0
// What a call over ranks does where one rank gets no memory.
#pragma once

#include <attile/attile_distributed.h>
#include <fault_injection.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"

namespace attile::test {

// Every allocation of one rank fails in its own run. What comes of it is a status of that call on every rank, or on none. No rank waits
// in vain for another. Call: made of a number of ranks, with call(comm).
template <class Call>
void expect_failures_of_memory(const std::function<RanksOptions()> &options, const std::function<void(Call &)> &change) {
    int failed = 0, runs = 0;
    for (std::int64_t n = 1; n < 1000; ++n) {
        bool reached = false;
        std::vector<std::int32_t> first(3, -1), second(3, -1);
        std::vector<std::string> why(3);
        run_ranks(options(), [&](Rank &rank) {
            EXPECT_EQ(rank.created, ATTILE_OK) << rank.why;
            Call call(3);
            change(call);
            const std::size_t at = static_cast<std::size_t>(rank.rank);
            if (rank.rank == 1) attile_fault_arm(ATTILE_FAULT_MEMORY | ATTILE_FAULT_THIS_THREAD, n, n);
            const std::int32_t status = call.call(rank.comm);
            if (rank.rank == 1) reached = attile_fault_disarm() >= n;
            first[at] = status;
            why[at] = last_error();
            second[at] = call.call(rank.comm);
        });
        ++runs;
        const bool well = first[1] == ATTILE_OK;
        failed += well ? 0 : 1;
        for (std::size_t rank = 0; rank < 3; ++rank) {
            if (rank != 1) {
                EXPECT_EQ(first[rank], well ? ATTILE_OK : ATTILE_ERROR_RANK_FAILED)
                    << "allocation " << n << ", rank " << rank << ": " << why[rank];
            }
            EXPECT_EQ(second[rank], well ? ATTILE_OK : ATTILE_ERROR_COMM_BROKEN) << why[rank];
        }
        if (!reached) break;
    }
    EXPECT_GT(failed, 5);
    EXPECT_GT(runs, failed);
}

}  // namespace attile::test
