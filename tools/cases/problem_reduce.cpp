// SPDX-License-Identifier: Apache-2.0
// Reductions and softmax: drawing, binding, computing honestly.
#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_data.h"
#include "problem.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An array seen as rows along one axis: element r of row i lies at start(i) + r * step.
struct Lines {
    Lines(const std::vector<std::int64_t> &shape, std::int32_t axis) {
        const auto at = static_cast<std::size_t>(axis < 0 ? axis + static_cast<std::int32_t>(shape.size()) : axis);
        for (std::size_t i = 0; i < shape.size(); ++i) (i < at ? outer : i == at ? length : step) *= shape[i];
    }
    std::int64_t count() const { return outer * step; }
    std::size_t index(std::int64_t row, std::int64_t r) const {
        return static_cast<std::size_t>((row / step * length + r) * step + row % step);
    }
    std::int64_t outer = 1, length = 1, step = 1;
};

Values draw(const std::vector<std::int64_t> &shape, const Lines &lines, std::int32_t dtype, RowPattern pattern, std::uint64_t seed,
            unsigned broadcast) {
    Random random(seed * 0x51ed27ull + 11);
    Values x(shape);
    const int orders = dtype == ATTILE_F64 ? 500 : dtype == ATTILE_F16 ? 7 : 60;
    const int last = dtype == ATTILE_F64 ? -1074 : dtype == ATTILE_F32 ? -149 : dtype == ATTILE_F16 ? -24 : -133;
    for (double &value : x.at) {
        if (pattern == RowPattern::kSpread || pattern == RowPattern::kCancelling) {
            value = round_to(dtype, std::ldexp(random.normal(), static_cast<int>(random.between(-orders, orders))));
            continue;
        }
        if (pattern == RowPattern::kSubnormal || pattern == RowPattern::kZeros) {
            const double size = static_cast<double>(random.between(0, pattern == RowPattern::kZeros ? 0 : 50));
            value = std::ldexp(random.chance(0.5) ? size : -size, last);
            continue;
        }
        value = random.normal() * (pattern == RowPattern::kLarge ? 300 : 1);
        value = round_to(dtype, pattern == RowPattern::kPositive ? std::fabs(value) : value);
    }
    make_constant(x, broadcast);
    if (pattern == RowPattern::kCancelling) {
        for (std::int64_t row = 0; row < lines.count(); ++row) {
            for (std::int64_t r = 0; r + 1 < lines.length; r += 2) x.at[lines.index(row, r + 1)] = -x.at[lines.index(row, r)];
            if (lines.length % 2 == 1) x.at[lines.index(row, lines.length - 1)] = std::ldexp(static_cast<double>(row % 3 - 1), last);
        }
    }
    const double special = pattern == RowPattern::kMinusInfinity ? -kInfinity : pattern == RowPattern::kNan ? kNan : kInfinity;
    if (pattern < RowPattern::kMinusInfinity || pattern > RowPattern::kInfinity || broadcast != 0) return x;
    for (std::int64_t row = 0; row < lines.count(); row += 2) {  // every other row has some, every fourth nothing else
        for (std::int64_t r = 0; r < lines.length; ++r)
            if (row % 4 == 0 || random.chance(0.2)) x.at[lines.index(row, r)] = special;
    }
    return x;
}

