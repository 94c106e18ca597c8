// SPDX-License-Identifier: Apache-2.0
// The cpu backend beside OpenBLAS, BLIS and oneDNN, and its attention beside the processor's measured peaks and the reference backend:
// every case with the ratio it has to reach.
//
// usage: attile_bench_cpu [--only REGEX] [--threads N] [--seconds S] [--json FILE]
//
// Everything runs in one process, round by round, so that a busy machine slows all alike; ratios are medians over the rounds. With one
// thread its processor time is taken, with more the wall's clock. Without --threads every case runs on one thread and on all.
#include <attile/attile.h>
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <regex>

#include "cpu_peak.h"
#include "cpu_peers.h"
#include "cpu_race.h"

namespace {

using attile::bench::CblasGemm;
using attile::bench::Peers;
using attile::bench::Report;
using attile::bench::Row;
using attile::bench::Side;
using attile::bench::Timing;

void check(int32_t status) {
    if (status == ATTILE_OK) return;
    char text[512];
    attile_last_error(text, sizeof text);
    std::fprintf(stderr, "%s: %s\n", attile_status_name(status), text);
    std::exit(1);
}

struct CloseContext {
    void operator()(attile_context *context) const { attile_context_destroy(context); }
};
using Context = std::unique_ptr<attile_context, CloseContext>;

Context open_context(const char *backend, int threads) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = backend;
    options.threads = threads;
    attile_context *context = nullptr;
    check(attile_context_create(&options, &context));
    return Context(context);
}

struct Bench {
    std::regex only{""};
    double seconds = 1;
    Peers peers;
    Report report;
    int threads = 1;
    Context context;

    bool wanted(const std::string &group, const std::string &name) const { return std::regex_search(group + "/" + name, only); }
};

const Side &side_named(const std::vector<Side> &sides, const std::string &name) {
    return *std::find_if(sides.begin(), sides.end(), [&](const Side &side) { return side.name == name; });
}

// `work` a call of each side makes its rate; the row's value is left to the caller.
Row row_of(Bench &bench, const char *group, const std::string &name, const char *unit, std::vector<Side> &sides,
           const std::vector<std::pair<std::string, double>> &work) {
    attile::bench::race(sides, bench.threads, bench.seconds);
    Row row;
    row.group = group;
    row.name = name;
    row.threads = bench.threads;
    row.unit = unit;
    for (const auto &[who, amount] : work) {
        const Timing timing = side_named(sides, who).timing();
        row.rates.emplace_back(who, amount / timing.median * 1e-9);
        row.timings.emplace_back(who, timing);
    }
    return row;
}

struct Product {
    int m, n, k;
    bool transposed_b = false;
    int batch = 1;

    std::string name(const char *operation) const {
        std::string text = operation;
        if (batch > 1) text += " " + std::to_string(batch) + " x";
        text += " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
        return transposed_b ? text + " B^T" : text;
    }
};

template <class T>
class GemmCase {
  public:
    GemmCase(Bench &bench, const Product &p) : bench_(bench), p_(p), a_(size(p.m, p.k)), b_(size(p.k, p.n)), c_(size(p.m, p.n)) {
        for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<T>(i % 17) / 8 - 1;
        for (size_t i = 0; i < b_.size(); ++i) b_[i] = static_cast<T>(i % 13) / 8 - 1;
    }

    void run(const char *group, const std::string &name, double must, double aim) {
        // Small products are repeated, so that the clock's own time does not count.
        const double flops = 2.0 * p_.m * p_.n * p_.k * p_.batch;
        const int repeat = std::max(1, static_cast<int>(5e6 / flops));
        std::vector<Side> sides;
        std::vector<std::pair<std::string, double>> work;
        const auto add = [&](const char *who, auto one) {
            sides.push_back({who, [one, repeat] {
                                 for (int r = 0; r < repeat; ++r) one();
                             }});
            work.emplace_back(who, flops * repeat);
        };
        add("attile", [this] { attile(); });
        const Peers &peers = bench_.peers;
        if constexpr (sizeof(T) == 4) {
            if (peers.openblas_s != nullptr) add("openblas", [this, &peers] { cblas(peers.openblas_s); });
            if (peers.blis_s != nullptr) add("blis", [this, &peers] { cblas(peers.blis_s); });
            if (peers.onednn_s != nullptr) add("onednn", [this, &peers] { onednn(peers.onednn_s); });
        } else {
            if (peers.openblas_d != nullptr) add("openblas", [this, &peers] { cblas(peers.openblas_d); });
            if (peers.blis_d != nullptr) add("blis", [this, &peers] { cblas(peers.blis_d); });
        }
        Row row = row_of(bench_, group, name, "GFLOP/s", sides, work);
        for (const Side &side : sides) {
            if (side.name == "attile") continue;
            const double ratio = attile::bench::paired_ratio(side_named(sides, "attile"), side);
            if (row.value == 0 || ratio < row.value) row.value = ratio;
        }
        row.measure = "x best peer";
        row.must = must;
        row.aim = aim;
        bench_.report.add(std::move(row));
    }

