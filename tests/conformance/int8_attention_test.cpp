// SPDX-License-Identifier: Apache-2.0
// Attention of q, k and v of int8 with FAST_ACCUMULATION: every backend within the bound that the page on numerics gives, where the weights
// of up to 64 neighbouring keys may be rounded to steps of 1/255 of their largest, or of 1/127 with scales of values that differ.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "properties.h"
#include "test_element.h"
#include "test_random.h"
#include "test_tensor.h"

namespace attile::test {
namespace {

constexpr std::int64_t kStepKeys = 64;

struct Int8Problem {
    std::int64_t rows, keys, width;
    double scale;
    std::function<int(std::int64_t key, std::int64_t column, Random &random)> key;  // Numbers of K.
    std::function<int(std::int64_t key, std::int64_t column, Random &random)> value;
    std::function<double(std::int64_t key, Random &random)> value_scale = nullptr;
};

int any_number(std::int64_t, std::int64_t, Random &random) { return static_cast<int>(random.between(-128, 127)); }

void expect_within_bound(attile_context *context, const Int8Problem &c, std::uint32_t flags) {
    Random random(17);
    Values q({1, 1, c.rows, c.width}), k({1, 1, c.keys, c.width}), v({1, 1, c.keys, c.width});
    for (double &x : q.at) x = any_number(0, 0, random);
    for (std::int64_t j = 0; j < c.keys; ++j)
        for (std::int64_t d = 0; d < c.width; ++d) {
            k(0, 0, j, d) = c.key(j, d, random);
            v(0, 0, j, d) = c.value(j, d, random);
        }
    Values v_scale({1, 1, c.keys, 1});
    for (std::int64_t j = 0; j < c.keys; ++j) v_scale(0, 0, j, 0) = c.value_scale ? round_to(ATTILE_F32, c.value_scale(j, random)) : 1;
    for (std::int64_t i = 0; i < c.rows; ++i) q(0, 0, i, 0) = 127;  // Of the column that a key can make huge.
    TestTensor q_tensor(context, Placement::kDevice, ATTILE_I8, q), k_tensor(context, Placement::kDevice, ATTILE_I8, k),
        v_tensor(context, Placement::kDevice, ATTILE_I8, v), scale_tensor;
    if (c.value_scale) scale_tensor = TestTensor(context, Placement::kDevice, ATTILE_F32, v_scale);
    TestTensor o = TestTensor::output(context, Placement::kDevice, ATTILE_F32, {1, 1, c.rows, c.width});
    TestTensor lse = TestTensor::output(context, Placement::kDevice, ATTILE_F32, {1, 1, c.rows});
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = q_tensor.view();
    args.k = k_tensor.view();
    args.v = v_tensor.view();
    if (c.value_scale) args.v_scale = scale_tensor.view();
    args.o = o.view();
    args.lse = lse.view();
    args.scale = c.scale;
    args.flags = flags;
    ASSERT_TRUE(succeeded(attile_attention(context, &args)));
    o.fetch();
    lse.fetch();
    ASSERT_EQ(o.damage() + lse.damage(), "");
    const Values found = o.values(), found_lse = lse.values();
    for (std::int64_t i = 0; i < c.rows; ++i) {
        std::vector<double> score(static_cast<std::size_t>(c.keys), 0.0);
        for (std::int64_t j = 0; j < c.keys; ++j) {
            for (std::int64_t d = 0; d < c.width; ++d) score[static_cast<std::size_t>(j)] += q(0, 0, i, d) * k(0, 0, j, d);
            score[static_cast<std::size_t>(j)] *= c.scale;
        }
        const double top = *std::max_element(score.begin(), score.end());
        double sum = 0;
        for (const double s : score) sum += std::exp(s - top);
        const double expected_lse = top + std::log(sum);
        ASSERT_TRUE(std::fabs(found_lse(0, 0, i) - expected_lse) <= 1e-5 * (1 + std::fabs(top))) << "lse of row " << i;
        for (std::int64_t d = 0; d < c.width; ++d) {
            double expected = 0, magnitude = 0, bound = 0;
            for (std::int64_t first = 0; first < c.keys; first += kStepKeys) {
                double largest = 0, values = 0;
                for (std::int64_t j = first; j < std::min(first + kStepKeys, c.keys); ++j) {
                    const double weight = std::exp(score[static_cast<std::size_t>(j)] - top) / sum * std::fabs(v_scale(0, 0, j, 0));
                    const double x = std::copysign(v(0, 0, j, d), v(0, 0, j, d) * v_scale(0, 0, j, 0));
                    expected += weight * x;
                    magnitude += weight * std::fabs(x);
                    values += std::fabs(x);
                    largest = std::max(largest, weight);
                }
                if ((flags & ATTILE_FLAG_FAST_ACCUMULATION) != 0) bound += largest / (c.value_scale ? 254 : 510) * values;
            }
            bound += 1e-5 * (1 + std::fabs(top)) * magnitude + 1e-6;
            ASSERT_TRUE(std::fabs(found(0, 0, i, d) - expected) <= bound)
                << "row " << i << ", column " << d << " is " << found(0, 0, i, d) << ", expected " << expected << " within " << bound;
        }
    }
}

using Int8Attention = PropertyTest;

TEST_F(Int8Attention, RandomNumbers) {
    on_every_backend([](attile_context *context) {
        for (const std::int64_t width : {64, 128})
            for (const std::uint32_t flags : {0u, ATTILE_FLAG_FAST_ACCUMULATION}) {
                expect_within_bound(context, {40, 333, width, 1e-4, any_number, any_number}, flags);
                expect_within_bound(context, {130, 200, width, 1e-3, any_number, any_number}, flags);  // Few keys have a part in a row.
            }
    });
}

// Scales of values that differ from key to key, of both signs, some of them 0.
TEST_F(Int8Attention, ScalesOfValues) {
    on_every_backend([](attile_context *context) {
        const auto scale = [](std::int64_t j, Random &random) { return j % 7 == 3 ? 0.0 : random.normal(); };
        for (const std::int64_t width : {64, 128})
            for (const std::uint32_t flags : {0u, ATTILE_FLAG_FAST_ACCUMULATION}) {
                expect_within_bound(context, {40, 333, width, 1e-4, any_number, any_number, scale}, flags);
                expect_within_bound(context, {130, 200, width, 1e-3, any_number, any_number, scale}, flags);
            }
    });
}

// A scale that is NaN, of a key whose weight may be too small for a float: rows that see it are NaN, others do not notice. lse is a matter
// of queries and keys alone.
TEST_F(Int8Attention, ScalesThatAreNaN) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kRows = 140, kKeys = 200, kWild = 120, kWidth = 64;
        const double nan = std::nan("");
        for (const std::uint32_t flags : {0u, ATTILE_FLAG_FAST_ACCUMULATION})
            for (const bool of_values : {true, false})
                for (const int number : {0, -127}) {
                    Values q({1, 1, kRows, kWidth}, 1), k({1, 1, kKeys, kWidth}, 1), v({1, 1, kKeys, kWidth}, 1);
                    Values scale({1, 1, kKeys, 1}, 1), ones({1, 1, kKeys, 1}, 1);
                    for (std::int64_t d = 0; d < kWidth; ++d) k(0, 0, kWild, d) = number;
                    scale(0, 0, kWild, 0) = nan;
                    TestTensor q_tensor(context, Placement::kDevice, ATTILE_I8, q), k_tensor(context, Placement::kDevice, ATTILE_I8, k),
                        v_tensor(context, Placement::kDevice, ATTILE_I8, v), wild(context, Placement::kDevice, ATTILE_F32, scale),
                        tame(context, Placement::kDevice, ATTILE_F32, ones);
                    TestTensor o = TestTensor::output(context, Placement::kDevice, ATTILE_F32, {1, 1, kRows, kWidth});
                    TestTensor lse = TestTensor::output(context, Placement::kDevice, ATTILE_F32, {1, 1, kRows});
                    attile_attention_args args;
                    attile_attention_init(&args, sizeof args);
                    args.q = q_tensor.view();
                    args.k = k_tensor.view();
                    args.v = v_tensor.view();
                    args.k_scale = (of_values ? tame : wild).view();
                    args.v_scale = (of_values ? wild : tame).view();
                    args.o = o.view();
                    args.lse = lse.view();
                    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
                    args.scale = 0.1;
                    args.flags = flags;
                    ASSERT_TRUE(succeeded(attile_attention(context, &args)));
                    o.fetch();
                    lse.fetch();
                    const Values found = o.values(), found_lse = lse.values();
                    for (std::int64_t i = 0; i < kRows; ++i) {
                        EXPECT_EQ(std::isnan(found_lse(0, 0, i)), i >= kWild && !of_values) << "lse of row " << i;
                        for (std::int64_t d = 0; d < kWidth; ++d)
                            ASSERT_EQ(std::isnan(found(0, 0, i, d)), i >= kWild)
                                << "row " << i << ", column " << d << (of_values ? ", of values, " : ", of keys, ") << number;
                    }
                }
    });
}

