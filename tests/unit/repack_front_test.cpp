// SPDX-License-Identifier: Apache-2.0
// What attile_repack makes of its arguments.
#include <functional>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

class RepackFront : public FrontTest {
  protected:
    RepackFront() {
        attile_repack_init(&args, sizeof args);
        args.format = ATTILE_GGML_Q4_K;
        args.blocks = strided(dense(ATTILE_U8, {7, 288}), {300, 1});
        args.q = dense(ATTILE_U4, {7, 512});
        args.scale = dense(ATTILE_F32, {7, 16});
        args.zero = strided(dense(ATTILE_F32, {7, 16}), {1, 7});
    }

    attile_repack_args args;
    const attile_repack_problem &problem = recording().repack;
};

TEST_F(RepackFront, EveryFormat) {
    ASSERT_EQ(attile_repack(context, &args), ATTILE_OK) << last_error();
    EXPECT_EQ(problem.format, ATTILE_GGML_Q4_K);
    EXPECT_EQ(problem.row_bytes, 288);
    EXPECT_EQ(problem.shape[2], 7);
    EXPECT_EQ(problem.shape[3], 512);
    expect_operand(problem.blocks, args.blocks, {0, 0, 300, 1});
    expect_operand(problem.q, args.q, {0, 0, 512, 1});
    expect_operand(problem.scale, args.scale, {0, 0, 16, 1});
    expect_operand(problem.zero, args.zero, {0, 0, 1, 7});
    const struct {
        int32_t format, type;
        int64_t bytes, numbers;
    } formats[] = {{ATTILE_GGML_Q4_0, ATTILE_I4, 18, 32}, {ATTILE_GGML_Q8_0, ATTILE_I8, 34, 32}, {ATTILE_GGML_Q6_K, ATTILE_I8, 210, 256}};
    args.zero = {};
    for (const auto &one : formats) {
        args.format = one.format;
        args.blocks = dense(ATTILE_U8, {2, 3, 3 * one.bytes});
        args.q = dense(one.type, {2, 3, 3 * one.numbers});
        args.scale = dense(ATTILE_F32, {2, 3, 3 * one.numbers / 32});
        EXPECT_EQ(attile_repack(context, &args), ATTILE_OK) << last_error();
        expect_absent(problem.zero);
    }
    args.blocks = dense(ATTILE_U8, {0, 210});
    args.q = dense(ATTILE_I8, {0, 256});
    args.scale = dense(ATTILE_F32, {0, 8});
    const int runs = recording().runs;
    EXPECT_EQ(attile_repack(context, &args), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, runs);
}

TEST_F(RepackFront, WrongArguments) {
    const struct {
        const char *name;
        std::function<void(attile_repack_args &)> change;
        int32_t status;
        const char *words;
    } wrong[] = {
        {"no format", [&](auto &a) { a.format = 0; }, ATTILE_ERROR_INVALID_VALUE, "format is 0; expected an ATTILE_GGML_ constant"},
        {"reserved", [&](auto &a) { a.reserved = 1; }, ATTILE_ERROR_STRUCT_TOO_NEW, "reserved is 1"},
        {"no blocks", [&](auto &a) { a.blocks = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "blocks"},
        {"blocks of i8", [&](auto &a) { a.blocks.dtype = ATTILE_I8; }, ATTILE_ERROR_INVALID_DTYPE, "blocks.dtype"},
        {"q of i8", [&](auto &a) { a.q.dtype = ATTILE_I8; }, ATTILE_ERROR_INVALID_DTYPE, "q.dtype"},
        {"no scale", [&](auto &a) { a.scale = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "scale"},
        {"no zero", [&](auto &a) { a.zero = {}; }, ATTILE_ERROR_NULL_ARGUMENT, "zero"},
        {"rows", [&](auto &a) { a.q.shape[0] = 6; }, ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[0]"},
        {"part of a block",
         [&](auto &a) {
             a.q = dense(ATTILE_U4, {7, 480});
         },
         ATTILE_ERROR_INVALID_SHAPE, "q.shape[1] is 480; expected a multiple of 256, the numbers of a block of Q4_K"},
        {"bytes", [&](auto &a) { a.blocks.shape[1] = 287; }, ATTILE_ERROR_SHAPE_MISMATCH, "blocks.shape[1] (bytes) is 287"},
        {"groups", [&](auto &a) { a.scale.shape[1] = 15; }, ATTILE_ERROR_SHAPE_MISMATCH, "scale.shape[1] (groups) is 15"},
        {"bytes apart",
         [&](auto &a) {
             a.blocks = strided(a.blocks, {1, 7});
         },
         ATTILE_ERROR_INVALID_STRIDE, "blocks.stride[1] is 7"},
        {"zero in scale", [&](auto &a) { a.zero.data = a.scale.data; }, ATTILE_ERROR_ALIASING, "zero"},
        {"q in blocks", [&](auto &a) { a.q.data = a.blocks.data; }, ATTILE_ERROR_ALIASING, "q"},
        {"zero of Q8_0",
         [&](auto &a) {
             a.format = ATTILE_GGML_Q8_0;
             a.q = dense(ATTILE_I8, {7, 32});
         },
         ATTILE_ERROR_INVALID_VALUE, "zero is given, but the format is Q8_0"},
    };
    for (const auto &one : wrong) {
        attile_repack_args changed = args;
        one.change(changed);
        EXPECT_EQ(attile_repack(context, &changed), one.status) << one.name << ": " << last_error();
        EXPECT_NE(last_error().find(one.words), std::string::npos) << one.name << ": " << last_error();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_repack_query(context, &changed, &support), one.status) << one.name << ": " << last_error();
    }
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(RepackFront, ABackendWithoutItSaysSo) {
    attile_context *const bare = recording_context(Recorder::kBare);
    EXPECT_EQ(attile_repack(bare, &args), ATTILE_ERROR_UNSUPPORTED_OPERATION);
    EXPECT_EQ(last_error(), "repack: the backend 'bare' does not have this operation");
    attile_context_destroy(bare);
}

}  // namespace
}  // namespace attile_test
