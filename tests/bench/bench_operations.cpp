// SPDX-License-Identifier: Apache-2.0
// Every bench case as a Google Benchmark: attile_bench --benchmark_filter='gemm/f32'. ATTILE_BACKEND chooses what is measured. Counters:
// GFLOP/s of the definition's operations, GB/s of the fewest bytes; the label is the backend and the kernel. Cases for another class of
// device are left out: ATTILE_BENCH_SIZE=tiny, medium or large takes just those.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "bench_cases.h"

namespace {

using attile::bench::BenchCase;
using attile::bench::BenchRun;
using attile::bench::Size;

std::string last_error() {
    char text[1024];
    attile_last_error(text, sizeof text);
    return text;
}

void run(benchmark::State &state, attile_context *context, const std::string &backend, const BenchCase &one) {
    BenchRun bench(context, one);
    attile_support support;
    if (bench.query(support) != ATTILE_OK) return state.SkipWithError(last_error().c_str());
    if (support.level == ATTILE_SUPPORT_NONE) return state.SkipWithError((std::string("not supported: ") + support.text).c_str());
    if (bench.allocate(ATTILE_MEMORY_DEVICE) != ATTILE_OK || bench.run() != ATTILE_OK || attile_synchronize(context, nullptr) != ATTILE_OK)
        return state.SkipWithError(last_error().c_str());
    for (auto _ : state) {
        if (bench.run() != ATTILE_OK || attile_synchronize(context, nullptr) != ATTILE_OK) return state.SkipWithError(last_error().c_str());
    }
    const auto calls = static_cast<double>(state.iterations());
    state.counters["FLOP"] = benchmark::Counter(support.flops * calls, benchmark::Counter::kIsRate);  // Printed as "FLOP=412G/s".
    state.counters["B"] = benchmark::Counter(support.bytes * calls, benchmark::Counter::kIsRate);
    state.SetLabel(backend + " " + support.kernel);
}

void register_cases(attile_context *context, const attile_context_info &info) {
    const char *size = std::getenv("ATTILE_BENCH_SIZE");
    const Size own = info.device_type == ATTILE_DEVICE_CPU ? Size::kMedium : Size::kLarge;
    for (const BenchCase &one : attile::bench::bench_cases()) {
        const bool wanted = size != nullptr ? attile::bench::size_name(one.size) == size : one.size == own || one.size == Size::kTiny;
        if (!wanted) continue;
        const std::string backend = info.backend;
        benchmark::RegisterBenchmark(one.id.c_str(), [=](benchmark::State &state) { run(state, context, backend, one); })
            ->UseRealTime()
            ->Unit(benchmark::kMicrosecond);
    }
}

}  // namespace

int main(int argc, char **argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
    attile_context *context = nullptr;
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    if (attile_context_create(nullptr, &context) != ATTILE_OK || attile_context_get_info(context, &info) != ATTILE_OK) {
        std::fprintf(stderr, "attile_bench: %s\n", last_error().c_str());
        return 1;
    }
    benchmark::AddCustomContext("backend", info.backend);
    benchmark::AddCustomContext("device", info.device_name);
    benchmark::AddCustomContext("arch", info.arch);
    benchmark::AddCustomContext("threads", std::to_string(info.threads));
    register_cases(context, info);
    benchmark::RunSpecifiedBenchmarks();
    benchmark::Shutdown();
    attile_context_destroy(context);
    return 0;
}