// Numbers at the ends of their range: no sum overflows.
TEST_F(Int8Attention, LargestSums) {
    on_every_backend([](attile_context *context) {
        for (const std::int64_t width : {64, 128})
            for (const int sign : {1, -1})
                for (const std::uint32_t flags : {0u, ATTILE_FLAG_FAST_ACCUMULATION}) {
                    const auto extreme = [sign](std::int64_t, std::int64_t, Random &) { return sign > 0 ? 127 : -128; };
                    expect_within_bound(context, {20, 300, width, 1e-5, extreme, extreme}, flags);
                }
    });
}

// An attention sink: one key's weight is 665 times any other's, and the others' together are more than it. Were weights rounded to steps
// of the row's largest, whichever order keys come in, all others' would be lost when the sink comes first, and those before it when it
// comes last.
TEST_F(Int8Attention, SinksDoNotHideOtherKeys) {
    on_every_backend([](attile_context *context) {
        constexpr std::int64_t kKeys = 2048;
        for (const std::int64_t width : {64, 128})
            for (const bool is_last : {false, true}) {
                const std::int64_t sink = is_last ? kKeys - 1 : 0;
                const auto key = [sink](std::int64_t j, std::int64_t d, Random &) { return j == sink && d == 0 ? 127 : 0; };
                // The sink has no value, the other keys have one: the result is the share of their weights.
                const auto value = [sink](std::int64_t j, std::int64_t, Random &) { return j == sink ? 0 : 100; };
                // exp(6.5) is 665: more than 510, below which nothing of a step is left.
                expect_within_bound(context, {20, kKeys, width, 6.5 / (127 * 127), key, value}, ATTILE_FLAG_FAST_ACCUMULATION);
            }
    });
}

}  // namespace
}  // namespace attile::test
