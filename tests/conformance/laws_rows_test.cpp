// SPDX-License-Identifier: Apache-2.0
// Laws of reductions, softmax and the merging of partial results.
#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "case_text.h"
#include "laws.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kHidden = -std::numeric_limits<double>::infinity();

struct Rows {
    std::int32_t dtype, out_dtype;
    Values x;
    std::int32_t axis;
    std::uint32_t flags;

    std::int64_t length() const { return x.shape[static_cast<std::size_t>(axis)]; }
};

Rows draw_rows(Draw &draw) {
    Rows rows = {};
    const TypePair types = random_types(draw.random);
    rows.dtype = types.in;
    rows.out_dtype = types.out;
    const auto rank = static_cast<std::size_t>(draw.random.between(1, 4));
    std::vector<std::int64_t> shape(rank);
    rows.axis = static_cast<std::int32_t>(draw.random.between(0, static_cast<std::int64_t>(rank) - 1));
    std::int64_t elements = 1;
    for (std::size_t i = 0; i < rank; ++i) {
        const bool reduced = static_cast<std::int32_t>(i) == rows.axis;
        shape[i] = reduced && draw.random.chance(0.3) ? draw.random.between(1000, 9000)
                   : draw.random.chance(0.5)          ? draw.random.between(1, 5)
                                                      : draw.extent(200);
        shape[i] = std::max<std::int64_t>(1, std::min(shape[i], draw.work / 8 / elements));
        elements *= shape[i];
    }
    rows.x = draw.normal(rows.dtype, shape, draw.random.pick({1.0, 5.0}));
    rows.flags = draw.random.chance(0.3) ? ATTILE_FLAG_BATCH_INVARIANT : 0;
    return rows;
}

std::string words(const Rows &rows) {
    return Words().add("types", pair_name({rows.dtype, rows.out_dtype})).add("x", shape_text(rows.x.shape)).add("axis", rows.axis).text();
}

Values run_reduce(Draw &draw, const Rows &rows, std::int32_t op) {
    std::vector<std::int64_t> shape = rows.x.shape;
    shape[static_cast<std::size_t>(rows.axis)] = 1;
    TestTensor x = draw.input(rows.dtype, rows.x), y = draw.output(rows.out_dtype, shape);
    attile_reduce_args args;
    attile_reduce_init(&args, sizeof args);
    args.flags = rows.flags;
    args.x = x.view();
    args.y = y.view();
    args.op = op;
    args.axis = draw.random.chance(0.5) ? rows.axis : rows.axis - x.view().rank;
    perform(draw, ("reduce " + words(rows) + " op=" + std::to_string(op)).c_str(), args, attile_reduce_query, attile_reduce, {&x, &y});
    return y.values();
}

Values run_softmax(Draw &draw, const Rows &rows) {
    const bool over_x = rows.dtype == rows.out_dtype && draw.random.chance(0.3);
    TestTensor x = over_x ? TestTensor() : draw.input(rows.dtype, rows.x);
    TestTensor y = over_x ? draw.in_place(rows.dtype, rows.x) : draw.output(rows.out_dtype, rows.x.shape);
    attile_softmax_args args;
    attile_softmax_init(&args, sizeof args);
    args.flags = rows.flags;
    args.x = over_x ? y.view() : x.view();
    args.y = y.view();
    args.axis = draw.random.chance(0.5) ? rows.axis : rows.axis - y.view().rank;
    perform(draw, ("softmax " + words(rows)).c_str(), args, attile_softmax_query, attile_softmax, {&x, &y});
    return y.values();
}

// Of a sum; the mean's is that over the length.
double sum_bound(const Rows &rows) {
    const auto length = static_cast<double>(rows.length());
    const double u = precision_of(wide(rows.dtype)).unit;
    return 2 * u * (2 * std::sqrt(length) + 8) * length * max_abs(rows.x) / 2;
}

double stored_unit(const Rows &rows) { return 2.5 * precision_of(rows.out_dtype).unit; }

Rows permuted(Draw &draw, const Rows &rows) {
    Rows other = rows;
    other.x = take(rows.x, static_cast<std::size_t>(rows.axis), draw.permutation(rows.length()));
    return other;
}

