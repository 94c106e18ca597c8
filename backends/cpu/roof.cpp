// SPDX-License-Identifier: Apache-2.0
#include "roof.h"

#include <atomic>
#include <cstring>

#include "block.h"
#include "state.h"
#include "system.h"
#include "threads/threads.h"

namespace attile::cpu {
namespace {

constexpr int64_t kRounds = 40000;  // a quarter of a millisecond or less
constexpr int64_t kMemory = int64_t{128} << 20;
constexpr int64_t kPage = 4096;

// The best rate of `work`, which returns how much it did, over at least two runs and about `seconds`.
template <class Work>
double best_rate(double seconds, Work &&work) {
    double best = 0, spent = 0;
    for (int run = 0; run < 2 || spent < seconds; ++run) {
        const double start = thread_seconds();
        const double done = work();
        const double took = thread_seconds() - start;
        if (took > 0 && done / took > best) best = done / took;
        spent += took > 0 ? took : seconds;
    }
    return best;
}

// The sum over all threads of `rate(rank, size)`; of one that is not to be had another does the part, and counts for both.
template <class Rate>
double on_all(int threads, Rate &&rate) {
    std::atomic<double> sum{0};
    parallel_for(threads, threads, [&](int64_t rank, int) {
        const double mine = rate(static_cast<int>(rank), threads);
        double before = sum.load(std::memory_order_relaxed);
        while (!sum.compare_exchange_weak(before, before + mine, std::memory_order_relaxed)) {
        }
    });
    return sum.load(std::memory_order_relaxed);
}

double read_rate(const RoofKernels &kernels, int threads) {
    char *memory = static_cast<char *>(allocate_block(kMemory));
    if (memory == nullptr) return 0;
    std::atomic<uint64_t> keep{0};
    const double rate = on_all(threads, [&](int rank, int size) {
        const int64_t pages = kMemory / kPage, first = pages * rank / size, last = pages * (rank + 1) / size;
        char *mine = memory + first * kPage;
        const int64_t bytes = (last - first) * kPage;
        if (bytes == 0) return 0.0;
        std::memset(mine, 1, static_cast<size_t>(bytes));  // touched by the thread that reads it: it lies nearby
        return best_rate(0.02, [&] {
            keep.fetch_add(kernels.read(mine, bytes), std::memory_order_relaxed);
            return static_cast<double>(bytes);
        });
    });
    free_block(memory);
    return keep.load(std::memory_order_relaxed) == 0 ? 0 : rate;
}

}  // namespace

Roof RoofOnce::measured(Target target, int threads) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (done_) return roof_;
    const RoofKernels &kernels = roof_kernels(target);
    // More threads than processors do no more than all processors.
    const int processors = processors_online();
    if (threads > processors) threads = processors;
    const auto rate_of = [&](double (*burst)(int64_t)) {
        return on_all(threads, [&](int, int) { return best_rate(0.003, [&] { return burst(kRounds); }); });
    };
    roof_.flops_f32 = rate_of(kernels.multiply_add_f32);
    roof_.flops_f64 = rate_of(kernels.multiply_add_f64);
    roof_.bandwidth = read_rate(kernels, threads);
    done_ = true;
    return roof_;
}

}  // namespace attile::cpu
