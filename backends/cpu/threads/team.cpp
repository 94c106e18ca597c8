// SPDX-License-Identifier: Apache-2.0
// The threads of this backend: one team a process, shared by all its contexts and callers.
//
// What a library inside somebody's program needs, and what OpenMP's runtimes, TBB and pthreadpool do not promise together:
// - Nothing is printed, nobody exits. A thread that cannot be made is done without; memory that cannot be had is, too.
// - Nobody waits for a thread that the system has not scheduled. Work is a row of numbered pieces, taken in order by whoever comes, the
//   caller among them; the call is over when every piece that was taken is done. A thread that comes too late finds the number of the job
//   changed: what it looks at to see this is the team's and stays, and it touches the caller's memory only while it holds a piece.
// - A forked child has no threads and a team that knows it: the team lies in memory that the kernel wipes there.
// - Workers compute in the caller's floating-point mode: rounding, and what becomes of denormals.
// - A caller is not cancelled while others work for it. Signals go to the program's own threads.
// - Nothing runs at exit. Workers are detached and never touch anything that a dying process takes apart.
#include <atomic>
#include <climits>
#include <new>

#include "system.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int kSlots = 16;  // calls that have workers at the same time; further calls run on their callers alone
constexpr int kMostWorkers = 1023;
constexpr size_t kStackBytes = size_t{1} << 20;
// How long a thread looks for the end of a phase before it sleeps: about what sleeping and waking cost.
constexpr int64_t kSpinNanoseconds = 50000;
// The same for a worker between calls: programs call again and again, and one that sleeps makes the next call of half a millisecond up to a
// fifth longer.
constexpr int64_t kSpinBetweenCalls = 200000;
// The same for a worker while calls go on: of two threads that work on a series of calls one is always a little early.
constexpr int64_t kSpinBesideCalls = 500000;
constexpr int64_t kNapNanoseconds = 1000000;
constexpr uint64_t kMostTickets = uint64_t{1} << 31;
constexpr uint32_t kClosed = UINT32_MAX;

static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<void *>::is_always_lock_free);
// ---- Waiting

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

// True as soon as ready() is, false after limit(), which is asked now and then.
template <class Ready, class Limit>
bool spin_until(Ready &&ready, Limit &&limit) {
    const int64_t begin = now_nanoseconds();
    do {
        for (int i = 0; i < 32; ++i) {
            if (ready()) return true;
            pause_briefly();
        }
    } while (now_nanoseconds() - begin < limit());
    return false;
}

// The calling thread's rounding and treatment of denormals. Traps stay off in workers, where nobody could catch them.
#if defined(__x86_64__)
constexpr uint32_t kModeBits = 0xe040, kTrapsOff = 0x1f80;  // rounding, flush to zero, denormals are zero
constexpr uint32_t kX87TrapsOff = 0x3f;
// The upper half is the x87 unit's, by which MinGW's log() and exp() compute: a new thread of Windows has another precision than main().
uint32_t floating_point_mode() {
    uint16_t x87;
    __asm__ volatile("fnstcw %0" : "=m"(x87));
    return (__builtin_ia32_stmxcsr() & kModeBits) | uint32_t{x87} << 16;
}
void set_floating_point_mode(uint32_t mode) {
    const auto x87 = static_cast<uint16_t>(mode >> 16 | kX87TrapsOff);
    __asm__ volatile("fldcw %0" : : "m"(x87));
    __builtin_ia32_ldmxcsr((mode & kModeBits) | kTrapsOff);
}
#elif defined(__aarch64__)
constexpr uint64_t kModeBits = 0x7c80007;  // AH, FIZ, NEP; FZ16, rounding, FZ, DN, AHP
uint32_t floating_point_mode() {
    uint64_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return static_cast<uint32_t>(mode & kModeBits);
}
void set_floating_point_mode(uint32_t mode) { __asm__ volatile("msr fpcr, %0" : : "r"(uint64_t{mode})); }
#else
uint32_t floating_point_mode() { return 0; }
void set_floating_point_mode(uint32_t) {}
#endif

// ---- The team

// A 64-bit word of a job's number and a count, so that one who has fallen behind cannot change the count of a later job.
constexpr uint64_t numbered(uint32_t job, uint32_t count) { return uint64_t{job} << 32 | count; }
constexpr uint32_t job_of(uint64_t word) { return static_cast<uint32_t>(word >> 32); }
constexpr uint32_t count_of(uint64_t word) { return static_cast<uint32_t>(word); }

