// SPDX-License-Identifier: Apache-2.0
// Clocking drawn problems.
#include "random_clock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <vector>

#include "table.h"

namespace attile::cli {
namespace {

using Calls = std::vector<std::unique_ptr<ProblemCall>>;

constexpr int64_t kDelayBytes = int64_t{32} << 20;

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double median_of(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

double spread_of(std::vector<double> values, double median) {
    std::sort(values.begin(), values.end());
    return median > 0 ? (values[values.size() * 3 / 4] - values[values.size() / 4]) / median : 0;
}

constexpr struct {
    const char *name;
    int32_t dtype;
} kPeaks[] = {{"f32", ATTILE_F32}, {"f64", ATTILE_F64}, {"f16", ATTILE_F16}, {"bf16", ATTILE_BF16}, {"memory", 0}};

// Operations a second of a large square product: larger and larger ones until one takes a fiftieth of a second.
double product_rate(const Context &context, OperandMemory &memory, int32_t dtype) {
    for (int64_t n = 64;; n *= 2) {
        Problem problem;
        problem.dtype = dtype;
        problem.m = problem.n = problem.k = n;
        memory.count();
        { const ProblemCall counted(context, problem, memory); }
        memory.provide(1);
        const ProblemCall call(context, problem, memory);
        double best = 0;
        for (int i = 0; i < 3; ++i) {
            check(attile_synchronize(context, nullptr));
            const double start = now();
            check(call.run());
            check(attile_synchronize(context, nullptr));
            best = i == 0 ? now() - start : std::min(best, now() - start);
        }
        if (best > 0.02 || n >= 8192) return work_of(problem).flops / best;
    }
}

// Bytes a second that a copy of 256 MB reads and writes.
double copy_rate(const Context &context) {
    constexpr int64_t kBytes = 256 << 20;
    void *from = nullptr, *to = nullptr;
    check(attile_alloc(context, ATTILE_MEMORY_DEVICE, kBytes, &from));
    check(attile_alloc(context, ATTILE_MEMORY_DEVICE, kBytes, &to));
    double best = 0;
    for (int i = 0; i < 5; ++i) {
        const double start = now();
        check(attile_copy(context, to, from, kBytes, nullptr));
        check(attile_synchronize(context, nullptr));
        if (i > 0) best = i == 1 ? now() - start : std::min(best, now() - start);  // The first one touches the memory.
    }
    attile_free(context, from);
    attile_free(context, to);
    return 2.0 * kBytes / best;
}

}  // namespace

double Roof::floor_seconds(const Work &work, int32_t dtype) const {
    return std::max(work.flops / flops.at(dtype), work.bytes / bandwidth) + launch;
}

std::string parse_peak(const std::string &given, std::string &type, double &rate) {
    const size_t sign = std::min(given.find('='), given.size());
    type = given.substr(0, sign);
    const std::string number = sign < given.size() ? given.substr(sign + 1) : "";
    char *end = nullptr;
    rate = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !(rate > 0) || !std::isfinite(rate)) return "'" + given + "' is not a peak such as bf16=800e12";
    for (const auto &peak : kPeaks)
        if (type == peak.name) return "";
    return "'" + given + "' is a peak of none of f32, f64, f16, bf16 and memory";
}

Roof roof_of(const Context &context, OperandMemory &memory, const std::vector<std::string> &given) {
    const attile_context_info &info = context.info();
    Roof roof;
    roof.launch = info.device_type == ATTILE_DEVICE_CPU ? 1e-6 : 4e-6;
    roof.bandwidth = info.peak_bandwidth;
    roof.flops[ATTILE_F32] = info.peak_flops_f32;
    roof.flops[ATTILE_F64] = info.peak_flops_f64;
    // Types that are only storage are computed in float32 where no matrix unit takes them.
    roof.flops[ATTILE_F16] = roof.flops[ATTILE_BF16] = info.peak_flops_f16 > 0 ? info.peak_flops_f16 : info.peak_flops_f32;
    roof.from = "the context's";
    for (const std::string &one : given) {
        std::string type;
        double rate = 0;
        if (const std::string why = parse_peak(one, type, rate); !why.empty()) throw Failure(why);
        for (const auto &peak : kPeaks)
            if (type == peak.name) (peak.dtype == 0 ? roof.bandwidth : roof.flops[peak.dtype]) = rate;
        roof.from = "given, else the context's";
    }
    std::string measured;
    for (const auto &peak : kPeaks) {
        double &rate = peak.dtype == 0 ? roof.bandwidth : roof.flops[peak.dtype];
        if (rate > 0) continue;
        rate = peak.dtype == 0 ? copy_rate(context) : product_rate(context, memory, peak.dtype);
        measured += (measured.empty() ? "" : ", ") + std::string(peak.name);
    }
    if (!measured.empty()) roof.from += "; measured here by a large product and a large copy: " + measured;
    return roof;
}

Clock::Clock(const Context &context) : context_(context), on_device_(context.info().device_type != ATTILE_DEVICE_CPU) {
    if (!on_device_) return;
    check(attile_alloc(context_, ATTILE_MEMORY_DEVICE, kDelayBytes, &from_));
    check(attile_alloc(context_, ATTILE_MEMORY_DEVICE, kDelayBytes, &to_));
    const std::vector<char> zeros(static_cast<std::size_t>(kDelayBytes));  // A checker of memory would report copies of what nobody wrote.
    check(attile_copy(context_, from_, zeros.data(), kDelayBytes, nullptr));
    constexpr int kCopies = 64;
    for (int round = 0; round < 2; ++round) {  // The first one warms up.
        synchronize();
        const double start = now();
        for (int i = 0; i < kCopies; ++i) check(attile_copy(context_, to_, from_, kDelayBytes, nullptr));
        synchronize();
        copy_seconds_ = (now() - start) / kCopies;
    }
}

Clock::~Clock() {
    attile_synchronize(context_, nullptr);
    attile_free(context_, from_);
    attile_free(context_, to_);
}

double Clock::queue_delay(int copies) {
    for (int i = 0; i < copies; ++i) check(attile_copy(context_, to_, from_, kDelayBytes, nullptr));
    return copies * copy_seconds_;
}

Clocked Clock::time(const Calls &calls, double seconds) {
    const double begin = now();
    double once = 0;
    // Every call once: pages are touched, kernels loaded. Then one by itself, to know how many make a sample.
    for (size_t i = 0; i < calls.size() && now() - begin < seconds / 4; ++i) {
        const double start = now();
        check(calls[i]->run());
        synchronize();
        once = now() - start;
    }
    if (once < seconds) {
        const double start = now();
        check(calls[0]->run());
        synchronize();
        once = now() - start;
    }
    if (on_device_) return time_device(calls, seconds, once);

    constexpr double kSample = 1e-3;
    constexpr int kFewest = 3, kMost = 15;
    Clocked result;
    std::vector<double> samples;
    size_t next = 0;
    const int times = std::clamp(static_cast<int>(kSample / std::max(once, 1e-8)), 1, 1 << 16);
    while (static_cast<int>(samples.size()) < kMost) {
        const double spent = now() - begin;
        if (static_cast<int>(samples.size()) >= (once > seconds / 4 ? 1 : kFewest) && spent > seconds) break;
        const double start = now();
        for (int i = 0; i < times; ++i, next = (next + 1) % calls.size()) check(calls[next]->run());
        samples.push_back((now() - start) / times);
        result.calls += times;
    }
    // What else runs on the processor only adds to a sample, and the peaks are those of the fastest runs, too.
    result.spread = spread_of(samples, median_of(samples));
    result.seconds = *std::min_element(samples.begin(), samples.end());
    return result;
}

// Copies that take longer than the host needs to queue all calls go first, so that the device never waits for the host; the time of the
// copies alone, taken in the same rounds, is taken off.
Clocked Clock::time_device(const Calls &calls, double seconds, double once) {
    constexpr double kSample = 1e-3;
    constexpr int kFewest = 3, kMost = 9, kMostCalls = 128;
    const int times = std::clamp(static_cast<int>(kSample / std::max(once, 1e-6)) + 1, 1, kMostCalls);
    size_t next = 0;
    const auto queue = [&] {
        const double start = now();
        for (int i = 0; i < times; ++i, next = (next + 1) % calls.size()) check(calls[next]->run());
        return now() - start;
    };
    double host = queue();
    synchronize();
    Clocked result;
    std::vector<double> alone, together;
    const double begin = now();
    for (int attempt = 0; attempt < 3; ++attempt) {
        if (attempt > 0) host *= 2;
        // No more than a queue holds: a host that has to wait for room is ahead in any case.
        const int copies = std::clamp(static_cast<int>(1.3 * host / copy_seconds_) + 1, 1, 400);
        alone.clear();
        together.clear();
        result.calls = 0;
        result.ahead = true;
        while (static_cast<int>(together.size()) < kMost) {
            if (static_cast<int>(together.size()) >= (once > seconds / 4 ? 1 : kFewest) && now() - begin > seconds) break;
            double start = now();
            queue_delay(copies);
            synchronize();
            alone.push_back(now() - start);
            start = now();
            queue_delay(copies);
            queue();
            const double queued = now() - start;
            synchronize();
            together.push_back(now() - start);
            result.calls += times;
            // Queued before the copies were done, or while calls were still to come.
            if (times > 1 && queued > alone.back() && together.back() - queued < 0.1 * (together.back() - alone.back()))
                result.ahead = false;
        }
        if (result.ahead) break;
    }
    const double base = median_of(alone);
    for (double &sample : together) sample = (sample - base) / times;
    result.seconds = std::max(median_of(together), 1e-7);
    result.spread = spread_of(together, result.seconds);
    return result;
}

}  // namespace attile::cli