ATTILE_LAW(ReductionsInAnyOrder) {
    const Rows rows = draw_rows(draw), other = permuted(draw, rows);
    EXPECT_TRUE(
        close(run_reduce(draw, other, ATTILE_REDUCE_SUM), run_reduce(draw, rows, ATTILE_REDUCE_SUM), sum_bound(rows), stored_unit(rows)));
    EXPECT_TRUE(close(run_reduce(draw, other, ATTILE_REDUCE_MAX), run_reduce(draw, rows, ATTILE_REDUCE_MAX), 0));
    EXPECT_TRUE(close(run_reduce(draw, other, ATTILE_REDUCE_MIN), run_reduce(draw, rows, ATTILE_REDUCE_MIN), 0));
}

ATTILE_LAW(TheSmallestIsMinusTheLargestOfMinus) {
    Rows rows = draw_rows(draw);
    const Values smallest = run_reduce(draw, rows, ATTILE_REDUCE_MIN);
    rows.x = times(rows.x, -1);
    EXPECT_TRUE(close(times(run_reduce(draw, rows, ATTILE_REDUCE_MAX), -1), smallest, 0));
}

ATTILE_LAW(TheMeanIsTheSumOverTheNumber) {
    Rows rows = draw_rows(draw);
    if (rows.dtype != ATTILE_F64) rows.out_dtype = ATTILE_F32;
    const auto length = static_cast<double>(rows.length());
    const Values sum = run_reduce(draw, rows, ATTILE_REDUCE_SUM), mean = run_reduce(draw, rows, ATTILE_REDUCE_MEAN);
    EXPECT_TRUE(close(times(mean, length), sum, sum_bound(rows), 2 * stored_unit(rows)));
}

ATTILE_LAW(ASumInTwoParts) {
    Rows rows = draw_rows(draw);
    if (rows.dtype != ATTILE_F64) rows.out_dtype = ATTILE_F32;
    const Values whole = run_reduce(draw, rows, ATTILE_REDUCE_SUM);
    const std::int64_t cut = draw.random.between(0, rows.length());
    const auto axis = static_cast<std::size_t>(rows.axis);
    Rows part = rows;
    part.x = slice(rows.x, axis, 0, cut);
    Values sum = run_reduce(draw, part, ATTILE_REDUCE_SUM);
    part.x = slice(rows.x, axis, cut, rows.length());
    const Values rest = run_reduce(draw, part, ATTILE_REDUCE_SUM);
    for (std::size_t i = 0; i < sum.at.size(); ++i) sum.at[i] += rest.at[i];
    EXPECT_TRUE(close(sum, whole, sum_bound(rows), 2 * stored_unit(rows)));
}

ATTILE_LAW(PowersOfTwoOfSumsAreExact) {
    Rows rows = draw_rows(draw);
    const double factor = draw.random.pick({2.0, 8.0, -4.0});
    const Values before = run_reduce(draw, rows, ATTILE_REDUCE_SUM);
    rows.x = times(rows.x, factor);
    EXPECT_TRUE(close(run_reduce(draw, rows, ATTILE_REDUCE_SUM), times(before, factor), sum_bound(rows), stored_unit(rows)));
}

double softmax_bound(const Rows &rows) {
    const double u = precision_of(wide(rows.dtype)).unit;
    return 2 * u * (4 * std::sqrt(static_cast<double>(rows.length())) + 4 * max_abs(rows.x) + 16);  // of probabilities: relative
}

ATTILE_LAW(SoftmaxInAnyOrder) {
    const Rows rows = draw_rows(draw);
    const std::vector<std::int64_t> order = draw.permutation(rows.length());
    const auto axis = static_cast<std::size_t>(rows.axis);
    Rows other = rows;
    other.x = take(rows.x, axis, order);
    EXPECT_TRUE(close(run_softmax(draw, other), take(run_softmax(draw, rows), axis, order), 2 * precision_of(rows.out_dtype).tiny,
                      softmax_bound(rows) + stored_unit(rows)));
}

ATTILE_LAW(SoftmaxAddsUpToOne) {
    Rows rows = draw_rows(draw);
    if (rows.dtype != ATTILE_F64) rows.out_dtype = ATTILE_F32;
    Rows probabilities = rows;
    probabilities.x = run_softmax(draw, rows);
    for (const double p : probabilities.x.at) ASSERT_TRUE(p >= 0 && p <= 1 + 1e-6) << p;
    probabilities.dtype = rows.out_dtype;
    const Values sums = run_reduce(draw, probabilities, ATTILE_REDUCE_SUM);
    EXPECT_TRUE(close(sums, Values(sums.shape, 1), 2 * softmax_bound(rows)));
}

