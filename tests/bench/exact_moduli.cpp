// SPDX-License-Identifier: Apache-2.0
// Exact products of f64 and what they would be with fewer moduli: time, and the largest error over u (|A||B|), u = 2^-53, beside the same
// call with ATTILE_FLAG_EXACT_PRODUCTS and without. Prints JSON. One thread, its processor time, the shortest of all runs.
// ATTILE_CPU_TARGET chooses the instruction set.
// usage: attile_bench_moduli [--sizes N,...] [--repeat N] [--first N] [--last N]
#include <attile/attile.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "gemm/exact.h"
#include "state.h"

namespace {

using Matrix = std::vector<double>;

struct Words {
    std::vector<int64_t> sizes = {1024, 2048};
    int repeat = 7, first = 8, last = 20;
};

void check(int32_t status) {
    if (status == ATTILE_OK) return;
    char text[512];
    attile_last_error(text, sizeof text);
    std::fprintf(stderr, "attile_bench_moduli: %s\n", text);
    std::exit(1);
}

double thread_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double least_time(int repeat, const std::function<void()> &work) {
    double least = 1e30;
    for (int i = 0; i < repeat; ++i) {
        const double start = thread_seconds();
        work();
        least = std::min(least, thread_seconds() - start);
    }
    return least;
}

class Problem {
  public:
    Problem(attile_context *context, int64_t size) : context_(context), n_(size), a_(random(1)), b_(random(2)), result_(a_.size()) {
        // What is left of A B without a result: (A result) (B -1)^T, by one exact product.
        left_.resize(2 * a_.size());
        right_.resize(2 * a_.size());
        for (int64_t i = 0; i < n_; ++i) {
            std::copy_n(&a_[i * n_], n_, &left_[i * 2 * n_]);
            right_[(n_ + i) * n_ + i] = -1;
        }
        std::copy(b_.begin(), b_.end(), right_.begin());
        Matrix a = a_, b = b_;
        for (Matrix *each : {&a, &b})
            for (double &x : *each) x = std::fabs(x);
        sizes_.resize(a_.size());
        multiply(a, b, &sizes_, n_, 0);
    }

    void run(uint32_t flags) { multiply(a_, b_, &result_, n_, flags); }
    void run_with(attile::cpu::State &state, int moduli) {
        attile_gemm_problem problem{};
        problem.struct_size = sizeof problem;
        problem.compute = ATTILE_F64;
        problem.batch[0] = problem.batch[1] = 1;
        problem.m = problem.n = problem.k = n_;
        problem.a = {a_.data(), ATTILE_F64, 0, {0, 0, n_, 1}};
        problem.b = {b_.data(), ATTILE_F64, 0, {0, 0, n_, 1}};
        problem.d = {result_.data(), ATTILE_F64, 0, {0, 0, n_, 1}};
        problem.alpha = 1;
        attile::cpu::ResiduePlan plan = attile::cpu::residue_plan(state, problem);
        plan.fixed_moduli = moduli;
        workspace_.resize(static_cast<size_t>(plan.workspace_bytes));
        attile::cpu::residue_run(plan, problem, workspace_.data());
    }
    double error() {
        Matrix rest(a_.size());
        for (int64_t i = 0; i < n_; ++i) std::copy_n(&result_[i * n_], n_, &left_[i * 2 * n_ + n_]);
        multiply(left_, right_, &rest, 2 * n_, ATTILE_FLAG_EXACT_PRODUCTS);
        double most = 0;
        for (size_t i = 0; i < rest.size(); ++i) {
            const double error = std::fabs(rest[i]) / (0x1p-53 * sizes_[i]);
            if (!(error <= most)) most = error;  // NaN, too
        }
        return most;
    }

  private:
    Matrix random(uint64_t seed) const {
        std::mt19937_64 engine(seed);
        std::normal_distribution<double> normal;
        Matrix x(static_cast<size_t>(n_ * n_));
        for (double &value : x) value = normal(engine);
        return x;
    }
    void multiply(const Matrix &a, const Matrix &b, Matrix *d, int64_t depth, uint32_t flags) {
        attile_gemm_args args;
        attile_gemm_init(&args, sizeof args);
        args.flags = flags;
        const int64_t of_a[2] = {n_, depth}, of_b[2] = {depth, n_}, of_d[2] = {n_, n_};
        check(attile_tensor_init(&args.a, const_cast<double *>(a.data()), ATTILE_F64, 2, of_a));
        check(attile_tensor_init(&args.b, const_cast<double *>(b.data()), ATTILE_F64, 2, of_b));
        check(attile_tensor_init(&args.d, d->data(), ATTILE_F64, 2, of_d));
        check(attile_gemm(context_, &args));
    }

    attile_context *context_;
    int64_t n_;
    Matrix a_, b_, result_, left_, right_, sizes_;
    std::vector<char> workspace_;
};

Words words_of(int argc, char **argv) {
    Words words;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        const char *const value = i + 1 < argc ? argv[i + 1] : nullptr;
        if (value == nullptr || (word != "--sizes" && word != "--repeat" && word != "--first" && word != "--last")) {
            std::fprintf(stderr, "attile_bench_moduli: what is %s?\n", argv[i]);
            std::exit(2);
        }
        ++i;
        if (word == "--repeat") words.repeat = std::max(1, std::atoi(value));
        if (word == "--first") words.first = std::clamp(std::atoi(value), 1, attile::cpu::kMostModuli);
        if (word == "--last") words.last = std::clamp(std::atoi(value), 1, attile::cpu::kMostModuli);
        if (word != "--sizes") continue;
        words.sizes.clear();
        for (const char *at = value; at != nullptr; at = std::strchr(at, ',') != nullptr ? std::strchr(at, ',') + 1 : nullptr)
            words.sizes.push_back(std::max(1, std::atoi(at)));
    }
    return words;
}

}  // namespace

int main(int argc, char **argv) {
    const Words words = words_of(argc, argv);
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "cpu";
    options.threads = 1;
    attile_context *context = nullptr;
    check(attile_context_create(&options, &context));
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    check(attile_context_get_info(context, &info));
    attile::cpu::State state;
    const char *const target = std::getenv("ATTILE_CPU_TARGET");
    state.target = target != nullptr && *target != 0 ? attile::cpu::target_by_name(target) : attile::cpu::best_target();
    state.caches = attile::cpu::cache_sizes();
    std::printf("{\"facts\": {\"device\": \"%s\", \"arch\": \"%s\", \"threads\": 1, \"repeat\": %d},\n \"rows\": [", info.device_name,
                info.arch, words.repeat);
    const char *between = "\n";
    for (const int64_t size : words.sizes) {
        Problem problem(context, size);
        const auto print = [&](const char *who, int moduli, const std::function<void()> &work) {
            const double seconds = least_time(words.repeat, work);
            std::printf("%s  {\"size\": %lld, \"who\": \"%s\", \"moduli\": %d, \"seconds\": %.6g, \"error\": %.4g}", between,
                        static_cast<long long>(size), who, moduli, seconds, problem.error());
            std::fflush(stdout);
            between = ",\n";
        };
        print("plain", 0, [&] { problem.run(0); });
        print("exact", 0, [&] { problem.run(ATTILE_FLAG_EXACT_PRODUCTS); });
        for (int moduli = words.first; moduli <= words.last; ++moduli) print("moduli", moduli, [&] { problem.run_with(state, moduli); });
    }
    std::printf("\n]}\n");
    attile_context_destroy(context);
    return 0;
}
