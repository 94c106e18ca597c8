// SPDX-License-Identifier: Apache-2.0
// AMX's permission: asked when a plan first wants tiles, refused beside a small signal stack, forbidden by ATTILE_CPU_AMX. It is the
// process's for good, so each test is a child of one that never asks.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <functional>

#include "cpu_contexts.h"

namespace attile::test {
namespace {

constexpr int kSkipped = 77;

// EXPECT in a child prints and counts there.
void in_child(const std::function<void()> &body) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
        const bool here = open_cpu("amxbf16", 1) != nullptr;
        if (here) body();
        std::fflush(stdout);
        _exit(!here ? kSkipped : testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
    if (WEXITSTATUS(status) == kSkipped) GTEST_SKIP() << "which is not what this processor can run";
    EXPECT_EQ(WEXITSTATUS(status), 0);
}

bool tiles_are_granted() {
#if defined(SYS_arch_prctl)
    constexpr long kAsk = 0x1022;  // ARCH_GET_XCOMP_PERM
    uint64_t features = 0;
    return syscall(SYS_arch_prctl, kAsk, &features) == 0 && (features >> 18 & 1) != 0;
#else
    return false;
#endif
}

struct Answer {
    std::string kernel, text;
    std::vector<uint16_t> result;
};

std::vector<uint16_t> numbers(int64_t count) {
    std::vector<uint16_t> result;
    uint32_t state = 1;
    for (int64_t i = 0; i < count; ++i) {
        state = state * 1664525u + 1013904223u;
        result.push_back(static_cast<uint16_t>((state >> 16 & 0x8000) | (124 + (state >> 28 & 3)) << 7 | (state >> 8 & 0x7f)));
    }
    return result;
}

Answer product(attile_context *context) {
    constexpr int64_t m = 50, n = 70, k = 130;
    std::vector<uint16_t> a = numbers(m * k), b = numbers(k * n);
    Answer answer{"", "", std::vector<uint16_t>(m * n, 0x7fc0)};
    attile_gemm_args args;
    attile_gemm_init(&args, sizeof args);
    const int64_t left[2] = {m, k}, right[2] = {k, n}, whole[2] = {m, n};
    EXPECT_EQ(attile_tensor_init(&args.a, a.data(), ATTILE_BF16, 2, left), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&args.b, b.data(), ATTILE_BF16, 2, right), ATTILE_OK);
    EXPECT_EQ(attile_tensor_init(&args.d, answer.result.data(), ATTILE_BF16, 2, whole), ATTILE_OK);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
    answer.kernel = support.kernel;
    answer.text = support.text;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
    return answer;
}

// The call, and what describes it, of one size: attention, or its gradients from what it gives.
Answer attention_or_gradients(attile_context *context, bool gradients) {
    const int64_t shape[4] = {1, 2, 70, 48}, rows[3] = {1, 2, 70};
    std::vector<uint16_t> q = numbers(2 * 70 * 48), k = numbers(2 * 70 * 48), v = numbers(2 * 70 * 48);
    std::vector<uint16_t> o(q.size(), 0x7fc0), dq = o, dk = o, dv = o;
    std::vector<float> lse(2 * 70, NAN);
    const auto tensor = [&](std::vector<uint16_t> &x) {
        attile_tensor result;
        EXPECT_EQ(attile_tensor_init(&result, x.data(), ATTILE_BF16, 4, shape), ATTILE_OK);
        return result;
    };
    attile_attention_args args;
    attile_attention_init(&args, sizeof args);
    args.q = tensor(q), args.k = tensor(k), args.v = tensor(v), args.o = tensor(o);
    if (gradients) {
        EXPECT_EQ(attile_tensor_init(&args.lse, lse.data(), ATTILE_F32, 3, rows), ATTILE_OK);
    }
    attile_support support;
    attile_support_init(&support, sizeof support);
    attile_attention_backward_args backward;
    attile_attention_backward_init(&backward, sizeof backward);
    backward.forward = &args;
    backward.dout = tensor(q), backward.dq = tensor(dq), backward.dk = tensor(dk), backward.dv = tensor(dv);
    EXPECT_EQ(gradients ? attile_attention_backward_query(context, &backward, &support) : attile_attention_query(context, &args, &support),
              ATTILE_OK)
        << last_error();
    EXPECT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error();
    if (!gradients) return {support.kernel, support.text, o};
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_OK) << last_error();
    dq.insert(dq.end(), dk.begin(), dk.end());
    dq.insert(dq.end(), dv.begin(), dv.end());
    return {support.kernel, support.text, dq};
}
Answer attention(attile_context *context) { return attention_or_gradients(context, false); }
Answer gradients(attile_context *context) { return attention_or_gradients(context, true); }