ATTILE_LAW(AConstantChangesNoSoftmax) {
    Rows rows = draw_rows(draw);
    for (double &x : rows.x.at) x = std::round(x * 8) / 8;  // so that sums are exact
    const Values before = run_softmax(draw, rows);
    for (double &x : rows.x.at) x += 8;
    EXPECT_TRUE(close(run_softmax(draw, rows), before, 2 * precision_of(rows.out_dtype).tiny, softmax_bound(rows) + stored_unit(rows)));
}

ATTILE_LAW(ARepeatedRowHalvesItsSoftmax) {
    const Rows rows = draw_rows(draw);
    const auto axis = static_cast<std::size_t>(rows.axis);
    Rows twice = rows;
    twice.x = join({rows.x, rows.x}, axis);
    const Values before = times(run_softmax(draw, rows), 0.5);
    EXPECT_TRUE(close(run_softmax(draw, twice), join({before, before}, axis), 2 * precision_of(rows.out_dtype).tiny,
                      softmax_bound(rows) + stored_unit(rows)));
}

struct Parts {
    std::int32_t dtype;
    std::vector<Values> o, lse;
};

Parts draw_parts(Draw &draw, std::int64_t least) {
    Parts parts;
    parts.dtype = random_types(draw.random).in;
    const std::int64_t count = draw.random.between(least, least + draw.random.pick<std::int64_t>({1, 3, 12}));
    const std::int64_t heads = draw.random.between(1, 3), rows = draw.extent(100),
                       columns = draw.random.pick<std::int64_t>({1, 5, 64, 130, 300});
    for (std::int64_t p = 0; p < count; ++p) {
        parts.o.push_back(draw.normal(parts.dtype, {draw.random.between(1, 1), heads, rows, columns}));
        parts.lse.push_back(draw.normal(wide(parts.dtype), {1, heads, rows}, 3));
    }
    return parts;
}

struct Merged {
    Values o, lse;
};

Merged run_merge(Draw &draw, const Parts &parts) {
    std::vector<TestTensor> o, lse;
    std::vector<attile_tensor> o_views, lse_views;
    std::vector<TestTensor *> tensors;
    for (std::size_t p = 0; p < parts.o.size(); ++p) {
        o.push_back(draw.input(parts.dtype, parts.o[p]));
        lse.push_back(draw.input(wide(parts.dtype), parts.lse[p]));
        o_views.push_back(o.back().view());
        lse_views.push_back(lse.back().view());
    }
    TestTensor o_whole = draw.output(parts.dtype, parts.o[0].shape), lse_whole = draw.output(wide(parts.dtype), parts.lse[0].shape);
    for (std::size_t p = 0; p < o.size(); ++p) tensors.insert(tensors.end(), {&o[p], &lse[p]});
    tensors.insert(tensors.end(), {&o_whole, &lse_whole});
    attile_attention_merge_args args;
    attile_attention_merge_init(&args, sizeof args);
    args.o_parts = o_views.data();
    args.lse_parts = lse_views.data();
    args.parts = static_cast<std::int64_t>(o_views.size());
    args.o = o_whole.view();
    args.lse = lse_whole.view();
    const std::string what = "attention_merge " + std::string(dtype_name(parts.dtype)) + " " + shape_text(parts.o[0].shape) +
                             " parts=" + std::to_string(o.size());
    perform(draw, what.c_str(), args, attile_attention_merge_query, attile_attention_merge, tensors);
    return {o_whole.values(), lse_whole.values()};
}

testing::AssertionResult same_merge(const Parts &parts, const Merged &got, const Merged &want) {
    const double u = precision_of(wide(parts.dtype)).unit;
    double size = 0, v = 0;
    for (std::size_t p = 0; p < parts.o.size(); ++p) {
        size = std::max(size, max_abs(parts.lse[p]));
        v = std::max(v, max_abs(parts.o[p]));
    }
    const double lse = 2 * u * (16 + 4 * size);
    if (testing::AssertionResult same = close(got.lse, want.lse, lse); !same) return same << " (lse)";
    return close(got.o, want.o, 2 * v * (lse + u * 16) + 2 * precision_of(parts.dtype).unit * v) << " (o)";
}

