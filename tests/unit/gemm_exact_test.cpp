// SPDX-License-Identifier: Apache-2.0
// What attile_gemm makes of ATTILE_FLAG_EXACT_PRODUCTS.
#include <string>

#include "front_test.h"
#include "portable.h"

namespace attile_test {
namespace {

class GemmExact : public FrontTest {
  protected:
    GemmExact() {
        attile_gemm_init(&args, sizeof args);
        args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
        take(ATTILE_F64);
    }
    void take(int32_t dtype) {
        args.a = dense(dtype, {3, 5});
        args.b = dense(dtype, {5, 4});
        args.d = dense(dtype, {3, 4});
    }
    void run() { ASSERT_EQ(attile_gemm(context, &args), ATTILE_OK) << last_error(); }
    // The call, the query and the preparation all say so.
    void expect_refused(attile_context *on, int32_t status, const std::string &sentence) {
        EXPECT_EQ(attile_gemm(on, &args), status);
        EXPECT_EQ(last_error(), "gemm: " + sentence);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_gemm_query(on, &args, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, status);
        EXPECT_EQ(support.text, "gemm: " + sentence);
        attile_prepared *prepared = nullptr;
        EXPECT_EQ(attile_gemm_prepare(on, &args, &prepared), status);
        EXPECT_EQ(last_error(), "gemm_prepare: " + sentence);
    }

    attile_gemm_args args;
    const attile_gemm_problem &problem = recording().gemm;
};

TEST_F(GemmExact, TheFlagAndFloat64ReachTheBackend) {
    for (const int32_t dtype : {ATTILE_F64, ATTILE_F32}) {
        take(dtype);
        run();
        EXPECT_EQ(problem.compute, ATTILE_F64);
        EXPECT_EQ(problem.launch.flags, static_cast<uint32_t>(ATTILE_FLAG_EXACT_PRODUCTS));
        EXPECT_EQ(problem.a.dtype, dtype);
        args.activation = ATTILE_ACTIVATION_RELU;
        run();
        args.activation = ATTILE_ACTIVATION_NONE;
    }
}

TEST_F(GemmExact, FactorsAreOfFloat64) {
    take(ATTILE_F32);
    args.c = args.d;
    args.alpha = 1e-60;
    args.beta = -1e300;
    run();
    EXPECT_EQ(problem.alpha, 1e-60);
    EXPECT_EQ(problem.beta, -1e300);
    EXPECT_EQ(problem.k, 5);
    args.flags = 0;
    EXPECT_EQ(attile_gemm(context, &args), ATTILE_ERROR_INVALID_VALUE);
    args.beta = 1;
    run();
    EXPECT_EQ(problem.k, 0);  // to float32 1e-60 is 0
}

TEST_F(GemmExact, OtherTypesAreRefused) {
    take(ATTILE_F16);
    expect_refused(context, ATTILE_ERROR_UNSUPPORTED_DTYPE, "EXACT_PRODUCTS is set and a has the type f16 (0x0210); expected f64 or f32");
    take(ATTILE_F32);
    args.b.dtype = ATTILE_I8;
    expect_refused(context, ATTILE_ERROR_UNSUPPORTED_DTYPE, "EXACT_PRODUCTS is set and b has the type i8 (0x0008); expected f64 or f32");
}

TEST_F(GemmExact, ActivationsOfExponentialsAreRefused) {
    for (const int32_t activation : {ATTILE_ACTIVATION_GELU, ATTILE_ACTIVATION_GELU_TANH, ATTILE_ACTIVATION_SILU}) {
        args.activation = activation;
        expect_refused(context, ATTILE_ERROR_UNSUPPORTED_FEATURE,
                       "EXACT_PRODUCTS is set and activation is " + std::to_string(activation) +
                           "; expected none or relu, since exp and erf are not the same bits everywhere");
    }
}

TEST_F(GemmExact, AnOlderBackendIsNotGivenWhatItDoesNotKnow) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    expect_refused(older, ATTILE_ERROR_UNSUPPORTED_FEATURE, "the backend 'older' is too old to know EXACT_PRODUCTS");
    args.flags = 0;
    EXPECT_EQ(attile_gemm(older, &args), ATTILE_OK) << last_error();
    attile_context_destroy(older);
}

// The variable counts when a context is made.
TEST_F(GemmExact, TheBlasNamesHaveAVariable) {
    double a[6] = {}, b[6] = {}, c[9] = {};
    const auto dgemm = [&](attile_context *on) {
        return attile_dgemm(on, ATTILE_COL_MAJOR, ATTILE_NO_TRANS, ATTILE_TRANS, 3, 3, 2, 1.0, a, 3, b, 3, 0.0, c, 3);
    };
    attile::test::set_variable("ATTILE_GEMM", "exact");
    attile_context *const exact = recording_context(), *const older = recording_context(Recorder::kFirstVersions);
    attile::test::set_variable("ATTILE_GEMM", "");
    attile_context *const plain = recording_context();
    ASSERT_EQ(dgemm(exact), ATTILE_OK) << last_error();
    EXPECT_EQ(problem.launch.flags, static_cast<uint32_t>(ATTILE_FLAG_EXACT_PRODUCTS));
    EXPECT_EQ(problem.compute, ATTILE_F64);
    float one = 1;
    ASSERT_EQ(attile_sgemm(exact, ATTILE_ROW_MAJOR, ATTILE_NO_TRANS, ATTILE_NO_TRANS, 1, 1, 1, 1e-60, &one, 1, &one, 1, 0.0, &one, 1),
              ATTILE_ERROR_ALIASING);
    ASSERT_EQ(dgemm(plain), ATTILE_OK) << last_error();
    EXPECT_EQ(problem.launch.flags, 0u);
    EXPECT_EQ(dgemm(older), ATTILE_ERROR_UNSUPPORTED_FEATURE);
    EXPECT_EQ(last_error(), "dgemm: the backend 'older' is too old to know EXACT_PRODUCTS");
    attile::test::set_variable("ATTILE_GEMM", "fast");
    attile_context *refused = nullptr;
    EXPECT_EQ(attile_context_create(nullptr, &refused), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_EQ(last_error(), "context_create: ATTILE_GEMM is 'fast', expected 'exact', or no such variable");
    attile::test::unset_variable("ATTILE_GEMM");
    for (attile_context *made : {exact, older, plain}) attile_context_destroy(made);
}

}  // namespace
}  // namespace attile_test
