// SPDX-License-Identifier: Apache-2.0
// Step: memory 4 occupancy
// Title: One kernel under four __launch_bounds__
// Changes: The second argument of __launch_bounds__ asks the compiler for 1, 2, 4 or 8 resident blocks of 256 threads; it limits a
//   thread to 255, 128, 64 or 32 registers. The kernel keeps 48 sums at once.
// Why: More resident warps hide more latency, until the sums no longer fit and go to local memory. The best is where the work just
//   fits: independent sums in one thread hide latency as well as other warps do.
// Intensity: 48 FLOP and more a byte: arithmetic decides, unless registers are spilled.
#include "ladder.h"

namespace {

constexpr int kThreads = 256, kSums = 48, kTerms = 64;

// sums[j] = sum_t x^... : kSums polynomials of the thread's value, each with its own coefficients, all evaluated side by side.
template <int kBlocks>
__global__ void __launch_bounds__(kThreads, kBlocks) polynomials(const float *x, const float *coefficients, float *y, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (i >= n) return;
    const float value = x[i];
    float sum[kSums] = {};
    for (int t = 0; t < kTerms; ++t)
#pragma unroll
        for (int j = 0; j < kSums; ++j) sum[j] = sum[j] * value + coefficients[t * kSums + j];
    float total = 0;
#pragma unroll
    for (int j = 0; j < kSums; ++j) total += sum[j] * (j % 2 ? -1.0f : 1.0f);
    y[i] = total;
}

double exact(double value) {
    double total = 0;
    for (int j = 0; j < kSums; ++j) {
        double sum = 0;
        for (int t = 0; t < kTerms; ++t) sum = sum * value + ladder::random_value(5, static_cast<uint64_t>(t * kSums + j), -1, 1);
        total += j % 2 ? -sum : sum;
    }
    return total;
}

template <int kBlocks>
bool measure(const ladder::Options &options) {
    const int64_t n = options.check_only ? 1003 : int64_t{1} << 22;
    const ladder::DeviceArray x(n, 3, -0.75f, 0.75f), coefficients(kTerms * kSums, 5, -1, 1), y(n);
    ladder::Row row;
    row.ladder = "memory", row.order = 4, row.step = "occupancy", row.shape = "bounds(256, " + std::to_string(kBlocks) + ")";
    row.timing = ladder::time_launches(options, [&] {
        polynomials<kBlocks><<<static_cast<unsigned>(ladder::ceil_div(n, kThreads)), kThreads>>>(x.get(), coefficients.get(), y.get(), n);
    });
    LADDER_CUDA(cudaGetLastError());
    const std::vector<float> got = y.host();
    ladder::Errors errors;
    for (int64_t i = 0; i < n; i += options.check_only ? 1 : 997)
        errors.add(got[static_cast<size_t>(i)], exact(ladder::random_value(3, static_cast<uint64_t>(i), -0.75f, 0.75f)),
                   4 * kSums * 4 * ladder::kHalfUlp);
    cudaFuncAttributes code;
    LADDER_CUDA(cudaFuncGetAttributes(&code, polynomials<kBlocks>));
    int blocks = 0;
    LADDER_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, polynomials<kBlocks>, kThreads, 0));
    const double occupancy = 100.0 * blocks * kThreads / ladder::attribute(cudaDevAttrMaxThreadsPerMultiProcessor);
    char text[160];
    std::snprintf(text, sizeof text, "\"registers\": %d, \"local_bytes\": %d, \"blocks_per_unit\": %d, \"occupancy\": %.1f", code.numRegs,
                  static_cast<int>(code.localSizeBytes), blocks, occupancy);
    row.details = text;
    row.ok = errors.ok(), row.error = errors.worst();
    row.flops = 2.0 * kSums * kTerms * static_cast<double>(n);
    row.bytes = row.traffic = 8.0 * static_cast<double>(n);
    ladder::report(options, row);
    return row.ok;
}

bool run(const ladder::Options &options) {
    const bool one = measure<1>(options), two = measure<2>(options), four = measure<4>(options), eight = measure<8>(options);
    return one && two && four && eight;
}

[[maybe_unused]] const bool added = ladder::add_step({"memory", 4, "occupancy", run});

}  // namespace
