// SPDX-License-Identifier: Apache-2.0
// What attile_gemm_grouped makes of its arguments.
#include <cmath>
#include <functional>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

constexpr int64_t kRows = 24, kGroups = 3, kDepth = 64, kColumns = 40;

class GroupedFront : public FrontTest {
  protected:
    GroupedFront() {
        attile_gemm_grouped_init(&args, sizeof args);
        args.a = dense(ATTILE_BF16, {kRows, kDepth});
        args.b = dense(ATTILE_BF16, {kGroups, kDepth, kColumns});
        args.d = dense(ATTILE_BF16, {kRows, kColumns});
        args.row_offsets = dense(ATTILE_I32, {kGroups + 1});
    }
    void run() { ASSERT_EQ(attile_gemm_grouped(context, &args), ATTILE_OK) << last_error(); }

    attile_gemm_grouped_args args;
    const attile_gemm_problem &product = recording().gemm;
    const attile_gemm_grouped_problem &problem = recording().grouped;
};

TEST_F(GroupedFront, GroupsAreTheInnerBatchAxis) {
    EXPECT_EQ(args.alpha, 1.0);
    args.c = dense(ATTILE_BF16, {kRows, kColumns});
    args.bias = dense(ATTILE_F32, {kGroups, kColumns});
    args.alpha = -2;
    args.beta = 0.5;
    args.activation = ATTILE_ACTIVATION_SILU;
    run();
    EXPECT_EQ(product.compute, ATTILE_F32);
    EXPECT_EQ(product.batch[0], 1);
    EXPECT_EQ(product.batch[1], kGroups);
    EXPECT_EQ(product.m, kRows);
    EXPECT_EQ(product.n, kColumns);
    EXPECT_EQ(product.k, kDepth);
    EXPECT_EQ(product.alpha, -2);
    EXPECT_EQ(product.beta, 0.5);
    EXPECT_EQ(product.activation, ATTILE_ACTIVATION_SILU);
    expect_operand(product.a, args.a, {0, 0, kDepth, 1});
    expect_operand(product.b, args.b, {0, kDepth * kColumns, kColumns, 1});
    expect_operand(product.c, args.c, {0, 0, kColumns, 1});
    expect_operand(product.d, args.d, {0, 0, kColumns, 1});
    expect_operand(product.bias, args.bias, {0, kColumns, 0, 1});
    expect_operand(problem.row_offsets, args.row_offsets, {0, 1, 0, 0});
    expect_absent(product.b_scale);
}

TEST_F(GroupedFront, OperandsThatAllGroupsShare) {
    args.b = dense(ATTILE_BF16, {1, kDepth, kColumns});
    args.bias = dense(ATTILE_BF16, {kColumns});
    run();
    expect_operand(product.b, args.b, {0, 0, kColumns, 1});
    expect_operand(product.bias, args.bias, {0, 0, 0, 1});
    args.bias = dense(ATTILE_F32, {1, kColumns});
    args.b = strided(dense(ATTILE_BF16, {kGroups, kDepth, kColumns}), {0, 1, kDepth});
    args.d = dense(ATTILE_F32, {kRows, kColumns});
    run();
    expect_operand(product.b, args.b, {0, 0, 1, kDepth});
    expect_operand(product.bias, args.bias, {0, 0, 0, 1});
    expect_absent(product.c);
}

TEST_F(GroupedFront, QuantisedB) {
    args.b = dense(ATTILE_I8, {kGroups, kDepth, kColumns});
    args.b_scale = dense(ATTILE_F32, {kGroups, 2, kColumns});
    run();
    expect_operand(product.b_scale, args.b_scale, {0, 2 * kColumns, kColumns, 1});
    EXPECT_EQ(product.b_group[0], 32);
    EXPECT_EQ(product.b_group[1], 1);
    args.b.dtype = ATTILE_U4;
    args.b_zero = dense(ATTILE_F32, {kGroups, 2, kColumns});
    run();
    expect_operand(product.b_zero, args.b_zero, {0, 2 * kColumns, kColumns, 1});
    args.alpha = 0;
    run();
    EXPECT_EQ(product.k, 0);
    expect_absent(product.b_scale);
    EXPECT_EQ(product.b_group[0], 0);
}

