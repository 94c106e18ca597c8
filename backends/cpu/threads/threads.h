// SPDX-License-Identifier: Apache-2.0
// Threads: what an operation says of its work, cut into pieces that whoever is there takes; threads/team.cpp has the threads.
//
// Results must not depend on how many threads there are or which of them takes what: a piece's bits are the piece's alone.
#ifndef ATTILE_CPU_THREADS_H
#define ATTILE_CPU_THREADS_H

#include <cstdint>
#include <type_traits>

namespace attile::cpu {

// What a call has to do: `rounds` times the same phases after one another, each cut into pieces that may be done in any order and at the
// same time. A phase begins when all pieces of the one before it are done.
constexpr int kMostPhases = 4;
struct Work {
    int64_t rounds = 1;
    int64_t pieces[kMostPhases] = {};
};

struct Piece {
    int64_t round;
    int phase;
    int64_t index;  // below pieces[phase]
    int rank;       // of who does it, below the number of threads that was asked for; nobody else has it in this call
};

// Threads a new context uses when its options do not say: ATTILE_NUM_THREADS, else OMP_NUM_THREADS, else the processors that this process
// may use.
int default_threads();
// Those of its affinity mask, fewer if its control group grants less time.
int processors_available();

using PieceBody = void (*)(void *argument, const Piece &piece);

// Does all of `work` on the calling thread and up to `threads` - 1 others; returns when it is done. body must not throw, wait or call back.
void run_work(int threads, const Work &work, PieceBody body, void *argument);

template <class Body>
void parallel_phases(int64_t threads, const Work &work, Body &&body) {
    using Plain = std::remove_reference_t<Body>;
    if (threads <= 1) {
        for (int64_t round = 0; round < work.rounds; ++round) {
            for (int phase = 0; phase < kMostPhases; ++phase) {
                for (int64_t index = 0; index < work.pieces[phase]; ++index) body(Piece{round, phase, index, 0});
            }
        }
        return;
    }
    run_work(
        static_cast<int>(threads), work, [](void *argument, const Piece &piece) { (*static_cast<Plain *>(argument))(piece); }, &body);
}

// body(index, rank) for every index below `count`.
template <class Body>
struct Loop {
    int64_t count;
    Body body;
};
template <class Body>
Loop(int64_t, Body) -> Loop<Body>;

// Loops one after the other; the indices of each in an unspecified order and division. One start and one join for all of them.
template <class... Bodies>
void parallel_in_turn(int64_t threads, Loop<Bodies> &&...loops) {
    static_assert(sizeof...(loops) <= kMostPhases);
    int64_t longest = 0;
    ((longest = loops.count > longest ? loops.count : longest), ...);
    if (threads > longest) threads = longest;
    const auto run = [](auto &loop, int64_t first, int64_t last, int rank) {
        for (int64_t i = first; i < last; ++i) loop.body(i, rank);
    };
    if (threads <= 1) {
        (run(loops, 0, loops.count, 0), ...);
        return;
    }
    // Pieces of several indices where there are many: to take one costs about as much as the smallest indices do.
    const auto grain_of = [threads](int64_t count) { return count / (64 * threads) + 1; };
    Work work;
    int phases = 0;
    ((work.pieces[phases++] = (loops.count + grain_of(loops.count) - 1) / grain_of(loops.count)), ...);
    parallel_phases(threads, work, [&](const Piece &piece) {
        int phase = 0;
        const auto take = [&](auto &loop) {
            if (phase++ != piece.phase) return;
            const int64_t grain = grain_of(loop.count), first = piece.index * grain;
            run(loop, first, loop.count - first < grain ? loop.count : first + grain, piece.rank);
        };
        (take(loops), ...);
    });
}

template <class Body>
void parallel_for(int64_t threads, int64_t count, Body &&body) {
    parallel_in_turn(threads, Loop{count, [&body](int64_t index, int rank) { body(index, rank); }});
}

}  // namespace attile::cpu

#endif  // ATTILE_CPU_THREADS_H
