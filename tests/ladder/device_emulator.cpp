// SPDX-License-Identifier: Apache-2.0
#include "device_emulator.h"

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace emulate {
namespace {

constexpr size_t kStack = 128 << 10, kSharedLimit = 48 << 10;
enum class State { kRunnable, kAtBlockBarrier, kAtWarpBarrier, kDone };

struct Fiber {
    ucontext_t context{};
    std::unique_ptr<char[]> stack{new char[kStack]};
    dim3 thread;
    State state = State::kDone;
    float given = 0;
};

std::vector<std::unique_ptr<Fiber>> fibers;
ucontext_t scheduler;
Fiber *current = nullptr;
size_t current_index = 0, threads = 0;
const std::function<void()> *body = nullptr;
std::set<void *> poisoned;
std::string last_error;
uint64_t order_state = 1;
alignas(16) unsigned char shared_memory[kSharedLimit + 16];

size_t next_below(size_t n) {
    order_state = order_state * 6364136223846793005ull + 1442695040888963407ull;
    return static_cast<size_t>(order_state >> 33) % n;
}

void enter() {
    (*body)();
    current->state = State::kDone;
    swapcontext(&current->context, &scheduler);
}

void wait(State state) {
    Fiber *const self = current;
    self->state = state;
    swapcontext(&self->context, &scheduler);
}

// Lets go whoever has met all that it waits for. False: nobody has, and somebody still waits.
bool release() {
    bool released = false, waiting = false, all_at_barrier = true;
    for (size_t first = 0; first < threads; first += 32) {
        const size_t last = std::min(first + 32, threads);
        bool whole = true;
        for (size_t i = first; i < last; ++i) whole = whole && fibers[i]->state == State::kAtWarpBarrier;
        if (whole) {
            for (size_t i = first; i < last; ++i) fibers[i]->state = State::kRunnable;
            released = true;
        }
    }
    for (size_t i = 0; i < threads; ++i) {
        all_at_barrier = all_at_barrier && fibers[i]->state == State::kAtBlockBarrier;
        waiting = waiting || fibers[i]->state != State::kDone;
    }
    if (all_at_barrier && !released) {
        for (size_t i = 0; i < threads; ++i) fibers[i]->state = State::kRunnable;
        return true;
    }
    return released || !waiting;
}

void run_block(const dim3 &block) {
    poisoned.clear();
    std::memset(shared_memory, 0xFF, sizeof shared_memory);
    for (size_t i = 0; i < threads; ++i) {
        if (fibers.size() <= i) fibers.push_back(std::make_unique<Fiber>());
        Fiber &fiber = *fibers[i];
        fiber.state = State::kRunnable;
        fiber.thread = dim3(static_cast<unsigned>(i % block.x), static_cast<unsigned>(i / block.x % block.y),
                            static_cast<unsigned>(i / block.x / block.y));
        getcontext(&fiber.context);
        fiber.context.uc_stack.ss_sp = fiber.stack.get();
        fiber.context.uc_stack.ss_size = kStack;
        fiber.context.uc_link = nullptr;
        makecontext(&fiber.context, enter, 0);
    }
    std::vector<size_t> order(threads);
    for (size_t i = 0; i < threads; ++i) order[i] = i;
    for (bool alive = true; alive;) {
        alive = false;
        for (size_t i = threads; i > 1; --i) std::swap(order[i - 1], order[next_below(i)]);
        for (size_t i : order) {
            if (fibers[i]->state != State::kRunnable) continue;
            current = fibers[i].get();
            current_index = i;
            threadIdx = current->thread;
            swapcontext(&scheduler, &current->context);
        }
        if (!release()) {
            last_error = "some threads of a block wait at a barrier that others do not reach";
            return;
        }
        for (size_t i = 0; i < threads; ++i) alive = alive || fibers[i]->state != State::kDone;
    }
}

struct Allocation {
    char *map;
    size_t map_bytes, bytes;
};
std::map<void *, Allocation> allocations;

}  // namespace

void Launch::run(const std::function<void()> &kernel) const {
    threads = static_cast<size_t>(block.x) * block.y * block.z;
    if (threads == 0 || threads > 1024 || grid.x == 0 || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
        return void(last_error = "no such grid or block can be launched");
    if (shared > kSharedLimit) return void(last_error = "more than 48 KB of shared memory");
    body = &kernel;
    blockDim = block, gridDim = grid;
    for (unsigned z = 0; z < grid.z; ++z)
        for (unsigned y = 0; y < grid.y; ++y)
            for (unsigned x = 0; x < grid.x && last_error.empty(); ++x) {
                blockIdx = dim3(x, y, z);
                run_block(block);
            }
}

void *dynamic_shared() { return shared_memory; }

void poison_shared(void *array, size_t bytes) {
    if (poisoned.insert(array).second) std::memset(array, 0xFF, bytes);
}

void block_barrier() { wait(State::kAtBlockBarrier); }
void warp_barrier() { wait(State::kAtWarpBarrier); }
int lane() { return static_cast<int>(current_index % 32); }

float exchange(float value, int source_lane) {
    Fiber *const self = current;
    const size_t source = current_index / 32 * 32 + static_cast<size_t>(source_lane);
    self->given = value;
    wait(State::kAtWarpBarrier);
    const float result = source < threads ? fibers[source]->given : std::nanf("");
    wait(State::kAtWarpBarrier);  // Nobody gives the next value before all have taken this one.
    return result;
}

}  // namespace emulate

cudaError_t cudaMalloc(void **pointer, size_t bytes) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), body = (bytes + 15 + page) / page * page;
    void *const map = mmap(nullptr, body + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return 2;
    char *const start = static_cast<char *>(map);
    mprotect(start + body, page, PROT_NONE);
    std::memset(start, 0xFF, body);
    *pointer = start + (body - bytes) / 16 * 16;
    emulate::allocations[*pointer] = {start, body + page, bytes};
    return cudaSuccess;
}

cudaError_t cudaFree(void *pointer) {
    if (!pointer) return cudaSuccess;
    const auto found = emulate::allocations.find(pointer);
    if (found == emulate::allocations.end()) return 1;
    // Before the start and in the few bytes up to the guard page nothing may have been written.
    const emulate::Allocation &one = found->second;
    const unsigned char *const map = reinterpret_cast<unsigned char *>(one.map);
    const size_t start = static_cast<size_t>(static_cast<char *>(pointer) - one.map);
    const size_t end = one.map_bytes - static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const auto untouched = [](unsigned char byte) { return byte == 0xFF; };
    if (!std::all_of(map, map + start, untouched) || !std::all_of(map + start + one.bytes, map + end, untouched))
        emulate::last_error = "a kernel wrote outside its memory";
    munmap(one.map, one.map_bytes);
    emulate::allocations.erase(found);
    return cudaSuccess;
}

cudaError_t cudaGetLastError() { return emulate::last_error.empty() ? cudaSuccess : 999; }
const char *cudaGetErrorString(cudaError_t) { return emulate::last_error.empty() ? "out of memory" : emulate::last_error.c_str(); }

cudaError_t cudaEventRecord(cudaEvent_t event) {
    const std::chrono::duration<double, std::milli> now = std::chrono::steady_clock::now().time_since_epoch();
    event->ms = now.count();
    return cudaSuccess;
}
