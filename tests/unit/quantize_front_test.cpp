// SPDX-License-Identifier: Apache-2.0
// What attile_quantize and attile_dequantize make of their arguments.
#include <functional>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

class QuantizeFront : public FrontTest {
  protected:
    QuantizeFront() {
        attile_quantize_init(&to, sizeof to);
        to.x = dense(ATTILE_F16, {256, 384});
        to.q = dense(ATTILE_I8, {256, 384});
        to.scale = dense(ATTILE_F32, {256, 12});
        attile_dequantize_init(&from, sizeof from);
        from.q = to.q;
        from.scale = to.scale;
        from.x = dense(ATTILE_BF16, {256, 384});
    }
    void run() {
        ASSERT_EQ(attile_quantize(context, &to), ATTILE_OK) << last_error();
        EXPECT_EQ(problem.back, 0);
    }
    void run_back() {
        ASSERT_EQ(attile_dequantize(context, &from), ATTILE_OK) << last_error();
        EXPECT_EQ(problem.back, 1);
        EXPECT_EQ(problem.scale_given, 1);
    }
    static void expect_four(const int64_t *found, std::initializer_list<int64_t> expected) {
        EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found))
            << found[0] << ' ' << found[1] << ' ' << found[2] << ' ' << found[3];
    }

    attile_quantize_args to;
    attile_dequantize_args from;
    const attile_quantize_problem &problem = recording().quantize;
};

TEST_F(QuantizeFront, BlocksFollowFromTheShapeOfTheScales) {
    const struct {
        int64_t m, n, m_group, n_group;
    } shapes[] = {{1, 1, 256, 384}, {256, 1, 1, 384}, {1, 384, 256, 1}, {256, 12, 1, 32}, {256, 6, 1, 64},
                  {256, 3, 1, 128}, {8, 384, 32, 1},  {2, 3, 128, 128}, {256, 384, 1, 1}, {4, 1, 64, 384}};
    for (const auto &shape : shapes) {
        to.scale = from.scale = dense(ATTILE_F32, {shape.m, shape.n});
        run();
        expect_four(problem.shape, {1, 1, 256, 384});
        expect_four(problem.group, {1, 1, shape.m_group, shape.n_group});
        expect_operand(problem.scale, to.scale, {0, 0, shape.m == 1 ? 0 : shape.n, shape.n == 1 ? 0 : 1});
        EXPECT_EQ(problem.scale_given, 0);
        run_back();
        expect_four(problem.group, {1, 1, shape.m_group, shape.n_group});
        expect_operand(problem.x, from.x, {0, 0, 384, 1});
    }
}

TEST_F(QuantizeFront, LeadingAxesAreSharedWholeOrNotAtAll) {
    to.x = dense(ATTILE_F32, {2, 64, 5, 64});
    to.q = dense(ATTILE_F8_E4M3, {2, 64, 5, 64});
    to.scale = dense(ATTILE_F32, {64, 1, 2});
    to.hadamard = 32;
    run();
    expect_four(problem.group, {2, 1, 5, 32});
    EXPECT_EQ(problem.hadamard, 32);
    to.scale = dense(ATTILE_F32, {1});
    run();
    expect_four(problem.group, {2, 64, 5, 64});
    to.scale = dense(ATTILE_F32, {1, 2, 1, 1});  // 64 / 32, but of an axis that is not among the last two
    EXPECT_EQ(attile_quantize(context, &to), ATTILE_ERROR_SHAPE_MISMATCH);
    EXPECT_EQ(last_error(), "quantize: scale.shape[1] is 2; expected 1 or x.shape[1] = 64");
}

TEST_F(QuantizeFront, ScalesThatAreGivenMayBeAbsentOrBroadcast) {
    to.scale_mode = ATTILE_SCALE_GIVEN;
    to.scale = strided(to.scale, {0, 1});
    run();
    EXPECT_EQ(problem.scale_given, 1);
    expect_operand(problem.scale, to.scale, {0, 0, 0, 1});
    to.scale = from.scale = {};
    run();
    expect_absent(problem.scale);
    expect_four(problem.group, {1, 1, 1, 1});
    run_back();
    expect_absent(problem.scale);
}