  private:
    size_t size(int rows, int columns) const {
        return static_cast<size_t>(rows) * static_cast<size_t>(columns) * static_cast<size_t>(p_.batch);
    }
    // One product by the BLAS name, as the others are called, several by one call.
    void attile() {
        if (p_.batch == 1) {
            const int32_t trans_b = p_.transposed_b ? ATTILE_TRANS : ATTILE_NO_TRANS;
            const int64_t ldb = p_.transposed_b ? p_.k : p_.n;
            if constexpr (sizeof(T) == 4) {
                check(attile_sgemm(bench_.context.get(), ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, trans_b, p_.m, p_.n, p_.k, 1, a_.data(), p_.k,
                                   b_.data(), ldb, 0, c_.data(), p_.n));
            } else {
                check(attile_dgemm(bench_.context.get(), ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, trans_b, p_.m, p_.n, p_.k, 1, a_.data(), p_.k,
                                   b_.data(), ldb, 0, c_.data(), p_.n));
            }
            return;
        }
        constexpr int32_t kType = sizeof(T) == 4 ? ATTILE_F32 : ATTILE_F64;
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        const auto tensor = [&](attile_tensor *x, T *data, int64_t rows, int64_t columns) {
            const int64_t shape[3] = {p_.batch, rows, columns};
            check(attile_tensor_init(x, data, kType, 3, shape));
        };
        tensor(&args.a, a_.data(), p_.m, p_.k);
        tensor(&args.b, b_.data(), p_.k, p_.n);
        tensor(&args.d, c_.data(), p_.m, p_.n);
        check(attile_gemm(bench_.context.get(), &args));
    }
    template <class Fn>
    void each_entry(Fn &&fn) {
        for (int e = 0; e < p_.batch; ++e) {
            fn(a_.data() + int64_t{e} * p_.m * p_.k, b_.data() + int64_t{e} * p_.k * p_.n, c_.data() + int64_t{e} * p_.m * p_.n);
        }
    }
    void cblas(CblasGemm<T> fn) {
        constexpr int kRowMajor = 101, kPlain = 111, kTransposed = 112;
        each_entry([&](const T *a, const T *b, T *c) {
            fn(kRowMajor, kPlain, p_.transposed_b ? kTransposed : kPlain, p_.m, p_.n, p_.k, T{1}, a, p_.k, b, p_.transposed_b ? p_.k : p_.n,
               T{0}, c, p_.n);
        });
    }
    void onednn(attile::bench::DnnlSgemm fn) {
        each_entry([&](const T *a, const T *b, T *c) {
            fn('N', p_.transposed_b ? 'T' : 'N', p_.m, p_.n, p_.k, 1, a, p_.k, b, p_.transposed_b ? p_.k : p_.n, 0, c, p_.n);
        });
    }

    Bench &bench_;
    const Product p_;
    std::vector<T> a_, b_, c_;
};

template <class T>
void gemm(Bench &bench, const char *group, const Product &product, double must, double aim) {
    const std::string name = product.name(sizeof(T) == 4 ? "sgemm" : "dgemm");
    if (bench.wanted(group, name)) GemmCase<T>(bench, product).run(group, name, must, aim);
}

struct AttentionShape {
    int64_t batch, heads_q, heads_kv, len_q, len_k, head_dim;
    bool causal;

    std::string name() const {
        std::string text = "B=" + std::to_string(batch) + " H=" + std::to_string(heads_q);
        if (heads_kv != heads_q) text += "/" + std::to_string(heads_kv);
        text += (len_q == len_k ? " S=" : " keys=") + std::to_string(len_k) + " d=" + std::to_string(head_dim);
        return causal ? text + " causal" : text;
    }
    double flops() const {
        const double rows = static_cast<double>(len_q), keys = static_cast<double>(len_k);
        const double pairs = causal ? rows * (2 * keys - rows + 1) / 2 : rows * keys;
        return 4.0 * static_cast<double>(batch * heads_q * head_dim) * pairs;
    }
    double key_bytes() const { return 8.0 * static_cast<double>(batch * heads_kv * len_k * head_dim); }
};

