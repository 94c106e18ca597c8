// SPDX-License-Identifier: Apache-2.0
// The cpu backend beside OpenBLAS, BLIS and oneDNN, its attention beside the processor's measured peaks and the reference backend.
//
// Everything runs in this one process, turn by turn, so that a busy machine slows all alike; a row shows the best of several turns. With
// one thread its processor time is taken, with more the wall's clock.
// The peers are loaded by name, each with its own symbols, since two of them export the same ones.
#include <attile/attile.h>
#include <dlfcn.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "cpu_peak.h"

namespace {

using attile::bench::fma_peak_f32;
using attile::bench::read_bandwidth;
using attile::bench::seconds_now;

struct Peers {
    using Sgemm = void (*)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    using Dgemm = void (*)(int, int, int, int, int, int, double, const double *, int, const double *, int, double, double *, int);
    using DnnlSgemm = int (*)(char, char, int64_t, int64_t, int64_t, float, const float *, int64_t, const float *, int64_t, float, float *,
                              int64_t);
    Sgemm openblas_s = nullptr, blis_s = nullptr;
    Dgemm openblas_d = nullptr, blis_d = nullptr;
    DnnlSgemm onednn_s = nullptr;
    void (*openblas_threads)(int) = nullptr;
    void (*blis_threads)(int64_t) = nullptr;

