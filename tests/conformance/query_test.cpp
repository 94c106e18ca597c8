// SPDX-License-Identifier: Apache-2.0
// Queries: they need no memory, and foretell what the call does. That they agree on every case of the list is checked there.
#include <cmath>
#include <cstring>

#include "properties.h"

namespace attile::test {
namespace {

attile_tensor without_data(std::vector<std::int64_t> shape, std::int32_t dtype = ATTILE_F32) {
    attile_tensor t;
    EXPECT_EQ(attile_tensor_init(&t, nullptr, dtype, static_cast<std::int32_t>(shape.size()), shape.data()), ATTILE_OK);
    return t;
}

void expect_sane(const attile_support &support) {
    if (support.level == ATTILE_SUPPORT_NONE) {
        EXPECT_EQ(support.status / 1000, 2) << "NONE comes with a code of block 2xxx";
        EXPECT_STRNE(support.text, "") << "and with the reason";
        return;
    }
    EXPECT_TRUE(support.level == ATTILE_SUPPORT_NATIVE || support.level == ATTILE_SUPPORT_EMULATED);
    EXPECT_EQ(support.status, ATTILE_OK);
    EXPECT_STRNE(support.kernel, "");
    EXPECT_GE(support.workspace_bytes, 0);
    EXPECT_GT(support.flops, 0);
    EXPECT_GT(support.bytes, 0);
}

using Query = PropertyTest;

TEST_F(Query, NeedsNoData) {
    on_every_backend([](attile_context *context) {
        attile_support support;
        attile_gemm_args gemm;
        attile_gemm_init(&gemm, sizeof gemm);
        gemm.a = without_data({64, 32});
        gemm.b = without_data({32, 48});
        gemm.d = without_data({64, 48});
        attile_support_init(&support, sizeof support);
        ASSERT_TRUE(succeeded(attile_gemm_query(context, &gemm, &support)));
        expect_sane(support);
        if (support.level != ATTILE_SUPPORT_NONE) {
            EXPECT_EQ(support.flops, 2.0 * 64 * 48 * 32);
        }

        attile_attention_args attention;
        attile_attention_init(&attention, sizeof attention);
        attention.q = without_data({2, 4, 16, 64});
        attention.k = attention.v = without_data({2, 2, 20, 64});
        attention.o = without_data({2, 4, 16, 64});
        attile_support_init(&support, sizeof support);
        ASSERT_TRUE(succeeded(attile_attention_query(context, &attention, &support)));
        expect_sane(support);
        if (support.level != ATTILE_SUPPORT_NONE) {
            EXPECT_EQ(support.flops, 2.0 * 2 * 4 * 16 * 20 * (64 + 64));
        }

        attile_softmax_args softmax;
        attile_softmax_init(&softmax, sizeof softmax);
        softmax.x = softmax.y = without_data({5, 6});
        attile_support_init(&support, sizeof support);
        ASSERT_TRUE(succeeded(attile_softmax_query(context, &softmax, &support)));
        expect_sane(support);
    });
}

TEST_F(Query, CountsOnlyWhatACausalMaskLeaves) {
    on_every_backend([](attile_context *context) {
        attile_attention_args args;
        attile_attention_init(&args, sizeof args);
        args.q = args.o = without_data({1, 1, 10, 8});
        args.k = args.v = without_data({1, 1, 12, 8});
        for (const auto &[mask, pairs] : {std::pair<int, double>{ATTILE_MASK_CAUSAL_TOP_LEFT, 55}, {ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, 75}}) {
            args.mask = mask;
            attile_support support;
            attile_support_init(&support, sizeof support);
            ASSERT_TRUE(succeeded(attile_attention_query(context, &args, &support)));
            if (support.level != ATTILE_SUPPORT_NONE) {
                EXPECT_EQ(support.flops, 2 * pairs * (8 + 8));
            }
        }
    });
}

TEST_F(Query, PagedGradientsAreRefusedWithTheReason) {
    on_every_backend([](attile_context *context) {
        attile_attention_args forward;
        attile_attention_init(&forward, sizeof forward);
        forward.q = forward.o = without_data({1, 1, 3, 8});
        forward.k = forward.v = without_data({4, 1, 4, 8});
        forward.lse = without_data({1, 1, 3});
        forward.key_lengths = without_data({1}, ATTILE_I32);
        forward.block_table = without_data({1, 2}, ATTILE_I32);
        attile_attention_backward_args args;
        attile_attention_backward_init(&args, sizeof args);
        args.forward = &forward;
        args.dout = args.dq = without_data({1, 1, 3, 8});
        args.dk = args.dv = without_data({4, 1, 4, 8});
        attile_support support;
        attile_support_init(&support, sizeof support);
        ASSERT_TRUE(succeeded(attile_attention_backward_query(context, &args, &support)));
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_STRNE(support.text, "");
    });
}

}  // namespace
}  // namespace attile::test
