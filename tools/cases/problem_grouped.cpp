// SPDX-License-Identifier: Apache-2.0
// Products of groups of rows: drawing a case's data, binding it, computing it honestly.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "activate.h"
#include "attention_data.h"
#include "problem.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

class GroupedCall final : public Call {
  public:
    /// Widened, b is what scales make of it.
    GroupedCall(attile_context *context, Placement placement, bool widened, const GroupedCase &c, const Values &a, const Values &b,
                const Values &scales, const Values &zeros, const Values &cc, const Values &bias, const Values &offsets)
        : Call(context, placement, widened) {
        attile_gemm_grouped_init(&args_, sizeof args_);
        args_.flags = c.flags;
        args_.a = input(widened ? ATTILE_F64 : c.dtype, a, c.a_layout);
        args_.b = input(widened ? ATTILE_F64 : c.type_of_b(), b, c.b_layout);
        if (!widened) {
            args_.b_scale = input(ATTILE_F32, scales);
            args_.b_zero = input(ATTILE_F32, zeros);
        }
        args_.row_offsets = input(ATTILE_I32, offsets, c.offsets_layout);
        args_.bias = input(c.bias_dtype, bias, c.bias_layout);
        if (c.in_place && !widened) {
            args_.c = args_.d = in_place("d", c.out_dtype, cc, c.d_layout);
        } else {
            args_.c = input(c.out_dtype, cc, c.c_layout);
            args_.d = output("d", c.out_dtype, {c.total_rows(), c.n}, c.d_layout);
        }
        args_.alpha = c.alpha;
        args_.beta = c.beta;
        args_.activation = c.activation;
    }
    std::int32_t query(attile_support *support) const override { return attile_gemm_grouped_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_gemm_grouped(context_, &args_); }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_gemm_grouped_args args_ = {};
};