TEST_F(GroupedFront, WithoutGroupsOrRowsNothingIsAsked) {
    args.row_offsets = dense(ATTILE_I32, {1});
    args.b = dense(ATTILE_BF16, {0, kDepth, kColumns});
    run();
    args.row_offsets = dense(ATTILE_I32, {kGroups + 1});
    args.b = dense(ATTILE_BF16, {kGroups, kDepth, kColumns});
    args.a = dense(ATTILE_BF16, {0, kDepth});
    args.d = dense(ATTILE_BF16, {0, kColumns});
    run();
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(GroupedFront, WrongArguments) {
    const struct {
        const char *name;
        std::function<void(attile_gemm_grouped_args &)> change;
        int32_t status;
        const char *words;
    } wrong[] = {
        {"no a", [&](auto &a) { a.a = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "a is absent"},
        {"no b", [&](auto &a) { a.b = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "b is absent"},
        {"no d", [&](auto &a) { a.d = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "d is absent"},
        {"no offsets", [&](auto &a) { a.row_offsets = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "row_offsets is absent"},
        {"8-bit a", [&](auto &a) { a.a.dtype = ATTILE_I8; }, ATTILE_ERROR_INVALID_DTYPE, "a.dtype is i8"},
        {"another b", [&](auto &a) { a.b.dtype = ATTILE_F16; }, ATTILE_ERROR_INVALID_DTYPE, "b.dtype is f16"},
        {"another d", [&](auto &a) { a.d.dtype = ATTILE_F16; }, ATTILE_ERROR_INVALID_DTYPE, "d.dtype is f16"},
        {"offsets of i64", [&](auto &a) { a.row_offsets.dtype = 0x0040; }, ATTILE_ERROR_INVALID_DTYPE, "row_offsets.dtype"},
        {"flat b",
         [&](auto &a) {
             a.b = dense(ATTILE_BF16, {kDepth, kColumns});
         },
         ATTILE_ERROR_INVALID_RANK, "b.rank is 2; expected 3"},
        {"batch of a",
         [&](auto &a) {
             a.a = dense(ATTILE_BF16, {1, kRows, kDepth});
         },
         ATTILE_ERROR_INVALID_RANK, "a.rank"},
        {"rows of a", [&](auto &a) { a.a.shape[0] = kRows - 1; }, ATTILE_ERROR_SHAPE_MISMATCH,
         "a.shape[0] (m) is 23; expected the rows of d"},
        {"depth of b", [&](auto &a) { a.b.shape[1] = kDepth - 1; }, ATTILE_ERROR_SHAPE_MISMATCH, "b.shape[1] (k)"},
        {"columns of b", [&](auto &a) { a.b.shape[2] = kColumns - 1; }, ATTILE_ERROR_SHAPE_MISMATCH, "b.shape[2] (n)"},
        {"groups of b", [&](auto &a) { a.b.shape[0] = kGroups - 1; }, ATTILE_ERROR_SHAPE_MISMATCH,
         "b.shape[0] is 2; expected 1 or 3, so that it broadcasts to the groups of row_offsets"},
        {"no offset", [&](auto &a) { a.row_offsets = dense(ATTILE_I32, {0}); }, ATTILE_ERROR_INVALID_SHAPE,
         "row_offsets.shape[0] is 0; expected the number of groups + 1"},
        {"too many rows", [&](auto &a) { a.d.shape[0] = a.a.shape[0] = int64_t{1} << 31; }, ATTILE_ERROR_INVALID_SHAPE,
         "d.shape[0] (m) is 2147483648"},
        {"no c", [&](auto &a) { a.beta = 1; }, ATTILE_ERROR_INVALID_VALUE, "beta is 1, but c is absent"},
        {"columns of bias",
         [&](auto &a) {
             a.bias = dense(ATTILE_BF16, {kGroups, kColumns - 1});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[1] (n)"},
        {"groups of bias",
         [&](auto &a) {
             a.bias = dense(ATTILE_BF16, {kGroups + 1, kColumns});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "bias.shape[0] is 4"},
        {"scales of bf16",
         [&](auto &a) {
             a.b_scale = dense(ATTILE_F32, {1, 1});
         },
         ATTILE_ERROR_INVALID_VALUE, "b_scale is given, but b.dtype is bf16"},
        {"zero points of bf16",
         [&](auto &a) {
             a.b_zero = dense(ATTILE_F32, {1, 1});
         },
         ATTILE_ERROR_INVALID_VALUE, "b_zero is given"},
        {"alpha", [&](auto &a) { a.alpha = std::nan(""); }, ATTILE_ERROR_INVALID_VALUE, "alpha is nan"},
        {"beta", [&](auto &a) { a.beta = 1e39; }, ATTILE_ERROR_INVALID_VALUE, "beta is 1e+39"},
        {"activation", [&](auto &a) { a.activation = 5; }, ATTILE_ERROR_INVALID_VALUE, "activation is 5"},
        {"reserved", [&](auto &a) { a.reserved = 1; }, ATTILE_ERROR_STRUCT_TOO_NEW, "reserved is 1"},
        {"d in a", [&](auto &a) { a.d.data = a.a.data; }, ATTILE_ERROR_ALIASING, "d"},
        {"d in b", [&](auto &a) { a.d.data = a.b.data; }, ATTILE_ERROR_ALIASING, "d"},
        {"d in offsets", [&](auto &a) { a.d.data = a.row_offsets.data; }, ATTILE_ERROR_ALIASING, "row_offsets"},
        {"d that overlaps",
         [&](auto &a) {
             a.d = strided(a.d, {0, 1});
         },
         ATTILE_ERROR_INVALID_STRIDE, "d.stride"},
        {"exact products", [&](auto &a) { a.flags = ATTILE_FLAG_EXACT_PRODUCTS; }, ATTILE_ERROR_INVALID_FLAGS, "flags"},
        {"workspace", [&](auto &a) { a.workspace_bytes = -1; }, ATTILE_ERROR_INVALID_VALUE, "workspace_bytes"},
        {"head", [&](auto &a) { a.struct_size = 8; }, ATTILE_ERROR_STRUCT_SIZE, "struct_size"},
    };
    for (const auto &one : wrong) {
        attile_gemm_grouped_args changed = args;
        one.change(changed);
        EXPECT_EQ(attile_gemm_grouped(context, &changed), one.status) << one.name << ": " << last_error();
        EXPECT_NE(last_error().find(one.words), std::string::npos) << one.name << ": " << last_error();
        EXPECT_EQ(last_error().rfind("gemm_grouped: ", 0), 0u) << last_error();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_grouped_query(context, &changed, &support), one.status) << one.name << ": " << last_error();
    }
    EXPECT_EQ(recording().runs, 0);
    EXPECT_EQ(attile_gemm_grouped(context, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(attile_gemm_grouped(nullptr, &args), ATTILE_ERROR_INVALID_CONTEXT);
}

TEST_F(GroupedFront, COverlapsDExactlyOrNotAtAll) {
    args.beta = 1;
    args.c = args.d;
    run();
    expect_operand(product.c, args.d, {0, 0, kColumns, 1});
    args.c.data = static_cast<char *>(args.d.data) + 2;
    EXPECT_EQ(attile_gemm_grouped(context, &args), ATTILE_ERROR_ALIASING) << last_error();
}

TEST_F(GroupedFront, QueriesNeedNoData) {
    for (attile_tensor *tensor : {&args.a, &args.b, &args.d, &args.row_offsets}) tensor->data = nullptr;
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_grouped_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
    EXPECT_EQ(attile_gemm_grouped(context, &args), ATTILE_ERROR_NULL_ARGUMENT);
}

TEST_F(GroupedFront, ABackendWithoutItSaysSo) {
    attile_context *const bare = recording_context(Recorder::kBare);
    EXPECT_EQ(attile_gemm_grouped(bare, &args), ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_EQ(last_error(), "gemm_grouped: the backend 'bare' does not have this operation");
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_grouped_query(bare, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_OPERATION);
    attile_context_destroy(bare);
}

}  // namespace
}  // namespace attile_test