bool names(const Answer &answer, const char *target) { return answer.kernel.find(std::string("_") + target) != std::string::npos; }

TEST(CpuAmx, PermissionIsAskedWhenAPlanFirstWantsTiles) {
    in_child([] {
        const CpuContext context = open_cpu("", 2), pairs = open_cpu("avx512bf16", 2);
        EXPECT_TRUE(names(product(pairs.get()), "AVX-512-BF16"));
        EXPECT_TRUE(names(attention(pairs.get()), "AVX-512-BF16"));
        EXPECT_TRUE(names(gradients(pairs.get()), "f32_AVX-512"));
        EXPECT_FALSE(tiles_are_granted());
        for (const Answer &answer : {gradients(context.get()), product(context.get()), attention(context.get())}) {
            EXPECT_TRUE(names(answer, "AMX-BF16")) << answer.kernel;
            EXPECT_EQ(answer.text, "");
        }
        EXPECT_TRUE(tiles_are_granted());
    });
}

TEST(CpuAmx, ASmallSignalStackLeavesPairs) {
    in_child([] {
        // More than a frame without tiles needs, less than one with them.
        constexpr size_t kSmall = 8192;
        std::vector<char> memory(kSmall);
        stack_t stack{};
        stack.ss_sp = memory.data();
        stack.ss_size = kSmall;
        EXPECT_EQ(sigaltstack(&stack, nullptr), 0);
        const CpuContext context = open_cpu("amxbf16", 2), pairs = open_cpu("avx512bf16", 2);
        const auto expect_pairs = [&] {
            const Answer mine[] = {product(context.get()), attention(context.get())};
            const Answer its[] = {product(pairs.get()), attention(pairs.get())};
            for (int i = 0; i < 2; ++i) {
                EXPECT_TRUE(names(mine[i], "AVX-512-BF16")) << mine[i].kernel;
                EXPECT_NE(mine[i].text.find("signal stack"), std::string::npos) << mine[i].text;
                EXPECT_TRUE(mine[i].result == its[i].result);
            }
            const Answer mine_too = gradients(context.get());
            EXPECT_TRUE(names(mine_too, "f32_AVX-512")) << mine_too.kernel;
            EXPECT_NE(mine_too.text.find("signal stack"), std::string::npos) << mine_too.text;
            EXPECT_TRUE(mine_too.result == gradients(pairs.get()).result);
            EXPECT_FALSE(tiles_are_granted());
        };
        expect_pairs();
        // The answer stays, so that queries and runs agree.
        stack.ss_flags = SS_DISABLE;
        EXPECT_EQ(sigaltstack(&stack, nullptr), 0);
        expect_pairs();
    });
}

TEST(CpuAmx, TheVariableForbidsIt) {
    in_child([] {
        setenv("ATTILE_CPU_AMX", "0", 1);
        const CpuContext context = open_cpu("", 2);
        EXPECT_TRUE(names(product(context.get()), "AVX-512-BF16"));
        EXPECT_TRUE(names(attention(context.get()), "AVX-512-BF16"));
        EXPECT_FALSE(tiles_are_granted());
        std::string why;
        EXPECT_EQ(open_cpu("amxbf16", 1, &why), nullptr);
        EXPECT_NE(why.find("which is forbidden by ATTILE_CPU_AMX"), std::string::npos) << why;
        unsetenv("ATTILE_CPU_AMX");
        EXPECT_TRUE(names(product(open_cpu("", 1).get()), "AMX-BF16"));
    });
}

TEST(CpuAmx, AChildOfForkKeepsTheLeave) {
    in_child([] {
        const CpuContext context = open_cpu("amxbf16", 1);
        const Answer before = product(context.get());
        in_child([&] { EXPECT_TRUE(product(open_cpu("amxbf16", 1).get()).result == before.result); });
    });
}

}  // namespace
}  // namespace attile::test
