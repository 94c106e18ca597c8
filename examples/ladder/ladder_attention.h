// SPDX-License-Identifier: Apache-2.0
// The attention ladder's problem: o = softmax(q k^T / sqrt(d)) v for some heads of n rows, dense [heads][n][d], d = 32 or 64.
//
// Checked against float64: small and ragged n in full, with ordinary scores, with scores all so far below zero that their exponentials are
// 0, and with scores in the tens of thousands; at a timed shape rows of three heads, and of all rows that they hold no value which no mean
// of v can be.
#pragma once

#include "ladder.h"

namespace ladder {

struct Attention {
    int heads, n, d;
    const float *q, *k, *v;
    float *o;
    float *row_max, *row_sum;  // heads * n floats each, for the steps that keep these in global memory; not initialised.
    float scale;
};

struct AttentionStep {
    int order;
    const char *name;
    void (*launch)(const Attention &);
    double (*traffic)(const Attention &);
    bool few_blocks = false;  // One block a head: long sequences of few heads are left out, they would take a minute.
};

// What q, k and v are drawn from.
struct Ranges {
    float q_low, q_high, k_low, k_high;
    uint64_t seed;
};
constexpr Ranges kOrdinary{-3, 3, -3, 3, 100}, kFarBelow{6, 9, -9, -6, 200}, kHuge{-300, 300, -300, 300, 300};
constexpr float kValueBound = 3;

// Float64 results of some rows of one head.
class ExactHead {
  public:
    ExactHead(const Ranges &ranges, int head, int n, int d) : ranges_(ranges), head_(head), n_(n), d_(d) {
        k_.resize(static_cast<size_t>(n) * static_cast<size_t>(d));
        v_.resize(k_.size());
        for (size_t i = 0; i < k_.size(); ++i) {
            k_[i] = random_value(ranges.seed + 1, first() + i, ranges.k_low, ranges.k_high);
            v_[i] = random_value(ranges.seed + 2, first() + i, -kValueBound, kValueBound);
        }
    }
    // A row of o, and the bound of its elements' errors: a score's rounding error is a share of the sum of |q||k|, it moves a weight by as
    // much in proportion, and the sums over keys add half an ulp for each rounding, of which some sqrt(n) do not cancel.
    double row(int at, std::vector<double> &o) const {
        const size_t d = static_cast<size_t>(d_), n = static_cast<size_t>(n_);
        std::vector<double> q(d), score(n);
        const double scale = 1 / std::sqrt(static_cast<double>(d_));
        for (size_t x = 0; x < d; ++x)
            q[x] = random_value(ranges_.seed, first() + static_cast<size_t>(at) * d + x, ranges_.q_low, ranges_.q_high);
        double top = -std::numeric_limits<double>::infinity(), magnitude = 0;
        for (size_t j = 0; j < n; ++j) {
            double sum = 0, size = 0;
            for (size_t x = 0; x < d; ++x) sum += q[x] * k_[j * d + x], size += std::fabs(q[x] * k_[j * d + x]);
            score[j] = sum * scale;
            top = std::max(top, score[j]);
            magnitude = std::max(magnitude, size * scale);
        }
        double total = 0;
        o.assign(d, 0.0);
        for (size_t j = 0; j < n; ++j) {
            const double weight = std::exp(score[j] - top);
            total += weight;
            for (size_t x = 0; x < d; ++x) o[x] += weight * v_[j * d + x];
        }
        for (double &value : o) value /= total;
        return kValueBound * kHalfUlp * (6 * magnitude + 8 + 2 * std::sqrt(static_cast<double>(n_)));
    }

  private:
    size_t first() const { return static_cast<size_t>(head_) * static_cast<size_t>(n_) * static_cast<size_t>(d_); }
    Ranges ranges_;
    int head_, n_, d_;
    std::vector<float> k_, v_;
};

// Inputs, output and scratch of one problem on the device.
class AttentionData {
  public:
    AttentionData(const Ranges &ranges, int heads, int n, int d)
        : count_(static_cast<int64_t>(heads) * n * d),
          q_(count_, ranges.seed, ranges.q_low, ranges.q_high),
          k_(count_, ranges.seed + 1, ranges.k_low, ranges.k_high),
          v_(count_, ranges.seed + 2, -kValueBound, kValueBound),
          o_(count_),
          max_(static_cast<int64_t>(heads) * n),
          sum_(static_cast<int64_t>(heads) * n),
          problem_{heads, n, d, q_.get(), k_.get(), v_.get(), o_.get(), max_.get(), sum_.get(), 1 / std::sqrt(static_cast<float>(d))} {}
    const Attention &problem() const { return problem_; }
    const DeviceArray &output() const { return o_; }
    void compare(const ExactHead &exact, int head, int row, Errors &errors) const {
        std::vector<double> expected;
        const double bound = exact.row(row, expected);
        compare(expected, bound, head, row, errors);
    }
    void compare(const std::vector<double> &expected, double bound, int head, int row, Errors &errors) const {
        std::vector<float> got(expected.size());
        o_.copy_out(got.data(), (static_cast<int64_t>(head) * problem_.n + row) * problem_.d, problem_.d);
        for (size_t x = 0; x < got.size(); ++x) errors.add(got[x], expected[x], bound);
    }

