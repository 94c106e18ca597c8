// SPDX-License-Identifier: Apache-2.0
// Gradients of attention where they are known: keys of 0, so that all weights are alike, and values 0 and 1 in turn.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "cpu_contexts.h"
#include "element.h"

namespace attile::test {
namespace {

constexpr int64_t kRows = 64, kKeys = 32, kWidth = 40;

std::vector<uint16_t> all(int64_t rows, float value) {
    return std::vector<uint16_t>(static_cast<size_t>(rows * kWidth), cpu::float_to_brain(value));
}
float widened(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

struct Gradients {
    std::string kernel;
    std::vector<uint16_t> dq, dk, dv;
};

Gradients gradients(attile_context *context, std::vector<uint16_t> q, std::vector<uint16_t> v, std::vector<uint16_t> dout) {
    std::vector<uint16_t> k = all(kKeys, 0), o = all(kRows, NAN);
    std::vector<float> lse(kRows, NAN);
    Gradients result{"", all(kRows, NAN), all(kKeys, NAN), all(kKeys, NAN)};
    const auto tensor = [](std::vector<uint16_t> &x) {
        attile_tensor made;
        const int64_t shape[4] = {1, 1, static_cast<int64_t>(x.size()) / kWidth, kWidth};
        EXPECT_EQ(attile_tensor_init(&made, x.data(), ATTILE_BF16, 4, shape), ATTILE_OK) << last_error();
        return made;
    };
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.scale = 1;
    args.q = tensor(q), args.k = tensor(k), args.v = tensor(v), args.o = tensor(o);
    const int64_t rows[3] = {1, 1, kRows};
    EXPECT_EQ(attile_tensor_init(&args.lse, lse.data(), ATTILE_F32, 3, rows), ATTILE_OK) << last_error();
    EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    attile_attention_backward_args backward;
    attile_attention_backward_init(&backward, sizeof backward);
    backward.forward = &args;
    backward.dout = tensor(dout), backward.dq = tensor(result.dq), backward.dk = tensor(result.dk), backward.dv = tensor(result.dv);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_attention_backward_query(context, &backward, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_OK) << last_error();
    result.kernel = support.kernel;
    return result;
}

std::vector<uint16_t> first_column(int64_t rows, float even, float odd) {
    std::vector<uint16_t> x = all(rows, 0);
    for (int64_t i = 0; i < rows; ++i) x[static_cast<size_t>(i * kWidth)] = cpu::float_to_brain(i % 2 == 0 ? even : odd);
    return x;
}

// dv is the sum of dout over rows, divided by the number of keys; dk is a gradient of scores, 1/64 or -1/64, times the sum of q.
void expect_gradients(float query, float dout) {
    for (const std::string &target : targets_here()) {
        SCOPED_TRACE(target + ", queries of " + std::to_string(std::log2(query)) + ", dout of " + std::to_string(std::log2(dout)));
        const CpuContext context = open_cpu(target, 1);
        const Gradients got = gradients(context.get(), all(kRows, query), first_column(kKeys, 0, 1), first_column(kRows, dout, dout));
        EXPECT_NE(got.kernel.find(target == "amxbf16" ? "bf16_AMX-BF16" : "f32"), std::string::npos) << got.kernel;
        for (int64_t j = 0; j < kKeys; ++j) {
            const float slope = (j % 2 == 0 ? -1.0f : 1.0f) / 64 * dout;
            for (int64_t c = 0; c < kWidth; ++c) {
                const size_t at = static_cast<size_t>(j * kWidth + c);
                ASSERT_EQ(widened(got.dk[at]), kRows * slope * query) << "dk of key " << j << ", " << c;
                ASSERT_EQ(widened(got.dv[at]), c == 0 ? kRows * dout / kKeys : 0) << "dv of key " << j << ", " << c;
            }
        }
        for (const uint16_t x : got.dq) ASSERT_EQ(widened(x), 0);
    }
}

TEST(CpuGradients, AreThoseOfEqualWeights) { expect_gradients(0.5f, 1); }
TEST(CpuGradients, KeepQueriesBelowTheNormalRange) { expect_gradients(0x1p-130f, 1); }
TEST(CpuGradients, KeepGradientsOfOutputsBelowTheNormalRange) { expect_gradients(0x1p+64f, 0x1p-130f); }

// Queries that are no numbers reach the keys that their rows see, dv of no key, and no other row.
TEST(CpuGradients, NumbersBesideNoNumbersStay) {
    for (const std::string &target : targets_here()) {
        SCOPED_TRACE(target);
        const CpuContext context = open_cpu(target, 1);
        std::vector<uint16_t> dout = first_column(kRows, 1, 1);
        dout[5 * kWidth] = cpu::float_to_brain(INFINITY);
        const Gradients got = gradients(context.get(), all(kRows, 0.5f), first_column(kKeys, 0, 1), dout);
        for (int64_t i = 0; i < kRows; ++i) {
            for (int64_t c = 0; c < kWidth; ++c) {
                const float x = widened(got.dq[static_cast<size_t>(i * kWidth + c)]);
                ASSERT_EQ(std::isnan(x), i == 5) << "dq of row " << i << ", " << c << ": " << x;
            }
        }
        for (int64_t j = 0; j < kKeys; ++j) {
            ASSERT_TRUE(std::isinf(widened(got.dv[static_cast<size_t>(j * kWidth)]))) << "dv of key " << j;
        }
    }
}

}  // namespace
}  // namespace attile::test
