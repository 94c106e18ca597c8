// SPDX-License-Identifier: Apache-2.0
// What every step of the ladder shares: random inputs, checking, timing and reporting. A step is one .cu file that compiles by itself
// (nvcc -std=c++17 gemm_01_naive.cu) or together with all others; either way main() is the one below.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

namespace ladder {

inline void require(cudaError_t status, const char *call) {
    if (status != cudaSuccess) throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
}
#define LADDER_CUDA(call) ladder::require((call), #call)

// Rounding to nearest moves a float32 by at most this share of its value.
constexpr double kHalfUlp = 1.0 / (1 << 24);

// The timed sizes; tiny ones try the same code where a GPU is emulated.
#ifdef LADDER_TINY
constexpr int kTiny = 1;
#else
constexpr int kTiny = 0;
#endif

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- Options of the program.
struct Options {
    bool check_only = false;  // Small sizes against float64, nothing timed.
    double seconds = 0.15;    // Time to spend on repeating one measurement.
    std::string filter;       // Part of "ladder/step".
    std::FILE *json = nullptr;
};

// ---- Random inputs: a value is a function of seed and index, so that host and device make the same ones and nothing is copied.
__host__ __device__ inline float random_value(uint64_t seed, uint64_t index, float low, float high) {
    uint64_t x = index * 0x9E3779B97F4A7C15ull + seed;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    x ^= x >> 31;
    return low + (high - low) * (static_cast<float>(static_cast<uint32_t>(x >> 40)) * (1.0f / 16777216.0f));
}

static __global__ void fill_random(float *x, int64_t n, uint64_t seed, float low, float high) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        x[i] = random_value(seed, static_cast<uint64_t>(i), low, high);
}

// Counts what no right answer holds: NaN, infinities, values beyond a bound. Written so that NaN is counted.
static __global__ void count_outside(const float *x, int64_t n, float bound, unsigned int *count) {
    const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
    for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
        if (!(fabsf(x[i]) <= bound)) atomicAdd(count, 1u);
}

// Memory of the device, prefilled with NaN: what a kernel forgets to write is seen.
class DeviceArray {
  public:
    explicit DeviceArray(int64_t n) : n_(n) {
        LADDER_CUDA(cudaMalloc(reinterpret_cast<void **>(&data_), bytes()));
        fill_nan();
    }
    DeviceArray(int64_t n, uint64_t seed, float low, float high) : DeviceArray(n) {
        const int64_t blocks = std::min<int64_t>(ceil_div(n_, 256), 4096);
        fill_random<<<static_cast<unsigned>(blocks), 256>>>(data_, n_, seed, low, high);
        LADDER_CUDA(cudaGetLastError());
    }
    ~DeviceArray() { cudaFree(data_); }
    DeviceArray(const DeviceArray &) = delete;
    DeviceArray &operator=(const DeviceArray &) = delete;

    float *get() const { return data_; }
    int64_t size() const { return n_; }
    void fill_nan() const { LADDER_CUDA(cudaMemset(data_, 0xFF, bytes())); }
    void copy_out(float *to, int64_t from, int64_t count) const {
        LADDER_CUDA(cudaMemcpy(to, data_ + from, static_cast<size_t>(count) * sizeof(float), cudaMemcpyDeviceToHost));
    }
    std::vector<float> host() const {
        std::vector<float> result(static_cast<size_t>(n_));
        copy_out(result.data(), 0, n_);
        return result;
    }
    unsigned int outside(float bound) const {
        unsigned int *count = nullptr, result = 0;
        LADDER_CUDA(cudaMalloc(reinterpret_cast<void **>(&count), sizeof *count));
        LADDER_CUDA(cudaMemset(count, 0, sizeof *count));
        count_outside<<<static_cast<unsigned>(std::min<int64_t>(ceil_div(n_, 256), 4096)), 256>>>(data_, n_, bound, count);
        LADDER_CUDA(cudaGetLastError());
        LADDER_CUDA(cudaMemcpy(&result, count, sizeof result, cudaMemcpyDeviceToHost));
        LADDER_CUDA(cudaFree(count));
        return result;
    }

  private:
    size_t bytes() const { return static_cast<size_t>(std::max<int64_t>(n_, 1)) * sizeof(float); }
    float *data_ = nullptr;
    int64_t n_;
};

// ---- Checking. The largest error as a share of its bound; any NaN makes it infinite, so that it never passes.
class Errors {
  public:
    void add(double got, double exact, double bound) {
        const double share = std::fabs(got - exact) / bound;
        if (!(share <= worst_)) worst_ = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
    }
    void fail() { worst_ = std::numeric_limits<double>::infinity(); }
    double worst() const { return worst_; }
    bool ok() const { return worst_ <= 1.0; }

  private:
    double worst_ = 0;
};

// ---- Timing: one launch to warm up, then as many as fit the time, each between two events. Slow ones are
// repeated once or twice.
struct Timing {
    double ms = 0, low = 0, high = 0;  // Median, least, most.
    int runs = 0;
};

