// SPDX-License-Identifier: Apache-2.0
// What the names of BLAS cost: a product of 4x4x4 by attile_sgemm(), and by sgemm_() and cblas_sgemm() of libattile_blas, which have to
// stay within a microsecond of it.
//
// usage: attile_bench_blas [--check]      --check: exit code 1 if they do not
#include <attile/attile.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <vector>

#include "blas_names.h"

namespace {

constexpr double kMostNanoseconds = 1000;
constexpr int32_t kSize = 4;

using Matrix = std::array<float, kSize * kSize>;

double now() { return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// Nanoseconds a call in a run of many.
template <typename Call>
double time_run(Call &&call) {
    constexpr int kCalls = 1000;
    const double start = now();
    for (int i = 0; i < kCalls; ++i) call();
    return (now() - start) / kCalls;
}

double median(std::vector<double> times) {
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    return times[times.size() / 2];
}

}  // namespace

int main(int argc, char **argv) {
    const bool check = argc == 2 && std::strcmp(argv[1], "--check") == 0;
    if (argc > 1 && !check) return std::fprintf(stderr, "usage: attile_bench_blas [--check]\n"), 2;
    attile_context *context = nullptr;
    if (attile_context_create(nullptr, &context) != ATTILE_OK) return std::fprintf(stderr, "attile_bench_blas: no context\n"), 1;
    attile_context_info info;
    attile_context_info_init(&info, sizeof info);
    attile_context_get_info(context, &info);
    Matrix a, b, c[3] = {};
    for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i), b[i] = static_cast<float>(i % 3);
    const int32_t size = kSize;
    const float one = 1, zero = 0;

    // One way after the other in each round, so that whatever else the machine does meets all of them.
    constexpr int kRounds = 1001;
    std::vector<double> times[3];
    for (int round = 0; round < kRounds; ++round) {
        times[0].push_back(time_run([&] {
            attile_sgemm(context, ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, kSize, kSize, kSize, 1, a.data(), kSize, b.data(),
                         kSize, 0, c[0].data(), kSize);
        }));
        times[1].push_back(time_run(
            [&] { sgemm_("N", "N", &size, &size, &size, &one, a.data(), &size, b.data(), &size, &zero, c[1].data(), &size, 1, 1); }));
        times[2].push_back(time_run([&] {
            cblas_sgemm(ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, kSize, kSize, kSize, 1, a.data(), kSize, b.data(), kSize, 0,
                        c[2].data(), kSize);
        }));
    }
    attile_context_destroy(context);
    if (c[0] != c[1] || c[0] != c[2] || c[0][0] == 0) return std::fprintf(stderr, "attile_bench_blas: a product is wrong\n"), 1;
    const double direct = median(times[0]), fortran = median(times[1]), cblas = median(times[2]);
    std::printf("sgemm 4x4x4, backend %s, median of %d runs of 1000 calls\n", info.backend, kRounds);
    std::printf("  attile_sgemm()  %7.1f ns\n", direct);
    std::printf("  sgemm_()        %7.1f ns, %+.1f\n", fortran, fortran - direct);
    std::printf("  cblas_sgemm()   %7.1f ns, %+.1f  (limit %+.0f)\n", cblas, cblas - direct, kMostNanoseconds);
    const bool within = fortran - direct < kMostNanoseconds && cblas - direct < kMostNanoseconds;
    return check && !within ? 1 : 0;
}
