// SPDX-License-Identifier: Apache-2.0
// What attile_gemm and the BLAS names make of their arguments.
#include <cstring>
#include <limits>

#include "front_test.h"

namespace attile_test {
namespace {

class GemmFront : public FrontTest {
  protected:
    GemmFront() {
        attile_gemm_init(&args, sizeof args);
        args.a = dense(ATTILE_F32, {3, 5});
        args.b = dense(ATTILE_F32, {5, 4});
        args.d = dense(ATTILE_F32, {3, 4});
    }
    void run() { ASSERT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error(); }

    attile_gemm_args args;
    const attile_gemm_problem &problem = recording().gemm;
};

TEST_F(GemmFront, PlainMatrices) {
    int some_stream = 0;
    args.stream = &some_stream;
    args.flags = ATTILE_FLAG_BATCH_INVARIANT;
    args.activation = ATTILE_ACTIVATION_SILU;
    args.alpha = -2.5;
    run();
    EXPECT_EQ(recording().runs, 1);
    EXPECT_EQ(recording().queries, 0) << "nobody asked about a workspace";
    EXPECT_EQ(problem.compute, ATTILE_F32);
    EXPECT_EQ(problem.launch.stream, &some_stream);
    EXPECT_EQ(problem.launch.workspace, nullptr);
    EXPECT_EQ(problem.launch.flags, ATTILE_FLAG_BATCH_INVARIANT);
    EXPECT_EQ(problem.batch[0], 1);
    EXPECT_EQ(problem.batch[1], 1);
    EXPECT_EQ(problem.m, 3);
    EXPECT_EQ(problem.n, 4);
    EXPECT_EQ(problem.k, 5);
    EXPECT_EQ(problem.alpha, -2.5);
    EXPECT_EQ(problem.beta, 0.0);
    EXPECT_EQ(problem.activation, ATTILE_ACTIVATION_SILU);
    expect_operand(problem.a, args.a, {0, 0, 5, 1});
    expect_operand(problem.b, args.b, {0, 0, 4, 1});
    expect_operand(problem.d, args.d, {0, 0, 4, 1});
    expect_absent(problem.c);
    expect_absent(problem.bias);
}

TEST_F(GemmFront, BatchesBroadcastFromTheRight) {
    args.a = dense(ATTILE_F32, {7, 3, 5});
    args.b = dense(ATTILE_F32, {2, 1, 5, 4});
    args.c = dense(ATTILE_F32, {3, 4});
    args.d = dense(ATTILE_F32, {2, 7, 3, 4});
    args.beta = 1.0;
    args.bias = dense(ATTILE_F32, {7, 4});
    args.bias_axis = ATTILE_BIAS_COLUMNS;
    run();
    EXPECT_EQ(problem.batch[0], 2);
    EXPECT_EQ(problem.batch[1], 7);
    expect_operand(problem.a, args.a, {0, 15, 5, 1});
    expect_operand(problem.b, args.b, {20, 0, 4, 1});
    expect_operand(problem.c, args.c, {0, 0, 4, 1});
    expect_operand(problem.d, args.d, {84, 12, 4, 1});
    expect_operand(problem.bias, args.bias, {0, 4, 0, 1});
    args.d = dense(ATTILE_F32, {7, 3, 4});
    args.b = strided(dense(ATTILE_F32, {7, 5, 4}), {0, 1, 5});
    run();
    EXPECT_EQ(problem.batch[0], 1);
    EXPECT_EQ(problem.batch[1], 7);
    expect_operand(problem.b, args.b, {0, 0, 1, 5});
}

TEST_F(GemmFront, BiasAlongRows) {
    args.bias = dense(ATTILE_F32, {3});
    args.bias_axis = ATTILE_BIAS_ROWS;
    run();
    expect_operand(problem.bias, args.bias, {0, 0, 1, 0});
    args.d = dense(ATTILE_F32, {6, 2, 3, 4});
    args.bias = dense(ATTILE_F32, {6, 1, 3});
    run();
    expect_operand(problem.bias, args.bias, {3, 0, 1, 0});
}

TEST_F(GemmFront, TypesAndTheirArithmetic) {
    args.a = dense(ATTILE_F64, {3, 5});
    args.b = dense(ATTILE_F64, {5, 4});
    args.d = dense(ATTILE_F64, {3, 4});
    run();
    EXPECT_EQ(problem.compute, ATTILE_F64);
    for (const int32_t half : {ATTILE_F16, ATTILE_BF16}) {
        for (const int32_t output : {half, ATTILE_F32}) {
            args.a = dense(half, {3, 5});
            args.b = dense(half, {5, 4});
            args.d = dense(output, {3, 4});
            args.bias = dense(ATTILE_F32, {4});
            args.bias_axis = ATTILE_BIAS_COLUMNS;
            run();
            EXPECT_EQ(problem.compute, ATTILE_F32);
        }
    }
}

// Sums in double take what float32 cannot hold.
TEST_F(GemmFront, FactorsOfTheTypeOfTheSums) {
    args.alpha = 1e39;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(recording().runs, 0);
    args.a.dtype = args.b.dtype = args.d.dtype = ATTILE_F64;
    run();
    EXPECT_EQ(problem.alpha, 1e39);
}

// 0 times what is not to be read would be NaN where that is infinite.
TEST_F(GemmFront, FactorsThatTheTypeOfTheSumsTakesForZero) {
    args.alpha = args.beta = 1e-50;
    args.c.dtype = 0x7777;
    run();
    EXPECT_EQ(problem.k, 0);
    EXPECT_EQ(problem.alpha, 0.0);
    EXPECT_EQ(problem.beta, 0.0);
    expect_absent(problem.c);
    args.a.dtype = args.b.dtype = args.d.dtype = ATTILE_F64;
    args.beta = 0;
    run();
    EXPECT_EQ(problem.alpha, 1e-50);
    EXPECT_NE(problem.k, 0);
}

TEST_F(GemmFront, BetaZeroDoesNotLookAtC) {
    args.c.dtype = 0x7777;
    args.c.rank = -5;
    run();
    expect_absent(problem.c);
    args.c = args.d;
    run();
    expect_absent(problem.c);
}

TEST_F(GemmFront, CMayBeD) {
    args.c = args.d;
    args.beta = 1.0;
    run();
    expect_operand(problem.c, args.d, {0, 0, 4, 1});
    args.c.data = static_cast<float *>(args.d.data) + 4;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_ALIASING);
}

TEST_F(GemmFront, AlphaZeroIsAnEmptySum) {
    args.alpha = 0.0;
    run();
    EXPECT_EQ(problem.k, 0);
    EXPECT_EQ(problem.alpha, 0.0);
    args.alpha = 1.0;
    args.a = dense(ATTILE_F32, {3, 0});
    args.b = dense(ATTILE_F32, {0, 4});
    args.a.data = args.b.data = nullptr;
    run();
    EXPECT_EQ(problem.k, 0);
    EXPECT_EQ(recording().runs, 2);
}

TEST_F(GemmFront, OutputWithoutElementsNeedsNoBackend) {
    for (const int empty : {0, 1}) {
        args.a = dense(ATTILE_F32, {empty == 0 ? 0 : 3, 5});
        args.b = dense(ATTILE_F32, {5, empty == 1 ? 0 : 4});
        args.d = dense(ATTILE_F32, {empty == 0 ? 0 : 3, empty == 1 ? 0 : 4});
        args.d.data = nullptr;
        run();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_query(context, &args, &support), ATTILE_OK);
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
        EXPECT_EQ(support.status, ATTILE_OK);
    }
    EXPECT_EQ(recording().runs + recording().queries, 0);
    args.b.shape[0] = 4;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_SHAPE_MISMATCH) << "it is still checked";
}

