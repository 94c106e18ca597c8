// SPDX-License-Identifier: Apache-2.0
// What the library's front costs: a product of 1x1x1 through attile_gemm(), against the same call of the reference backend's own function
// with a problem that is ready made. The difference is validation, normalisation and forwarding, and has to stay below a microsecond.
// usage: attile_bench_front [--check]      --check: exit code 1 if it does not
#include <attile/attile_backend.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>

extern "C" const attile_backend_v1 *attile_backend_entry_v1_reference(const attile_host_v1 *host);

namespace {

constexpr double kMostNanoseconds = 1000;

// A host that nobody listens to.
void ignore_error(const char *) {}
void ignore_log(int32_t, const char *) {}
int32_t log_level_off() { return ATTILE_LOG_OFF; }
const char *no_environment(const char *) { return nullptr; }
constexpr attile_host_v1 kHost = {sizeof(attile_host_v1), ATTILE_BACKEND_ABI_MINOR, ignore_error, ignore_log, log_level_off,
                                  no_environment};

// Nanoseconds a call: the best of many short runs, which other users of the machine can only lengthen.
template <typename Call>
double best_time(Call call) {
    constexpr int kRuns = 300, kCalls = 1000;
    double best = 1e30;
    for (int run = 0; run < kRuns; ++run) {
        const auto start = std::chrono::steady_clock::now();
        for (int i = 0; i < kCalls; ++i)
            if (call() != ATTILE_OK) return -1;
        best = std::min(best, std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / kCalls);
    }
    return best;
}

double time_library(float *a, float *b, float *d) {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "reference";
    attile_context *context = nullptr;
    if (attile_context_create(&options, &context) != ATTILE_OK) return -1;
    const int64_t shape[2] = {1, 1};
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    attile_tensor_init(&args.a, a, ATTILE_F32, 2, shape);
    attile_tensor_init(&args.b, b, ATTILE_F32, 2, shape);
    attile_tensor_init(&args.d, d, ATTILE_F32, 2, shape);
    const double time = best_time([&] { return attile_gemm(context, &args); });
    attile_context_destroy(context);
    return time;
}

double time_backend(float *a, float *b, float *d) {
    const attile_backend_v1 *backend = attile_backend_entry_v1_reference(&kHost);
    if (backend == nullptr) return -1;
    const auto *gemm = static_cast<const attile_gemm_interface *>(backend->query_interface(ATTILE_INTERFACE_GEMM, 1));
    attile_backend_options options = {};
    options.struct_size = sizeof options;
    void *state = nullptr;
    if (gemm == nullptr || backend->context_create(&options, &state) != ATTILE_OK) return -1;
    attile_gemm_problem problem = {};
    problem.struct_size = sizeof problem;
    problem.compute = ATTILE_F32;
    problem.batch[0] = problem.batch[1] = problem.m = problem.n = problem.k = 1;
    problem.a.data = a, problem.b.data = b, problem.d.data = d;
    problem.a.dtype = problem.b.dtype = problem.d.dtype = ATTILE_F32;
    problem.alpha = 1;
    const double time = best_time([&] { return gemm->run(state, &problem); });
    backend->context_destroy(state);
    return time;
}

}  // namespace

int main(int argc, char **argv) {
    const bool check = argc == 2 && std::strcmp(argv[1], "--check") == 0;
    if (argc > 1 && !check) return std::fprintf(stderr, "usage: attile_bench_front [--check]\n"), 2;
    float a = 3, b = 5, d = 0;
    const double direct = time_backend(&a, &b, &d);
    const bool direct_right = d == 15;
    d = 0;
    const double library = time_library(&a, &b, &d);
    if (!(direct >= 0 && library >= 0) || !direct_right || d != 15) return std::fprintf(stderr, "attile_bench_front: a call failed\n"), 1;
    std::printf("gemm 1x1x1, best of 300 runs of 1000 calls\n");
    std::printf("  reference backend's own function  %7.1f ns\n", direct);
    std::printf("  attile_gemm()                     %7.1f ns\n", library);
    std::printf("  the front                         %7.1f ns  (limit %.0f ns)\n", library - direct, kMostNanoseconds);
    return check && !(library - direct < kMostNanoseconds) ? 1 : 0;
}
