// SPDX-License-Identifier: Apache-2.0
// What attile_gemm makes of operands of 8 bits and their scales.
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

class GemmQuantised : public FrontTest {
  protected:
    GemmQuantised() {
        attile_gemm_init(&args, sizeof args);
        args.a = dense(ATTILE_F16, {3, 256});
        args.b = dense(ATTILE_I8, {256, 384});
        args.d = dense(ATTILE_F16, {3, 384});
    }
    void run() { ASSERT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error(); }
    void take(int32_t a, int32_t b, int32_t d) {
        args.a.dtype = a;
        args.b.dtype = b;
        args.d.dtype = d;
    }

    attile_gemm_args args;
    const attile_gemm_problem &problem = recording().gemm;
};

TEST_F(GemmQuantised, TypesThatGoTogether) {
    const int32_t floats[] = {ATTILE_F32, ATTILE_F16, ATTILE_BF16}, narrow[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2};
    for (const int32_t a : floats)
        for (const int32_t b : narrow)
            for (const int32_t d : {a, ATTILE_F32}) {
                take(a, b, d);
                run();
                EXPECT_EQ(problem.compute, ATTILE_F32);
                EXPECT_EQ(problem.b.dtype, b);
                expect_absent(problem.b_scale);
                EXPECT_EQ(problem.b_group[0], 0);
            }
    for (const int32_t d : floats) {
        for (const int32_t a : {ATTILE_F8_E4M3, ATTILE_F8_E5M2})
            for (const int32_t b : {ATTILE_F8_E4M3, ATTILE_F8_E5M2}) {
                take(a, b, d);
                run();
                EXPECT_EQ(problem.compute, ATTILE_F32);
            }
        take(ATTILE_I8, ATTILE_I8, d);
        run();
        EXPECT_EQ(problem.compute, ATTILE_I32);
    }
    take(ATTILE_I8, ATTILE_I8, ATTILE_I32);
    run();
    EXPECT_EQ(problem.compute, ATTILE_I32);
}

// A permission, beside any types and every other flag.
TEST_F(GemmQuantised, FastAccumulationReachesTheBackend) {
    constexpr uint32_t kFast = ATTILE_FLAG_FAST_ACCUMULATION;
    EXPECT_EQ(kFast, 32u);
    take(ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_BF16);
    for (const uint32_t others : {0u, ATTILE_FLAG_BATCH_INVARIANT | ATTILE_FLAG_ALLOW_SPLIT_TF32}) {
        args.flags = kFast | others;
        run();
        EXPECT_EQ(problem.launch.flags, kFast | others);
    }
    take(ATTILE_F32, ATTILE_F32, ATTILE_F32);
    run();
    args.flags = kFast | ATTILE_FLAG_EXACT_PRODUCTS;
    run();
    EXPECT_EQ(problem.launch.flags, kFast | ATTILE_FLAG_EXACT_PRODUCTS);
}

TEST_F(GemmQuantised, BlocksFollowFromTheShapeOfTheScales) {
    const struct {
        int64_t k, n, k_group, n_group;
    } shapes[] = {{1, 1, 256, 384}, {1, 384, 256, 1}, {1, 3, 256, 128}, {8, 384, 32, 1}, {4, 1, 64, 384}, {2, 3, 128, 128}};
    for (const auto &shape : shapes) {
        args.b_scale = dense(ATTILE_F32, {shape.k, shape.n});
        run();
        EXPECT_EQ(problem.b_group[0], shape.k_group);
        EXPECT_EQ(problem.b_group[1], shape.n_group);
        expect_operand(problem.b_scale, args.b_scale, {0, 0, shape.k == 1 ? 0 : shape.n, shape.n == 1 ? 0 : 1});
    }
    take(ATTILE_F8_E4M3, ATTILE_F8_E4M3, ATTILE_F32);
    args.a_scale = dense(ATTILE_F32, {3, 2});
    run();
    EXPECT_EQ(problem.a_group[0], 1);
    EXPECT_EQ(problem.a_group[1], 128);
    expect_operand(problem.a_scale, args.a_scale, {0, 0, 2, 1});
    args.a_scale = strided(args.a_scale, {0, 1});
    run();
    expect_operand(problem.a_scale, args.a_scale, {0, 0, 0, 1});
}

TEST_F(GemmQuantised, FourBits) {
    for (const int32_t b : {ATTILE_I4, ATTILE_U4})
        for (const int32_t a : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) {
            take(a, b, a);
            args.b_scale = dense(ATTILE_F32, {8, 384});
            args.b_zero = b == ATTILE_U4 ? dense(ATTILE_F32, {8, 384}) : attile_tensor{};
            run();
            EXPECT_EQ(problem.compute, ATTILE_F32);
            expect_operand(problem.b, args.b, {0, 0, 384, 1});
            EXPECT_EQ(problem.b_group[0], 32);
            if (b == ATTILE_U4) expect_operand(problem.b_zero, args.b_zero, {0, 0, 384, 1});
            if (b == ATTILE_I4) expect_absent(problem.b_zero);
        }
    args.b = strided(args.b, {1, 258});
    run();
    expect_operand(problem.b, args.b, {0, 0, 1, 258});
    args.alpha = 0;
    run();
    expect_absent(problem.b_zero);
}