    static void *open(const char *path) { return *path == 0 ? nullptr : dlopen(path, RTLD_NOW | RTLD_LOCAL); }
    template <class Fn>
    static void find(void *library, const char *name, Fn *fn) {
        if (library != nullptr) *fn = reinterpret_cast<Fn>(dlsym(library, name));
    }
    Peers() {
        void *openblas = open(ATTILE_PEER_OPENBLAS), *blis = open(ATTILE_PEER_BLIS), *onednn = open(ATTILE_PEER_ONEDNN);
        find(openblas, "cblas_sgemm", &openblas_s);
        find(openblas, "cblas_dgemm", &openblas_d);
        find(openblas, "openblas_set_num_threads", &openblas_threads);
        find(blis, "cblas_sgemm", &blis_s);
        find(blis, "cblas_dgemm", &blis_d);
        find(blis, "bli_thread_set_num_threads", &blis_threads);
        find(onednn, "dnnl_sgemm", &onednn_s);
    }
    void set_threads(int threads) const {
        if (openblas_threads != nullptr) openblas_threads(threads);
        if (blis_threads != nullptr) blis_threads(threads);
        omp_set_num_threads(threads);
    }
};

struct Contender {
    std::string name;
    std::function<void()> run;
    double best = 1e300;
};

// Best time of each, taking turns.
void race(std::vector<Contender> &contenders, double seconds) {
    for (Contender &c : contenders) c.run();
    const double start = seconds_now();
    int turns = 0;
    while (turns < 5 || (seconds_now() - start < seconds && turns < 10000)) {
        for (Contender &c : contenders) {
            const double before = seconds_now();
            c.run();
            c.best = std::min(c.best, seconds_now() - before);
        }
        ++turns;
    }
}

void check(int32_t status) {
    if (status == ATTILE_OK) return;
    char text[512];
    attile_last_error(text, sizeof text);
    std::fprintf(stderr, "%s: %s\n", attile_status_name(status), text);
    std::exit(1);
}

attile_context *open_context(const char *backend, int threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    options.threads = threads;
    attile_context *context = nullptr;
    check(attile_context_create(&options, &context));
    return context;
}

void print_rates(const char *name, int threads, double work, const char *unit, std::vector<Contender> &contenders) {
    double best_peer = 0;
    std::printf("%-28s %d thr", name, threads);
    for (const Contender &c : contenders) {
        const double rate = work / c.best * 1e-9;
        std::printf("  %s %7.1f", c.name.c_str(), rate);
        if (&c != &contenders[0]) best_peer = std::max(best_peer, rate);
    }
    std::printf(" %s", unit);
    if (best_peer > 0) std::printf("  ratio %.2f", work / contenders[0].best * 1e-9 / best_peer);
    std::printf("\n");
    std::fflush(stdout);
}

template <class T>
void race_gemm(attile_context *context, const Peers &peers, int threads, int m, int n, int k, bool transposed_b, int batch,
               double seconds) {
    const size_t a_size = static_cast<size_t>(m) * static_cast<size_t>(k), b_size = static_cast<size_t>(k) * static_cast<size_t>(n);
    const size_t c_size = static_cast<size_t>(m) * static_cast<size_t>(n), entries = static_cast<size_t>(batch);
    std::vector<T> a(a_size * entries), b(b_size * entries), c(c_size * entries);
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<T>(i % 17) / 8 - 1;
    for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<T>(i % 13) / 8 - 1;
    const int ldb = transposed_b ? k : n;
    // Small products are repeated, so that the clock's own time does not count.
    const double work = 2.0 * m * n * k * batch;
    const int repeat = std::max(1, static_cast<int>(2e6 / work));
    std::vector<Contender> contenders;
    const auto add = [&](const char *name, auto &&one) {
        contenders.push_back({name, [&, one, repeat] {
                                  for (int r = 0; r < repeat; ++r) one();
                              }});
    };
    add("attile", [&] {
        constexpr int32_t kType = sizeof(T) == 4 ? ATTILE_F32 : ATTILE_F64;
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        const auto tensor = [&](attile_tensor *x, T *data, int64_t rows, int64_t columns) {
            const int64_t shape[3] = {batch, rows, columns};
            check(attile_tensor_init(x, data, kType, 3, shape));
        };
        tensor(&args.a, a.data(), m, k);
        tensor(&args.b, b.data(), k, n);
        if (transposed_b) {
            args.b.stride[1] = 1;
            args.b.stride[2] = k;
        }
        tensor(&args.d, c.data(), m, n);
        check(attile_gemm(context, &args));
    });
    const auto blas = [&](auto fn) {
        return [&, fn] {
            for (size_t e = 0; e < entries; ++e) {
                fn(101, 111, transposed_b ? 112 : 111, m, n, k, T{1}, &a[e * a_size], k, &b[e * b_size], ldb, T{0}, &c[e * c_size], n);
            }
        };
    };
    if constexpr (sizeof(T) == 4) {
        if (peers.openblas_s != nullptr) add("openblas", blas(peers.openblas_s));
        if (peers.blis_s != nullptr) add("blis", blas(peers.blis_s));
        if (peers.onednn_s != nullptr) {
            add("onednn", [&] {
                for (size_t e = 0; e < entries; ++e) {
                    peers.onednn_s('N', transposed_b ? 'T' : 'N', m, n, k, 1, &a[e * a_size], k, &b[e * b_size], ldb, 0, &c[e * c_size], n);
                }
            });
        }
    } else {
        if (peers.openblas_d != nullptr) add("openblas", blas(peers.openblas_d));
        if (peers.blis_d != nullptr) add("blis", blas(peers.blis_d));
    }
    race(contenders, seconds);
    for (Contender &contender : contenders) contender.best /= repeat;
    char name[64];
    std::snprintf(name, sizeof name, "%s %dx%dx%d%s%s", sizeof(T) == 4 ? "sgemm" : "dgemm", m, n, k, transposed_b ? " B^T" : "",
                  batch > 1 ? (" x" + std::to_string(batch)).c_str() : "");
    print_rates(name, threads, work, "GFLOP/s", contenders);
}

struct AttentionShape {
    int64_t batch, heads_q, heads_kv, len_q, len_k, head_dim;
    bool causal;
};

struct AttentionData {
    std::vector<float> q, k, v, o;
    explicit AttentionData(const AttentionShape &s)
        : q(static_cast<size_t>(s.batch * s.heads_q * s.len_q * s.head_dim)),
          k(static_cast<size_t>(s.batch * s.heads_kv * s.len_k * s.head_dim)),
          v(k.size()),
          o(q.size()) {
        for (size_t i = 0; i < q.size(); ++i) q[i] = static_cast<float>(i % 31) / 16 - 1;
        for (size_t i = 0; i < k.size(); ++i) k[i] = static_cast<float>(i % 29) / 16 - 1;
        for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i % 23) / 16 - 1;
    }
    void run(attile_context *context, const AttentionShape &s) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const int64_t rows[4] = {s.batch, s.heads_q, s.len_q, s.head_dim}, keys[4] = {s.batch, s.heads_kv, s.len_k, s.head_dim};
        check(attile_tensor_init(&args.q, q.data(), ATTILE_F32, 4, rows));
        check(attile_tensor_init(&args.k, k.data(), ATTILE_F32, 4, keys));
        check(attile_tensor_init(&args.v, v.data(), ATTILE_F32, 4, keys));
        check(attile_tensor_init(&args.o, o.data(), ATTILE_F32, 4, rows));
        args.mask = s.causal ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
        check(attile_attention(context, &args));
    }
    double flops(const AttentionShape &s) const {
        const double pairs = s.causal ? static_cast<double>(s.len_q) * static_cast<double>(2 * s.len_k - s.len_q + 1) / 2
                                      : static_cast<double>(s.len_q) * static_cast<double>(s.len_k);
        return 4.0 * static_cast<double>(s.batch * s.heads_q * s.head_dim) * pairs;
    }
};