inline Timing summarise(std::vector<double> times) {
    std::sort(times.begin(), times.end());
    return {times[times.size() / 2], times.front(), times.back(), static_cast<int>(times.size())};
}

inline Timing time_launches(const Options &options, const std::function<void()> &launch) {
    cudaEvent_t start, stop;
    LADDER_CUDA(cudaEventCreate(&start));
    LADDER_CUDA(cudaEventCreate(&stop));
    const auto once = [&] {
        LADDER_CUDA(cudaEventRecord(start));
        launch();
        LADDER_CUDA(cudaEventRecord(stop));
        LADDER_CUDA(cudaEventSynchronize(stop));
        float ms = 0;
        LADDER_CUDA(cudaEventElapsedTime(&ms, start, stop));
        return static_cast<double>(ms);
    };
    const double first = once();
    const double wanted = options.seconds * 1e3 / std::max(first, 1e-3);
    const int runs = first > 500 ? 1 : first > 100 ? 2 : static_cast<int>(std::min(25.0, std::max(3.0, wanted)));
    std::vector<double> times;
    for (int i = 0; i < runs; ++i) times.push_back(once());
    LADDER_CUDA(cudaEventDestroy(start));
    LADDER_CUDA(cudaEventDestroy(stop));
    return summarise(times);
}

// For what the host takes part in: copies, managed memory, streams.
inline Timing time_on_host(const Options &options, const std::function<void()> &prepare, const std::function<void()> &work) {
    std::vector<double> times;
    double spent = 0;
    for (int i = 0; i < 26 && (i < 4 || spent < options.seconds * 1e3); ++i) {
        prepare();
        LADDER_CUDA(cudaDeviceSynchronize());
        const auto start = std::chrono::steady_clock::now();
        work();
        LADDER_CUDA(cudaDeviceSynchronize());
        const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
        if (i > 0) times.push_back(took.count());
        spent += took.count();
    }
    return summarise(times);
}

// ---- Reporting: a line for the reader, a line of JSON for tools/ladder.
struct Row {
    std::string ladder, step, shape;
    int order = 0;
    Timing timing;
    double flops = 0;    // Of the definition.
    double bytes = 0;    // Each input read once, each output written once.
    double traffic = 0;  // Bytes the kernel's threads ask of global memory, by design; caches answer some of it.
    double error = 0;    // Largest error as a share of its bound.
    bool ok = false;
    std::string note;     // Why it was left out, or what else was seen.
    std::string details;  // More JSON members, or nothing.
};

inline std::string quoted(const std::string &text) {
    std::string result = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') result += '\\';
        result += c < ' ' ? ' ' : c;
    }
    return result + '"';
}

inline void report(const Options &options, const Row &row) {
    std::printf("%-10s %2d %-20s %-18s", row.ladder.c_str(), row.order, row.step.c_str(), row.shape.c_str());
    if (row.timing.runs > 0) std::printf(" %10.4f ms %8.3f TFLOP/s", row.timing.ms, row.flops / row.timing.ms * 1e-9);
    std::printf("  %s %s\n", row.ok ? "ok" : row.note.empty() ? "WRONG" : row.error > 1 ? "WRONG:" : "left out:", row.note.c_str());
    std::fflush(stdout);
    if (!options.json) return;
    const double error = std::isfinite(row.error) ? row.error : -1;
    std::fprintf(options.json,
                 "{\"ladder\": %s, \"order\": %d, \"step\": %s, \"shape\": %s, \"ms\": %.6g, \"low\": %.6g, \"high\": %.6g, \"runs\": %d, "
                 "\"flops\": %.9g, \"bytes\": %.9g, \"traffic\": %.9g, \"error_share\": %.4g, \"ok\": %s, \"note\": %s%s%s}\n",
                 quoted(row.ladder).c_str(), row.order, quoted(row.step).c_str(), quoted(row.shape).c_str(), row.timing.ms, row.timing.low,
                 row.timing.high, row.timing.runs, row.flops, row.bytes, row.traffic, error, row.ok ? "true" : "false",
                 quoted(row.note).c_str(), row.details.empty() ? "" : ", ", row.details.c_str());
    std::fflush(options.json);
}

// Why a step cannot run here; no fault of the step.
struct LeftOut : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// ---- The steps. Each file adds its own before main() starts.
struct Step {
    std::string ladder;
    int order;
    std::string name;
    std::function<bool(const Options &)> run;  // True: every check passed.
};

inline std::vector<Step> &steps() {
    static std::vector<Step> all;
    return all;
}

inline bool add_step(Step step) {
    steps().push_back(std::move(step));
    return true;
}

inline int attribute(cudaDeviceAttr which) {
    int value = 0;
    LADDER_CUDA(cudaDeviceGetAttribute(&value, which, 0));
    return value;
}

// Float32 lanes of a multiprocessor. They are in no device attribute.
inline int lanes_per_unit(int major, int minor) {
    if (major == 6) return minor == 0 ? 64 : 128;
    if (major == 7 || (major == 8 && minor == 0)) return 64;
    return 128;
}