TEST_F(GemmQuantised, FourBitsThatAreRefused) {
    const auto refused = [&](const char *words) {
        const int32_t status = attile_gemm(context, &args);
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
        return status;
    };
    take(ATTILE_F32, ATTILE_U4, ATTILE_F32);
    const attile_gemm_args right = args;
    args.b = strided(args.b, {385, 1});
    EXPECT_EQ(refused("b.stride[0] is 385; expected an even one, as two of u4"), ATTILE_ERROR_INVALID_STRIDE);
    args.b = strided(args.b, {768, 2});
    EXPECT_EQ(refused("b.stride is 1 along no axis"), ATTILE_ERROR_INVALID_STRIDE);
    args.b = dense(ATTILE_U4, {256, 383});
    args.d = dense(ATTILE_F32, {3, 383});
    EXPECT_EQ(refused("b.shape[1] is 383; expected an even extent"), ATTILE_ERROR_INVALID_SHAPE);
    args = right;
    args.b = strided(dense(ATTILE_U4, {2, 256, 384}), {1, 768, 2});
    args.d = dense(ATTILE_F32, {2, 3, 384});
    EXPECT_EQ(refused("along one of the last two axes"), ATTILE_ERROR_INVALID_STRIDE);
    args = right;
    args.b_zero = dense(ATTILE_F32, {1, 384});
    EXPECT_EQ(refused("b_zero is given, but b_scale is absent"), ATTILE_ERROR_INVALID_VALUE);
    args.b_scale = dense(ATTILE_F32, {2, 384});
    EXPECT_EQ(refused("b_zero.shape[0]"), ATTILE_ERROR_SHAPE_MISMATCH);
    args.b_zero = args.b_scale;
    args.b_zero.dtype = ATTILE_F16;
    EXPECT_EQ(refused("b_zero.dtype"), ATTILE_ERROR_INVALID_DTYPE);
    args.b_zero.dtype = ATTILE_F32;
    args.b.dtype = ATTILE_I4;
    EXPECT_EQ(refused("b_zero is given, but b.dtype is i4"), ATTILE_ERROR_INVALID_VALUE);
    args = right;
    args.b_scale = dense(ATTILE_F32, {1, 384});
    args.b_zero = dense(ATTILE_F32, {1, 384});
    args.b_zero.data = args.d.data;
    EXPECT_EQ(refused("b_zero"), ATTILE_ERROR_ALIASING);
    args = right;
    take(ATTILE_U4, ATTILE_U4, ATTILE_F32);
    EXPECT_EQ(refused("a.dtype"), ATTILE_ERROR_INVALID_DTYPE);
    take(ATTILE_F64, ATTILE_U4, ATTILE_F64);
    EXPECT_EQ(refused("b.dtype"), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(GemmQuantised, FourBitsSpanHalfTheirNumber) {
    take(ATTILE_F32, ATTILE_I4, ATTILE_F32);
    args.d.data = static_cast<char *>(args.b.data) + 256 * 384 / 2;
    run();
    args.d.data = static_cast<char *>(args.d.data) - 4;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_ALIASING) << last_error();
}

TEST_F(GemmQuantised, ScalesBroadcastAlongTheBatch) {
    args.d = dense(ATTILE_F16, {5, 2, 3, 384});
    args.b_scale = dense(ATTILE_F32, {2, 1, 384});
    run();
    expect_operand(problem.b_scale, args.b_scale, {0, 384, 0, 1});
    args.b_scale = dense(ATTILE_F32, {5, 1, 1, 384});
    run();
    expect_operand(problem.b_scale, args.b_scale, {384, 0, 0, 1});
}

TEST_F(GemmQuantised, WithoutDepthThereAreNoScales) {
    args.b_scale = dense(ATTILE_F32, {1, 384});
    args.alpha = 0;
    run();
    EXPECT_EQ(problem.k, 0);
    expect_absent(problem.b_scale);
    args.alpha = 1;
    args.a = dense(ATTILE_F16, {3, 0});
    args.b = dense(ATTILE_I8, {0, 384});
    run();
    expect_absent(problem.b_scale);
    args.b_scale = dense(ATTILE_F32, {0, 384});
    run();
    expect_absent(problem.b_scale);
}

TEST_F(GemmQuantised, WhatIsBehindTheSizeOfTheFirstReleaseIsNotLookedAt) {
    args.a_scale = args.b_scale = args.d_scale = dense(ATTILE_F64, {9, 9});
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_INVALID_VALUE);
    args.struct_size = offsetof(attile_gemm_args, a_scale);
    run();
    expect_absent(problem.a_scale);
    expect_absent(problem.b_scale);
    // And by the short way of everyday products.
    args.a = dense(ATTILE_F32, {3, 5});
    args.b = dense(ATTILE_F32, {5, 4});
    args.d = dense(ATTILE_F32, {3, 4});
    run();
    expect_absent(problem.b_scale);
    args.struct_size = sizeof args;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_INVALID_VALUE);
}

