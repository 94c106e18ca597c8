// SPDX-License-Identifier: Apache-2.0
// Step: memory 3 streams
// Title: Copies that overlap compute
// Changes: 128 MB go to the device, through a kernel, and back: all at once on one stream; then in 16 parts that take turns on two, and
//   on four streams.
// Why: The device has copy engines for either direction beside its multiprocessors. Work in one stream is in order; parts in several
//   streams let one part's copy in, another's kernel and a third's copy out pass at the same time. The memory must be pinned, or copies
//   wait for each other.
// Intensity: 512 FLOP for 8 bytes over the bus, so that kernel and copies take time of one order.
#include "ladder.h"

namespace {

constexpr int kSteps = 256;

// x <- 0.5 x + 0.25, many times over: any fixed point is 0.5, and float32 follows float64 closely.
__global__ void iterate(float *x, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float value = x[i];
    for (int step = 0; step < kSteps; ++step) value = 0.99f * value + 0.25f;
    x[i] = value;
}

double iterated(double value) {
    for (int step = 0; step < kSteps; ++step) value = static_cast<double>(0.99f) * value + 0.25;
    return value;
}

bool run(const ladder::Options &options) {
    const int64_t n = options.check_only ? 10007 : int64_t{32} << 20;
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    float *in = nullptr, *out = nullptr;
    LADDER_CUDA(cudaMallocHost(reinterpret_cast<void **>(&in), bytes));
    LADDER_CUDA(cudaMallocHost(reinterpret_cast<void **>(&out), bytes));
    for (int64_t i = 0; i < n; ++i) in[i] = ladder::random_value(9, static_cast<uint64_t>(i), -1, 1);
    const ladder::DeviceArray device(n);
    bool all = true;
    for (int streams : {1, 2, 4}) {
        const int64_t part = ladder::ceil_div(n, streams == 1 ? 1 : 16);
        std::vector<cudaStream_t> stream(static_cast<size_t>(streams));
        for (cudaStream_t &one : stream) LADDER_CUDA(cudaStreamCreate(&one));
        ladder::Row row;
        row.ladder = "memory", row.order = 3, row.step = "streams";
        row.shape = std::to_string(streams) + (streams == 1 ? " stream" : " streams");
        row.timing = ladder::time_on_host(
            options, [&] { std::memset(out, 0xFF, bytes); },
            [&] {
                for (int64_t first = 0, turn = 0; first < n; first += part, ++turn) {
                    const int64_t count = std::min(part, n - first);
                    const size_t part_bytes = static_cast<size_t>(count) * sizeof(float);
                    const cudaStream_t on = stream[static_cast<size_t>(turn % streams)];
                    LADDER_CUDA(cudaMemcpyAsync(device.get() + first, in + first, part_bytes, cudaMemcpyHostToDevice, on));
                    iterate<<<static_cast<unsigned>(ladder::ceil_div(count, 256)), 256, 0, on>>>(device.get() + first, count);
                    LADDER_CUDA(cudaMemcpyAsync(out + first, device.get() + first, part_bytes, cudaMemcpyDeviceToHost, on));
                }
                LADDER_CUDA(cudaGetLastError());
            });
        ladder::Errors errors;
        for (int64_t i = 0; i < n; i += options.check_only ? 1 : 101) errors.add(out[i], iterated(in[i]), 2000 * 25 * ladder::kHalfUlp);
        row.ok = errors.ok(), row.error = errors.worst();
        row.flops = 2.0 * kSteps * static_cast<double>(n);
        row.bytes = row.traffic = 2.0 * static_cast<double>(bytes);
        ladder::report(options, row);
        all = all && row.ok;
        for (cudaStream_t one : stream) LADDER_CUDA(cudaStreamDestroy(one));
    }
    LADDER_CUDA(cudaFreeHost(in));
    LADDER_CUDA(cudaFreeHost(out));
    return all;
}

[[maybe_unused]] const bool added = ladder::add_step({"memory", 3, "streams", run});

}  // namespace