class AttentionData {
  public:
    explicit AttentionData(const AttentionShape &s)
        : s_(s),
          q_(static_cast<size_t>(s.batch * s.heads_q * s.len_q * s.head_dim)),
          k_(static_cast<size_t>(s.batch * s.heads_kv * s.len_k * s.head_dim)),
          v_(k_.size()),
          o_(q_.size()) {
        for (size_t i = 0; i < q_.size(); ++i) q_[i] = static_cast<float>(i % 31) / 16 - 1;
        for (size_t i = 0; i < k_.size(); ++i) k_[i] = static_cast<float>(i % 29) / 16 - 1;
        for (size_t i = 0; i < v_.size(); ++i) v_[i] = static_cast<float>(i % 23) / 16 - 1;
    }
    void run(attile_context *context) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        const int64_t rows[4] = {s_.batch, s_.heads_q, s_.len_q, s_.head_dim}, keys[4] = {s_.batch, s_.heads_kv, s_.len_k, s_.head_dim};
        check(attile_tensor_init(&args.q, q_.data(), ATTILE_F32, 4, rows));
        check(attile_tensor_init(&args.k, k_.data(), ATTILE_F32, 4, keys));
        check(attile_tensor_init(&args.v, v_.data(), ATTILE_F32, 4, keys));
        check(attile_tensor_init(&args.o, o_.data(), ATTILE_F32, 4, rows));
        args.mask = s_.causal ? ATTILE_MASK_CAUSAL_BOTTOM_RIGHT : ATTILE_MASK_NONE;
        check(attile_attention(context, &args));
    }

  private:
    const AttentionShape s_;
    std::vector<float> q_, k_, v_, o_;
};

// One side's rate as a share, or a multiple, of the other's.
void compare(Bench &bench, const char *group, const std::string &name, const char *unit, std::vector<Side> sides,
             const std::vector<std::pair<std::string, double>> &work, const char *measure, double must, double aim) {
    Row row = row_of(bench, group, name, unit, sides, work);
    const double ratio = attile::bench::paired_ratio(side_named(sides, work[0].first), side_named(sides, work[1].first));
    row.value = ratio * work[0].second / work[1].second;
    row.measure = measure;
    row.must = must;
    row.aim = aim;
    bench.report.add(std::move(row));
}

void attention_share(Bench &bench, const AttentionShape &s) {
    if (!bench.wanted("attention", s.name())) return;
    AttentionData data(s);
    double burst = attile::bench::fma_burst(bench.threads);
    compare(bench, "attention", s.name(), "GFLOP/s",
            {{"attile", [&] { data.run(bench.context.get()); }}, {"peak", [&] { burst = attile::bench::fma_burst(bench.threads); }}},
            {{"attile", s.flops()}, {"peak", burst}}, "of FMA peak", 0.6, 0.75);
}

void decode_share(Bench &bench, const AttentionShape &s) {
    if (!bench.wanted("decode", s.name())) return;
    AttentionData data(s);
    // As many bytes as the keys and values have: what the caches keep of the one from call to call they keep of the other.
    const std::vector<uint64_t> memory(static_cast<size_t>(s.key_bytes() / 8), 1);
    compare(bench, "decode", s.name(), "GB/s",
            {{"attile", [&] { data.run(bench.context.get()); }}, {"read", [&] { attile::bench::read_burst(bench.threads, memory); }}},
            {{"attile", s.key_bytes()}, {"read", s.key_bytes()}}, "of read bandwidth", 0.8, 0.95);
}

void against_reference(Bench &bench) {
    const AttentionShape s{10, 1, 1, 2048, 2048, 64, false};
    if (!bench.wanted("reference", s.name())) return;
    const Context slow = open_context("reference", 1);
    AttentionData data(s);
    compare(bench, "reference", s.name(), "GFLOP/s",
            {{"attile", [&] { data.run(bench.context.get()); }}, {"reference", [&] { data.run(slow.get()); }}},
            {{"attile", s.flops()}, {"reference", s.flops()}}, "x reference", 40, 0);
}

