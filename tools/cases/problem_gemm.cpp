// SPDX-License-Identifier: Apache-2.0
// Matrix multiplication: drawing a case's data, binding it, computing it honestly.
#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <utility>

#include "activate.h"
#include "attention_data.h"
#include "dropped_sum.h"
#include "problem.h"
#include "test_element.h"
#include "test_random.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

using Shape = std::vector<std::int64_t>;

Shape with_batch(const GemmCase &c, BatchForm form, std::initializer_list<std::int64_t> rest) {
    Shape shape;
    if (form != BatchForm::kMissing)
        for (const std::int64_t extent : c.batch) shape.push_back(form == BatchForm::kUnit ? 1 : extent);
    shape.insert(shape.end(), rest);
    return shape;
}

std::int32_t type_of_c(const GemmCase &c) { return is_quantised(c.out_dtype) ? ATTILE_F32 : c.out_dtype; }

class GemmCall final : public Call {
  public:
    /// Widened, a and b are what scales make of them.
    GemmCall(attile_context *context, Placement placement, bool widened, const GemmCase &c, const Values &a, const Values &b,
             const Values &a_scales, const Values &b_scales, const Values &d_scales, const Values &cc, const Values &bias)
        : Call(context, placement, widened) {
        attile_gemm_init(&args_, sizeof args_);
        args_.flags = c.flags;
        args_.a = input(widened ? ATTILE_F64 : c.dtype, a, c.a_layout);
        args_.b = input(widened ? ATTILE_F64 : c.type_of_b(), b, c.b_layout);
        if (!widened) {
            args_.a_scale = input(ATTILE_F32, a_scales, c.a_scales.layout);
            args_.b_scale = input(ATTILE_F32, b_scales, c.b_scales.layout);
            args_.d_scale = input(ATTILE_F32, d_scales, c.d_scales.layout);
        }
        args_.bias = input(c.bias_dtype, bias, c.bias_layout);
        if (c.in_place && !widened) {
            args_.c = args_.d = in_place("d", c.out_dtype, cc, c.d_layout);
        } else {
            args_.c = input(type_of_c(c), cc, c.c_layout);
            args_.d = output("d", c.out_dtype, with_batch(c, BatchForm::kFull, {c.m, c.n}), c.d_layout);
        }
        args_.alpha = c.alpha;
        args_.beta = c.beta;
        args_.bias_axis = c.bias_axis;
        args_.activation = c.activation;
    }
    std::int32_t query(attile_support *support) const override { return attile_gemm_query(context_, &args_, support); }
    std::int32_t run() const override { return attile_gemm(context_, &args_); }
    std::int32_t run_prepared() const override {
        attile_gemm_args args = args_;
        args.workspace = nullptr;
        for (attile_tensor *x : {&args.a, &args.b, &args.c, &args.d, &args.bias, &args.a_scale, &args.b_scale, &args.d_scale})
            *x = elsewhere(*x);
        attile_prepared *prepared = nullptr;
        std::int32_t status = attile_gemm_prepare(context_, &args, &prepared);
        if (status != ATTILE_OK) return status;
        attile_gemm_pointers at;
        attile_gemm_pointers_init(&at, sizeof at);
        at.stream = args_.stream;
        at.workspace = args_.workspace;
        at.workspace_bytes = args_.workspace_bytes;
        at.a = args_.a.data;
        at.b = args_.b.data;
        at.c = args_.c.data;
        at.d = args_.d.data;
        at.bias = args_.bias.data;
        at.a_scale = args_.a_scale.data;
        at.b_scale = args_.b_scale.data;
        at.d_scale = args_.d_scale.data;
        status = attile_gemm_run(prepared, &at);
        attile_prepared_destroy(prepared);
        return status;
    }
    void set_workspace(void *workspace, std::int64_t bytes, std::uint32_t flags) override {
        args_.workspace = workspace;
        args_.workspace_bytes = bytes;
        args_.flags |= flags;
    }
    void set_stream(void *stream) override { args_.stream = stream; }

  private:
    attile_gemm_args args_ = {};
};

