// SPDX-License-Identifier: Apache-2.0
// The GEMM ladder's problem: C = A B, row-major and dense, A m by k, B k by n, values in [-1, 1]. Small and ragged sizes are compared with
// float64 element by element. At the size that is timed, 8 rows are compared so, and all rows by a product with a vector of signs:
// C x against A (B x), which misses no wrong element and costs n^2.
#pragma once

#include <memory>

#include "ladder.h"

namespace ladder {

struct Gemm {
    int m, n, k;
    const float *a, *b;
    float *c;
};

struct GemmStep {
    int order;
    const char *name;
    void (*launch)(const Gemm &);
    double (*traffic)(const Gemm &);  // Bytes asked of global memory.
};

constexpr uint64_t kSeedA = 11, kSeedB = 22, kSeedX = 33;
constexpr int kGemmSize = kTiny ? 256 : 4096;

// Without boundary checks a kernel needs squares: the problem is copied into zero-filled ones, and the result out of them. Does nothing
// where the problem is such a square already.
class PaddedSquare {
  public:
    PaddedSquare(const Gemm &p, int multiple)
        : p_(p),
          width_(static_cast<int>(ceil_div(std::max({p.m, p.n, p.k}), multiple)) * multiple),
          copied_(p.m != width_ || p.n != width_ || p.k != width_) {
        if (!copied_) return;
        for (auto *array : {&a_, &b_, &c_}) *array = std::make_unique<DeviceArray>(square());
        fill(a_->get(), p.a, p.m, p.k);
        fill(b_->get(), p.b, p.k, p.n);
    }
    int width() const { return width_; }
    const float *a() const { return copied_ ? a_->get() : p_.a; }
    const float *b() const { return copied_ ? b_->get() : p_.b; }
    float *c() const { return copied_ ? c_->get() : p_.c; }
    void finish() const {
        const size_t row = static_cast<size_t>(p_.n) * sizeof(float);
        if (copied_) LADDER_CUDA(cudaMemcpy2D(p_.c, row, c_->get(), pitch(), row, static_cast<size_t>(p_.m), cudaMemcpyDeviceToDevice));
    }

