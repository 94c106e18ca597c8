// SPDX-License-Identifier: Apache-2.0
// What a call takes of the host's time where all operands are the device's: from the call to its return, the work being queued. A sample is
// a few calls in a row on an idle stream, so that no call waits for the device; printed are the median and the fastest of many samples, and
// how often a call allocates host memory, the driver's own allocations counted.
// usage: attile_bench_host [--check] [--only TEXT] [--samples N]
//   --check    exit code 1 if a call allocates
//   --only     the calls whose name has TEXT      --samples  as many as a profile wants
//
// With ATTILE_BENCH_PLANNED it is a device of tests/plan, which has an H200's properties and does nothing: what is left is the library's
// own.
#include <attile/attile.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "fault_injection.h"
#if defined(ATTILE_BENCH_PLANNED)
#include "idle_device.h"
#endif

namespace {

constexpr int kCalls = 16;  // Of a sample: what is queued never fills a stream's queue.

struct Options {
    bool checks = false;
    const char *only = "";
    int samples = 300;
};

[[noreturn]] void give_up(const char *what) {
    char sentence[512] = "";
    attile_last_error(sentence, sizeof sentence);
    std::fprintf(stderr, "attile_bench_host: %s: %s\n", what, sentence);
    std::exit(1);
}
void expect_ok(int32_t status, const char *what) {
    if (status != ATTILE_OK) give_up(what);
}

class Bench {
  public:
    explicit Bench(const Options &of) : of_(of) {
        attile_context_options options;
        attile_context_options_init(&options, sizeof options);
#if defined(ATTILE_BENCH_PLANNED)
        attile::test::register_idle_backend();
        options.backend = "idle";
#endif
        expect_ok(attile_context_create(&options, &context_), "no context");
        expect_ok(attile_stream_create(context_, &stream_), "no stream");
    }
    ~Bench() { attile_context_destroy(context_); }
    Bench(const Bench &) = delete;
    Bench &operator=(const Bench &) = delete;

    bool has_failed() const { return has_failed_; }
    attile_context *context() const { return context_; }
    void *stream() const { return stream_; }

    // A tensor of the device's memory, whose values do not matter here: zeros are written so that none is NaN.
    attile_tensor tensor(int32_t dtype, std::vector<int64_t> shape) {
        int64_t bytes = (dtype & 0xff) / 8;
        for (const int64_t extent : shape) bytes *= extent;
        void *data = nullptr;
        expect_ok(attile_alloc(context_, ATTILE_MEMORY_DEVICE, bytes, &data), "no memory");
        const std::vector<char> zeros(static_cast<std::size_t>(bytes));
        expect_ok(attile_copy(context_, data, zeros.data(), bytes, nullptr), "a copy failed");
        attile_tensor made;
        expect_ok(attile_tensor_init(&made, data, dtype, static_cast<int32_t>(shape.size()), shape.data()), "no tensor");
        return made;
    }

    void time(const std::string &name, const attile_support &support, const std::function<int32_t()> &call) {
        if (name.find(of_.only) == std::string::npos) return;
        if (support.level == ATTILE_SUPPORT_NONE) {
            std::printf("%-48s %s\n", name.c_str(), support.text);
            return;
        }
        for (int i = 0; i < kCalls; ++i) expect_ok(call(), name.c_str());
        expect_ok(attile_synchronize(context_, stream_), "waiting failed");
        std::vector<double> samples;
        for (int sample = 0; sample < of_.samples; ++sample) {
            const auto start = std::chrono::steady_clock::now();
            for (int i = 0; i < kCalls; ++i)
                if (call() != ATTILE_OK) give_up(name.c_str());
            const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
            samples.push_back(taken.count() / kCalls);
            expect_ok(attile_synchronize(context_, stream_), "waiting failed");
        }
        std::sort(samples.begin(), samples.end());
        attile_fault_arm(ATTILE_FAULT_MEMORY | ATTILE_FAULT_THIS_THREAD, 0, 0);
        for (int i = 0; i < kCalls; ++i) expect_ok(call(), name.c_str());
        const int64_t allocations = attile_fault_disarm();
        expect_ok(attile_synchronize(context_, stream_), "waiting failed");
        has_failed_ = has_failed_ || (of_.checks && allocations != 0);
        std::printf("%-48s %8.0f %8.0f %7.1f  %s\n", name.c_str(), samples[samples.size() / 2], samples.front(),
                    static_cast<double>(allocations) / kCalls, support.kernel);
        std::fflush(stdout);
    }