ATTILE_LAW(PartsInAnyOrder) {
    const Parts parts = draw_parts(draw, 2);
    Parts other = {parts.dtype, {}, {}};
    for (const std::int64_t p : draw.permutation(static_cast<std::int64_t>(parts.o.size()))) {
        other.o.push_back(parts.o[static_cast<std::size_t>(p)]);
        other.lse.push_back(parts.lse[static_cast<std::size_t>(p)]);
    }
    EXPECT_TRUE(same_merge(parts, run_merge(draw, other), run_merge(draw, parts)));
}

ATTILE_LAW(MergingInSteps) {
    const Parts parts = draw_parts(draw, 3);
    const Merged whole = run_merge(draw, parts);
    const auto cut = static_cast<std::ptrdiff_t>(draw.random.between(1, static_cast<std::int64_t>(parts.o.size()) - 1));
    const Merged first =
        run_merge(draw, {parts.dtype, {parts.o.begin(), parts.o.begin() + cut}, {parts.lse.begin(), parts.lse.begin() + cut}});
    const Merged second =
        run_merge(draw, {parts.dtype, {parts.o.begin() + cut, parts.o.end()}, {parts.lse.begin() + cut, parts.lse.end()}});
    EXPECT_TRUE(same_merge(parts, run_merge(draw, {parts.dtype, {first.o, second.o}, {first.lse, second.lse}}), whole));
}

ATTILE_LAW(EmptyPartsChangeNothing) {
    Parts parts = draw_parts(draw, 1);
    const Merged before = run_merge(draw, parts);
    const Parts plain = parts;
    const auto at = static_cast<std::ptrdiff_t>(draw.random.between(0, static_cast<std::int64_t>(parts.o.size())));
    parts.o.insert(parts.o.begin() + at, Values(before.o.shape, kNan));
    parts.lse.insert(parts.lse.begin() + at, Values(before.lse.shape, kHidden));
    EXPECT_TRUE(same_merge(plain, run_merge(draw, parts), before));
}

ATTILE_LAW(APartTwiceAddsItsLogarithm) {
    Parts parts = draw_parts(draw, 1);
    Merged want = run_merge(draw, parts);
    for (std::size_t p = 0, count = parts.o.size(); p < count; ++p) {
        parts.o.push_back(parts.o[p]);
        parts.lse.push_back(parts.lse[p]);
    }
    for (double &x : want.lse.at) x += std::log(2.0);
    EXPECT_TRUE(same_merge(parts, run_merge(draw, parts), want));
}

struct MergeGradients {
    std::vector<Values> o, lse;
};

MergeGradients run_merge_backward(Draw &draw, const Parts &parts, const Merged &merged, std::int32_t gradient_dtype, const Values &dout,
                                  const Values &dlse) {
    std::deque<TestTensor> inputs, outputs;
    std::vector<attile_tensor> o, lse, d_o, d_lse;
    const std::int32_t number = wide(parts.dtype);
    const auto view_in = [&](std::int32_t dtype, const Values &values) { return inputs.emplace_back(draw.input(dtype, values)).view(); };
    const auto view_out = [&](std::int32_t dtype, const Values &like) {
        return outputs.emplace_back(draw.output(dtype, like.shape)).view();
    };
    for (std::size_t p = 0; p < parts.o.size(); ++p) {
        o.push_back(view_in(parts.dtype, parts.o[p]));
        lse.push_back(view_in(number, parts.lse[p]));
        d_o.push_back(view_out(gradient_dtype, dout));
        d_lse.push_back(view_out(number, dlse));
    }
    attile_attention_merge_args forward;
    attile_attention_merge_init(&forward, sizeof forward);
    forward.o_parts = o.data();
    forward.lse_parts = lse.data();
    forward.parts = static_cast<std::int64_t>(o.size());
    forward.o = view_in(parts.dtype, merged.o);
    forward.lse = view_in(number, merged.lse);
    attile_attention_merge_backward_args args;
    attile_attention_merge_backward_init(&args, sizeof args);
    args.forward = &forward;
    args.dout = view_in(parts.dtype, dout);
    args.dlse = view_in(number, dlse);
    args.do_parts = d_o.data();
    args.dlse_parts = d_lse.data();
    std::vector<TestTensor *> tensors;
    for (auto *list : {&inputs, &outputs})
        for (TestTensor &tensor : *list) tensors.push_back(&tensor);
    const std::string what = "attention_merge_backward " + std::string(dtype_name(parts.dtype)) + " " + shape_text(dout.shape) +
                             " parts=" + std::to_string(o.size());
    perform(draw, what.c_str(), args, attile_attention_merge_backward_query, attile_attention_merge_backward, tensors);
    MergeGradients gradients;
    for (std::size_t p = 0; p < o.size(); ++p) {
        gradients.o.push_back(outputs[2 * p].values());
        gradients.lse.push_back(outputs[2 * p + 1].values());
    }
    return gradients;
}

