// SPDX-License-Identifier: Apache-2.0
// One rank's end of a group of ranks of MPI. MPI reads and writes memory of the link's own alone: a request that MPI does not let go of, a
// send whose receiver is gone say, keeps that memory, and the caller has its own back.
#ifndef ATTILE_COMM_MPI_LINK_H
#define ATTILE_COMM_MPI_LINK_H

#include <attile/attile_comm_plugin.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <mutex>

namespace attile::mpi {

// The core's services; set by the entry, before anything else is called.
extern const attile_host_v1 *host;

// Sets the error sentence, and gives back the status.
int32_t refuse(int32_t status, const char *format, ...) __attribute__((format(printf, 2, 3)));

using Clock = std::chrono::steady_clock;

class Deadline {
  public:
    explicit Deadline(double seconds)
        : latest_(Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {}
    bool over() const { return Clock::now() >= latest_; }

  private:
    const Clock::time_point latest_;
};

// A message under way.
struct Message {
    Message *next;  // of those that are not used, or not let go of
    bool sending;
    int32_t pieces, over;  // requests, and how many of the first are over
    int64_t bytes, capacity;
    void *target;  // of a receive: where the bytes go when they are here
    char *memory;
    MPI_Request *requests;
    int32_t most_pieces;
};

class Link {
  public:
    // `level` is MPI's level of threads.
    Link(int level, int32_t rank, int32_t ranks) : level_(level), rank_(rank), ranks_(ranks) {}
    ~Link();
    Link(const Link &) = delete;
    Link &operator=(const Link &) = delete;

    // Makes a communicator of its own from the program's, with all of its ranks.
    int32_t join(MPI_Comm parent, double seconds);
    int32_t start(bool sending, void *data, int64_t bytes, int32_t peer, Message **message);
    int32_t wait(Message *message, double seconds);
    void give_up(const char *why);
    // False if MPI may still use the link's memory: it is then to stay for as long as the process lives.
    bool leave();

  private:
    // What the ranks say to each other when they join: what rank 0 says counts.
    struct Greeting {
        int64_t mark;   // of this communicator; another's message that comes late is told by it
        int64_t piece;  // most bytes of a request
    };
    struct Failure {
        int64_t mark;
        char why[504];
    };

    int32_t check_thread() const;
    int32_t wait_to_join(MPI_Request *request, const Deadline &deadline, const char *what);
    int32_t fail_mpi(const char *what, int error);
    Message *take(int64_t bytes);
    void give(Message *message);
    int test(Message *message, bool *over);
    void abandon(Message *message);
    void keep(Message *message);
    int listen();
    void hear();
    void tell();
    void record_failure(int32_t status, const char *why);

    const int level_;
    const int32_t rank_, ranks_;
    std::mutex lock_;  // of everything below: a rank gives up while a call of its waits, from another thread
    MPI_Comm comm_ = MPI_COMM_NULL;
    MPI_Request joining_ = MPI_REQUEST_NULL, hearing_ = MPI_REQUEST_NULL;
    MPI_Request *telling_ = nullptr;  // one for each rank
    Greeting greeting_{};
    Failure heard_{}, told_{};
    int32_t failure_ = ATTILE_OK;  // what waits return from `failed_at_` on, with these words
    char why_[512] = "";
    Clock::time_point failed_at_;
    bool sound_ = true;  // every message that was started came to its end
    bool owes_ = false;  // has given up, on a thread that may not call MPI
    Message *unused_ = nullptr, *kept_ = nullptr;
    int64_t unused_bytes_ = 0;
};

}  // namespace attile::mpi

#endif