void scaling(Bench &bench) {
    const Context one = open_context("cpu", 1);
    const auto sides = [&](auto &&run, const std::string &name, double flops) {
        if (!bench.wanted("scaling", name)) return;
        compare(bench, "scaling", name, "GFLOP/s", {{"all", [&] { run(bench.context.get()); }}, {"one", [&] { run(one.get()); }}},
                {{"all", flops}, {"one", flops}}, "x one thread", 0.925 * bench.threads, 0.975 * bench.threads);
    };
    // What the machine itself gives: no backend can do better.
    double burst = attile::bench::fma_burst(1);
    if (bench.wanted("scaling", "FMA peak")) {
        const double all = attile::bench::fma_burst(bench.threads);
        compare(bench, "scaling", "FMA peak", "GFLOP/s",
                {{"all", [&] { attile::bench::fma_burst(bench.threads); }}, {"one", [&] { attile::bench::fma_burst(1); }}},
                {{"all", all}, {"one", burst}}, "x one thread", 0, 0);
    }
    const int n = 2048;
    std::vector<float> a(static_cast<size_t>(n * n), 0.5f), b(a), c(a);
    sides(
        [&](attile_context *context) {
            check(attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, n, n, n, 1, a.data(), n, b.data(), n, 0,
                               c.data(), n));
        },
        "sgemm 2048x2048x2048", 2.0 * n * n * n);
    for (const bool causal : {false, true}) {
        const AttentionShape s{2, 8, 8, 2048, 2048, 64, causal};
        AttentionData data(s);
        sides([&](attile_context *context) { data.run(context); }, "attention " + s.name(), s.flops());
    }
}

void run_cases(Bench &bench) {
    for (const int n : {512, 1024, 2048, 4096}) gemm<float>(bench, "sgemm", {n, n, n}, 0.95, 1.05);
    for (const int n : {512, 1024, 2048, 4096}) gemm<double>(bench, "dgemm", {n, n, n}, 0.95, 1.0);
    gemm<float>(bench, "small", {32, 32, 32, false, 64}, 1.0, 1.5);
    gemm<float>(bench, "small", {32, 32, 32}, 1.0, 1.5);
    gemm<float>(bench, "small", {64, 64, 64}, 1.0, 1.5);
    gemm<float>(bench, "small", {100, 101, 103}, 1.0, 1.5);
    gemm<float>(bench, "small", {128, 128, 128}, 1.0, 1.5);
    for (const bool transposed : {false, true}) {
        for (const int m : {1, 2, 4, 8, 16}) gemm<float>(bench, "small", {m, 4096, 4096, transposed}, 1.0, 1.5);
    }
    for (const int64_t d : {64, 128}) {
        for (const int64_t len : {512, 2048, 8192}) {
            for (const bool causal : {false, true})
                attention_share(bench, {1, len < 8192 ? 8 : 2, len < 8192 ? 8 : 2, len, len, d, causal});
        }
    }
    decode_share(bench, {1, 32, 8, 1, 8192, 128, false});
    if (bench.threads == 1) {
        against_reference(bench);
    } else {
        scaling(bench);
    }
}

std::vector<std::pair<std::string, std::string>> facts_of(const Bench &bench) {
    const Context context = open_context("cpu", 0);
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    check(attile_context_get_info(context.get(), &info));
    const int32_t version = attile_version();
    std::vector<std::pair<std::string, std::string>> facts = {
        {"device", info.device_name},
        {"arch", info.arch},
        {"processors", std::to_string(info.compute_units)},
        {"compiler", std::string("gcc or clang ") + __VERSION__},
        {"attile", std::to_string(version)},
    };
    facts.insert(facts.end(), bench.peers.versions.begin(), bench.peers.versions.end());
    for (const std::string &peer : bench.peers.missing) facts.emplace_back(peer, "not installed");
    return facts;
}

}  // namespace

int main(int argc, char **argv) {
    Bench bench;
    const char *json = nullptr;
    int threads = 0;
    for (int i = 1; i < argc; ++i) {
        const auto is = [&](const char *name) { return std::strcmp(argv[i], name) == 0 && i + 1 < argc; };
        if (is("--only")) {
            bench.only = std::regex(argv[++i], std::regex::extended);
        } else if (is("--threads")) {
            threads = std::atoi(argv[++i]);
        } else if (is("--seconds")) {
            bench.seconds = std::atof(argv[++i]);
        } else if (is("--json")) {
            json = argv[++i];
        } else {
            std::fprintf(stderr, "usage: attile_bench_cpu [--only REGEX] [--threads N] [--seconds S] [--json FILE]\n");
            return 2;
        }
    }
    const auto facts = facts_of(bench);
    for (const auto &[name, value] : facts) std::printf("%-10s %s\n", name.c_str(), value.c_str());
    std::vector<int> counts = {threads};
    if (threads <= 0) counts = {1};
    if (threads <= 0 && omp_get_num_procs() > 1) counts.push_back(omp_get_num_procs());
    for (const int count : counts) {
        bench.threads = count;
        bench.context = open_context("cpu", count);
        bench.peers.set_threads(count);
        attile::bench::time_this_thread(count == 1);
        run_cases(bench);
    }
    if (json != nullptr && !bench.report.write_json(json, facts)) {
        std::fprintf(stderr, "cannot write %s\n", json);
        return 1;
    }
    if (bench.report.missed() > 0) std::printf("%d rows missed what they must reach\n", bench.report.missed());
    return 0;
}
