// SPDX-License-Identifier: Apache-2.0
// What attile_attention makes of numbers of 8 bits, and of keys and values of other types than q.
#include <cstddef>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

class AttentionCache : public FrontTest {
  protected:
    AttentionCache() {
        attile_attention_init(&args, sizeof args);
        args.q = dense(ATTILE_F16, {2, 8, 3, 128});
        args.k = dense(ATTILE_I8, {2, 4, 7, 128});
        args.v = dense(ATTILE_I8, {2, 4, 7, 96});
        args.o = dense(ATTILE_F16, {2, 8, 3, 96});
    }
    void run() { ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error(); }
    void expect_refusal(int32_t status, const std::string &words) {
        EXPECT_EQ(attile_attention(context, &args), status) << last_error();
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
    }

    attile_attention_args args;
    const attile_attention_problem &problem = recording().attention;
};

TEST_F(AttentionCache, TypesThatGoTogether) {
    const int32_t floats[] = {ATTILE_F32, ATTILE_F16, ATTILE_BF16};
    const int32_t stored[] = {ATTILE_F32, ATTILE_F16, ATTILE_BF16, ATTILE_I8, ATTILE_I4, ATTILE_U4, ATTILE_F8_E4M3, ATTILE_F8_E5M2};
    for (const int32_t q : floats)
        for (const int32_t k : stored)
            for (const int32_t v : stored)
                for (const int32_t bias : floats) {
                    args.q.dtype = args.o.dtype = q;
                    args.k.dtype = k;
                    args.v.dtype = v;
                    args.bias = dense(bias, {3, 7});
                    run();
                    EXPECT_EQ(problem.compute, ATTILE_F32);
                    EXPECT_EQ(problem.k.dtype, k);
                    EXPECT_EQ(problem.v.dtype, v);
                    EXPECT_EQ(problem.bias.dtype, bias);
                    expect_absent(problem.k_scale);
                    expect_absent(problem.v_scale);
                }
    args.q.dtype = args.o.dtype = args.v.dtype = ATTILE_F64;
    args.bias = {};
    expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: k.dtype is f8_e5m2 (0x0c08); expected f64");
    args.q.dtype = args.o.dtype = ATTILE_F32;
    args.k.dtype = ATTILE_F64;
    expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: k.dtype is f64");
}

TEST_F(AttentionCache, QueriesOfEightBits) {
    for (const int32_t q : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2})
        for (const int32_t k : {ATTILE_F32, ATTILE_BF16, ATTILE_I8, ATTILE_F8_E4M3})
            for (const int32_t o : {ATTILE_F32, ATTILE_F16, ATTILE_BF16}) {
                args.q.dtype = q;
                args.k.dtype = k;
                args.o.dtype = o;
                args.q_scale = dense(ATTILE_F32, {8, 3, 4});
                run();
                EXPECT_EQ(problem.compute, ATTILE_F32);
                EXPECT_EQ(problem.q.dtype, q);
                EXPECT_EQ(problem.o.dtype, o);
                EXPECT_EQ(problem.q_group, 32);
                expect_operand(problem.q_scale, args.q_scale, {0, 12, 4, 1});
                args.q_scale = {};
                run();
                expect_absent(problem.q_scale);
            }
    args.q_scale = dense(ATTILE_F32, {8, 4, 1});
    expect_refusal(ATTILE_ERROR_SHAPE_MISMATCH, "attention: q_scale.shape[1] is 4");
    args.q_scale = {};
    for (const int32_t o : {ATTILE_F64, ATTILE_U4, ATTILE_I4}) {
        args.o.dtype = o;
        expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: o.dtype is ");
    }
    args.o.dtype = args.q.dtype = ATTILE_F16;
    args.q_scale = dense(ATTILE_F32, {1});
    expect_refusal(ATTILE_ERROR_INVALID_VALUE, "attention: q_scale is given, but q.dtype is f16");
}

