// SPDX-License-Identifier: Apache-2.0
// Laws of attention's gradients.
#include <algorithm>

#include "laws_attention.h"

namespace attile::test {
namespace {

struct Pass {
    Attention call;
    AttentionResult forward;
    Values dout;
    GradientBound bound;
};

Pass draw_pass(Draw &draw, const AttentionExtras &extras) {
    Pass pass;
    pass.call = draw_attention(draw, extras);
    pass.forward = run_attention(draw, pass.call);
    pass.dout = draw.normal(pass.call.out_dtype, pass.forward.o.shape);
    pass.bound = bound_of(pass.call, pass.dout);
    return pass;
}

double dot(const Values &a, const Values &b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.at.size(); ++i) sum += a.at[i] * b.at[i];
    return sum;
}

double sum_of(const Values &values) {
    double sum = 0;
    for (const double x : values.at) sum += x;
    return sum;
}

double size_of(const Values &values) { return static_cast<double>(values.at.size()); }

// |a - b| <= bound; NaN fails.
testing::AssertionResult near(double a, double b, double bound) {
    if (std::fabs(a - b) <= bound) return testing::AssertionSuccess();
    return testing::AssertionFailure() << a << " and " << b << " are more than " << bound << " apart";
}

AttentionResult sliced(const AttentionResult &from, std::size_t axis, const std::vector<std::int64_t> &indices) {
    return {take(from.o, axis, indices), take(from.lse, axis, indices)};
}

ATTILE_LAW(GradientsAreLinearInDout) {
    Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .lengths = true});
    const Values other = draw.normal(pass.call.out_dtype, pass.dout.shape);
    Values sum = pass.dout;
    for (std::size_t i = 0; i < sum.at.size(); ++i) {
        sum.at[i] = round_to(pass.call.out_dtype, sum.at[i] + other.at[i]);
        pass.dout.at[i] = round_to(pass.call.out_dtype, sum.at[i] - other.at[i]);
        if (pass.dout.at[i] + other.at[i] != sum.at[i]) sum.at[i] = pass.dout.at[i] = other.at[i] * 0;
    }
    Values rest = other;  // where the three do not add up exactly all are zero
    for (std::size_t i = 0; i < rest.at.size(); ++i)
        if (pass.dout.at[i] + rest.at[i] != sum.at[i]) rest.at[i] = 0;
    Gradients first = run_backward(draw, pass.call, pass.forward, pass.dout);
    const Gradients second = run_backward(draw, pass.call, pass.forward, rest);
    const Gradients both = run_backward(draw, pass.call, pass.forward, sum);
    for (auto [to, from] : {std::pair(&first.dq, &second.dq), std::pair(&first.dk, &second.dk), std::pair(&first.dv, &second.dv),
                            std::pair(&first.dbias, &second.dbias), std::pair(&first.dsinks, &second.dsinks)})
        for (std::size_t i = 0; i < to->at.size(); ++i) to->at[i] += from->at[i];
    GradientBound bound = bound_of(pass.call, sum);
    const GradientBound parts = bound_of(pass.call, pass.dout), others = bound_of(pass.call, rest);
    bound = {bound.dq + parts.dq + others.dq, bound.dk + parts.dk + others.dk, bound.dv + parts.dv + others.dv,
             bound.dbias + parts.dbias + others.dbias, bound.dsinks + parts.dsinks + others.dsinks};
    EXPECT_TRUE(same_gradients(both, first, bound));
}

ATTILE_LAW(GradientsOfKeysInAnyOrder) {
    const Pass pass = draw_pass(draw, {});
    Gradients want = run_backward(draw, pass.call, pass.forward, pass.dout);
    const std::vector<std::int64_t> order = draw.permutation(pass.call.len_k());
    want.dk = take(want.dk, 2, order);
    want.dv = take(want.dv, 2, order);
    if (!want.dbias.shape.empty()) want.dbias = take(want.dbias, 3, order, true);
    EXPECT_TRUE(same_gradients(run_backward(draw, take_keys(pass.call, order), pass.forward, pass.dout), want, pass.bound));
}

