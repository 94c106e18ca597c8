// SPDX-License-Identifier: Apache-2.0
// Communicators of NCCL for ranks that are threads. ATTILE_TEST_NCCL names a library of NCCL; without it the stand-in is taken.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ranks.h"
#include "stand_in.h"

namespace attile::test {

class Nccl {
  public:
    // Of the process, loaded by the first call.
    static Nccl &instance();
    bool is_stand_in() const { return is_stand_in_; }
    // Why there is none; empty if there is.
    const std::string &failure() const { return failure_; }
    template <typename Function>
    Function function(const char *name) const {
        return reinterpret_cast<Function>(symbol(name));
    }

  private:
    Nccl();
    void *symbol(const char *name) const;

    void *library_ = nullptr;
    bool is_stand_in_ = false;
    std::string failure_;
};

// Skips a test, or in SetUp() all of its fixture, where NCCL itself has fewer devices than ranks.
#define ATTILE_SKIP_WITHOUT_DEVICES(ranks)                                                                                             \
    if ((ranks) > 1 && !attile::test::Nccl::instance().is_stand_in() && !attile::test::opens(attile::test::device_of_rank((ranks)-1))) \
    GTEST_SKIP() << "there are fewer than " << (ranks) << " devices"

// As many as there are devices, one for each rank; ended with the object.
class NcclComms {
  public:
    explicit NcclComms(int ranks, const std::vector<int> &devices = {});
    ~NcclComms();
    NcclComms(const NcclComms &) = delete;
    NcclComms &operator=(const NcclComms &) = delete;
    ncclComm_t at(int rank) const { return comms_[static_cast<std::size_t>(rank)]; }
    // For RanksOptions::join.
    void join(int rank, attile_comm_options *options) const;
    // What is under way ends; with NCCL itself it is left behind.
    void abort();

  private:
    std::vector<ncclComm_t> comms_;
};

// Ranks of NCCL on emulated devices, or with a library of NCCL on real ones.
std::string device_of_rank(int rank);
RanksOptions ranks_of(const NcclComms &comms, int ranks);

}  // namespace attile::test