// A call's job. All of this may be read by a worker at any time, long after the call too: what it read belongs to one job if after that it
// can take a ticket of the same number. For this the slot is closed before its fields change, and these are stored with release and read
// with acquire: who has read a later job's field sees that his own job is closed. A slot of zeros is one that was never used.
struct Slot {
    alignas(64) std::atomic<uint64_t> next;   // job, and its first ticket that nobody has taken; kClosed between jobs
    alignas(64) Word done;                    // tickets done
    Word waiting;                             // threads that sleep until `done` ends a phase
    alignas(64) std::atomic<uint64_t> seats;  // job, and how many have a rank in it
    Word taken;                               // a caller has this slot
    Word threads, mode, total, pieces[kMostPhases];
    std::atomic<PieceBody> body;
    std::atomic<void *> argument;
};

struct Team {
    Slot slots[kSlots];
    alignas(64) Word signal;  // moves with every job
    Word sleepers;
    alignas(64) std::atomic<int> workers, asked;  // threads that there are; that the calls of this moment would have
    Word processor;                               // that the last caller was on
    Word growing, refused, pause;
    std::atomic<int> processors;
};

struct TeamOfProcess {
    std::atomic<Team *> team;
    std::atomic<uint32_t> process;  // 0: the kernel wipes the team in a child, so it need not be asked whose it is
};
constinit TeamOfProcess g_here{};

// Zeros. NULL: no memory.
Team *make_team(bool *wiped) {
    void *memory = make_wiped(sizeof(Team), wiped);
    return memory != nullptr ? new (memory) Team{} : nullptr;
}

// The team of this process; NULL: it cannot have one.
Team *team_here() {
    Team *team = g_here.team.load(std::memory_order_acquire);
    if (team != nullptr) {
        const uint32_t process = g_here.process.load(std::memory_order_relaxed);
        if (process == 0 || process == process_number()) return team;
    }
    bool wiped = false;
    Team *made = make_team(&wiped);
    if (made == nullptr) return nullptr;
    g_here.process.store(wiped ? 0 : process_number(), std::memory_order_relaxed);
    // A child of a parent whose team was not wiped leaves that one where it is: somebody may have forked in the middle of a call.
    if (g_here.team.compare_exchange_strong(team, made, std::memory_order_acq_rel)) return made;
    free_wiped(made, sizeof(Team));
    return team;
}

// ---- Pieces

// What a job consists of, copied from its slot.
struct Outline {
    uint32_t pieces[kMostPhases];
    uint32_t round;  // pieces of a round
    uint32_t total;

    explicit Outline(const Slot &slot) : round(0), total(slot.total.load(std::memory_order_acquire)) {
        for (int phase = 0; phase < kMostPhases; ++phase) {
            pieces[phase] = slot.pieces[phase].load(std::memory_order_acquire);
            round += pieces[phase];
        }
        if (round == 0) round = 1;  // of no job that anybody could take part in
    }
    // The piece with this ticket; *begin: the ticket that its phase begins with.
    Piece at(uint32_t ticket, int rank, uint32_t *begin) const {
        uint32_t rest = ticket % round;
        Piece piece{ticket / round, 0, 0, rank};
        while (piece.phase < kMostPhases - 1 && rest >= pieces[piece.phase]) rest -= pieces[piece.phase++];
        piece.index = rest;
        *begin = ticket - rest;
        return piece;
    }
    bool ends_a_phase(uint32_t done) const {
        if (done == total) return true;
        uint32_t begin = 0;
        at(done, 0, &begin);
        return begin == done;
    }
};

// Until `done` reaches `target`. nanoseconds > 0: or so long at most, and then again is up to the caller.
void wait_for(Slot &slot, uint32_t target, int64_t nanoseconds) {
    if (spin_until([&] { return slot.done.load(std::memory_order_acquire) >= target; }, [] { return kSpinNanoseconds; })) return;
    slot.waiting.fetch_add(1, std::memory_order_seq_cst);
    do {
        const uint32_t done = slot.done.load(std::memory_order_seq_cst);
        if (done >= target) break;
        wait_for_change(&slot.done, done, nanoseconds);
    } while (nanoseconds == 0);
    slot.waiting.fetch_sub(1, std::memory_order_relaxed);
}