TEST_F(AttentionCache, ResultsOfEightBits) {
    for (const int32_t o : {ATTILE_I8, ATTILE_F8_E4M3, ATTILE_F8_E5M2})
        for (const int32_t q : {ATTILE_F32, ATTILE_F16, ATTILE_BF16, ATTILE_I8, ATTILE_F8_E4M3}) {
            args.q.dtype = q;
            args.o.dtype = o;
            args.o_scale = dense(ATTILE_F32, {8, 3, 3});
            run();
            EXPECT_EQ(problem.compute, ATTILE_F32);
            EXPECT_EQ(problem.o.dtype, o);
            EXPECT_EQ(problem.o_group, 32);
            expect_operand(problem.o_scale, args.o_scale, {0, 9, 3, 1});
            args.o_scale = {};
            run();
            expect_absent(problem.o_scale);
        }
    args.q.dtype = args.k.dtype = args.v.dtype = ATTILE_F64;
    expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: o.dtype is f8_e5m2");
    args.q.dtype = args.k.dtype = args.v.dtype = ATTILE_F32;
    args.flags = ATTILE_FLAG_EXACT_PRODUCTS;
    expect_refusal(ATTILE_ERROR_UNSUPPORTED_DTYPE, "attention: EXACT_PRODUCTS is set and o has the type f8_e5m2 (0x0c08); expected f32");
    args.flags = 0;
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    EXPECT_EQ(attile_attention(older, &args), ATTILE_ERROR_UNSUPPORTED_DTYPE);
    EXPECT_NE(last_error().find("too old to know q or o of 8 bits"), std::string::npos) << last_error();
    attile_context_destroy(older);
}

TEST_F(AttentionCache, FourBitsLieInPairsAlongARow) {
    args.k.dtype = args.v.dtype = ATTILE_I4;
    args.k_scale = dense(ATTILE_F32, {4, 7, 4});
    run();
    EXPECT_EQ(problem.k_group, 32);
    args.k.stride[2] = 129;
    expect_refusal(ATTILE_ERROR_INVALID_STRIDE, "attention: k.stride[2] is 129; expected an even one, as two of i4 (0x0004) share a byte");
    args.k.stride[2] = 1;
    args.k.stride[3] = 8;
    args.k.shape[2] = args.v.shape[2] = 8;
    args.k_scale = {};
    expect_refusal(ATTILE_ERROR_INVALID_STRIDE, "attention: k.stride[3] is 8; expected 1 along the last axis, as k.dtype is i4");
    args.k = dense(ATTILE_I8, {2, 4, 7, 128});
    args.v = dense(ATTILE_U4, {2, 4, 7, 95});
    args.o = dense(ATTILE_F16, {2, 8, 3, 95});
    expect_refusal(ATTILE_ERROR_INVALID_SHAPE, "attention: v.shape[3] is 95; expected an even extent, as two of u4 (0x0104) share a byte");
    args.q.dtype = ATTILE_I4;
    expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: q.dtype is i4");
}

TEST_F(AttentionCache, FastAccumulationIsForTheForwardCall) {
    args.flags = ATTILE_FLAG_FAST_ACCUMULATION;
    run();
    EXPECT_EQ(problem.launch.flags, uint32_t{ATTILE_FLAG_FAST_ACCUMULATION});
    args.lse = dense(ATTILE_F32, {2, 8, 3});
    attile_attention_backward_args backward;
    attile_attention_backward_init(&backward, sizeof backward);
    backward.forward = &args;
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_ERROR_INVALID_FLAGS);
    EXPECT_NE(last_error().find("args->forward->flags"), std::string::npos) << last_error();
}

