// SPDX-License-Identifier: Apache-2.0
// The checker itself: it must let honest results pass and must see every kind of wrong answer that kernels give.
#include "checker.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention_data.h"
#include "test_element.h"

namespace attile::test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// An attention result of some size in a storage type, right until a test spoils it.
struct Sample {
    explicit Sample(std::int32_t dtype, AttentionCase c = {}) : type(dtype) {
        c.dtype = c.out_dtype = dtype;
        c.len_q = 21;
        c.len_k = 65;
        c.head_dim = c.head_dim_v = 32;
        c.mask = ATTILE_MASK_CAUSAL_BOTTOM_RIGHT;
        honest = honest_attention(AttentionData(c));
        expected = honest[0].exact;
        got = honest[0].second;
        for (double &x : got.at) x = round_to(dtype, x);
    }
    Verdict judge() const { return check_values(got, expected, honest[0], type, type == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32); }
    double &element(std::int64_t row, std::int64_t d) { return got.at[static_cast<std::size_t>(row * got.length() + d)]; }

    std::int32_t type;
    std::vector<Honest> honest;
    Values expected, got;
};

class CheckerTest : public testing::TestWithParam<std::int32_t> {};

TEST_P(CheckerTest, PassesWhatAnHonestComputationMakes) {
    const Sample sample(GetParam());
    const Verdict verdict = sample.judge();
    EXPECT_TRUE(verdict.passed) << verdict.message;
    EXPECT_LE(verdict.worst, 1);
    EXPECT_GT(verdict.worst, 0);
}

TEST_P(CheckerTest, SeesOneElementOff) {
    Sample sample(GetParam());
    const double step = GetParam() == ATTILE_F64 ? 1e-12 : GetParam() == ATTILE_F32 ? 2e-5 : 0.05;
    sample.element(33, 7) += step;
    const Verdict verdict = sample.judge();
    EXPECT_FALSE(verdict.passed);
    EXPECT_NE(verdict.message.find("[0, 1, 12, 7]"), std::string::npos) << verdict.message;
}

TEST_P(CheckerTest, SeesNanWhereANumberBelongs) {
    Sample sample(GetParam());
    sample.element(3, 3) = kNan;
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesANumberWhereNanBelongs) {
    Sample sample(GetParam());
    sample.expected.at[5] = kNan;
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesInfinity) {
    Sample sample(GetParam());
    sample.element(3, 3) = kInfinity;
    EXPECT_FALSE(sample.judge().passed);
    sample.expected.at[static_cast<std::size_t>(3 * sample.got.length() + 3)] = -kInfinity;
    EXPECT_FALSE(sample.judge().passed) << "of the wrong sign";
    sample.element(3, 3) = -kInfinity;
    EXPECT_TRUE(sample.judge().passed) << "where it belongs";
}

TEST_P(CheckerTest, SeesARowNobodyWrote) {
    Sample sample(GetParam());
    for (std::int64_t d = 0; d < sample.got.length(); ++d) sample.element(20, d) = kNan;
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesSwappedRows) {
    Sample sample(GetParam());
    for (std::int64_t d = 0; d < sample.got.length(); ++d) std::swap(sample.element(10, d), sample.element(11, d));
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesAllZeros) {
    Sample sample(GetParam());
    std::fill(sample.got.at.begin(), sample.got.at.end(), 0);
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesAChangedSign) {
    Sample sample(GetParam());
    for (double &x : sample.got.at) x = -x;
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesTheMaskOffByOne) {
    AttentionCase wrong;
    wrong.dtype = wrong.out_dtype = GetParam();
    wrong.len_q = 21;
    wrong.len_k = 65;
    wrong.head_dim = wrong.head_dim_v = 32;
    wrong.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    wrong.window_left = -1;
    wrong.window_right = 1;
    Sample sample(GetParam());
    sample.got = honest_attention(AttentionData(wrong))[0].first;
    EXPECT_FALSE(sample.judge().passed);
}

TEST_P(CheckerTest, SeesAMissingLastKey) {
    Sample sample(GetParam());
    AttentionCase c;
    c.dtype = c.out_dtype = GetParam();
    c.len_q = 21;
    c.len_k = 65;
    c.head_dim = c.head_dim_v = 32;
    c.mask = ATTILE_MASK_WINDOW_BOTTOM_RIGHT;
    c.window_left = -1;
    c.window_right = -1;
    AttentionData data(c);
    data.key_lengths = Values({c.batch}, 64);
    sample.honest = honest_attention(AttentionData(c));
    sample.expected = sample.honest[0].exact;
    sample.got = honest_attention(data)[0].first;
    EXPECT_FALSE(sample.judge().passed);
}

