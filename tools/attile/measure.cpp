// SPDX-License-Identifier: Apache-2.0
// Timing of a repeatable piece of work.
#include "measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace attile::cli {
namespace {

double time_of(const std::function<void(int)> &work, int times) {
    const auto start = std::chrono::steady_clock::now();
    work(times);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// Linear between neighbours; `sorted` is not empty.
double quantile(const std::vector<double> &sorted, double q) {
    const double at = q * static_cast<double>(sorted.size() - 1);
    const size_t below = static_cast<size_t>(at), above = std::min(below + 1, sorted.size() - 1);
    return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace

Timing timing_of(std::vector<double> samples) {
    std::sort(samples.begin(), samples.end());
    Timing timing;
    timing.median = quantile(samples, 0.5);
    timing.best = samples.front();
    timing.spread = timing.median > 0 ? (quantile(samples, 0.75) - quantile(samples, 0.25)) / timing.median : 0;
    timing.samples = static_cast<int>(samples.size());
    return timing;
}

Timing measure(const std::function<void(int)> &work, double seconds) {
    constexpr double kSample = 3e-3;  // Long against the clock's steps and a device's launch.
    constexpr int kFewest = 3, kMost = 50;
    double spent = time_of(work, 1);  // First touch of memory, loading of kernels.
    double once = time_of(work, 1);
    // Calls of nanoseconds: one is not enough to tell how many make a sample.
    for (int times = 1; once * times < kSample / 4 && times < 1 << 20;) {
        times *= 4;
        const double all = time_of(work, times);
        spent += all;
        once = all / times;
    }
    const int times = std::max(1, static_cast<int>(std::lround(std::ceil(kSample / std::max(once, 1e-9)))));
    std::vector<double> samples;
    while (static_cast<int>(samples.size()) < kFewest || (spent < seconds && static_cast<int>(samples.size()) < kMost)) {
        const double sample = time_of(work, times);
        spent += sample;
        samples.push_back(sample / times);
    }
    return timing_of(std::move(samples));
}

}  // namespace attile::cli