  private:
    int64_t square() const { return static_cast<int64_t>(width_) * width_; }
    size_t pitch() const { return static_cast<size_t>(width_) * sizeof(float); }
    void fill(float *to, const float *from, int rows, int cols) const {
        const size_t row = static_cast<size_t>(cols) * sizeof(float);
        LADDER_CUDA(cudaMemset(to, 0, static_cast<size_t>(square()) * sizeof(float)));
        LADDER_CUDA(cudaMemcpy2D(to, pitch(), from, row, row, static_cast<size_t>(rows), cudaMemcpyDeviceToDevice));
    }
    const Gemm &p_;
    int width_;
    bool copied_;
    std::unique_ptr<DeviceArray> a_, b_, c_;
};

inline float value_a(const Gemm &p, int i, int l) { return random_value(kSeedA, static_cast<uint64_t>(i) * p.k + l, -1, 1); }
inline float value_b(const Gemm &p, int l, int j) { return random_value(kSeedB, static_cast<uint64_t>(l) * p.n + j, -1, 1); }

// Exact rows of C, and beside each element the sum of |a||b|, which its rounding errors are a share of.
struct ExactRows {
    std::vector<int> rows;
    std::vector<double> sum, magnitude;
};

inline ExactRows exact_rows(const Gemm &p, std::vector<int> rows) {
    ExactRows exact{std::move(rows), {}, {}};
    exact.sum.assign(exact.rows.size() * static_cast<size_t>(p.n), 0.0);
    exact.magnitude = exact.sum;
    std::vector<double> b(static_cast<size_t>(p.n));
    for (int l = 0; l < p.k; ++l) {
        for (int j = 0; j < p.n; ++j) b[static_cast<size_t>(j)] = value_b(p, l, j);
        for (size_t r = 0; r < exact.rows.size(); ++r) {
            const double a = value_a(p, exact.rows[r], l);
            double *sum = exact.sum.data() + r * static_cast<size_t>(p.n),
                   *magnitude = exact.magnitude.data() + r * static_cast<size_t>(p.n);
            for (size_t j = 0; j < b.size(); ++j) sum[j] += a * b[j], magnitude[j] += std::fabs(a * b[j]);
        }
    }
    return exact;
}

inline void compare_rows(const Gemm &p, const ExactRows &exact, const std::vector<float> &c, Errors &errors) {
    const double share = (2 + std::sqrt(static_cast<double>(p.k))) * kHalfUlp;
    for (size_t r = 0; r < exact.rows.size(); ++r)
        for (size_t j = 0; j < static_cast<size_t>(p.n); ++j) {
            const size_t at = r * static_cast<size_t>(p.n) + j;
            errors.add(c[static_cast<size_t>(exact.rows[r]) * static_cast<size_t>(p.n) + j], exact.sum[at],
                       share * exact.magnitude[at] + 1e-30);
        }
}

inline double sign_of(int j) { return random_value(kSeedX, static_cast<uint64_t>(j), -1, 1) < 0 ? -1.0 : 1.0; }

// A (B x), x being signs.
inline std::vector<double> exact_products(const Gemm &p) {
    std::vector<double> bx(static_cast<size_t>(p.k)), result(static_cast<size_t>(p.m));
    for (int l = 0; l < p.k; ++l)
        for (int j = 0; j < p.n; ++j) bx[static_cast<size_t>(l)] += value_b(p, l, j) * sign_of(j);
    for (int i = 0; i < p.m; ++i)
        for (int l = 0; l < p.k; ++l) result[static_cast<size_t>(i)] += value_a(p, i, l) * bx[static_cast<size_t>(l)];
    return result;
}

inline void compare_products(const Gemm &p, const std::vector<double> &exact, const std::vector<float> &c, Errors &errors) {
    // An element's error is about half an ulp of sums that grow to k/4; n of them with random signs add up like sqrt(n).
    const double bound = 10 * std::sqrt(static_cast<double>(p.n)) * kHalfUlp * (p.k / 4.0 + 1);
    std::vector<double> signs(static_cast<size_t>(p.n));
    for (int j = 0; j < p.n; ++j) signs[static_cast<size_t>(j)] = sign_of(j);
    for (size_t i = 0; i < exact.size(); ++i) {
        double got = 0;
        for (size_t j = 0; j < signs.size(); ++j) got += c[i * signs.size() + j] * signs[j];
        errors.add(got, exact[i], bound);
    }
}

inline Errors check_small_gemms(const GemmStep &step) {
    static const int sizes[][3] = {{1, 1, 1}, {33, 17, 5}, {64, 64, 64}, {100, 70, 50}, {129, 65, 31}, {31, 132, 96}, {256, 128, 72}};
    Errors errors;
    for (const auto &size : sizes) {
        const DeviceArray a(static_cast<int64_t>(size[0]) * size[2], kSeedA, -1, 1),
            b(static_cast<int64_t>(size[2]) * size[1], kSeedB, -1, 1);
        const DeviceArray c(static_cast<int64_t>(size[0]) * size[1]);
        const Gemm p{size[0], size[1], size[2], a.get(), b.get(), c.get()};
        step.launch(p);
        LADDER_CUDA(cudaGetLastError());
        LADDER_CUDA(cudaDeviceSynchronize());
        std::vector<int> rows(static_cast<size_t>(p.m));
        for (int i = 0; i < p.m; ++i) rows[static_cast<size_t>(i)] = i;
        compare_rows(p, exact_rows(p, rows), c.host(), errors);
    }
    return errors;
}

inline bool run_gemm(const GemmStep &step, const Options &options) {
    Row row;
    row.ladder = "gemm", row.order = step.order, row.step = step.name, row.shape = "small, ragged";
    Errors errors = check_small_gemms(step);
    row.ok = errors.ok(), row.error = errors.worst();
    if (options.check_only || !row.ok) return report(options, row), row.ok;

    const int size = kGemmSize;
    const int64_t count = static_cast<int64_t>(size) * size;
    const DeviceArray a(count, kSeedA, -1, 1), b(count, kSeedB, -1, 1), c(count);
    const Gemm p{size, size, size, a.get(), b.get(), c.get()};
    row.timing = time_launches(options, [&] { step.launch(p); });
    // The exact results serve all steps.
    static const ExactRows exact = exact_rows(p, {0, 1, 127, 128, size / 2 - 1, size / 2, size - 2, size - 1});
    static const std::vector<double> products = exact_products(p);
    const std::vector<float> got = c.host();
    compare_rows(p, exact, got, errors);
    compare_products(p, products, got, errors);
    row.ok = errors.ok(), row.error = errors.worst();
    row.shape = std::to_string(size) + "^3";
    row.flops = 2.0 * size * size * size;
    row.bytes = 3.0 * static_cast<double>(count) * sizeof(float);
    row.traffic = step.traffic(p);
    report(options, row);
    return row.ok;
}

inline bool add_gemm(const GemmStep &step) {
    return add_step({"gemm", step.order, step.name, [step](const Options &options) { return run_gemm(step, options); }});
}

// Bytes that tiles of rows by cols ask for: each element of C needs k elements of A once a tile's width and of B once its height.
inline double tile_traffic(const Gemm &p, double rows, double cols) {
    const double outputs = static_cast<double>(p.m) * p.n;
    return 4 * (outputs * p.k * (1 / rows + 1 / cols) + outputs);
}

}  // namespace ladder
