// SPDX-License-Identifier: Apache-2.0
// The reduction ladder's problem: the sum of n floats in [-1, 1], wherever the step likes to keep what lies between. The float64 sum is
// made from the same inputs on the host. At the timed size one lost element is ten times the tolerance.
#pragma once

#include "ladder.h"

namespace ladder {

struct Reduction {
    const float *x;
    int64_t n;
    float *result;    // One float.
    float *scratch;   // (n + 1) / 2 floats,
    float *scratch2;  // and half as many again, for steps that take turns.
};

struct ReduceStep {
    int order;
    const char *name;
    void (*launch)(const Reduction &);
    double (*traffic)(double n);
};

constexpr uint64_t kSeedSum = 44;
constexpr int64_t kReduceSize = int64_t{1} << (kTiny ? 14 : 26);
constexpr int kReduceThreads = 256;

// A tree of launches: kernel(x, n, y) leaves one partial sum a block in y, until one is left.
template <class Launch>
void reduce_tree(const Reduction &p, int64_t per_block, const Launch &launch) {
    const float *from = p.x;
    int64_t left = p.n;
    float *to = p.scratch, *other = p.scratch2;
    for (;;) {
        const int64_t blocks = ceil_div(left, per_block);
        launch(from, left, blocks == 1 ? p.result : to, static_cast<unsigned>(blocks));
        if (blocks == 1) return;
        from = to, left = blocks;
        std::swap(to, other);
    }
}

inline double exact_sum(int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += random_value(kSeedSum, static_cast<uint64_t>(i), -1, 1);
    return sum;
}

inline double sum_once(const ReduceStep &step, int64_t n, const DeviceArray &x, const DeviceArray &result, const DeviceArray &scratch,
                       const DeviceArray &scratch2, const std::function<void(const std::function<void()> &)> &run) {
    const Reduction p{x.get(), n, result.get(), scratch.get(), scratch2.get()};
    run([&] { step.launch(p); });
    LADDER_CUDA(cudaGetLastError());
    LADDER_CUDA(cudaDeviceSynchronize());
    return result.host()[0];
}

// Partial sums grow like a random walk, sqrt(n) in all, and each of their additions rounds: some 25 times the error of an honest tree.
inline double sum_bound(int64_t n) { return kHalfUlp * 8 * (std::log2(static_cast<double>(n)) + 2) * std::sqrt(static_cast<double>(n)); }

inline bool run_reduce(const ReduceStep &step, const Options &options) {
    Row row;
    row.ladder = "reduction", row.order = step.order, row.step = step.name, row.shape = "small, ragged";
    Errors errors;
    const auto plainly = [](const std::function<void()> &launch) { launch(); };
    for (int64_t n : {1, 2, 31, 33, 255, 256, 257, 1000, 4099, 70001}) {
        const DeviceArray x(n, kSeedSum, -1, 1), result(1), scratch((n + 1) / 2), scratch2((n + 3) / 4);
        errors.add(sum_once(step, n, x, result, scratch, scratch2, plainly), exact_sum(n), sum_bound(n));
    }
    row.ok = errors.ok(), row.error = errors.worst();
    if (options.check_only || !row.ok) return report(options, row), row.ok;

    const int64_t n = kReduceSize;
    const DeviceArray x(n, kSeedSum, -1, 1), result(1), scratch((n + 1) / 2), scratch2((n + 3) / 4);
    static const double exact = exact_sum(n);
    const double got = sum_once(step, n, x, result, scratch, scratch2,
                                [&](const std::function<void()> &launch) { row.timing = time_launches(options, launch); });
    errors.add(got, exact, sum_bound(n));
    row.ok = errors.ok(), row.error = errors.worst();
    row.shape = kTiny ? "2^14" : "2^26";
    row.flops = static_cast<double>(n - 1);
    row.bytes = 4.0 * static_cast<double>(n);
    row.traffic = step.traffic(static_cast<double>(n));
    report(options, row);
    return row.ok;
}

inline bool add_reduce(const ReduceStep &step) {
    return add_step({"reduction", step.order, step.name, [step](const Options &options) { return run_reduce(step, options); }});
}

// Bytes asked for by a tree whose blocks of 256 read 256 elements and write one.
inline double tree_traffic(double n) {
    double bytes = 0;
    for (double left = n; left > 1; left = std::ceil(left / kReduceThreads)) bytes += 4 * (left + std::ceil(left / kReduceThreads));
    return bytes;
}

}  // namespace ladder