TEST_F(GemmFront, InterleavedOutputIsNoOverlap) {
    // The left half of a wide matrix times something into its right half.
    args.a = strided(dense(ATTILE_F32, {4, 4}), {8, 1});
    args.b = dense(ATTILE_F32, {4, 4});
    args.d = strided(args.a, {8, 1});
    args.d.data = static_cast<float *>(args.a.data) + 4;
    run();
    args.d.data = static_cast<float *>(args.a.data) + 3;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_ALIASING);
}

TEST_F(GemmFront, OlderAndNewerStructs) {
    struct {
        attile_gemm_args known;
        unsigned char tail[32];
    } newer = {args, {}};
    newer.known.struct_size += 32;
    EXPECT_EQ(attile_gemm(context, &newer.known), ATTILE_OK) << last_error();
    newer.tail[31] = 1;
    EXPECT_EQ(attile_gemm(context, &newer.known), ATTILE_ERROR_STRUCT_TOO_NEW);
}

class BlasFront : public FrontTest {
  protected:
    // Room for any matrix here, far apart.
    float *const a = static_cast<float *>(dense(ATTILE_F32, {1}).data);
    float *const b = static_cast<float *>(dense(ATTILE_F32, {1}).data);
    float *const c = static_cast<float *>(dense(ATTILE_F32, {1}).data);
    const attile_gemm_problem &problem = recording().gemm;