TEST_F(AttentionCache, GroupsFollowFromTheShapeOfTheScales) {
    const struct {
        int64_t scales, group;
    } keys[] = {{1, 128}, {128, 1}, {4, 32}, {2, 64}}, values[] = {{1, 96}, {96, 1}, {3, 32}, {1, 96}};
    for (std::size_t i = 0; i < std::size(keys); ++i) {
        args.k_scale = dense(ATTILE_F32, {2, 4, 7, keys[i].scales});
        args.v_scale = dense(ATTILE_F32, {4, 1, values[i].scales});
        run();
        EXPECT_EQ(problem.k_group, keys[i].group);
        EXPECT_EQ(problem.v_group, values[i].group);
        const int64_t step = keys[i].scales;
        expect_operand(problem.k_scale, args.k_scale, {28 * step, 7 * step, step, step == 1 ? 0 : 1});
        expect_operand(problem.v_scale, args.v_scale, {0, values[i].scales, 0, values[i].scales == 1 ? 0 : 1});
    }
    args.k_scale = dense(ATTILE_F32, {1});
    run();
    expect_operand(problem.k_scale, args.k_scale, {0, 0, 0, 0});
}

TEST_F(AttentionCache, ScalesOfPagesFollowThem) {
    args.k = dense(ATTILE_F8_E4M3, {11, 4, 16, 128});
    args.v = dense(ATTILE_F8_E4M3, {11, 4, 16, 96});
    args.block_table = dense(ATTILE_I32, {2, 5});
    args.key_lengths = dense(ATTILE_I32, {2});
    args.k_scale = dense(ATTILE_F32, {11, 4, 16, 1});
    args.v_scale = dense(ATTILE_F32, {11, 4, 16, 3});
    run();
    expect_operand(problem.k_scale, args.k_scale, {64, 16, 1, 0});
    expect_operand(problem.v_scale, args.v_scale, {192, 48, 3, 1});
    args.k_scale = dense(ATTILE_F32, {2, 4, 80, 1});
    expect_refusal(ATTILE_ERROR_SHAPE_MISMATCH, "attention: k_scale.shape[0] is 2");
}

TEST_F(AttentionCache, ScalesThatDoNotFitAreRefused) {
    args.k_scale = dense(ATTILE_F32, {2, 4, 7, 3});
    expect_refusal(ATTILE_ERROR_SHAPE_MISMATCH,
                   "attention: k_scale.shape[3] is 3; expected 1, or k.shape[3] = 128, or that over 32, 64 or 128 without rest");
    args.k_scale = dense(ATTILE_F32, {2, 4, 6, 1});
    expect_refusal(ATTILE_ERROR_SHAPE_MISMATCH, "attention: k_scale.shape[2] is 6");
    args.k_scale = dense(ATTILE_F16, {1});
    expect_refusal(ATTILE_ERROR_INVALID_DTYPE, "attention: k_scale.dtype is f16 (0x0210); expected f32");
    args.k_scale = dense(ATTILE_F32, {1});
    args.k.dtype = ATTILE_F16;
    expect_refusal(ATTILE_ERROR_INVALID_VALUE, "attention: k_scale is given, but k.dtype is f16");
    args.k_scale = {};
    args.v_scale = dense(ATTILE_F32, {96});
    args.o.data = args.v_scale.data;
    expect_refusal(ATTILE_ERROR_ALIASING, "v_scale");
}

TEST_F(AttentionCache, GradientsAreOfOneType) {
    attile_attention_backward_args backward;
    attile_attention_backward_init(&backward, sizeof backward);
    args.lse = dense(ATTILE_F32, {2, 8, 3});
    backward.forward = &args;
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_NE(last_error().find("forward->k.dtype is i8 (0x0008); expected f16"), std::string::npos) << last_error();
    args.q.dtype = ATTILE_I8;
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_ERROR_INVALID_DTYPE);
    EXPECT_NE(last_error().find("forward->q.dtype is i8 (0x0008); expected"), std::string::npos) << last_error();
    args.q.dtype = args.k.dtype = args.v.dtype = ATTILE_F16;
    args.q_scale = dense(ATTILE_F32, {1});
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_NE(last_error().find("forward->q_scale is given; expected it absent"), std::string::npos) << last_error();
    args.q_scale = {};
    args.v_scale = dense(ATTILE_F32, {1});
    EXPECT_EQ(attile_attention_backward(context, &backward), ATTILE_ERROR_INVALID_VALUE);
    EXPECT_NE(last_error().find("forward->v_scale is given; expected it absent"), std::string::npos) << last_error();
}

}  // namespace
}  // namespace attile_test