  private:
    const Options of_;
    bool has_failed_ = false;
    attile_context *context_ = nullptr;
    void *stream_ = nullptr;
};

attile_support new_support() {
    attile_support support;
    attile_support_init(&support, sizeof support);
    return support;
}

void time_gemm(Bench &bench, const char *name, int32_t dtype, int64_t m, int64_t n, int64_t k) {
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    args.stream = bench.stream();
    args.a = bench.tensor(dtype, {m, k});
    args.b = bench.tensor(dtype, {k, n});
    args.d = bench.tensor(dtype, {m, n});
    attile_support support = new_support();
    expect_ok(attile_gemm_query(bench.context(), &args, &support), name);
    bench.time(name, support, [&] { return attile_gemm(bench.context(), &args); });
    attile_prepared *prepared = nullptr;
    expect_ok(attile_gemm_prepare(bench.context(), &args, &prepared), name);
    attile_gemm_pointers at;
    attile_gemm_pointers_init(&at, sizeof at);
    at.stream = bench.stream();
    at.a = args.a.data;
    at.b = args.b.data;
    at.d = args.d.data;
    bench.time(std::string(name) + ", prepared", support, [&] { return attile_gemm_run(prepared, &at); });
    attile_prepared_destroy(prepared);
}

struct Heads {
    int64_t batch, q, kv, len_q, len_k, dim;
};

attile_attention_args attention_args(Bench &bench, int32_t dtype, const Heads &of, bool with_lse) {
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.stream = bench.stream();
    args.q = bench.tensor(dtype, {of.batch, of.q, of.len_q, of.dim});
    args.k = bench.tensor(dtype, {of.batch, of.kv, of.len_k, of.dim});
    args.v = bench.tensor(dtype, {of.batch, of.kv, of.len_k, of.dim});
    args.o = bench.tensor(dtype, {of.batch, of.q, of.len_q, of.dim});
    if (with_lse) args.lse = bench.tensor(ATTILE_F32, {of.batch, of.q, of.len_q});
    return args;
}

void time_attention(Bench &bench, const char *name, int32_t dtype, const Heads &of) {
    const attile_attention_args args = attention_args(bench, dtype, of, false);
    attile_support support = new_support();
    expect_ok(attile_attention_query(bench.context(), &args, &support), name);
    bench.time(name, support, [&] { return attile_attention(bench.context(), &args); });
    attile_prepared *prepared = nullptr;
    expect_ok(attile_attention_prepare(bench.context(), &args, &prepared), name);
    attile_attention_pointers at;
    attile_attention_pointers_init(&at, sizeof at);
    at.stream = bench.stream();
    at.q = args.q.data;
    at.k = args.k.data;
    at.v = args.v.data;
    at.o = args.o.data;
    bench.time(std::string(name) + ", prepared", support, [&] { return attile_attention_run(prepared, &at); });
    attile_prepared_destroy(prepared);
}

void time_backward(Bench &bench, const char *name, int32_t dtype, const Heads &of) {
    const attile_attention_args forward = attention_args(bench, dtype, of, true);
    attile_attention_backward_args args;
    attile_attention_backward_init(&args, sizeof args);
    args.stream = bench.stream();
    args.forward = &forward;
    args.dout = bench.tensor(dtype, {of.batch, of.q, of.len_q, of.dim});
    args.dq = bench.tensor(dtype, {of.batch, of.q, of.len_q, of.dim});
    args.dk = bench.tensor(dtype, {of.batch, of.kv, of.len_k, of.dim});
    args.dv = bench.tensor(dtype, {of.batch, of.kv, of.len_k, of.dim});
    attile_support support = new_support();
    expect_ok(attile_attention_backward_query(bench.context(), &args, &support), name);
    bench.time(name, support, [&] { return attile_attention_backward(bench.context(), &args); });
}

void time_rows(Bench &bench) {
    attile_softmax_args softmax;
    attile_softmax_init(&softmax, sizeof softmax);
    softmax.stream = bench.stream();
    softmax.x = bench.tensor(ATTILE_F32, {64, 1024});
    softmax.y = bench.tensor(ATTILE_F32, {64, 1024});
    softmax.axis = 1;
    attile_support support = new_support();
    expect_ok(attile_softmax_query(bench.context(), &softmax, &support), "softmax");
    bench.time("softmax f32 64 x 1024", support, [&] { return attile_softmax(bench.context(), &softmax); });

    attile_reduce_args reduce;
    attile_reduce_init(&reduce, sizeof reduce);
    reduce.stream = bench.stream();
    reduce.x = softmax.x;
    reduce.y = bench.tensor(ATTILE_F32, {64, 1});
    reduce.op = ATTILE_REDUCE_SUM;
    reduce.axis = 1;
    support = new_support();
    expect_ok(attile_reduce_query(bench.context(), &reduce, &support), "reduce");
    bench.time("reduce f32 64 x 1024", support, [&] { return attile_reduce(bench.context(), &reduce); });

    const Heads of = {1, 8, 8, 128, 128, 64};
    const attile_attention_args parts[2] = {attention_args(bench, ATTILE_F32, of, true), attention_args(bench, ATTILE_F32, of, true)};
    const attile_tensor o_parts[2] = {parts[0].o, parts[1].o}, lse_parts[2] = {parts[0].lse, parts[1].lse};
    attile_attention_merge_args merge;
    attile_attention_merge_init(&merge, sizeof merge);
    merge.stream = bench.stream();
    merge.parts = 2;
    merge.o_parts = o_parts;
    merge.lse_parts = lse_parts;
    merge.o = bench.tensor(ATTILE_F32, {of.batch, of.q, of.len_q, of.dim});
    support = new_support();
    expect_ok(attile_attention_merge_query(bench.context(), &merge, &support), "attention_merge");
    bench.time("attention_merge f32, 2 parts", support, [&] { return attile_attention_merge(bench.context(), &merge); });
}

}  // namespace