    void expect_strides(const attile_operand &operand, int64_t row, int64_t column) {
        EXPECT_EQ(operand.stride[0], 0);
        EXPECT_EQ(operand.stride[1], 0);
        EXPECT_EQ(operand.stride[2], row);
        EXPECT_EQ(operand.stride[3], column);
    }
};

TEST_F(BlasFront, OrdersAndTranspositions) {
    for (const int32_t order : {ATTILE_ROW_MAJOR, ATTILE_COL_MAJOR}) {
        for (const int32_t transa : {ATTILE_NO_TRANS, ATTILE_TRANS, ATTILE_CONJ_TRANS}) {
            for (const int32_t transb : {ATTILE_NO_TRANS, ATTILE_TRANS}) {
                ASSERT_EQ(attile_sgemm(context, order, transa, transb, 3, 4, 5, 2.0, a, 10, b, 11, 0.5, c, 12), ATTILE_OK) << last_error();
                EXPECT_EQ(problem.m, 3);
                EXPECT_EQ(problem.n, 4);
                EXPECT_EQ(problem.k, 5);
                EXPECT_EQ(problem.alpha, 2.0);
                EXPECT_EQ(problem.beta, 0.5);
                EXPECT_EQ(problem.a.data, a);
                EXPECT_EQ(problem.b.data, b);
                EXPECT_EQ(problem.c.data, c);
                EXPECT_EQ(problem.d.data, c);
                const bool row_major = order == ATTILE_ROW_MAJOR;
                const bool a_rows = row_major == (transa == ATTILE_NO_TRANS), b_rows = row_major == (transb == ATTILE_NO_TRANS);
                expect_strides(problem.a, a_rows ? 10 : 1, a_rows ? 1 : 10);
                expect_strides(problem.b, b_rows ? 11 : 1, b_rows ? 1 : 11);
                expect_strides(problem.d, row_major ? 12 : 1, row_major ? 1 : 12);
            }
        }
    }
    EXPECT_EQ(problem.compute, ATTILE_F32);
}

