// SPDX-License-Identifier: Apache-2.0
// Step: memory 2 managed
// Title: Managed memory: page faults, warp-per-page first touch, prefetch
// Changes: The host writes an array and the device adds one to it: from managed memory as it comes, with a kernel before it in which
//   each warp touches the first word of one 64 KB page, with cudaMemPrefetchAsync, and, for comparison, with an explicit copy of pinned
//   memory.
// Why: Pascal and later move a managed page when it is first touched, and each fault stops warps for tens of microseconds. Scattered
//   threads raise many faults on the same pages; a warp a page raises one each, many pages at a time. A prefetch moves it all by the
//   copy engine, without faults.
// Intensity: 1 FLOP for 8 bytes; the bus decides.
#include "ladder.h"

namespace {

constexpr size_t kPage = 64 << 10;

__global__ void touch_pages(const float *x, int64_t n, float *sink) {
    const int64_t thread = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    const int64_t at = thread / 32 * static_cast<int64_t>(kPage / sizeof(float));  // One page a warp; all lanes read the same word.
    if (at < n && x[at] == -12345.0f) *sink = x[at];                               // Never so, but the compiler does not know.
}

__global__ void add_one(float *x, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) x[i] += 1.0f;
}

void prefetch(float *x, size_t bytes) {
#if CUDART_VERSION >= 13000
    cudaMemLocation where{};
    where.type = cudaMemLocationTypeDevice;
    where.id = 0;
    LADDER_CUDA(cudaMemPrefetchAsync(x, bytes, where, 0));
#else
    LADDER_CUDA(cudaMemPrefetchAsync(x, bytes, 0));
#endif
}

bool run(const ladder::Options &options) {
    if (!ladder::attribute(cudaDevAttrManagedMemory)) throw ladder::LeftOut("this device has no managed memory");
    const bool faults = ladder::attribute(cudaDevAttrConcurrentManagedAccess) != 0;
    const int64_t n = options.check_only ? 10003 : int64_t{16} << 20;
    const size_t bytes = static_cast<size_t>(n) * sizeof(float);
    const unsigned blocks = static_cast<unsigned>(ladder::ceil_div(n, 256));
    const unsigned page_blocks = static_cast<unsigned>(ladder::ceil_div(static_cast<int64_t>(bytes), static_cast<int64_t>(8 * kPage)));
    float *managed = nullptr, *pinned = nullptr;
    LADDER_CUDA(cudaMallocManaged(reinterpret_cast<void **>(&managed), bytes));
    LADDER_CUDA(cudaMallocHost(reinterpret_cast<void **>(&pinned), bytes));
    const ladder::DeviceArray device(n), sink(1);
    bool all = true;
    for (const std::string name : {"page faults", "warp a page", "prefetch", "explicit copy"}) {
        ladder::Row row;
        row.ladder = "memory", row.order = 2, row.step = "managed", row.shape = name;
        const bool copied = name == "explicit copy";
        float *const host = copied ? pinned : managed;
        if (!faults && name == "prefetch") {
            row.note = "this system moves managed memory at launches, without faults or prefetch";
            ladder::report(options, row);
            continue;
        }
        const auto write = [&] {
            for (int64_t i = 0; i < n; ++i) host[i] = ladder::random_value(7, static_cast<uint64_t>(i), -1, 1);
        };
        row.timing = ladder::time_on_host(options, write, [&] {
            if (name == "warp a page") touch_pages<<<page_blocks, 256>>>(managed, n, sink.get());
            if (name == "prefetch") prefetch(managed, bytes);
            if (copied) LADDER_CUDA(cudaMemcpyAsync(device.get(), pinned, bytes, cudaMemcpyHostToDevice, 0));
            add_one<<<blocks, 256>>>(copied ? device.get() : managed, n);
            LADDER_CUDA(cudaGetLastError());
        });
        std::vector<float> got = copied ? device.host() : std::vector<float>(managed, managed + n);
        ladder::Errors errors;
        for (int64_t i = 0; i < n; ++i)
            errors.add(got[static_cast<size_t>(i)], ladder::random_value(7, static_cast<uint64_t>(i), -1, 1) + 1.0, 2.5 * ladder::kHalfUlp);
        row.ok = errors.ok(), row.error = errors.worst();
        row.bytes = row.traffic = static_cast<double>(bytes);
        row.flops = static_cast<double>(n);
        ladder::report(options, row);
        all = all && row.ok;
    }
    LADDER_CUDA(cudaFree(managed));
    LADDER_CUDA(cudaFreeHost(pinned));
    return all;
}

[[maybe_unused]] const bool added = ladder::add_step({"memory", 2, "managed", run});

}  // namespace