void attention_share(attile_context *context, int threads, const AttentionShape &s, double seconds) {
    AttentionData data(s);
    double peak = 0, best = 1e300;
    data.run(context, s);
    const double start = seconds_now();
    for (int turn = 0; turn < 5 || seconds_now() - start < seconds; ++turn) {
        peak = std::max(peak, fma_peak_f32(threads));
        const double before = seconds_now();
        data.run(context, s);
        best = std::min(best, seconds_now() - before);
    }
    std::printf("attention d=%-4lld S=%-5lld %s %d thr  %7.1f of %7.1f GFLOP/s  share %.0f %%\n", static_cast<long long>(s.head_dim),
                static_cast<long long>(s.len_k), s.causal ? "causal" : "full  ", threads, data.flops(s) / best * 1e-9, peak * 1e-9,
                100 * data.flops(s) / best / peak);
    std::fflush(stdout);
}

void decode_share(attile_context *context, int threads, double seconds) {
    const AttentionShape s{1, 32, 8, 1, 8192, 128, false};
    AttentionData data(s);
    double peak = 0, best = 1e300;
    data.run(context, s);
    const double start = seconds_now();
    for (int turn = 0; turn < 5 || seconds_now() - start < seconds; ++turn) {
        peak = std::max(peak, read_bandwidth(threads));
        const double before = seconds_now();
        data.run(context, s);
        best = std::min(best, seconds_now() - before);
    }
    const double bytes = static_cast<double>((data.k.size() + data.v.size()) * sizeof(float));
    std::printf("decode 32/8 heads 8192 keys  %d thr  %7.2f of %7.2f GB/s  share %.0f %%\n", threads, bytes / best * 1e-9, peak * 1e-9,
                100 * bytes / best / peak);
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char **argv) {
    const std::string what = argc > 1 ? argv[1] : "all";
    const int most_threads = argc > 2 ? std::atoi(argv[2]) : omp_get_num_procs();
    const double seconds = argc > 3 ? std::atof(argv[3]) : 0.5;
    const auto wanted = [&](const char *part) { return what == "all" || what == part; };
    const Peers peers;
    std::vector<int> counts = {1};
    if (most_threads > 1) counts.push_back(most_threads);
    for (const int threads : counts) {
        attile::bench::time_this_thread(threads == 1);
        attile_context *context = open_context("cpu", threads);
        peers.set_threads(threads);
        if (wanted("sgemm")) {
            for (const int n : {256, 512, 1024, 2048, 4096}) race_gemm<float>(context, peers, threads, n, n, n, false, 1, seconds);
        }
        if (wanted("dgemm")) {
            for (const int n : {256, 512, 1024, 2048, 4096}) race_gemm<double>(context, peers, threads, n, n, n, false, 1, seconds);
        }
        if (wanted("small")) {
            race_gemm<float>(context, peers, threads, 32, 32, 32, false, 64, seconds);
            race_gemm<float>(context, peers, threads, 32, 32, 32, false, 1, seconds);
            race_gemm<float>(context, peers, threads, 64, 64, 64, false, 1, seconds);
            race_gemm<float>(context, peers, threads, 100, 101, 103, false, 1, seconds);
            race_gemm<float>(context, peers, threads, 128, 128, 128, false, 1, seconds);
            for (const bool transposed : {false, true}) {
                for (const int m : {1, 2, 4, 8, 16}) race_gemm<float>(context, peers, threads, m, 4096, 4096, transposed, 1, seconds);
            }
        }
        if (wanted("attention")) {
            for (const int64_t d : {64, 128}) {
                for (const int64_t len : {512, 2048, 8192}) {
                    for (const bool causal : {false, true}) attention_share(context, threads, {1, 4, 4, len, len, d, causal}, seconds);
                }
            }
        }
        if (wanted("decode")) decode_share(context, threads, seconds);
        attile_context_destroy(context);
    }
    attile::bench::time_this_thread(false);
    if (wanted("reference")) {
        const AttentionShape s{10, 1, 1, 2048, 2048, 64, false};
        AttentionData data(s);
        attile_context *one = open_context("cpu", 1), *slow = open_context("reference", 1);
        double fast_time = 1e300;
        for (int i = 0; i < 5; ++i) {
            const double before = seconds_now();
            data.run(one, s);
            fast_time = std::min(fast_time, seconds_now() - before);
        }
        const double before = seconds_now();
        data.run(slow, s);
        const double slow_time = seconds_now() - before;
        std::printf("attention (10, 2048, 64) one thread: cpu %.3f s, reference %.3f s, ratio %.0f\n", fast_time, slow_time,
                    slow_time / fast_time);
        attile_context_destroy(one);
        attile_context_destroy(slow);
    }
    if (wanted("scaling") && most_threads > 1) {
        attile_context *one = open_context("cpu", 1), *all = open_context("cpu", most_threads);
        const AttentionShape s{2, 8, 8, 2048, 2048, 64, true};
        AttentionData data(s);
        std::vector<Contender> contenders = {{"all", [&] { data.run(all, s); }}, {"one", [&] { data.run(one, s); }}};
        race(contenders, seconds);
        print_rates("attention causal scaling", most_threads, data.flops(s), "GFLOP/s", contenders);
        attile_context_destroy(one);
        attile_context_destroy(all);
    }
    return 0;
}