class GemmProblem final : public Problem {
  public:
    GemmProblem(const GemmCase &c, Contents contents) : c_(c), contents_(contents), random_(c.seed * 0xabcdefull + 7) {
        double factor = 1;
        if (c.pattern == GemmPattern::kSubnormal) factor = c.dtype == ATTILE_F64 ? 1e-154 : c.dtype == ATTILE_F16 ? 1e-3 : 1e-19;
        a_ = drawn(with_batch(c, c.a_form, {c.m, c.k}), c.dtype, factor);
        b_ = drawn(with_batch(c, c.b_form, {c.k, c.n}), c.type_of_b(), factor);
        if (c.pattern == GemmPattern::kPositive)
            for (Values *x : {&a_, &b_})
                for (double &value : x->at) value = std::fabs(value);
        if (c.pattern == GemmPattern::kAlternating)
            for (std::size_t at = 0; at < a_.at.size(); ++at)
                a_.at[at] = std::copysign(a_.at[at], at % static_cast<std::size_t>(c.k) % 2 == 0 ? 1 : -1);
        if (c.pattern == GemmPattern::kAlternating)
            for (double &value : b_.at) value = std::fabs(value);
        if (c.pattern == GemmPattern::kLowest)
            for (Values *x : {&a_, &b_}) x->at.assign(x->at.size(), round_to(ATTILE_I8, -1000));
        if (c.pattern == GemmPattern::kTies || c.pattern == GemmPattern::kTiny) draw_last_bits();
        if (c.pattern == GemmPattern::kIntegersBySpread)
            for (double &value : a_.at) value = std::floor(8 * value);
        const bool spreads_both = c.pattern == GemmPattern::kSpread;
        if ((spreads_both || c.pattern == GemmPattern::kIntegersBySpread) && contents_ != Contents::kNone) {
            const int most = c.dtype == ATTILE_F64 ? 300 : 60;
            for (Values *x : {spreads_both ? &a_ : &b_, &b_})
                for (double &value : x->at) value *= power_of_two(static_cast<int>(random_.between(-most, most)));
        }
        if (c.pattern == GemmPattern::kCancelling && contents_ != Contents::kNone) {
            const auto k = static_cast<std::size_t>(c.k), half = k / 2, n = static_cast<std::size_t>(c.n);
            for (std::size_t at = 0; at < a_.at.size(); ++at)
                if (at % k >= half && at % k < 2 * half) a_.at[at] = -a_.at[at - half];
            for (std::size_t at = 0; at < b_.at.size(); ++at)
                if (at / n % k >= half && at / n % k < 2 * half) b_.at[at] = b_.at[at - half * n];
            for (std::size_t at = 0; at < a_.at.size(); at += k) a_.at[at + half] = std::nextafter(a_.at[at + half], 0.0);
            for (double &value : a_.at) value = round_to(c.dtype, value);
        }
        if (c.pattern == GemmPattern::kIntegers)
            for (Values *x : {&a_, &b_})
                for (double &value : x->at) value = std::floor(8 * value);
        if (c.pattern == GemmPattern::kSpecial) {
            if (c.m < 4 || c.n < 3 || c.k < 4) throw std::invalid_argument("no room for numbers that are special");
            if (c.dtype == ATTILE_I8) throw std::invalid_argument("integers are all numbers");
            a_.at[1] = kNan;
            a_.at[static_cast<std::size_t>(c.k) * 2] = std::numeric_limits<double>::infinity();
            if (c.type_of_b() != ATTILE_I8) b_.at[static_cast<std::size_t>(c.n) * 3 + 2] = -std::numeric_limits<double>::infinity();
            if ((c.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0)
                a_.at[static_cast<std::size_t>(c.k) * 2 + 1] = -std::numeric_limits<double>::infinity();
            for (std::int64_t k = 0; k < c.k; ++k) a_.at[static_cast<std::size_t>(3 * c.k + k)] = 0;
        }
        for (const auto &[values, dtype] : {std::pair{&a_, c.dtype}, {&b_, c.type_of_b()}})
            if (is_quantised(dtype))  // a pattern may have left the type
                for (double &value : values->at) value = round_to(dtype, value);
        if (c.alpha == 0)  // not to be read
            for (Values *x : {&a_, &b_})
                for (double &value : x->at) value = kNan;
        make_constant(a_, c.a_layout.broadcast);
        make_constant(b_, c.b_layout.broadcast);
        if (c.beta != 0 || c.c_given) {
            c_values_ = drawn(with_batch(c, c.in_place ? BatchForm::kFull : c.c_form, {c.m, c.n}), type_of_c(c), factor * factor);
            if (c.beta == 0)
                for (double &value : c_values_.at) value = kNan;
            if (!c.in_place) make_constant(c_values_, c.c_layout.broadcast);
        }
        if (c.bias_axis != 0) {
            bias_ = drawn(with_batch(c, c.bias_form, {c.bias_axis == ATTILE_BIAS_COLUMNS ? c.n : c.m}), c.bias_dtype, 1);
            make_constant(bias_, c.bias_layout.broadcast);
        }
        a_scales_ = drawn_scales(c.a_scales, c.m, true);
        b_scales_ = drawn_scales(c.b_scales, c.n, false);
        d_scales_ = drawn_divisors();
        true_a_ = scaled(a_, c.a_scales, a_scales_, c.m, true);
        true_b_ = scaled(b_, c.b_scales, b_scales_, c.n, false);
    }

    std::unique_ptr<Call> bind(attile_context *context, Placement placement, bool widened) const override {
        return std::make_unique<GemmCall>(context, placement, widened, c_, widened ? true_a_ : a_, widened ? true_b_ : b_, a_scales_,
                                          b_scales_, d_scales_, c_values_, bias_);
    }

    std::int32_t compute_dtype() const override { return c_.out_dtype == ATTILE_I32 ? ATTILE_F64 : compute_type(c_.dtype); }

    std::vector<Honest> honest() const override {
        Honest h;
        const bool is_exact = c_.out_dtype == ATTILE_I32, f64 = c_.dtype == ATTILE_F64 || is_exact;
        h.first = f64 ? computed<double>(false, false) : computed<float>(false, false);
        h.second = f64 ? computed<double>(true, false) : computed<float>(true, false);
        h.magnitude = computed<double>(false, true);
        if (is_exact) h.magnitude = Values(h.magnitude.shape);  // nothing is rounded
        h.divisors = all_divisors();
        h.to_the_bit = (c_.flags & ATTILE_FLAG_EXACT_PRODUCTS) != 0;
        return {h};
    }

  private:
    // Of a tie the last bit is even or odd, and something far below is added, taken away, or not there.
    void draw_last_bits() {
        const bool f64 = c_.dtype == ATTILE_F64, ties = c_.pattern == GemmPattern::kTies;
        const auto k_count = static_cast<std::size_t>(c_.k), n = static_cast<std::size_t>(c_.n);
        const auto last = [&](int digits) { return std::ldexp(1.0, -digits); };
        for (std::size_t at = 0; at < a_.at.size(); ++at) {
            const auto row = static_cast<double>(at / k_count % 6);
            const double values[] = {1 + std::fmod(row, 2) * last(f64 ? 52 : 23), last(f64 ? 53 : 24),
                                     (std::fmod(row, 3) - 1) * last(f64 ? 900 : 100)};
            a_.at[at] = !ties              ? static_cast<double>(random_.between(-9, 9)) * last(f64 ? 1074 : 149)
                        : at % k_count < 3 ? values[at % k_count]
                                           : 0;
        }
        for (std::size_t at = 0; ties && at < b_.at.size(); ++at) b_.at[at] = at / n % k_count == 2 && at % n % 2 == 0 ? 0 : 1;
    }
    Values drawn(Shape shape, std::int32_t dtype, double factor) {
        Values values(std::move(shape));
        if (contents_ == Contents::kNone) return values;
        if (dtype == ATTILE_I8)
            for (double &x : values.at) x = static_cast<double>(random_.between(-128, 127));
        else
            for (double &x : values.at) x = round_to(dtype, factor * random_.normal());
        return values;
    }

    // Both signs and many magnitudes; among hard numbers a zero and a NaN, too.
    Values drawn_scales(const GemmScales &scales, std::int64_t width, bool is_a) {
        if (!scales.given) return {};
        const std::int64_t depths = blocks(c_.k, scales.depth), widths = blocks(width, scales.width);
        Values values(is_a ? with_batch(c_, scales.form, {widths, depths}) : with_batch(c_, scales.form, {depths, widths}));
        if (contents_ == Contents::kNone) return values;
        for (double &x : values.at) x = round_to(ATTILE_F32, random_.normal() * power_of_two(static_cast<int>(random_.between(-8, 1))));
        if (c_.pattern == GemmPattern::kSpecial && values.at.size() > 1) {
            values.at.front() = 0;
            values.at.back() = kNan;
        }
        if (c_.alpha == 0)
            for (double &x : values.at) x = kNan;
        make_constant(values, scales.layout.broadcast);
        return values;
    }
    // Such that results are of about all magnitudes, some beyond what d holds; among hard numbers a zero, a NaN and an infinity, too.
    Values drawn_divisors() {
        if (!c_.d_scales.given) return {};
        Shape shape = with_batch(c_, BatchForm::kFull, {c_.m, c_.n});
        for (std::size_t axis = 0; axis < shape.size(); ++axis)
            if ((c_.d_scales.axes >> axis & 1) == 0) shape[axis] = 1;
        if (shape.size() > c_.d_scales.rank) shape.erase(shape.begin(), shape.end() - c_.d_scales.rank);
        Values values(shape);
        if (contents_ == Contents::kNone) return values;
        const auto size = [](std::int32_t dtype, const GemmScales &scales) {
            return (dtype == ATTILE_I8 ? 74 : 1) * (scales.given ? 0.3 : 1);
        };
        const double typical = std::sqrt(static_cast<double>(std::max<std::int64_t>(c_.k, 1))) * size(c_.dtype, c_.a_scales) *
                               size(c_.type_of_b(), c_.b_scales);
        const int most = c_.out_dtype == ATTILE_I8 ? 127 : c_.out_dtype == ATTILE_F8_E4M3 ? 448 : 57344;
        for (double &x : values.at)
            x = round_to(ATTILE_F32, typical / most * (random_.chance(0.2) ? -1 : 1) * (0.5 + random_.uniform()) *
                                         power_of_two(static_cast<int>(random_.between(-1, 6))));
        if (c_.pattern == GemmPattern::kSpecial && values.at.size() > 3) {
            values.at.front() = 0;
            values.at[1] = kNan;
            values.at[2] = std::numeric_limits<double>::infinity();
        }
        make_constant(values, c_.d_scales.layout.broadcast);
        return values;
    }
    // One for each number of d.
    Values all_divisors() const {
        if (!c_.d_scales.given) return {};
        Values all(with_batch(c_, BatchForm::kFull, {c_.m, c_.n}));
        const Shape &of_d = all.shape, &own = d_scales_.shape;
        for (std::size_t at = 0; at < all.at.size(); ++at) {
            std::size_t place = 0, rest = at, step = 1;
            for (std::size_t i = 0; i < own.size(); ++i) {
                const auto extent = static_cast<std::size_t>(of_d[of_d.size() - 1 - i]),
                           scales = static_cast<std::size_t>(own[own.size() - 1 - i]);
                if (scales != 1) place += rest % extent * step;
                rest /= extent;
                step *= scales;
            }
            all.at[at] = d_scales_.at[place];
        }
        return all;
    }
    static std::int64_t blocks(std::int64_t extent, std::int64_t group) {
        if (group != 0 && extent % group != 0) throw std::invalid_argument("scales that divide nothing evenly");
        return group == 0 ? 1 : extent / group;
    }

    // What an operand stands for. Scales have the batch axes of the operand, or one matrix for all.
    Values scaled(const Values &q, const GemmScales &scales, const Values &factors, std::int64_t width, bool is_a) const {
        if (!scales.given || contents_ == Contents::kNone) return q;
        Values values = q;
        const std::int64_t each = width * c_.k;
        for (std::int64_t at = 0; at < static_cast<std::int64_t>(values.at.size()); ++at) {
            const std::int64_t inside = at % each, line = is_a ? inside / c_.k : inside % width, k = is_a ? inside % c_.k : inside / width;
            values.at[static_cast<std::size_t>(at)] *= factor(scales, factors, width, is_a, at / each, line, k);
        }
        return values;
    }
    // The scale of a row of a or a column of b at depth k.
    double factor(const GemmScales &scales, const Values &factors, std::int64_t width, bool is_a, std::int64_t entry, std::int64_t line,
                  std::int64_t k) const {
        if (!scales.given) return 1;
        const std::int64_t depths = blocks(c_.k, scales.depth), widths = blocks(width, scales.width);
        const std::int64_t depth = std::max<std::int64_t>(scales.depth == 0 ? c_.k : scales.depth, 1);
        const std::int64_t wide = std::max<std::int64_t>(scales.width == 0 ? width : scales.width, 1);
        const std::int64_t block = is_a ? line / wide * depths + k / depth : k / depth * widths + line / wide;
        return factors.at[static_cast<std::size_t>((scales.form == BatchForm::kFull ? entry : 0) * depths * widths + block)];
    }

    // With FAST_ACCUMULATION of 8-bit floats, what a tensor core that drops bits makes of a row and a column: the sums of each block of
    // scales by itself, which are then scaled and added in float32.
    bool may_drop_bits() const {
        return (c_.flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0 && is_float8(c_.dtype) && is_float8(c_.type_of_b());
    }
    float dropped_product(std::int64_t entry_a, std::int64_t entry_b, std::int64_t m, std::int64_t n) const {
        const double *const a = a_.at.data() + (entry_a * c_.m + m) * c_.k, *const b = b_.at.data() + entry_b * c_.k * c_.n + n;
        std::int64_t depth = std::max<std::int64_t>(c_.k, 1);
        for (const GemmScales *scales : {&c_.a_scales, &c_.b_scales})
            if (scales->given && scales->depth != 0) depth = std::min(depth, scales->depth);
        float total = 0;
        for (std::int64_t first = 0; first < c_.k; first += depth) {
            DroppedSum sum(c_.dtype, c_.type_of_b());
            for (std::int64_t k = first; k < std::min(first + depth, c_.k); ++k) sum.add(a[k], b[k * c_.n]);
            total += static_cast<float>(sum.value()) * static_cast<float>(factor(c_.a_scales, a_scales_, c_.m, true, entry_a, m, first)) *
                     static_cast<float>(factor(c_.b_scales, b_scales_, c_.n, false, entry_b, n, first));
        }
        return total;
    }

    // Where batch entry (x, y) of an operand with `inner` trailing axes begins, in units of its trailing part.
    static std::int64_t batch_entry(const Values &values, std::size_t inner, const Shape &index) {
        std::int64_t at = 0;
        const std::size_t axes = values.shape.size() - inner;
        for (std::size_t axis = 0; axis < axes; ++axis)
            at = at * values.shape[axis] + (values.shape[axis] == 1 ? 0 : index[index.size() - axes + axis]);
        return at;
    }

    template <class T>
    Values computed(bool second, bool magnitude) const {
        Values d(with_batch(c_, BatchForm::kFull, {c_.m, c_.n}));
        const std::int64_t outer = c_.batch.size() > 1 ? c_.batch[0] : 1, inner = c_.batch.empty() ? 1 : c_.batch.back();
        const std::vector<T> a(true_a_.at.begin(), true_a_.at.end()), b(true_b_.at.begin(), true_b_.at.end());
        const std::int64_t k_count = c_.alpha == 0 ? 0 : c_.k;
        // The second order keeps four interleaved sums, as unrolled code does; of f16 and bf16, one sum that takes eight products at a time
        // and cuts off what f32 does not hold, as matrix units do.
        const bool cuts_off = second && (c_.dtype == ATTILE_F16 || c_.dtype == ATTILE_BF16), drops = second && may_drop_bits();
        const std::size_t lanes = second && !cuts_off ? 4 : 1;
        std::vector<double> whole(cuts_off ? static_cast<std::size_t>(c_.n) : 0);
        std::vector<T> sums(lanes * static_cast<std::size_t>(c_.n)), joined(sums.size());
        const auto size = [magnitude](T x) { return magnitude ? std::fabs(x) : x; };
        std::size_t at = 0;
        for (std::int64_t x = 0; x < outer; ++x)
            for (std::int64_t y = 0; y < inner; ++y) {
                const Shape index = c_.batch.size() > 1 ? Shape{x, y} : c_.batch.empty() ? Shape{} : Shape{y};
                const T *a0 = a.data() + batch_entry(a_, 2, index) * c_.m * c_.k, *b0 = b.data() + batch_entry(b_, 2, index) * c_.k * c_.n;
                const std::int64_t c0 = c_values_.shape.empty() ? 0 : batch_entry(c_values_, 2, index) * c_.m * c_.n;
                const std::int64_t bias0 = bias_.shape.empty() ? 0 : batch_entry(bias_, 1, index) * bias_.length();
                for (std::int64_t m = 0; m < c_.m; ++m) {
                    sums.assign(sums.size(), 0);
                    joined.assign(joined.size(), 0);
                    for (std::int64_t k = 0; cuts_off && k < k_count; k += 8) {
                        std::copy(sums.begin(), sums.end(), whole.begin());
                        for (std::int64_t next = k; next < std::min(k + 8, k_count); ++next) {
                            const auto factor = static_cast<double>(a0[m * c_.k + next]);
                            for (std::size_t n = 0; n < whole.size(); ++n)
                                whole[n] += factor * static_cast<double>(b0[static_cast<std::size_t>(next * c_.n) + n]);
                        }
                        std::transform(whole.begin(), whole.end(), sums.begin(),
                                       [](double sum) { return static_cast<T>(cut_to_f32(sum)); });
                    }
                    for (std::int64_t k = 0; !cuts_off && !drops && k < k_count; ++k) {
                        T *sum = sums.data() + static_cast<std::int64_t>(static_cast<std::size_t>(k) % lanes) * c_.n;
                        const T factor = a0[m * c_.k + k];
                        for (std::int64_t n = 0; n < c_.n; ++n) sum[n] += size(factor * b0[k * c_.n + n]);
                        if ((k + 1) % (kHonestSteps * static_cast<std::int64_t>(lanes)) != 0) continue;
                        for (std::size_t n = 0; n < sums.size(); ++n) joined[n] += std::exchange(sums[n], T{0});
                    }
                    for (std::int64_t n = 0; n < c_.n; ++n) {
                        T product = 0;
                        for (std::size_t lane = 0; lane < lanes; ++lane)
                            product += joined[lane * static_cast<std::size_t>(c_.n) + static_cast<std::size_t>(n)] +
                                       sums[lane * static_cast<std::size_t>(c_.n) + static_cast<std::size_t>(n)];
                        if (drops && k_count > 0)
                            product = static_cast<T>(dropped_product(batch_entry(a_, 2, index), batch_entry(b_, 2, index), m, n));
                        T value = size(static_cast<T>(c_.alpha)) * product;
                        if (c_.beta != 0)
                            value +=
                                size(static_cast<T>(c_.beta) * static_cast<T>(c_values_.at[static_cast<std::size_t>(c0 + m * c_.n + n)]));
                        if (c_.bias_axis != 0)
                            value += size(
                                static_cast<T>(bias_.at[static_cast<std::size_t>(bias0 + (c_.bias_axis == ATTILE_BIAS_COLUMNS ? n : m))]));
                        // An activation's slope is at most 1.13; what is made of exponentials adds about two roundings of its own.
                        if (magnitude && c_.activation > ATTILE_ACTIVATION_RELU) value *= 3;
                        d.at[at++] = static_cast<double>(magnitude ? value : activate(c_.activation, value));
                    }
                }
            }
        return d;
    }

    GemmCase c_;
    Contents contents_;
    Random random_;
    Values a_, b_, c_values_, bias_, a_scales_, b_scales_, d_scales_;
    Values true_a_, true_b_;  // with their scales
};

}  // namespace

std::unique_ptr<Problem> make_gemm_problem(const GemmCase &c, Contents contents) { return std::make_unique<GemmProblem>(c, contents); }

}  // namespace attile::test
