// SPDX-License-Identifier: Apache-2.0
#include "fibre.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <vector>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

attile::emulation::Index threadIdx, blockIdx, blockDim, gridDim;

namespace attile::emulation {
namespace {

// Stacks lie whole pages apart. Would threads that wait for each other stand at the same place of a page, too, they would drive each other
// out of the cache, which goes by that.
constexpr std::size_t kStackBytes = 256 * 1024, kStackShift = 192, kPage = 4096;
constexpr int kLanes = 32, kWave = ATTILE_EMULATED_WAVE;
static_assert(kWave == 32 || kWave == 64, "waves of one lane group or of two");

}  // namespace
}  // namespace attile::emulation

// Saves the registers that a call preserves, goes to another stack and takes them from there.
#if defined(__x86_64__)
extern "C" void attile_fibre_switch(void **save, void *load);
asm(R"(
    .text
    .globl attile_fibre_switch
    .hidden attile_fibre_switch
    .type attile_fibre_switch, @function
attile_fibre_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size attile_fibre_switch, .-attile_fibre_switch
)");
#else
#error "fibres are written for x86-64"
#endif

namespace attile::emulation {
namespace {

enum class State { kReady, kWaiting, kDone };

struct Fibre {
    std::unique_ptr<char[]> stack;
    void *at = nullptr;
    State state = State::kDone;
    Meeting meeting = Meeting::kBlock;
    const void *place = nullptr;  // Of the program, where it waits.
    uint32_t given = 0;           // For the exchange under way,
    uint64_t held = 0;            // and of the last one.
};

struct Block {
    std::vector<Fibre> fibres;
    std::vector<unsigned char> dynamic;
    void *scheduler = nullptr;
    int current = 0, count = 0;
    const std::vector<int> *lanes = nullptr;  // in the order in which those of a wave get their turn,
    std::size_t turn = 0;                     // whose turn it is,
    int first = 0, last = 0;                  // and the threads of the wave
    const void *kernel = nullptr;
    Call call = nullptr;
    void **arguments = nullptr;
    std::string fault;
} block;

std::mutex lock;  // Shared memory is static: one grid at a time.
std::map<const void *, Call> &calls() {
    static std::map<const void *, Call> known;
    return known;
}

// The stack of whoever runs now: the next thread of the wave that is ready, from where block.turn says on, or else the scheduler.
void *next_stack() {
    for (; block.turn < block.lanes->size(); ++block.turn) {
        const int t = block.first + (*block.lanes)[block.turn];
        if (t >= block.last || block.fibres[static_cast<std::size_t>(t)].state != State::kReady) continue;
        block.current = t;
        threadIdx.x = static_cast<uint32_t>(t);
        return block.fibres[static_cast<std::size_t>(t)].at;
    }
    return block.scheduler;
}

// From thread to thread, not by way of the scheduler: half as many switches, and the processor foretells where they lead, as one waits
// where the next one goes on.
void leave(State state) {
    Fibre &fibre = block.fibres[static_cast<std::size_t>(block.current)];
    fibre.state = state;
    ++block.turn;
    attile_fibre_switch(&fibre.at, next_stack());
}

void fibre_main() {
    block.call(block.kernel, block.arguments);
    leave(State::kDone);
}

void start(Fibre &fibre) {
    if (fibre.stack == nullptr) fibre.stack.reset(new char[kStackBytes]);
    const std::size_t shift = static_cast<std::size_t>(&fibre - block.fibres.data()) * kStackShift % kPage;
    const uintptr_t top = reinterpret_cast<uintptr_t>(fibre.stack.get() + kStackBytes - shift) / 16 * 16;
    void **at = reinterpret_cast<void **>(top) - 2;  // The entry finds the stack as after a call.
    *at = reinterpret_cast<void *>(&fibre_main);
    at -= 6;
    std::fill(at, at + 6, nullptr);
    fibre.at = at;
    fibre.state = State::kReady;
}

// Do the threads of [first, last) all wait for the same at the same place?
bool are_together(int first, int last) {
    const Fibre &one = block.fibres[static_cast<std::size_t>(first)];
    for (int t = first; t < last; ++t) {
        const Fibre &fibre = block.fibres[static_cast<std::size_t>(t)];
        if (fibre.state != State::kWaiting || fibre.meeting != one.meeting || fibre.place != one.place) return false;
    }
    return true;
}

// Lets the threads of [first, last) go, which are together; those of their wave outside the range take no part.
void release(int first, int last) {
    uint64_t bits = 0;
    for (int t = first; t < last; ++t) bits |= uint64_t{block.fibres[static_cast<std::size_t>(t)].given != 0} << (t % kWave);
    for (int t = first; t < last; ++t) {
        Fibre &fibre = block.fibres[static_cast<std::size_t>(t)];
        const bool is_vote = fibre.meeting == Meeting::kBallot || fibre.meeting == Meeting::kWave;
        fibre.held = is_vote ? bits : fibre.meeting == Meeting::kFirst ? block.fibres[static_cast<std::size_t>(first)].given : fibre.given;
        fibre.state = State::kReady;
    }
}

// Where nobody else can go on: lanes that want the first lane's number on a way of their own get that of the first of them, as on a GPU.
bool release_first(int first, int last) {
    const Fibre *one = nullptr;
    for (int t = first; t < last; ++t) {
        Fibre &fibre = block.fibres[static_cast<std::size_t>(t)];
        if (fibre.state != State::kWaiting || fibre.meeting != Meeting::kFirst || (one != nullptr && fibre.place != one->place)) continue;
        if (one == nullptr) one = &fibre;
        fibre.held = one->given;
        fibre.state = State::kReady;
    }
    return one != nullptr;
}

// The wave goes on whole where it is together, else those of its lane groups that are and do not wait for the others. False: none of them.
bool release_wave(int first, int last) {
    const auto waits_for_all = [](int t) {
        const Meeting meeting = block.fibres[static_cast<std::size_t>(t)].meeting;
        return meeting == Meeting::kBlock || meeting == Meeting::kWave;
    };
    if (are_together(first, last)) {
        if (block.fibres[static_cast<std::size_t>(first)].meeting == Meeting::kBlock) return false;
        release(first, last);
        return true;
    }
    bool any = false;
    for (int group = first; group < last; group += kLanes) {
        const int end = std::min(group + kLanes, last);
        if (!are_together(group, end) || waits_for_all(group)) continue;
        release(group, end);
        any = true;
    }
    return any || release_first(first, last);
}

// All waves wait for the block, each at one place.
bool release_block() {
    for (int first = 0; first < block.count; first += kWave) {
        const int last = std::min(first + kWave, block.count);
        if (!are_together(first, last) || block.fibres[static_cast<std::size_t>(first)].meeting != Meeting::kBlock) return false;
    }
    release(0, block.count);
    return true;
}

// A turn for each thread of [first, last) that is ready.
void run_wave(int first, int last) {
    block.turn = 0;
    block.first = first;
    block.last = last;
    void *const stack = next_stack();
    if (block.turn < block.lanes->size()) attile_fibre_switch(&block.scheduler, stack);
}

// Every wave goes as far as it can before the next one gets a turn.
bool run_block(const std::vector<int> &wave_order, const std::vector<int> &lane_order) {
    block.lanes = &lane_order;
    for (int t = 0; t < block.count; ++t) start(block.fibres[static_cast<std::size_t>(t)]);
    for (;;) {
        for (const int wave : wave_order) {
            const int first = wave * kWave, last = std::min(first + kWave, block.count);
            do {
                run_wave(first, last);
            } while (release_wave(first, last));
        }
        const auto is_done = [](const Fibre &fibre) { return fibre.state == State::kDone; };
        if (std::all_of(block.fibres.begin(), block.fibres.begin() + block.count, is_done)) return block.fault.empty();
        if (!release_block()) break;
    }
    block.fault += "threads of block " + std::to_string(blockIdx.x) + " do not meet:";
    for (int t = 0; t < block.count; ++t) {
        const Fibre &fibre = block.fibres[static_cast<std::size_t>(t)];
        block.fault += fibre.state == State::kDone ? " -" : " " + std::to_string(static_cast<int>(fibre.meeting));
    }
    return false;
}

// The thread waits at a place for others.
void wait(Meeting what, const void *place) {
    Fibre &fibre = block.fibres[static_cast<std::size_t>(block.current)];
    fibre.meeting = what;
    fibre.place = place;
    leave(State::kWaiting);
}

}  // namespace

unsigned char *dynamic_shared() {
    return reinterpret_cast<unsigned char *>((reinterpret_cast<uintptr_t>(block.dynamic.data()) + 15) / 16 * 16);
}
int lane() { return block.current % kLanes; }

void meet_block() { wait(Meeting::kBlock, __builtin_return_address(0)); }
void meet_group() { wait(Meeting::kGroup, __builtin_return_address(0)); }
uint32_t exchange(Meeting what, uint32_t value, int source) {
    const std::size_t group = static_cast<std::size_t>(block.current / kLanes * kLanes);
    block.fibres[static_cast<std::size_t>(block.current)].given = value;
    wait(what, __builtin_return_address(0));
    return static_cast<uint32_t>(block.fibres[group + static_cast<std::size_t>(source % kLanes)].held);
}
uint64_t ballot(Meeting what, bool yes) {
    Fibre &fibre = block.fibres[static_cast<std::size_t>(block.current)];
    fibre.given = yes ? 1 : 0;
    wait(what, __builtin_return_address(0));
    return fibre.held;
}
uint32_t first_lane(uint32_t value) {
    Fibre &fibre = block.fibres[static_cast<std::size_t>(block.current)];
    fibre.given = value;
    wait(Meeting::kFirst, __builtin_return_address(0));
    const auto first = static_cast<uint32_t>(fibre.held);
    if (first != value && block.fault.empty()) block.fault = "what is said to be the same in all of the block is not; ";
    return first;
}

#if defined(__x86_64__)
// By instruction: GCC knows _Float16 in C++ from 12 on, Clang from 15 on.
__attribute__((target("avx,f16c"))) float f16_to_float(uint16_t bits) { return _cvtsh_ss(bits); }
__attribute__((target("avx,f16c"))) uint16_t f16_from_float(float x) { return _cvtss_sh(x, _MM_FROUND_TO_NEAREST_INT); }
#else
float f16_to_float(uint16_t bits) {
    _Float16 x;
    memcpy(&x, &bits, sizeof x);
    return static_cast<float>(x);
}
uint16_t f16_from_float(float x) {
    const _Float16 narrow = static_cast<_Float16>(x);
    uint16_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    return bits;
}
#endif

void know(const void *kernel, Call call) {
    const std::lock_guard<std::mutex> guard(lock);
    calls()[kernel] = call;
}
Call call_of(const void *kernel) {
    const std::lock_guard<std::mutex> guard(lock);
    const auto found = calls().find(kernel);
    return found == calls().end() ? nullptr : found->second;
}

std::string run_grid(const void *kernel, Call call, void **arguments, Index grid, Index threads, std::size_t dynamic_bytes, Order order) {
    const std::lock_guard<std::mutex> guard(lock);
    block.kernel = kernel;
    block.call = call;
    block.arguments = arguments;
    block.count = static_cast<int>(threads.x);
    block.fault.clear();
    if (block.fibres.size() < threads.x) block.fibres.resize(threads.x);
    std::vector<int> waves((threads.x + kWave - 1) / kWave), lanes(kWave);
    for (std::size_t i = 0; i < waves.size(); ++i) waves[i] = static_cast<int>(i);
    for (std::size_t i = 0; i < lanes.size(); ++i) lanes[i] = static_cast<int>(i);
    if (order == Order::kBackward) {
        std::reverse(waves.begin(), waves.end());
        std::reverse(lanes.begin(), lanes.end());
    }
    std::mt19937 engine(7);
    gridDim = grid;
    blockDim = threads;
    for (uint32_t z = 0; z < grid.z; ++z)
        for (uint32_t y = 0; y < grid.y; ++y)
            for (uint32_t x = 0; x < grid.x; ++x) {
                if (order == Order::kShuffled) {
                    std::shuffle(waves.begin(), waves.end(), engine);
                    std::shuffle(lanes.begin(), lanes.end(), engine);
                }
                blockIdx = {x, y, z};
                block.dynamic.assign(dynamic_bytes + 16, 0xff);
                if (!run_block(waves, lanes)) return block.fault;
            }
    return {};
}

}  // namespace attile::emulation
