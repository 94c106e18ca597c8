// SPDX-License-Identifier: Apache-2.0
// A communicator of the transport's own, with all ranks of the caller's: it returns at once where others do not come (it is not blocking),
// and may be aborted.
#ifndef ATTILE_COMM_NCCL_SPLIT_H
#define ATTILE_COMM_NCCL_SPLIT_H

#include <chrono>

#include "nccl/nccl_library.h"

namespace attile::nccl {

using Clock = std::chrono::steady_clock;

class Deadline {
  public:
    explicit Deadline(double seconds)
        : latest_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
    bool over() const { return Clock::now() >= latest_; }

  private:
    const Clock::time_point latest_;
};

// Of a loop that asks again and again: first at once, then another thread goes first, a rank perhaps that is waited for. A sleep takes a
// tenth of a millisecond, so there is none before a wait has lasted much longer than that.
class Patience {
  public:
    void ask_again();

  private:
    const Clock::time_point begin_ = Clock::now();
    unsigned asked_ = 0;
};

// Waits for all ranks of `parent`. One that cannot take part comes with `takes_part` false: the others then hear of it at once. For that
// one `made` stays NULL, and no sentence is set.
int32_t split(const Library &library, Comm parent, bool takes_part, int rank, int ranks, double seconds, Comm *made);

}  // namespace attile::nccl

#endif