// Takes pieces of the job until none is left. Reads of the slot, until a ticket is taken, may be of another job.
void take_pieces(Slot &slot, uint32_t job, int rank) {
    const Outline outline(slot);
    const PieceBody body = slot.body.load(std::memory_order_acquire);
    void *const argument = slot.argument.load(std::memory_order_acquire);
    uint64_t next = slot.next.load(std::memory_order_acquire);
    while (job_of(next) == job && count_of(next) < outline.total) {
        uint32_t begin = 0;
        const Piece piece = outline.at(count_of(next), rank, &begin);
        if (slot.done.load(std::memory_order_acquire) < begin) {
            // Other threads still work on pieces of the phase before. This one holds none meanwhile, so no thread waits for it.
            wait_for(slot, begin, kNapNanoseconds);
            next = slot.next.load(std::memory_order_acquire);
            continue;
        }
        if (!slot.next.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        body(argument, piece);
        const uint32_t done = slot.done.fetch_add(1, std::memory_order_seq_cst) + 1;
        if (slot.waiting.load(std::memory_order_seq_cst) != 0 && outline.ends_a_phase(done)) wake(&slot.done, INT_MAX);
        next = slot.next.load(std::memory_order_acquire);
    }
}

// Each thread wakes two, so that a large team is awake soon and no thread spends long on it.
void wake_some(Team &team, int still_wanted) {
    if (still_wanted <= 0 || team.sleepers.load(std::memory_order_seq_cst) == 0) return;
    wake(&team.signal, still_wanted < 2 ? still_wanted : 2);
}

// A worker's part in what is done in this slot; false if there is none.
bool take_part(Team &team, Slot &slot) {
    const uint64_t next = slot.next.load(std::memory_order_acquire);
    if (count_of(next) >= slot.total.load(std::memory_order_acquire)) return false;
    const uint32_t job = job_of(next), threads = slot.threads.load(std::memory_order_acquire);
    uint64_t seats = slot.seats.load(std::memory_order_acquire);
    do {
        if (job_of(seats) != job || count_of(seats) >= threads) return false;
    } while (!slot.seats.compare_exchange_weak(seats, seats + 1, std::memory_order_acq_rel, std::memory_order_acquire));
    const uint32_t rank = count_of(seats);
    wake_some(team, static_cast<int>(threads - rank) - 1);
    set_floating_point_mode(slot.mode.load(std::memory_order_acquire));
    take_pieces(slot, job, static_cast<int>(rank));
    return true;
}

// ---- Workers

// How long a worker looks for work. Not at all where it takes a processor from those who have some.
int64_t patience(const Team &team) {
    if (team.workers.load(std::memory_order_relaxed) >= team.processors.load(std::memory_order_relaxed)) return 0;
    if (team.processor.load(std::memory_order_relaxed) == current_processor()) return 0;
    return team.asked.load(std::memory_order_relaxed) > 0 ? kSpinBesideCalls : kSpinBetweenCalls;
}

void *work(void *argument) {
    Team &team = *static_cast<Team *>(argument);
    for (;;) {
        const uint32_t signal = team.signal.load(std::memory_order_seq_cst);
        bool found = false;
        for (Slot &slot : team.slots) found |= take_part(team, slot);
        if (found) continue;
        if (spin_until([&] { return team.signal.load(std::memory_order_relaxed) != signal; }, [&] { return patience(team); })) continue;
        team.sleepers.fetch_add(1, std::memory_order_seq_cst);
        wait_for_change(&team.signal, signal, 0);
        team.sleepers.fetch_sub(1, std::memory_order_relaxed);
    }
    return nullptr;
}

// More workers, if the calls of this moment would have more. Where the system refuses one, more and more calls go by before it is asked
// again.
void grow(Team &team, int threads) {
    int wanted = team.asked.load(std::memory_order_relaxed);
    if (team.workers.load(std::memory_order_relaxed) >= (wanted < kMostWorkers ? wanted : kMostWorkers)) return;
    if (team.growing.exchange(1, std::memory_order_acquire) != 0) return;
    if (team.processors.load(std::memory_order_relaxed) == 0) team.processors.store(processors_available(), std::memory_order_relaxed);
    // Callers together need no more than one for each processor; one alone gets what it was told to take.
    const int processors = team.processors.load(std::memory_order_relaxed);
    const int limit = threads > processors ? threads - 1 : processors - 1;
    if (wanted > limit) wanted = limit;
    if (wanted > kMostWorkers) wanted = kMostWorkers;
    const uint32_t refused = team.refused.load(std::memory_order_relaxed);
    if (refused > 0) {
        team.refused.store(refused - 1, std::memory_order_relaxed);
    } else {
        while (team.workers.load(std::memory_order_relaxed) < wanted) {
            if (!start_thread(work, &team, kStackBytes)) {
                const uint32_t pause = team.pause.load(std::memory_order_relaxed);
                team.refused.store(pause, std::memory_order_relaxed);
                team.pause.store(pause < 1024 ? 2 * pause + 1 : pause, std::memory_order_relaxed);
                break;
            }
            team.workers.fetch_add(1, std::memory_order_relaxed);
            team.pause.store(0, std::memory_order_relaxed);
        }
    }
    team.growing.store(0, std::memory_order_release);
}

// ---- Calls

Slot *free_slot(Team &team) {
    for (Slot &slot : team.slots) {
        if (slot.taken.load(std::memory_order_relaxed) == 0 && slot.taken.exchange(1, std::memory_order_acquire) == 0) return &slot;
    }
    return nullptr;
}

void run_with_others(Team &team, Slot &slot, int threads, const Work &work, uint32_t total, PieceBody body, void *argument) {
    const uint32_t job = job_of(slot.next.load(std::memory_order_relaxed)) + 1;
    slot.next.store(numbered(job - 1, kClosed), std::memory_order_release);  // it is, unless nobody used it before
    for (int phase = 0; phase < kMostPhases; ++phase) {
        slot.pieces[phase].store(static_cast<uint32_t>(work.pieces[phase]), std::memory_order_release);
    }
    slot.total.store(total, std::memory_order_release);
    slot.threads.store(static_cast<uint32_t>(threads), std::memory_order_release);
    slot.mode.store(floating_point_mode(), std::memory_order_release);
    slot.body.store(body, std::memory_order_release);
    slot.argument.store(argument, std::memory_order_release);
    slot.done.store(0, std::memory_order_release);
    slot.seats.store(numbered(job, 1), std::memory_order_release);
    slot.next.store(numbered(job, 0), std::memory_order_release);
    team.processor.store(current_processor(), std::memory_order_relaxed);
    team.signal.fetch_add(1, std::memory_order_seq_cst);
    wake_some(team, threads - 1);
    take_pieces(slot, job, 0);
    wait_for(slot, total, 0);
    slot.next.store(numbered(job + 1, kClosed), std::memory_order_release);
}

void run_alone(const Work &work, PieceBody body, void *argument) {
    for (int64_t round = 0; round < work.rounds; ++round) {
        for (int phase = 0; phase < kMostPhases; ++phase) {
            for (int64_t index = 0; index < work.pieces[phase]; ++index) body(argument, Piece{round, phase, index, 0});
        }
    }
}

// 0: none, or more than a job may have.
uint32_t tickets(const Work &work) {
    uint64_t round = 0;
    for (const int64_t pieces : work.pieces) {
        if (static_cast<uint64_t>(pieces) >= kMostTickets) return 0;
        round += static_cast<uint64_t>(pieces);
    }
    if (round == 0 || static_cast<uint64_t>(work.rounds) >= kMostTickets / round) return 0;
    return static_cast<uint32_t>(round * static_cast<uint64_t>(work.rounds));
}

}  // namespace

void run_work(int threads, const Work &work, PieceBody body, void *argument) {
    const int cancelled = hold_cancellation();
    const uint32_t total = threads > 1 ? tickets(work) : 0;
    Team *const team = total > 1 ? team_here() : nullptr;
    Slot *const slot = team != nullptr ? free_slot(*team) : nullptr;
    if (slot == nullptr) {
        run_alone(work, body, argument);
    } else {
        team->asked.fetch_add(threads - 1, std::memory_order_relaxed);
        grow(*team, threads);
        if (team->workers.load(std::memory_order_relaxed) > 0) {
            run_with_others(*team, *slot, threads, work, total, body, argument);
        } else {
            run_alone(work, body, argument);
        }
        team->asked.fetch_sub(threads - 1, std::memory_order_relaxed);
        slot->taken.store(0, std::memory_order_release);
    }
    release_cancellation(cancelled);
}

}  // namespace attile::cpu