inline void report_device(const Options &options) {
    cudaDeviceProp device;
    LADDER_CUDA(cudaGetDeviceProperties(&device, 0));
    cudaFuncAttributes code;
    LADDER_CUDA(cudaFuncGetAttributes(&code, fill_random));
    const double lanes = static_cast<double>(device.multiProcessorCount) * lanes_per_unit(device.major, device.minor);
    const double peak = 2.0 * lanes * attribute(cudaDevAttrClockRate) * 1e3;
    const double bandwidth = 2.0 * attribute(cudaDevAttrMemoryClockRate) * 1e3 * attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
    int driver = 0, runtime = 0;
    LADDER_CUDA(cudaDriverGetVersion(&driver));
    LADDER_CUDA(cudaRuntimeGetVersion(&runtime));
    std::printf("%s, %d multiprocessors, peak %.1f TFLOP/s, %.0f GB/s; code for sm_%d from compute_%d\n", device.name,
                device.multiProcessorCount, peak * 1e-12, bandwidth * 1e-9, code.binaryVersion, code.ptxVersion);
    if (!options.json) return;
    std::fprintf(options.json,
                 "{\"device\": %s, \"capability\": \"%d.%d\", \"units\": %d, \"peak_flops\": %.6g, \"bandwidth\": %.6g, "
                 "\"shared_per_block\": %lld, \"l2_bytes\": %d, \"driver\": %d, \"runtime\": %d, \"binary\": %d, \"ptx\": %d}\n",
                 quoted(device.name).c_str(), device.major, device.minor, device.multiProcessorCount, peak, bandwidth,
                 static_cast<long long>(device.sharedMemPerBlock), attribute(cudaDevAttrL2CacheSize), driver, runtime, code.binaryVersion,
                 code.ptxVersion);
}

inline int usage() {
    std::fprintf(stderr,
                 "usage: PROGRAM [--list] [--check] [--filter PART[,PART...]] [--json FILE] [--seconds S]\n"
                 "  --check   small and ragged sizes against float64, nothing timed\n"
                 "  --filter  steps whose name, as gemm/01-naive, contains a part\n"
                 "  --json    append a line of JSON for each measurement\n"
                 "  --seconds time to spend on each measurement (0.15)\n");
    return 2;
}

inline std::string full_name(const Step &step) {
    char order[8];
    std::snprintf(order, sizeof order, "%02d", step.order % 100);
    return step.ladder + "/" + order + "-" + step.name;
}

inline bool chosen(const Step &step, const std::string &filter) {
    if (filter.empty()) return true;
    for (size_t from = 0; from <= filter.size();) {
        const size_t comma = std::min(filter.find(',', from), filter.size());
        if (comma > from && full_name(step).find(filter.substr(from, comma - from)) != std::string::npos) return true;
        from = comma + 1;
    }
    return false;
}

// Runs one step; what it throws is its result.
inline bool climb(const Step &step, const Options &options) {
    Row row;
    row.ladder = step.ladder, row.order = step.order, row.step = step.name;
    try {
        return step.run(options);
    } catch (const LeftOut &reason) {
        row.note = reason.what();
        report(options, row);
        return true;
    } catch (const std::exception &error) {
        row.error = std::numeric_limits<double>::infinity();
        row.note = error.what();
        report(options, row);
        return false;
    }
}

inline int run_program(int argc, char **argv) {
    Options options;
    bool list = false;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const bool more = i + 1 < argc;
        if (word == "--list")
            list = true;
        else if (word == "--check")
            options.check_only = true;
        else if (word == "--filter" && more)
            options.filter = argv[++i];
        else if (word == "--seconds" && more)
            options.seconds = std::atof(argv[++i]);
        else if (word == "--json" && more) {
            options.json = std::fopen(argv[++i], "a");
            if (!options.json) return std::fprintf(stderr, "cannot write %s\n", argv[i]), 2;
        } else
            return usage();
    }
    std::sort(steps().begin(), steps().end(),
              [](const Step &a, const Step &b) { return std::tie(a.ladder, a.order) < std::tie(b.ladder, b.order); });
    int run = 0, failed = 0;
    try {
        if (!list) report_device(options);
    } catch (const std::exception &error) {
        return std::fprintf(stderr, "no CUDA device can be used: %s\n", error.what()), 3;
    }
    for (const Step &step : steps()) {
        if (!chosen(step, options.filter)) continue;
        ++run;
        if (list)
            std::printf("%s\n", full_name(step).c_str());
        else
            failed += !climb(step, options);
    }
    if (options.json) std::fclose(options.json);
    if (run == 0) return std::fprintf(stderr, "no step is called that\n"), 2;
    if (!list) std::printf("%d steps, %d failed\n", run, failed);
    return failed ? 1 : 0;
}

}  // namespace ladder

// Weak, so that one step alone and all steps together both link to a program.
__attribute__((weak)) int main(int argc, char **argv) { return ladder::run_program(argc, argv); }