class ReduceCall final : public Call {
  public:
    ReduceCall(attile_context *context, Placement placement, bool widened, const ReduceCase &c, const Values &x,
               const std::vector<std::int64_t> &y_shape)
        : Call(context, placement, widened) {
        attile_reduce_init(&args_, sizeof args_);
        args_.flags = c.flags;
        args_.x = input(c.dtype, x, c.x_layout);
        args_.y = output("y", c.out_dtype, y_shape, c.y_layout);
        args_.op = c.op;
        args_.axis = c.axis;
    }
    std::int32_t query(attile_support *support) const override { return attile_reduce_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_reduce(context_, &args_); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_reduce_args args_ = {};
};

class ReduceProblem final : public Problem {
  public:
    explicit ReduceProblem(const ReduceCase &c)
        : c_(c), lines_(c.shape, c.axis), x_(draw(c.shape, lines_, c.dtype, c.pattern, c.seed, c.x_layout.broadcast)), y_shape_(c.shape) {
        y_shape_[static_cast<std::size_t>(c.axis < 0 ? c.axis + static_cast<std::int32_t>(c.shape.size()) : c.axis)] = 1;
    }
    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<ReduceCall>(context, placement, widened, c_, x_, y_shape_);
    }
    std::int32_t compute_dtype() const override { return compute_type(c_.dtype); }
    std::vector<Honest> honest() const override {
        const bool f64 = c_.dtype == ATTILE_F64;
        return {{{},
                 f64 ? computed<double>(false, false) : computed<float>(false, false),
                 f64 ? computed<double>(true, false) : computed<float>(true, false),
                 computed<double>(false, true),
                 (c_.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0}};
    }

  private:
    // The second order keeps four interleaved results, as unrolled code does.
    template <class T>
    Values computed(bool interleaved, bool magnitude) const {
        Values y(y_shape_);
        const bool max = c_.op == ATTILE_REDUCE_MAX, min = c_.op == ATTILE_REDUCE_MIN;
        const T first = max ? -std::numeric_limits<T>::infinity() : min ? std::numeric_limits<T>::infinity() : 0;
        const auto join = [&](T a, T x) { return max ? (x > a || std::isnan(x) ? x : a) : min ? (x < a || std::isnan(x) ? x : a) : a + x; };
        for (std::int64_t row = 0; row < lines_.count(); ++row) {
            T result = first;
            for (std::int64_t begin = 0; begin < lines_.length; begin += kHonestTerms) {
                T lanes[4] = {first, first, first, first};
                for (std::int64_t r = begin; r < std::min(begin + kHonestTerms, lines_.length); ++r) {
                    const T x = static_cast<T>(x_.at[lines_.index(row, r)]);
                    T &lane = lanes[interleaved ? r & 3 : 0];
                    lane = join(lane, magnitude ? std::fabs(x) : x);
                }
                result = join(result, join(join(lanes[0], lanes[1]), join(lanes[2], lanes[3])));
            }
            if (c_.op == ATTILE_REDUCE_MEAN) result /= static_cast<T>(lines_.length);
            y.at[static_cast<std::size_t>(row)] = magnitude && (max || min) ? 0 : static_cast<double>(result);
        }
        return y;
    }

    ReduceCase c_;
    Lines lines_;
    Values x_;
    std::vector<std::int64_t> y_shape_;
};

class SoftmaxCall final : public Call {
  public:
    SoftmaxCall(attile_context *context, Placement placement, bool widened, const SoftmaxCase &c, const Values &x)
        : Call(context, placement, widened) {
        attile_softmax_init(&args_, sizeof args_);
        args_.flags = c.flags;
        if (c.in_place && !widened) {
            args_.x = args_.y = in_place("y", c.dtype, x, c.x_layout);
        } else {
            args_.x = input(c.dtype, x, c.x_layout);
            args_.y = output("y", c.out_dtype, c.shape, c.y_layout);
        }
        args_.axis = c.axis;
    }
    std::int32_t query(attile_support *support) const override { return attile_softmax_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_softmax(context_, &args_); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_softmax_args args_ = {};
};

class SoftmaxProblem final : public Problem {
  public:
    explicit SoftmaxProblem(const SoftmaxCase &c)
        : c_(c), lines_(c.shape, c.axis), x_(draw(c.shape, lines_, c.dtype, c.pattern, c.seed, c.in_place ? 0 : c.x_layout.broadcast)) {}
    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<SoftmaxCall>(context, placement, widened, c_, x_);
    }
    std::int32_t compute_dtype() const override { return compute_type(c_.dtype); }
    std::vector<Honest> honest() const override {
        const bool f64 = c_.dtype == ATTILE_F64;
        return {{{},
                 f64 ? computed<double>(false, false) : computed<float>(false, false),
                 f64 ? computed<double>(true, false) : computed<float>(true, false),
                 computed<double>(false, true),
                 (c_.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0}};
    }

  private:
    template <class T>
    Values computed(bool interleaved, bool magnitude) const {
        Values y(c_.shape);
        for (std::int64_t row = 0; row < lines_.count(); ++row) {
            const auto x = [&](std::int64_t r) { return static_cast<T>(x_.at[lines_.index(row, r)]); };
            T max = -std::numeric_limits<T>::infinity(), size = 0, sum = 0, sums[4] = {0, 0, 0, 0};
            for (std::int64_t r = 0; r < lines_.length; ++r) max = x(r) > max || std::isnan(x(r)) ? x(r) : max;
            if (max == -std::numeric_limits<T>::infinity()) continue;
            for (std::int64_t r = 0; r < lines_.length; ++r) {
                const T value = x(r), weight = std::exp(value - max);
                sums[interleaved ? r & 3 : 0] += weight;
                if (weight > 0) size += weight * (1 + std::fabs(value) + std::fabs(max));
                if ((r + 1) % kHonestTerms != 0 && r + 1 < lines_.length) continue;
                sum += (sums[0] + sums[1]) + (sums[2] + sums[3]);
                std::fill_n(sums, 4, T{0});
            }
            for (std::int64_t r = 0; r < lines_.length; ++r) {
                const T p = std::exp(x(r) - max) / sum;
                const T own = p > 0 ? p * (1 + std::fabs(x(r)) + std::fabs(max)) : 0;
                y.at[lines_.index(row, r)] = static_cast<double>(magnitude ? own + p * size / sum : p);
            }
        }
        return y;
    }

    SoftmaxCase c_;
    Lines lines_;
    Values x_;
};

}  // namespace

std::unique_ptr<Problem> make_reduce_problem(const ReduceCase &c) { return std::make_unique<ReduceProblem>(c); }
std::unique_ptr<Problem> make_softmax_problem(const SoftmaxCase &c) { return std::make_unique<SoftmaxProblem>(c); }

}  // namespace attile::test