ATTILE_LAW(GradientsOfRowsInAnyOrder) {
    const Pass pass = draw_pass(draw, {});
    Gradients want = run_backward(draw, pass.call, pass.forward, pass.dout);
    const std::vector<std::int64_t> order = draw.permutation(pass.call.len_q());
    want.dq = take(want.dq, 2, order);
    if (!want.dbias.shape.empty()) want.dbias = take(want.dbias, 2, order, true);
    EXPECT_TRUE(same_gradients(run_backward(draw, take_rows(pass.call, order), sliced(pass.forward, 2, order), take(pass.dout, 2, order)),
                               want, pass.bound));
}

ATTILE_LAW(GradientsOfBatchEntriesAlone) {
    Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .sinks = false, .lengths = true});
    if (!pass.call.bias.shape.empty()) pass.call.bias = spread(pass.call.bias, pass.call);
    const Gradients want = run_backward(draw, pass.call, pass.forward, pass.dout);
    for (std::int64_t b = 0; b < pass.call.batch(); ++b) {
        const Gradients alone = run_backward(draw, take_batch(pass.call, {b}), sliced(pass.forward, 0, {b}), slice(pass.dout, 0, b, b + 1));
        Gradients part = {slice(want.dq, 0, b, b + 1), slice(want.dk, 0, b, b + 1), slice(want.dv, 0, b, b + 1), {}, {}};
        if (!want.dbias.shape.empty()) part.dbias = slice(want.dbias, 0, b, b + 1);
        EXPECT_TRUE(same_gradients(alone, part, pass.bound)) << "entry " << b;
    }
}

ATTILE_LAW(GradientsOfGroupedHeadsAddUp) {
    Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .lengths = true});
    Gradients grouped = run_backward(draw, pass.call, pass.forward, pass.dout);
    const std::int64_t group = pass.call.heads_q() / pass.call.heads_kv();
    std::vector<std::int64_t> heads;
    for (std::int64_t h = 0; h < pass.call.heads_q(); ++h) heads.push_back(h / group);
    Attention repeated = pass.call;
    repeated.k = take(repeated.k, 1, heads);
    repeated.v = take(repeated.v, 1, heads);
    Gradients apart = run_backward(draw, repeated, pass.forward, pass.dout);
    for (Values *values : {&apart.dk, &apart.dv}) {
        Values sums(std::vector<std::int64_t>{values->shape[0], pass.call.heads_kv(), values->shape[2], values->shape[3]});
        for (std::int64_t b = 0; b < values->shape[0]; ++b)
            for (std::int64_t h = 0; h < values->shape[1]; ++h)
                for (std::int64_t j = 0; j < values->shape[2]; ++j)
                    for (std::int64_t d = 0; d < values->shape[3]; ++d) sums(b, h / group, j, d) += (*values)(b, h, j, d);
        *values = sums;
    }
    EXPECT_TRUE(same_gradients(grouped, apart, pass.bound));
}

ATTILE_LAW(GradientsOfABroadcastBiasAddUp) {
    Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .lengths = true});
    if (pass.call.bias.shape.empty()) pass.call.bias = Values({pass.call.batch(), 1, 1, pass.call.len_k()});
    const Gradients broadcast = run_backward(draw, pass.call, pass.forward, pass.dout);
    Attention full = pass.call;
    full.bias = spread(full.bias, full);
    Gradients want = run_backward(draw, full, pass.forward, pass.dout);
    Values sums(pass.call.bias.shape);
    const auto index = [&](std::size_t axis, std::int64_t i) { return sums.shape[axis] == 1 ? 0 : i; };
    for (std::int64_t b = 0; b < full.batch(); ++b)
        for (std::int64_t h = 0; h < full.heads_q(); ++h)
            for (std::int64_t i = 0; i < full.len_q(); ++i)
                for (std::int64_t j = 0; j < full.len_k(); ++j)
                    sums(index(0, b), index(1, h), index(2, i), index(3, j)) += want.dbias(b, h, i, j);
    want.dbias = sums;
    EXPECT_TRUE(same_gradients(broadcast, want, pass.bound));
}

