// SPDX-License-Identifier: Apache-2.0
// Ranks of a command, for --ranks: threads of this process, with NCCL between them where each has a GPU, or the ranks of MPI of which this
// process is one.
#pragma once

#include <attile/attile_distributed.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli.h"

namespace attile::cli {

// One rank: a context, and its end of the group.
class Rank {
  public:
    // `exchange`: of another group of the same ranks, which takes any context.
    Rank(std::unique_ptr<Context> context, const attile_comm_options &options, const attile_comm_options &exchange,
         const std::string &note = "");
    Rank(const Rank &) = delete;
    Rank &operator=(const Rank &) = delete;

    const Context &context() const { return work_.context(); }
    attile_comm *comm() const { return work_.comm(); }
    int rank() const { return info_.rank; }
    int ranks() const { return info_.ranks; }
    bool first() const { return info_.rank == 0; }
    // What messages go by, for a person: "threads", "nccl, a GPU each", ...
    std::string transport() const { return info_.kind + note_; }

    // Seconds in the transport so far, and whether the communicator still works.
    attile_comm_info info() const;
    double transport_seconds() const { return info().transport_seconds; }

    // The numbers of each rank, on every rank, exactly: as many of each, finite ones. Waits for all ranks. They do not pass through the
    // backend that the command runs, nor count as its communication.
    std::vector<std::vector<double>> share(const std::vector<double> &own) const;
    // The first rank's text, on every rank.
    std::string share_text(const std::string &of_first) const;
    // Returns when every rank has come here.
    void meet() const { share({0}); }

  private:
    // On a context, as one of the group.
    class End {
      public:
        End(std::unique_ptr<Context> context, const attile_comm_options &options) : context_(std::move(context)) {
            check(attile_comm_create(*context_, &options, &comm_));
        }
        ~End() { attile_comm_destroy(comm_); }
        End(const End &) = delete;
        End &operator=(const End &) = delete;
        const Context &context() const { return *context_; }
        attile_comm *comm() const { return comm_; }

      private:
        std::unique_ptr<Context> context_;
        attile_comm *comm_ = nullptr;
    };

    const End work_, exchange_;
    const std::string note_;
    attile_comm_info info_;
};

const char *layout_name(int32_t layout);
const char *method_name(int32_t method);

// Runs `body` on each rank: on so many threads, or with 0 in this process, as one rank of MPI. Threads have a GPU each, and messages go by
// NCCL or RCCL, where the backend has so many GPUs, names none of them, and the library can be loaded. Throws Failure with the first
// sentence that a rank failed with. A Failure of a rank of MPI names the rank; MPI is then not ended, so that the launcher ends the other
// ranks.
void run_on_ranks(int ranks, const std::string &backend, int threads, const std::function<void(Rank &)> &body);

}  // namespace attile::cli
