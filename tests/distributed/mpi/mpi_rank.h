// SPDX-License-Identifier: Apache-2.0
// This process as a rank of MPI, with a context and communicators.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "ranks.h"
#include "test_tensor.h"

namespace attile::test {

int world_rank();
int world_ranks();

/// Options of kind "mpi" whose waits are so long that a test that hangs is seen, and a slow machine is not.
attile_comm_options mpi_options(double timeout = 20);

struct SmallCall;

/// A rank on one communicator of MPI; destroyed with it.
class MpiRank {
  public:
    explicit MpiRank(const std::string &backend = "reference", const attile_comm_options &options = mpi_options());
    ~MpiRank();
    MpiRank(const MpiRank &) = delete;
    MpiRank &operator=(const MpiRank &) = delete;

    Rank &rank() { return rank_; }
    attile_comm *comm() { return rank_.comm; }
    /// What became of a small call (two_calls.h), and of another that is right everywhere.
    void call(const std::function<void(SmallCall &)> &prepare, std::int32_t *first, std::string *why, std::int32_t *second);

  private:
    Rank rank_;
    int ranks_ = 0;
};

/// What each rank says, on all of them.
std::vector<std::int32_t> of_all(std::int32_t own);
/// What each rank has, on rank 0; elsewhere empty.
std::vector<Values> gather(const Values &own);

}  // namespace attile::test