TEST_F(GemmQuantised, AnOlderBackendIsNotGivenWhatItDoesNotKnow) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    const std::string sentence = ": the backend 'older' is too old to know numbers of 8 bits";
    EXPECT_EQ(attile_gemm(older, &args), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(last_error(), "gemm" + sentence);
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_query(older, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(support.text, "gemm" + sentence);
    attile_prepared *prepared = nullptr;
    EXPECT_EQ(attile_gemm_prepare(older, &args, &prepared), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(last_error(), "gemm_prepare" + sentence);
    args.b.dtype = ATTILE_F16;
    args.b.stride[0] = 384;
    EXPECT_EQ(attile_gemm(older, &args), ATTILE_OK) << last_error();
    attile_context_destroy(older);
}

TEST_F(GemmQuantised, ResultsOfEightBits) {
    const int32_t narrow[] = {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2};
    for (const int32_t d : narrow) {
        for (const int32_t a : {ATTILE_F32, ATTILE_F16, ATTILE_BF16})
            for (const int32_t b : {a, ATTILE_I8, ATTILE_F8_E5M2}) {
                take(a, b, d);
                run();
                EXPECT_EQ(problem.compute, ATTILE_F32);
                EXPECT_EQ(problem.d.dtype, d);
                expect_absent(problem.d_scale);
            }
        take(ATTILE_F8_E4M3, ATTILE_F8_E5M2, d);
        run();
        take(ATTILE_I8, ATTILE_I8, d);
        run();
        EXPECT_EQ(problem.compute, ATTILE_I32);
    }
    take(ATTILE_F32, ATTILE_F32, ATTILE_I8);
    args.c = dense(ATTILE_F32, {3, 384});
    args.beta = 1;
    args.d = dense(ATTILE_I8, {5, 2, 3, 384});
    const auto scaled = [&](std::initializer_list<int64_t> shape, std::initializer_list<int64_t> stride) {
        args.d_scale = dense(ATTILE_F32, shape);
        run();
        expect_operand(problem.d_scale, args.d_scale, stride);
    };
    scaled({1}, {0, 0, 0, 0});
    scaled({384}, {0, 0, 0, 1});
    scaled({3, 1}, {0, 0, 1, 0});
    scaled({3, 384}, {0, 0, 384, 1});
    scaled({2, 1, 1}, {0, 1, 0, 0});
    scaled({5, 1, 3, 384}, {1152, 0, 384, 1});
    scaled({5, 2, 1, 1}, {2, 1, 0, 0});
    args.alpha = 0;  // What is left of the result is scaled all the same.
    run();
    expect_operand(problem.d_scale, args.d_scale, {2, 1, 0, 0});
}

TEST_F(GemmQuantised, ExactProductsHaveNoResultsOfEightBits) {
    take(ATTILE_F32, ATTILE_F32, ATTILE_I8);
    args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(last_error(), "gemm: EXACT_PRODUCTS is set and d has the type i8 (0x0008); expected f32 (0x0220)");
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_DTYPE);
}

TEST_F(GemmQuantised, AnOlderBackendIsNotGivenResultsOfEightBits) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    take(ATTILE_F32, ATTILE_F32, ATTILE_F8_E4M3);
    EXPECT_EQ(attile_gemm(older, &args), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_EQ(last_error(), "gemm: the backend 'older' is too old to know numbers of 8 bits");
    attile_context_destroy(older);
}

TEST_F(GemmQuantised, PreparedCallsHaveScales) {
    args.a = dense(ATTILE_I8, {3, 256});
    args.d = dense(ATTILE_I8, {3, 384});
    args.d_scale = dense(ATTILE_F32, {384});
    args.a_scale = dense(ATTILE_F32, {3, 1});
    args.b_scale = dense(ATTILE_F32, {1, 384});
    run();
    const attile_gemm_problem want = problem;
    attile_gemm_args elsewhere = args;
    for (attile_tensor *x : {&elsewhere.a, &elsewhere.b, &elsewhere.d, &elsewhere.a_scale, &elsewhere.b_scale, &elsewhere.d_scale})
        x->data = static_cast<char *>(x->data) + (1 << 20);
    attile_prepared *prepared = nullptr;
    ASSERT_EQ(attile_gemm_prepare(context, &elsewhere, &prepared), ATTILE_OK) << last_error();
    attile_gemm_pointers to;
    attile_gemm_pointers_init(&to, sizeof to);
    to.a = args.a.data;
    to.b = args.b.data;
    to.d = args.d.data;
    to.a_scale = args.a_scale.data;
    to.b_scale = args.b_scale.data;
    to.d_scale = args.d_scale.data;
    ASSERT_EQ(attile_gemm_run(prepared, &to), ATTILE_OK) << last_error();
    EXPECT_EQ(std::memcmp(&want, &problem, sizeof want), 0);
    attile_prepared_destroy(prepared);
}

}  // namespace
}  // namespace attile_test