// Half a unit of bf16 is allowed where the flag permits it, and there alone.
TEST(CheckerOfFastOutput, AllowsARoundingOfTheInputsType) {
    for (const std::uint32_t flags : {0u, ATTILE_FLAG_FAST_ACCUMULATION}) {
        AttentionCase c;
        c.dtype = ATTILE_BF16;
        c.out_dtype = ATTILE_F32;
        c.len_q = c.len_k = 1;  // One key has all the weight.
        c.head_dim = c.head_dim_v = 32;
        c.flags = flags;
        const Honest honest = honest_attention(AttentionData(c))[0];
        Values got = honest.exact;
        // What an honest computation is off by is allowed in any case, twice and twice again for chance.
        const double honest_share = std::fabs(honest.second.at[0] / honest.exact.at[0] - 1);
        for (double &x : got.at) x *= 1 + 4 * honest_share + 0x1p-10;
        const bool is_allowed = flags != 0;
        EXPECT_EQ(check_values(got, honest.exact, honest, ATTILE_F32, ATTILE_F32).passed, is_allowed);
        for (double &x : got.at) x *= 1 + 0x1p-5;
        EXPECT_FALSE(check_values(got, honest.exact, honest, ATTILE_F32, ATTILE_F32).passed);
    }
}

TEST_P(CheckerTest, SeesLseInBaseTwo) {
    Sample sample(GetParam());
    const Honest &honest = sample.honest[1];
    Values lse = honest.first;
    EXPECT_TRUE(check_values(lse, honest.exact, honest, ATTILE_F32, ATTILE_F32).passed);
    for (double &x : lse.at) x /= std::log(2.0);
    EXPECT_FALSE(check_values(lse, honest.exact, honest, ATTILE_F32, ATTILE_F32).passed);
}

TEST_P(CheckerTest, SeesAResultOfAnotherShape) {
    Sample sample(GetParam());
    std::swap(sample.got.shape[1], sample.got.shape[2]);
    EXPECT_FALSE(sample.judge().passed);
}

INSTANTIATE_TEST_SUITE_P(Types, CheckerTest, testing::Values(ATTILE_F32, ATTILE_F64, ATTILE_F16, ATTILE_BF16),
                         [](const auto &type) { return dtype_name(type.param); });

// A result in f32 that was computed with f16 sums must not pass for f32.
TEST(Checker, SeesSumsOfLowPrecision) {
    Sample sample(ATTILE_F32);
    for (double &x : sample.got.at) x = round_to(ATTILE_F16, x);
    EXPECT_FALSE(sample.judge().passed);
    for (double &x : sample.got.at) x = round_to(ATTILE_BF16, x);
    EXPECT_FALSE(sample.judge().passed);
}

TEST(Checker, LetsStorageOverflowOnlyNextToItsLimit) {
    const Values got({1}, kInfinity);
    for (const double exact : {65519.99, 65000.0}) {
        const Values expected({1}, exact);
        const Honest honest = {expected, expected, expected, expected};
        EXPECT_EQ(check_values(got, expected, honest, ATTILE_F16, ATTILE_F32).passed, exact > 65500);
    }
}

TEST(Checker, AsksForExactResultsWhereNothingRounds) {
    const Values expected({2}, 3);
    const Honest honest = {expected, expected, expected, Values({2})};
    EXPECT_TRUE(check_values(expected, expected, honest, ATTILE_F64, ATTILE_F64).passed);
    Values got = expected;
    got.at[1] = std::nextafter(got.at[1], 4.0) + 1e-15;
    EXPECT_FALSE(check_values(got, expected, honest, ATTILE_F64, ATTILE_F64).passed);
}

TEST(Element, EveryHalfComesBack) {
    for (const std::int32_t type : {ATTILE_F16, ATTILE_BF16})
        for (unsigned bits = 0; bits < 65536; ++bits) {
            std::uint16_t stored[4] = {static_cast<std::uint16_t>(bits)}, back[4] = {};  // room for the largest type
            const double x = decode(type, stored);
            if (std::isnan(x)) continue;
            encode(type, x, back);
            ASSERT_EQ(back[0], stored[0]) << dtype_name(type);
            ASSERT_EQ(round_to(type, x), x);
        }
}

TEST(Element, CutsOffTowardsZero) {
    for (const double sign : {1.0, -1.0}) {
        EXPECT_EQ(cut_to_f32(sign * (1 + 0x1.fffffp-24)), sign);
        EXPECT_EQ(cut_to_f32(sign * (1 + 0x1p-23 + 0x1p-24)), sign * (1 + 0x1p-23));
        EXPECT_EQ(cut_to_f32(sign * kInfinity), sign * kInfinity);
    }
    EXPECT_TRUE(std::isnan(cut_to_f32(kNan)));
}

TEST(Element, RoundsTiesToEvenAndOnce) {
    EXPECT_EQ(round_to(ATTILE_F16, 1 + 0x1p-11), 1);
    EXPECT_EQ(round_to(ATTILE_F16, 1 + 0x1p-11 + 0x1p-40), 1 + 0x1p-10);
    EXPECT_EQ(round_to(ATTILE_BF16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
    EXPECT_EQ(round_to(ATTILE_F16, 65520), kInfinity);
    EXPECT_EQ(round_to(ATTILE_F16, 65519.9), 65504);
    EXPECT_EQ(round_to(ATTILE_F16, 0x1p-25), 0);
    EXPECT_EQ(round_to(ATTILE_F16, 0x1.1p-25), 0x1p-24);
}

}  // namespace
}  // namespace attile::test