// A constant on a row's bias changes no result: the gradients along it add up to nothing, with those of the sinks where there are some.
ATTILE_LAW(GradientsOfARowsBiasAddUpToNothing) {
    Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .lengths = true});
    if (pass.call.bias.shape.empty()) pass.call.bias = Values({1, 1, 1, 1});
    pass.call.bias = spread(pass.call.bias, pass.call);
    const Gradients gradients = run_backward(draw, pass.call, pass.forward, pass.dout);
    for (std::int64_t h = 0; h < pass.call.heads_q(); ++h) {
        const double of_bias = sum_of(slice(gradients.dbias, 1, h, h + 1));
        EXPECT_TRUE(near(of_bias, gradients.dsinks.shape.empty() ? 0 : -gradients.dsinks(h), pass.bound.dsinks)) << "head " << h;
    }
}

// Scores are products: q and k have the same share in them. Values come through weights that add up to one.
ATTILE_LAW(GradientsOfBothFactorsAgree) {
    const Pass pass = draw_pass(draw, {.mask = true, .alibi = true, .lengths = true});
    const Gradients gradients = run_backward(draw, pass.call, pass.forward, pass.dout);
    EXPECT_TRUE(near(dot(pass.call.q, gradients.dq), dot(pass.call.k, gradients.dk),
                     size_of(pass.call.q) / static_cast<double>(pass.call.head_dim()) * max_norm(pass.call.q) * pass.bound.dq *
                             std::sqrt(static_cast<double>(pass.call.head_dim())) +
                         std::sqrt(size_of(pass.call.k)) * max_norm(pass.call.k) * pass.bound.dk));
    const AttentionBound forward = bound_of(pass.call);
    EXPECT_TRUE(near(dot(pass.call.v, gradients.dv), dot(pass.forward.o, pass.dout),
                     size_of(pass.dout) * max_abs(pass.dout) * forward.o + size_of(pass.call.v) * max_abs(pass.call.v) * pass.bound.dv));
}

// The central difference along a direction, in float64.
ATTILE_LAW(GradientsAreDifferences) {
    AttentionExtras extras = {.mask = true, .alibi = true, .lengths = true};
    extras.types = false;
    Pass pass;
    pass.call = draw_attention(draw, extras);
    Attention &call = pass.call;
    call.dtype = call.out_dtype = call.bias_dtype = ATTILE_F64;
    pass.forward = run_attention(draw, call);
    pass.dout = draw.normal(ATTILE_F64, pass.forward.o.shape);
    const Gradients gradients = run_backward(draw, call, pass.forward, pass.dout);
    constexpr double kStep = 1e-5;
    Attention ahead = call, behind = call;
    double want = 0;
    const struct {
        Values Attention::*operand;
        const Values &gradient;
    } directions[] = {{&Attention::q, gradients.dq},
                      {&Attention::k, gradients.dk},
                      {&Attention::v, gradients.dv},
                      {&Attention::bias, gradients.dbias},
                      {&Attention::sinks, gradients.dsinks}};
    double size = 0;
    for (const auto &direction : directions) {
        const Values &at = call.*direction.operand;
        if (at.shape.empty()) continue;
        const Values step = draw.normal(ATTILE_F64, at.shape);
        want += dot(step, direction.gradient);
        size += std::sqrt(dot(direction.gradient, direction.gradient) * dot(step, step));
        for (std::size_t i = 0; i < step.at.size(); ++i) {
            (ahead.*direction.operand).at[i] += kStep * step.at[i];
            (behind.*direction.operand).at[i] -= kStep * step.at[i];
        }
    }
    const double difference = (dot(run_attention(draw, ahead).o, pass.dout) - dot(run_attention(draw, behind).o, pass.dout)) / (2 * kStep);
    // What the difference leaves out is of the third order in the step; scores move by this much.
    const double moves =
        kStep * std::fabs(call.factor()) * (max_norm(call.q) + max_norm(call.k)) * std::sqrt(static_cast<double>(call.head_dim())) * 4 +
        8 * kStep;
    EXPECT_TRUE(near(difference, want, (1e-7 + 8 * moves * moves) * (size + 1) * (1 + std::sqrt(size_of(pass.dout)))));
}

}  // namespace
}  // namespace attile::test
