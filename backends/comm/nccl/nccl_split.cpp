// SPDX-License-Identifier: Apache-2.0
#include "nccl/nccl_split.h"

#include <sched.h>

#include <atomic>
#include <exception>
#include <memory>
#include <thread>

namespace attile::nccl {
namespace {

constexpr std::chrono::milliseconds kAwake{5};

// What the thread that splits shares with the one that waits for it.
struct Splitting {
    const Library &library;
    const Comm parent;
    const int colour, key;
    Config config;
    Comm made = nullptr;
    int result = kSuccess;
    enum : int { kUnderWay, kOver, kLeft };
    std::atomic<int> state{kUnderWay};
};

void run(const std::shared_ptr<Splitting> &job) {
    job->config.blocking = 0;
    job->result = job->library.split(job->parent, job->colour, job->key, &job->made, &job->config);
    while (job->result == kInProgress) {  // of a parent that does not block
        int now = kSuccess;
        const int asked = job->library.async_error(job->parent, &now);
        job->result = asked != kSuccess ? asked : now;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    int expected = Splitting::kUnderWay;
    if (job->state.compare_exchange_strong(expected, Splitting::kOver)) return;
    if (job->made != nullptr) (void)job->library.abort(job->made);  // nobody waits for it any more
}

int32_t refuse_late(int rank, int ranks, double seconds) {
    return refuse(ATTILE_ERROR_RANK_LATE, "within %g s not all ranks of the NCCL communicator came; this is rank %d of %d", seconds, rank,
                  ranks);
}

}  // namespace

void Patience::ask_again() {
    ++asked_;
    if (asked_ % 16 == 0) sched_yield();
    if (asked_ > 4096 && Clock::now() - begin_ > kAwake) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

// A communicator whose calls block has no call that ends with the time, so a thread makes it.
int32_t split(const Library &library, Comm parent, bool takes_part, int rank, int ranks, double seconds, Comm *made) {
    const Deadline deadline(seconds);
    std::shared_ptr<Splitting> job;
    try {
        job.reset(new Splitting{library, parent, takes_part ? 0 : kNoColour, rank, {}});
        std::thread(run, job).detach();
    } catch (const std::exception &) {
        if (!takes_part) return ATTILE_ERROR_OUT_OF_HOST_MEMORY;
        return refuse(ATTILE_ERROR_OUT_OF_HOST_MEMORY, "there is no memory for a thread that waits for the other ranks");
    }
    for (Patience patience; job->state.load() == Splitting::kUnderWay; patience.ask_again()) {
        int expected = Splitting::kUnderWay;
        if (!deadline.over() || !job->state.compare_exchange_strong(expected, Splitting::kLeft)) continue;
        return takes_part ? refuse_late(rank, ranks, seconds) : ATTILE_ERROR_RANK_LATE;
    }
    if (!takes_part) return ATTILE_OK;
    if (job->result != kSuccess) return refuse_result(library, "ncclCommSplit", job->result);
    int now = kInProgress, present = 0;
    for (Patience patience; now == kInProgress; patience.ask_again()) {
        const int asked = library.async_error(job->made, &now);
        if (asked != kSuccess) now = asked;
        if (now == kInProgress && deadline.over()) {
            (void)library.abort(job->made);
            return refuse_late(rank, ranks, seconds);
        }
    }
    if (now == kSuccess) now = library.count(job->made, &present);
    if (now == kSuccess && present == ranks) {
        *made = job->made;
        return ATTILE_OK;
    }
    (void)library.abort(job->made);
    if (now != kSuccess) return refuse_result(library, "making a communicator", now);
    return refuse(ATTILE_ERROR_RANK_FAILED, "%d of %d ranks of the communicator did not join; their own calls say why", ranks - present,
                  ranks);
}

}  // namespace attile::nccl
