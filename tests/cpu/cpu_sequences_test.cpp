// SPDX-License-Identifier: Apache-2.0
// Packed sequences with offsets that decrease, and longer than max_len says: the same bits for any number of threads, and what the
// reference has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu_contexts.h"

namespace attile::test {
namespace {

std::vector<float> numbers(int64_t count, uint64_t state) {
    std::vector<float> x(static_cast<size_t>(count));
    for (float &value : x) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        value = static_cast<float>(static_cast<double>(state >> 11) * 0x1p-53 * 2 - 1);
    }
    return x;
}

attile_tensor tensor(void *data, int32_t dtype, std::vector<int64_t> shape) {
    attile_tensor t;
    EXPECT_EQ(attile_tensor_init(&t, data, dtype, static_cast<int32_t>(shape.size()), shape.data()), ATTILE_OK);
    return t;
}

struct Problem {
    std::vector<int32_t> cu_q, cu_k;
    int64_t max_q = 0, max_k = 0;
    int32_t mask = ATTILE_MASK_NONE;
};

// o, lse and, if asked for, the gradients.
std::vector<float> results(attile_context *context, Problem problem, const std::vector<float> *forward) {
    constexpr int64_t kHeads = 4, kRows = 160, kD = 32;
    std::vector<float> q = numbers(kHeads * kRows * kD, 1), k = numbers(kHeads * kRows * kD, 2), v = numbers(kHeads * kRows * kD, 3);
    std::vector<float> o(q.size(), 0), lse(static_cast<size_t>(kHeads * kRows), 0);
    const std::vector<int64_t> shape = {1, kHeads, kRows, kD};
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = tensor(q.data(), ATTILE_F32, shape);
    args.k = tensor(k.data(), ATTILE_F32, shape);
    args.v = tensor(v.data(), ATTILE_F32, shape);
    args.o = tensor(o.data(), ATTILE_F32, shape);
    args.lse = tensor(lse.data(), ATTILE_F32, {1, kHeads, kRows});
    args.mask = problem.mask;
    args.cu_len_q = tensor(problem.cu_q.data(), ATTILE_I32, {static_cast<int64_t>(problem.cu_q.size())});
    args.cu_len_k = tensor(problem.cu_k.data(), ATTILE_I32, {static_cast<int64_t>(problem.cu_k.size())});
    args.max_len_q = problem.max_q;
    args.max_len_k = problem.max_k;
    if (forward == nullptr) {
        EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
        o.insert(o.end(), lse.begin(), lse.end());
        return o;
    }
    std::copy_n(forward->begin(), o.size(), o.begin());
    std::copy_n(forward->begin() + static_cast<std::ptrdiff_t>(o.size()), lse.size(), lse.begin());
    std::vector<float> dout = numbers(kHeads * kRows * kD, 4), gradients(3 * q.size(), NAN);
    attile_attention_backward_args backward;
    attile_attention_backward_init(&backward, sizeof backward);
    backward.forward = &args;
    backward.dout = tensor(dout.data(), ATTILE_F32, shape);
    backward.dq = tensor(gradients.data(), ATTILE_F32, shape);
    backward.dk = tensor(gradients.data() + q.size(), ATTILE_F32, shape);
    backward.dv = tensor(gradients.data() + 2 * q.size(), ATTILE_F32, shape);
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_OK) << last_error();
    return gradients;
}

CpuContext open_reference() {
    attile_context_options options;
    attile_context_options_init(&options, sizeof options);
    options.backend = "reference";
    attile_context *context = nullptr;
    EXPECT_EQ(attile_context_create(&options, &context), ATTILE_OK) << last_error();
    return CpuContext(context);
}

void expect_like_the_reference(const Problem &problem) {
    const CpuContext reference = open_reference();
    const std::vector<float> forward = results(reference.get(), problem, nullptr);
    const std::vector<float> gradients = results(reference.get(), problem, &forward);
    std::vector<float> first, first_gradients;
    for (const int threads : {1, 2, 3, 4, 7}) {
        SCOPED_TRACE(threads);
        const CpuContext context = open_cpu("", threads);
        for (int again = 0; again < 5; ++again) {
            const std::vector<float> got = results(context.get(), problem, nullptr);
            const std::vector<float> got_gradients = results(context.get(), problem, &forward);
            if (first.empty()) {
                first = got;
                first_gradients = got_gradients;
                for (size_t i = 0; i < got.size(); ++i) {
                    ASSERT_TRUE(got[i] == forward[i] || std::fabs(got[i] - forward[i]) < 1e-4f) << i << ": " << got[i];
                }
                for (size_t i = 0; i < gradients.size(); ++i) {
                    // Pairs of one sequence with the lse of another may be beyond all numbers, in both.
                    if (!std::isfinite(gradients[i]) || std::fabs(gradients[i]) > 1e3f) continue;
                    ASSERT_NEAR(got_gradients[i], gradients[i], 1e-3f) << i;
                }
            }
            EXPECT_EQ(std::memcmp(got.data(), first.data(), got.size() * sizeof(float)), 0);
            EXPECT_EQ(std::memcmp(got_gradients.data(), first_gradients.data(), got_gradients.size() * sizeof(float)), 0);
        }
    }
}

TEST(CpuSequences, OffsetsThatDecreaseGiveTheSameForAnyNumberOfThreads) {
    expect_like_the_reference({{10, 150, 20, 120, 3, 90}, {0, 100, 40, 160, 10, 80}, 0, 0, ATTILE_MASK_NONE});
    expect_like_the_reference({{0, 160, 0, 160, 0, 160, 0, 160}, {0, 50, 60, 100, 60, 160, 30, 70}, 0, 0, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT});
}

TEST(CpuSequences, LongerOnesThanMaxLenEndThere) {
    for (const int32_t mask : {ATTILE_MASK_NONE, ATTILE_MASK_CAUSAL_TOP_LEFT, ATTILE_MASK_CAUSAL_BOTTOM_RIGHT}) {
        expect_like_the_reference({{0, 60, 100, 160}, {0, 20, 90, 160}, 40, 50, mask});
        expect_like_the_reference({{0, 60, 100, 160}, {0, 20, 90, 160}, 7, 64, mask});
    }
}

}  // namespace
}  // namespace attile::test