class GroupedProblem final : public Problem {
  public:
    GroupedProblem(const GroupedCase &c, Contents contents) : c_(c), contents_(contents), random_(c.seed * 0xfeed5ull + 3) {
        const std::int64_t m = c.total_rows(), groups = static_cast<std::int64_t>(c.rows.size());
        offsets_ = Values({groups + 1});
        std::int64_t next = c.before;
        for (std::int64_t g = 0; g <= groups; ++g) {
            offsets_(g) = static_cast<double>(c.offsets.empty() ? next : c.offsets[static_cast<std::size_t>(g)]);
            if (g < groups) next += c.rows[static_cast<std::size_t>(g)];
        }
        // The group of each row, -1: none. What an offset is clamped to begins at the one before it.
        group_of_.assign(static_cast<std::size_t>(m), -1);
        std::int64_t row = clamped(0, 0);
        for (std::int64_t g = 0; g < groups; ++g)
            for (const std::int64_t end = clamped(g + 1, row); row < end; ++row) group_of_[static_cast<std::size_t>(row)] = g;

        a_ = drawn({m, c.k}, c.dtype);
        b_ = drawn({c.one_b ? 1 : groups, c.k, c.n}, c.type_of_b());
        if (c.special && a_.at.size() > static_cast<std::size_t>(5 * c.k)) {
            a_.at[1] = kNan;
            a_.at[static_cast<std::size_t>(4 * c.k)] = std::numeric_limits<double>::infinity();
        }
        if (c.alpha == 0)  // not to be read
            for (Values *x : {&a_, &b_}) std::fill(x->at.begin(), x->at.end(), kNan);
        make_constant(a_, c.a_layout.broadcast);
        make_constant(b_, c.b_layout.broadcast);
        if (c.beta != 0 || c.c_given) {
            c_values_ = drawn({m, c.n}, c.out_dtype);
            if (c.beta == 0) std::fill(c_values_.at.begin(), c_values_.at.end(), kNan);
            if (!c.in_place) make_constant(c_values_, c.c_layout.broadcast);
        }
        const auto forget_rows = [&](Values &x) {  // of no group, whose contents do not matter
            for (std::size_t i = 0; i < x.at.size(); ++i)
                if (group_of_[i / static_cast<std::size_t>(x.length())] < 0) x.at[i] = unwritten();
        };
        if (c.a_layout.broadcast == 0) forget_rows(a_);
        if ((c.in_place || c.c_layout.broadcast == 0) && !c_values_.shape.empty()) forget_rows(c_values_);
        if (c.has_bias) {
            bias_ = c.one_bias ? drawn({c.n}, c.bias_dtype) : drawn({groups, c.n}, c.bias_dtype);
            make_constant(bias_, c.bias_layout.broadcast);
        }
        true_b_ = b_;
        if (c.depth_group > 0) {
            const std::int64_t wide = c.width_group == 0 ? std::max<std::int64_t>(c.n, 1) : c.width_group, across = c.n / wide;
            scales_ = Values({c.one_b ? 1 : groups, c.k / c.depth_group, across});
            for (double &x : scales_.at) x = contents == Contents::kNone ? 0 : round_to(ATTILE_F32, random_.normal() / 50);
            if (c.zeros) {
                zeros_ = Values(scales_.shape);
                for (double &x : zeros_.at) x = contents == Contents::kNone ? 0 : round_to(ATTILE_F32, 16 * random_.uniform());
            }
            for (std::size_t i = 0; i < b_.at.size(); ++i) {
                const auto at = static_cast<std::int64_t>(i);
                const auto block = static_cast<std::size_t>(at / (c.n * c.depth_group) * across + at % c.n / wide);
                if (c.zeros) true_b_.at[i] -= zeros_.at[block];
                true_b_.at[i] *= scales_.at[block];
            }
        }
    }

    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<GroupedCall>(context, placement, widened, c_, a_, widened ? true_b_ : b_, scales_, zeros_, c_values_, bias_,
                                             offsets_);
    }
    std::int32_t compute_dtype() const override { return compute_type(c_.dtype); }
    std::vector<Honest> honest() const override {
        const bool f64 = c_.dtype == ATTILE_F64;
        return {{{},
                 f64 ? computed<double>(false, false) : computed<float>(false, false),
                 f64 ? computed<double>(true, false) : computed<float>(true, false),
                 computed<double>(false, true)}};
    }

  private:
    std::int64_t clamped(std::int64_t at, std::int64_t least) const {
        return std::clamp(static_cast<std::int64_t>(offsets_(at)), least, c_.total_rows());
    }
    Values drawn(std::vector<std::int64_t> shape, std::int32_t dtype) {
        Values values(std::move(shape));
        if (contents_ == Contents::kNone) return values;
        const IntegerRange range = integer_range(dtype);
        const bool is_integer = is_quantised(dtype) && !is_float8(dtype);
        for (double &x : values.at)
            x = is_integer
                    ? static_cast<double>(random_.between(static_cast<std::int64_t>(range.least), static_cast<std::int64_t>(range.largest)))
                    : round_to(dtype, random_.normal());
        return values;
    }

    // Of f16 and bf16 the second order takes eight products at a time and cuts off what f32 does not hold, as matrix units do; of others
    // it keeps four interleaved sums.
    template <class T>
    T product(const double *a, const double *b, bool second, bool magnitude) const {
        if (second && (c_.dtype == ATTILE_F16 || c_.dtype == ATTILE_BF16)) {
            double sum = 0;
            for (std::int64_t k = 0; k < c_.k; ++k) {
                sum += a[k] * b[k * c_.n];
                if (k % 8 == 7 || k + 1 == c_.k) sum = cut_to_f32(sum);
            }
            return static_cast<T>(sum);
        }
        const std::int64_t lanes = second ? 4 : 1;
        T sums[4] = {}, joined[4] = {};
        for (std::int64_t k = 0; k < c_.k; ++k) {
            const T term = static_cast<T>(a[k]) * static_cast<T>(b[k * c_.n]);
            sums[k % lanes] += magnitude ? std::fabs(term) : term;
            if ((k + 1) % (kHonestSteps * lanes) != 0) continue;
            for (std::int64_t lane = 0; lane < lanes; ++lane) joined[lane] += std::exchange(sums[lane], T{0});
        }
        T sum = 0;
        for (std::int64_t lane = 0; lane < lanes; ++lane) sum += joined[lane] + sums[lane];
        return sum;
    }

    template <class T>
    Values computed(bool second, bool magnitude) const {
        const std::int64_t m_count = c_.total_rows();
        Values d({m_count, c_.n}, kNan);  // Rows of no group are not looked at.
        const auto size = [magnitude](T x) { return magnitude ? std::fabs(x) : x; };
        for (std::int64_t m = 0; m < m_count; ++m) {
            const std::int64_t group = group_of_[static_cast<std::size_t>(m)];
            for (std::int64_t n = 0; group >= 0 && n < c_.n; ++n) {
                T value = 0;
                if (c_.alpha != 0 && c_.k > 0) {
                    value = size(static_cast<T>(c_.alpha)) * product<T>(a_.at.data() + m * c_.k,
                                                                        true_b_.at.data() + (c_.one_b ? 0 : group) * c_.k * c_.n + n,
                                                                        second, magnitude);
                }
                if (c_.beta != 0) value += size(static_cast<T>(c_.beta) * static_cast<T>(c_values_(m, n)));
                if (c_.has_bias) value += size(static_cast<T>(c_.one_bias ? bias_(n) : bias_(group, n)));
                // As of products: an activation's own roundings.
                if (magnitude && c_.activation > ATTILE_ACTIVATION_RELU) value *= 3;
                d(m, n) = static_cast<double>(magnitude ? value : activate(c_.activation, value));
            }
        }
        return d;
    }

    GroupedCase c_;
    Contents contents_;
    Random random_;
    Values a_, b_, true_b_, c_values_, bias_, scales_, zeros_, offsets_;
    std::vector<std::int64_t> group_of_;
};

}  // namespace

std::unique_ptr<Problem> make_grouped_problem(const GroupedCase &c, Contents contents) {
    return std::make_unique<GroupedProblem>(c, contents);
}

}  // namespace attile::test