TEST_F(QuantizeFront, WithoutNumbersNothingIsAsked) {
    to.x = dense(ATTILE_F32, {0, 32});
    to.q = dense(ATTILE_I8, {0, 32});
    to.scale = dense(ATTILE_F32, {1, 1});
    ASSERT_EQ(attile_quantize(context, &to), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(QuantizeFront, WrongArguments) {
    const struct {
        const char *name;
        std::function<void(attile_quantize_args &)> change;
        int32_t status;
        const char *words;
    } wrong[] = {
        {"f64", [&](auto &a) { a.x.dtype = ATTILE_F64; }, ATTILE_ERROR_INVALID_DTYPE, "x.dtype"},
        {"wide q", [&](auto &a) { a.q.dtype = ATTILE_F64; }, ATTILE_ERROR_INVALID_DTYPE, "q.dtype"},
        {"q of floats", [&](auto &a) { a.q.dtype = ATTILE_F16; }, ATTILE_ERROR_INVALID_VALUE, "scale is given, but q.dtype is f16"},
        {"no x", [&](auto &a) { a.x = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "x"},
        {"no q", [&](auto &a) { a.q = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "q"},
        {"no scale", [&](auto &a) { a.scale = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "scale"},
        {"scales of f16", [&](auto &a) { a.scale.dtype = ATTILE_F16; }, ATTILE_ERROR_INVALID_DTYPE, "scale.dtype"},
        {"shape of q", [&](auto &a) { a.q.shape[1] = 383; }, ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[1]"},
        {"rank of q", [&](auto &a) { a.q = dense(ATTILE_I8, {384}); }, ATTILE_ERROR_INVALID_RANK, "q.rank"},
        {"groups of 48", [&](auto &a) { a.scale.shape[1] = 8; }, ATTILE_ERROR_SHAPE_MISMATCH,
         "x.shape[1] = 384, or that over 32, 64 or 128"},
        {"rank of scales",
         [&](auto &a) {
             a.scale = dense(ATTILE_F32, {1, 256, 12});
         },
         ATTILE_ERROR_INVALID_RANK, "scale.rank"},
        {"scales that overlap",
         [&](auto &a) {
             a.scale = strided(a.scale, {0, 1});
         },
         ATTILE_ERROR_INVALID_STRIDE, "scale.stride"},
        {"numbers that overlap",
         [&](auto &a) {
             a.q = strided(a.q, {0, 1});
         },
         ATTILE_ERROR_INVALID_STRIDE, "q.stride"},
        {"q in x", [&](auto &a) { a.q.data = a.x.data; }, ATTILE_ERROR_ALIASING, "q"},
        {"scale in x", [&](auto &a) { a.scale.data = a.x.data; }, ATTILE_ERROR_ALIASING, "scale"},
        {"scale in q", [&](auto &a) { a.scale.data = a.q.data; }, ATTILE_ERROR_ALIASING, "scale"},
        {"mode", [&](auto &a) { a.scale_mode = 2; }, ATTILE_ERROR_INVALID_VALUE, "scale_mode is 2"},
        {"hadamard of 1", [&](auto &a) { a.hadamard = 1; }, ATTILE_ERROR_INVALID_VALUE, "hadamard is 1"},
        {"negative", [&](auto &a) { a.hadamard = -32; }, ATTILE_ERROR_INVALID_VALUE, "hadamard is -32"},
        {"no power", [&](auto &a) { a.hadamard = 96; }, ATTILE_ERROR_INVALID_VALUE, "hadamard is 96"},
        {"does not divide", [&](auto &a) { a.hadamard = 256; }, ATTILE_ERROR_INVALID_VALUE, "divides the last extent, 384"},
        {"too large", [&](auto &a) { a.hadamard = 1024; }, ATTILE_ERROR_INVALID_VALUE, "from 2 to 512"},
        {"flags", [&](auto &a) { a.flags = 4; }, ATTILE_ERROR_INVALID_FLAGS, "flags"},
        {"head", [&](auto &a) { a.struct_size = 8; }, ATTILE_ERROR_STRUCT_SIZE, "struct_size"},
    };
    for (const auto &one : wrong) {
        attile_quantize_args changed = to;
        one.change(changed);
        EXPECT_EQ(attile_quantize(context, &changed), one.status) << one.name << ": " << last_error();
        EXPECT_NE(last_error().find(one.words), std::string::npos) << one.name << ": " << last_error();
        EXPECT_EQ(last_error().rfind("quantize: ", 0), 0u) << last_error();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_quantize_query(context, &changed, &support), one.status) << one.name << ": " << last_error();
    }
    EXPECT_EQ(recording().runs, 0);
    EXPECT_EQ(attile_quantize(context, nullptr), ATTILE_ERROR_NULL_ARGUMENT);
    EXPECT_EQ(attile_quantize(nullptr, &to), ATTILE_ERROR_INVALID_CONTEXT);
}

TEST_F(QuantizeFront, WrongArgumentsOfTheWayBack) {
    const auto refused = [&](const attile_dequantize_args &changed, const char *words) {
        const int32_t status = attile_dequantize(context, &changed);
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
        EXPECT_EQ(last_error().rfind("dequantize: ", 0), 0u) << last_error();
        return status;
    };
    attile_dequantize_args changed = from;
    changed.x.dtype = ATTILE_F64;
    EXPECT_EQ(refused(changed, "x.dtype"), ATTILE_ERROR_INVALID_DTYPE);
    changed = from;
    changed.x.data = changed.q.data;
    EXPECT_EQ(refused(changed, "x"), ATTILE_ERROR_ALIASING);
    changed = from;
    changed.x.data = changed.scale.data;
    EXPECT_EQ(refused(changed, "x"), ATTILE_ERROR_ALIASING);
    changed = from;
    changed.scale.shape[0] = 255;
    EXPECT_EQ(refused(changed, "scale.shape[0] is 255"), ATTILE_ERROR_SHAPE_MISMATCH);
    changed = from;
    changed.hadamard = 256;
    EXPECT_EQ(refused(changed, "hadamard is 256"), ATTILE_ERROR_INVALID_VALUE);
    changed = from;
    changed.reserved = 1;
    EXPECT_EQ(refused(changed, "reserved is 1"), ATTILE_ERROR_STRUCT_TOO_NEW);
    changed = from;
    changed.x = strided(changed.x, {0, 1});
    EXPECT_EQ(refused(changed, "x.stride"), ATTILE_ERROR_INVALID_STRIDE);
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(QuantizeFront, FourBits) {
    const auto refused = [&](const char *words) {
        const int32_t status = attile_quantize(context, &to);
        EXPECT_NE(last_error().find(words), std::string::npos) << last_error();
        return status;
    };
    to.q = dense(ATTILE_I4, {256, 384});
    run();
    expect_operand(problem.q, to.q, {0, 0, 384, 1});
    expect_absent(problem.zero);
    to.zero = dense(ATTILE_F32, {256, 12});
    EXPECT_EQ(refused("zero is given, but q.dtype is i4"), ATTILE_ERROR_INVALID_VALUE);
    to.q.dtype = ATTILE_U4;
    run();
    expect_operand(problem.zero, to.zero, {0, 0, 12, 1});
    to.zero.data = to.scale.data;
    EXPECT_EQ(refused("zero"), ATTILE_ERROR_ALIASING);
    to.zero = dense(ATTILE_F32, {256, 1});
    EXPECT_EQ(refused("zero.shape[1]"), ATTILE_ERROR_SHAPE_MISMATCH);
    to.zero = {};
    EXPECT_EQ(refused("zero is absent"), ATTILE_ERROR_NULL_ARGUMENT);
    to.scale_mode = ATTILE_SCALE_GIVEN;
    run();
    expect_absent(problem.zero);
    to.q = strided(dense(ATTILE_U4, {256, 384}), {1, 256});
    EXPECT_EQ(refused("q.stride[1] is 256; expected 1 along the last axis"), ATTILE_ERROR_INVALID_STRIDE);
    from.q = dense(ATTILE_U4, {256, 384});
    from.zero = dense(ATTILE_F32, {256, 12});
    run_back();
    expect_operand(problem.zero, from.zero, {0, 0, 12, 1});
}

TEST_F(QuantizeFront, ABackendWithoutItSaysSo) {
    attile_context *const bare = recording_context(Recorder::kBare);
    EXPECT_EQ(attile_quantize(bare, &to), ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_EQ(last_error(), "quantize: the backend 'bare' does not have this operation");
    attile_support support;
    attile_support_init(&support, sizeof support);
    EXPECT_EQ(attile_dequantize_query(bare, &from, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
    EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_STREQ(support.text, "dequantize: the backend 'bare' does not have this operation");
    attile_context_destroy(bare);
}

}  // namespace
}  // namespace attile_test