double inner_product(const Values &a, const Values &b) { return std::inner_product(a.at.begin(), a.at.end(), b.at.begin(), 0.0); }

// Shares of the parts add up to 1, and what moves all lse alike moves the whole's.
ATTILE_LAW(MergingGradientsAddUp) {
    const Parts parts = draw_parts(draw, 1);
    const Merged merged = run_merge(draw, parts);
    const std::int32_t number = wide(parts.dtype), gradient = draw.random.chance(0.5) ? parts.dtype : ATTILE_F32;
    const Values dout = draw.normal(parts.dtype, merged.o.shape), dlse = draw.normal(number, merged.lse.shape);
    const MergeGradients got = run_merge_backward(draw, parts, merged, gradient, dout, dlse);
    Values o(merged.o.shape), lse(merged.lse.shape);
    double size = 0, v = 0;
    for (std::size_t p = 0; p < got.o.size(); ++p) {
        std::transform(o.at.begin(), o.at.end(), got.o[p].at.begin(), o.at.begin(), std::plus<>());
        std::transform(lse.at.begin(), lse.at.end(), got.lse[p].at.begin(), lse.at.begin(), std::plus<>());
        size = std::max(size, max_abs(parts.lse[p]));
        v = std::max(v, max_abs(parts.o[p]));
    }
    const double share = 2 * precision_of(number).unit * (16 + 4 * size);  // how far a share may be off
    const Precision stored = precision_of(gradient);
    EXPECT_TRUE(close(o, dout, max_abs(dout) * (share + 2 * stored.unit) + static_cast<double>(got.o.size()) * stored.tiny)) << "(o)";
    const double columns = static_cast<double>(dout.length()) * max_abs(dout) * v;
    EXPECT_TRUE(close(lse, dlse, columns * (8 * share + 2 * precision_of(parts.dtype).unit) + 2 * share * max_abs(dlse))) << "(lse)";
}

// Along a direction drawn at random, in float64.
ATTILE_LAW(MergingGradientsAreDifferences) {
    Parts parts = draw_parts(draw, 1);
    parts.dtype = ATTILE_F64;
    const Merged merged = run_merge(draw, parts);
    const Values dout = draw.normal(ATTILE_F64, merged.o.shape), dlse = draw.normal(ATTILE_F64, merged.lse.shape);
    const MergeGradients got = run_merge_backward(draw, parts, merged, ATTILE_F64, dout, dlse);
    constexpr double kStep = 1e-5;
    Parts ahead = parts, behind = parts;
    double slope = 0, size = 1;
    const auto step = [&](const Values &gradient, Values &forwards, Values &backwards) {
        const Values direction = draw.normal(ATTILE_F64, gradient.shape);
        slope += inner_product(gradient, direction);
        for (std::size_t i = 0; i < direction.at.size(); ++i) {
            forwards.at[i] += kStep * direction.at[i];
            backwards.at[i] -= kStep * direction.at[i];
            size += std::fabs(gradient.at[i] * direction.at[i]);
        }
    };
    for (std::size_t p = 0; p < parts.o.size(); ++p) {
        step(got.o[p], ahead.o[p], behind.o[p]);
        step(got.lse[p], ahead.lse[p], behind.lse[p]);
    }
    const auto value_of = [&](const Parts &at) {
        const Merged there = run_merge(draw, at);
        return inner_product(dout, there.o) + inner_product(dlse, there.lse);
    };
    const double difference = (value_of(ahead) - value_of(behind)) / (2 * kStep);
    EXPECT_NEAR(difference, slope, 1e-6 * size);
}

}  // namespace
}  // namespace attile::test