int main(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        if (std::strcmp(argv[i], "--check") == 0) {
            options.checks = true;
        } else if (std::strcmp(argv[i], "--only") == 0 && i + 1 < argc) {
            options.only = argv[++i];
        } else if (std::strcmp(argv[i], "--samples") == 0 && i + 1 < argc && std::atoi(argv[i + 1]) > 0) {
            options.samples = std::atoi(argv[++i]);
        } else {
            return std::fprintf(stderr, "usage: attile_bench_host [--check] [--only TEXT] [--samples N]\n"), 2;
        }
    }
    Bench bench(options);
    std::printf("%-48s %8s %8s %7s  kernel\n", "host time of a call", "median", "fastest", "allocs");
    std::printf("%-48s %8s %8s %7s\n", "", "ns", "ns", "a call");
    time_gemm(bench, "gemm f32 128^3", ATTILE_F32, 128, 128, 128);
    time_gemm(bench, "gemm f32 512^3", ATTILE_F32, 512, 512, 512);
    time_gemm(bench, "gemm bf16 512^3", ATTILE_BF16, 512, 512, 512);
    time_gemm(bench, "gemm bf16 16 x 4096 x 4096", ATTILE_BF16, 16, 4096, 4096);
    time_attention(bench, "attention bf16 (1, 8, 128, 64)", ATTILE_BF16, {1, 8, 8, 128, 128, 64});
    time_attention(bench, "attention f32 (1, 8, 128, 64)", ATTILE_F32, {1, 8, 8, 128, 128, 64});
    time_attention(bench, "decode bf16, 32 / 8 heads, 8192 keys", ATTILE_BF16, {1, 32, 8, 1, 8192, 128});
    time_attention(bench, "decode f32, 32 / 8 heads, 8192 keys", ATTILE_F32, {1, 32, 8, 1, 8192, 128});
    time_backward(bench, "attention_backward bf16 (1, 8, 128, 64)", ATTILE_BF16, {1, 8, 8, 128, 128, 64});
    time_backward(bench, "attention_backward f32 (1, 8, 128, 64)", ATTILE_F32, {1, 8, 8, 128, 128, 64});
    time_rows(bench);
    return bench.has_failed() ? 1 : 0;
}