  private:
    int64_t count_;
    DeviceArray q_, k_, v_, o_, max_, sum_;
    Attention problem_;
};

inline Errors check_small_attention(const AttentionStep &step) {
    Errors errors;
    const auto check = [&](const Ranges &ranges, int heads, int n, int d) {
        const AttentionData data(ranges, heads, n, d);
        step.launch(data.problem());
        LADDER_CUDA(cudaGetLastError());
        LADDER_CUDA(cudaDeviceSynchronize());
        for (int head = 0; head < heads; ++head) {
            const ExactHead exact(ranges, head, n, d);
            for (int row = 0; row < n; ++row) data.compare(exact, head, row, errors);
        }
    };
    check(kOrdinary, 1, 1, 32);
    check(kOrdinary, 2, 37, 64);
    check(kOrdinary, 3, 128, 32);
    check(kOrdinary, 1, 200, 64);
    check(kFarBelow, 2, 129, 32);
    check(kFarBelow, 1, 65, 64);
    check(kHuge, 1, 131, 64);
    return errors;
}

// Rows of a timed shape, computed once for all steps.
struct ExactSample {
    struct Sampled {
        int head, row;
        double bound;
        std::vector<double> o;
    };
    std::vector<Sampled> rows;
    ExactSample(int heads, int n, int d) {
        std::vector<int> some{0, heads / 2, heads - 1};
        some.erase(std::unique(some.begin(), some.end()), some.end());
        for (int head : some) {
            const ExactHead exact(kOrdinary, head, n, d);
            for (int row : {0, 31, 127, std::min(128, n - 1), n / 2 + 1, n - 2, n - 1}) {
                Sampled one{head, row, 0, {}};
                one.bound = exact.row(row, one.o);
                rows.push_back(one);
            }
        }
    }
};

inline bool run_attention(const AttentionStep &step, const Options &options) {
    Row row;
    row.ladder = "attention", row.order = step.order, row.step = step.name, row.shape = "small, ragged";
    const Errors small = check_small_attention(step);
    row.ok = small.ok(), row.error = small.worst();
    if (options.check_only || !row.ok) return report(options, row), row.ok;

    static const int shapes[][3] = {{10, 2048, 64}, {13600, 128, 32}, {500, 2048, 64}, {4, 32768, 32}, {2, 32768, 64}};
    static std::map<int, ExactSample> samples;
    bool all = true;
    for (int i = 0; i < 5; ++i) {
        const int heads = kTiny ? 2 : shapes[i][0], n = kTiny ? 130 : shapes[i][1], d = shapes[i][2];
        Row one = row;
        one.ok = false;
        one.shape = "(" + std::to_string(heads) + "," + std::to_string(n) + "," + std::to_string(d) + ")";
        if (step.few_blocks && heads < 8 && !kTiny) {
            one.note = "one block a head: " + std::to_string(heads) + " blocks would take a minute";
            report(options, one);
            continue;
        }
        const AttentionData data(kOrdinary, heads, n, d);
        one.timing = time_launches(options, [&] { step.launch(data.problem()); });
        const ExactSample &sample = samples.try_emplace(i, heads, n, d).first->second;
        Errors errors = small;
        for (const auto &want : sample.rows) data.compare(want.o, want.bound, want.head, want.row, errors);
        if (data.output().outside(kValueBound * 1.0001f)) errors.fail();
        one.ok = errors.ok(), one.error = errors.worst();
        one.flops = 4.0 * heads * n * static_cast<double>(n) * d;
        one.bytes = 16.0 * heads * static_cast<double>(n) * d;
        one.traffic = step.traffic(data.problem());
        report(options, one);
        all = all && one.ok;
    }
    return all;
}

inline bool add_attention(const AttentionStep &step) {
    return add_step({"attention", step.order, step.name, [step](const Options &options) { return run_attention(step, options); }});
}

// ---- What the steps from the fused kernel on have in common: 128 rows a block, one a thread.
constexpr int kBlockRows = 128;

// Keys a tile so that q, k, v and the scores fit in 48 KB: (128 d + 2 keys d + 128 keys) * 4 bytes.
inline int keys_with_q(int d) { return d == 64 ? 16 : 32; }
inline size_t shared_with_q(int d) {
    const int keys = keys_with_q(d);
    return static_cast<size_t>(kBlockRows * d + 2 * keys * d + kBlockRows * keys) * sizeof(float);
}
inline unsigned row_blocks(const Attention &p) { return static_cast<unsigned>(ceil_div(p.n, kBlockRows)) * static_cast<unsigned>(p.heads); }

// Bytes asked of global memory by blocks of so many rows that walk tiles of so many keys: k and v once a block, o read and written every
// tile, and per tile also q and the row's maximum and sum, if they live there.
inline double block_traffic(const Attention &p, int rows, int keys, bool q_every_tile, bool state_in_memory) {
    const double n = p.n, row_tiles = std::ceil(n / rows), key_tiles = std::ceil(n / keys), row = 4.0 * p.d;
    const double per_row_and_tile = 2 * row + (q_every_tile ? row : 0) + (state_in_memory ? 16 : 0);
    return p.heads * (row_tiles * 2 * n * row + n * key_tiles * per_row_and_tile + (q_every_tile ? 0 : n * row));
}

}  // namespace ladder