TEST_F(BlasFront, LeadingDimensionsAtTheirLeast) {
    const auto call = [&](int32_t order, int32_t transa, int32_t transb, int64_t lda, int64_t ldb, int64_t ldc) {
        return attile_sgemm(context, order, transa, transb, 3, 4, 5, 1.0, a, lda, b, ldb, 0.0, c, ldc);
    };
    const struct {
        int32_t order, transa, transb;
        int64_t lda, ldb, ldc;
    } least[] = {
        {ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 5, 4, 4},
        {ATTILE_ROW_MAJOR, ATTILE_TRANS, ATTILE_TRANS, 3, 5, 4},
        {ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 3, 5, 3},
        {ATTILE_COL_MAJOR, ATTILE_TRANS, ATTILE_TRANS, 5, 4, 3},
    };
    for (const auto &l : least) {
        EXPECT_EQ(call(l.order, l.transa, l.transb, l.lda, l.ldb, l.ldc), ATTILE_OK) << last_error();
        EXPECT_EQ(call(l.order, l.transa, l.transb, l.lda - 1, l.ldb, l.ldc), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_EQ(call(l.order, l.transa, l.transb, l.lda, l.ldb - 1, l.ldc), ATTILE_ERROR_INVALID_VALUE);
        EXPECT_EQ(call(l.order, l.transa, l.transb, l.lda, l.ldb, l.ldc - 1), ATTILE_ERROR_INVALID_VALUE);
    }
}

TEST_F(BlasFront, QuickReturns) {
    const auto call = [&](int64_t m, int64_t n, int64_t k, double alpha, double beta, const float *any_a, const float *any_b,
                          float *any_c) {
        return attile_sgemm(context, ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, m, n, k, alpha, any_a, 8, any_b, 8, beta, any_c,
                            8);
    };
    EXPECT_EQ(call(0, 4, 5, 1.0, 1.0, nullptr, b, nullptr), ATTILE_OK) << last_error();
    EXPECT_EQ(call(3, 0, 5, 1.0, 1.0, a, nullptr, nullptr), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 0);
    EXPECT_EQ(call(3, 4, 0, 1.0, 0.0, nullptr, nullptr, c), ATTILE_OK) << last_error();
    EXPECT_EQ(problem.k, 0);
    expect_absent(problem.c);
    EXPECT_EQ(call(3, 4, 5, 0.0, 0.5, nullptr, nullptr, c), ATTILE_OK) << last_error();
    EXPECT_EQ(problem.k, 0);
    EXPECT_EQ(problem.c.data, c);
    EXPECT_EQ(recording().runs, 2);
}

// Everyday products have a shorter way through the front.
TEST_F(BlasFront, TheSameProblemAsGemm) {
    const int64_t shapes[][3] = {{3, 4, 5}, {1, 4, 5}, {3, 1, 5}, {3, 4, 1}, {1, 1, 1}};
    for (const auto &[m, n, k] : shapes) {
        for (const double beta : {0.0, 0.5}) {
            const int64_t leading = int64_t{1} << 20;
            ASSERT_EQ(attile_sgemm(context, ATTILE_COL_MAJOR, ATTILE_TRANS, ATTILE_NO_TRANS, m, n, k, 2.0, a, 7, b, 8, beta, c, leading),
                      ATTILE_OK)
                << last_error();
            const attile_gemm_problem shorter = problem;
            attile_gemm_args args;
            attile_gemm_init(&args, sizeof args);
            const auto tensor = [](float *data, int64_t rows, int64_t columns, int64_t row, int64_t column) {
                return attile_tensor{data, ATTILE_F32, 2, {rows, columns}, {row, column}};
            };
            args.a = tensor(a, m, k, 7, 1);
            args.b = tensor(b, k, n, 1, 8);
            args.c = args.d = tensor(c, m, n, 1, leading);
            args.alpha = 2.0;
            args.beta = beta;
            ASSERT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error();
            EXPECT_EQ(std::memcmp(&shorter, &problem, sizeof problem), 0) << m << " x " << n << " x " << k;
        }
    }
}

TEST_F(BlasFront, WhatIsNotEveryday) {
    const auto call = [&](const float *any_a, const float *any_b, float *any_c, int64_t ld, double alpha = 1.0, double beta = 0.0) {
        return attile_sgemm(context, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 3, 4, 4, alpha, any_a, ld, any_b, ld, beta, any_c,
                            ld);
    };
    EXPECT_EQ(call(a, b, c, int64_t{1} << 28), ATTILE_OK) << last_error();
    EXPECT_EQ(call(a, b, c, INT64_MAX / 2), ATTILE_ERROR_OVERFLOW);
    EXPECT_EQ(call(a, a, c, 8), ATTILE_OK) << last_error();
    // Columns 4 to 7 of the same rows: not shared, though the ranges meet.
    EXPECT_EQ(call(a, b, a + 4, 8), ATTILE_OK) << last_error();
    EXPECT_EQ(call(a, b, a + 3, 8), ATTILE_ERROR_ALIASING);
    EXPECT_EQ(call(a, b, b + 8 + 3, 8), ATTILE_ERROR_ALIASING);
    EXPECT_EQ(call(nullptr, b, c, 8), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(call(a, b, reinterpret_cast<float *>(reinterpret_cast<uintptr_t>(c) + 2), 8), ATTILE_ERROR_MISALIGNED);
    EXPECT_EQ(call(a, reinterpret_cast<float *>(UINTPTR_MAX - 63), c, 8), ATTILE_ERROR_OVERFLOW);
    EXPECT_EQ(call(a, b, c, 8, std::numeric_limits<double>::quiet_NaN()), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(call(a, b, c, 8, 1.0, std::numeric_limits<double>::infinity()), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(recording().runs, 3);
}

TEST_F(BlasFront, Doubles) {
    double *const x = reinterpret_cast<double *>(a), *const y = reinterpret_cast<double *>(b), *const z = reinterpret_cast<double *>(c);
    ASSERT_EQ(attile_dgemm(context, ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 1, 1, 1, 1.0, x, 1, y, 1, 1.0, z, 1), ATTILE_OK);
    EXPECT_EQ(problem.compute, ATTILE_F64);
    EXPECT_EQ(problem.d.dtype, ATTILE_F64);
}

}  // namespace
}  // namespace attile_test
