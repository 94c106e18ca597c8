// SPDX-License-Identifier: Apache-2.0
// What attile_quantize makes of rotary embedding and of caches.
#include <functional>
#include <string>

#include "front_test.h"

namespace attile_test {
namespace {

class QuantizeAppendFront : public FrontTest {
  protected:
    QuantizeAppendFront() {
        attile_quantize_init(&args, sizeof args);
        args.x = strided(dense(ATTILE_F16, {2, 3, 5, 64}), {960, 64, 192, 1});
        args.q = dense(ATTILE_I8, {9, 3, 16, 64});
        args.scale = dense(ATTILE_F32, {9, 3, 16, 2});
        args.rope_cos = dense(ATTILE_F32, {40, 16});
        args.rope_sin = strided(dense(ATTILE_F32, {40, 16}), {1, 40});
        args.positions = dense(ATTILE_I64, {2, 5});
        args.key_lengths = dense(ATTILE_I32, {2});
        args.block_table = dense(ATTILE_I32, {2, 4});
        args.rope_layout = ATTILE_ROPE_INTERLEAVED;
        args.append = 1;
    }
    void run() { ASSERT_EQ(attile_quantize(context, &args), ATTILE_OK) << last_error(); }

    attile_quantize_args args;
    const attile_quantize_problem &problem = recording().quantize;
};

TEST_F(QuantizeAppendFront, PagedCache) {
    run();
    EXPECT_EQ(problem.append, 1);
    EXPECT_EQ(problem.len_k, 64);
    EXPECT_EQ(problem.page_size, 16);
    EXPECT_EQ(problem.pages, 9);
    EXPECT_EQ(problem.rope_positions, 40);
    EXPECT_EQ(problem.rope_pairs, 16);
    EXPECT_EQ(problem.rope_layout, ATTILE_ROPE_INTERLEAVED);
    for (int i = 0; i < 4; ++i) EXPECT_EQ(problem.group[i], i < 3 ? 1 : 32);
    EXPECT_EQ(problem.shape[2], 5);
    expect_operand(problem.x, args.x, {960, 64, 192, 1});
    expect_operand(problem.q, args.q, {3072, 1024, 64, 1});
    expect_operand(problem.scale, args.scale, {96, 32, 2, 1});
    expect_operand(problem.rope_cos, args.rope_cos, {16, 1, 0, 0});
    expect_operand(problem.rope_sin, args.rope_sin, {1, 40, 0, 0});
    expect_operand(problem.positions, args.positions, {5, 1, 0, 0});
    expect_operand(problem.key_lengths, args.key_lengths, {1, 0, 0, 0});
    expect_operand(problem.block_table, args.block_table, {4, 1, 0, 0});
}

TEST_F(QuantizeAppendFront, CacheWithoutPages) {
    args.block_table = {};
    args.q = dense(ATTILE_U4, {2, 3, 70, 64});
    args.scale = args.zero = dense(ATTILE_F32, {2, 3, 70, 1});
    args.zero.data = static_cast<char *>(args.scale.data) + (1 << 20);
    args.positions = dense(ATTILE_I32, {5});
    run();
    EXPECT_EQ(problem.len_k, 70);
    EXPECT_EQ(problem.page_size, 0);
    EXPECT_EQ(problem.group[3], 64);
    expect_operand(problem.positions, args.positions, {0, 1, 0, 0});
    args.positions = {};
    run();
    expect_absent(problem.positions);
}

TEST_F(QuantizeAppendFront, ScalesThatAreMadeHaveAllAxes) {
    args.scale = dense(ATTILE_F32, {1});
    EXPECT_EQ(attile_quantize(context, &args), ATTILE_ERROR_INVALID_RANK);
    EXPECT_NE(last_error().find("scale.rank is 1; expected 4, as scales are made for a cache"), std::string::npos) << last_error();
}

TEST_F(QuantizeAppendFront, GivenScalesAreBroadcast) {
    args.scale_mode = ATTILE_SCALE_GIVEN;
    for (const auto &shape : {std::initializer_list<int64_t>{1}, {3, 1, 2}, {9, 3, 16, 64}, {1, 1, 1, 1}}) {
        args.scale = dense(ATTILE_F32, shape);
        run();
    }
    args.scale = {};
    run();
    expect_absent(problem.scale);
}

TEST_F(QuantizeAppendFront, FloatsHaveNoScale) {
    args.q = dense(ATTILE_BF16, {9, 3, 16, 64});
    args.scale = {};
    run();
    expect_absent(problem.scale);
    EXPECT_EQ(problem.scale_given, 1);
}

TEST_F(QuantizeAppendFront, RotationAlone) {
    args.append = 0;
    args.q = dense(ATTILE_F16, {2, 3, 5, 64});
    args.block_table = args.scale = args.positions = {};
    run();
    EXPECT_EQ(problem.append, 0);
    expect_operand(problem.key_lengths, args.key_lengths, {1, 0, 0, 0});
    args.key_lengths = {};
    run();
    expect_absent(problem.key_lengths);
    args.x = args.q = dense(ATTILE_F32, {33});
    args.q.data = static_cast<char *>(args.x.data) + (1 << 20);
    args.positions = dense(ATTILE_I64, {1});
    run();
}

TEST_F(QuantizeAppendFront, NothingToDo) {
    args.block_table = dense(ATTILE_I32, {2, 0});
    ASSERT_EQ(attile_quantize(context, &args), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(QuantizeAppendFront, WrongArguments) {
    const struct {
        const char *name;
        std::function<void(attile_quantize_args &)> change;
        int32_t status;
        const char *words;
    } wrong[] = {
        {"layout", [&](auto &a) { a.rope_layout = 2; }, ATTILE_ERROR_INVALID_VALUE, "rope_layout is 2"},
        {"append", [&](auto &a) { a.append = 2; }, ATTILE_ERROR_INVALID_VALUE, "append is 2"},
        {"no sines", [&](auto &a) { a.rope_sin = {}; }, ATTILE_ERROR_INVALID_VALUE, "rope_cos is given, but rope_sin is absent"},
        {"no cosines", [&](auto &a) { a.rope_cos = {}; }, ATTILE_ERROR_INVALID_VALUE, "rope_sin is given, but rope_cos is absent"},
        {"positions alone", [&](auto &a) { a.rope_cos = a.rope_sin = {}; }, ATTILE_ERROR_INVALID_VALUE,
         "positions is given, but rope_cos is absent"},
        {"no angle", [&](auto &a) { a.rope_cos.shape[0] = 0; }, ATTILE_ERROR_INVALID_SHAPE, "rope_cos has shape [0, 16]"},
        {"too many pairs",
         [&](auto &a) {
             a.rope_cos = dense(ATTILE_F32, {40, 33});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "rope_cos.shape[1] is 33; expected at most 32"},
        {"other sines",
         [&](auto &a) {
             a.rope_sin = dense(ATTILE_F32, {39, 16});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "rope_sin.shape[0]"},
        {"cosines of f16", [&](auto &a) { a.rope_cos.dtype = ATTILE_F16; }, ATTILE_ERROR_INVALID_DTYPE, "rope_cos.dtype"},
        {"positions of f32", [&](auto &a) { a.positions.dtype = ATTILE_F32; }, ATTILE_ERROR_INVALID_DTYPE, "i32 or i64"},
        {"other positions",
         [&](auto &a) {
             a.positions = dense(ATTILE_I32, {2, 4});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "positions.shape[1] is 4"},
        {"no lengths", [&](auto &a) { a.key_lengths = {}; }, ATTILE_ERROR_INVALID_VALUE, "append is 1, so key_lengths must be given"},
        {"lengths of i64", [&](auto &a) { a.key_lengths.dtype = ATTILE_I64; }, ATTILE_ERROR_INVALID_DTYPE, "key_lengths.dtype"},
        {"other lengths", [&](auto &a) { a.key_lengths.shape[0] = 3; }, ATTILE_ERROR_SHAPE_MISMATCH, "key_lengths.shape[0]"},
        {"other table",
         [&](auto &a) {
             a.block_table = dense(ATTILE_I32, {3, 4});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "block_table.shape[0]"},
        {"other batch", [&](auto &a) { a.block_table = {}; }, ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[0] (batch) is 9"},
        {"other heads",
         [&](auto &a) {
             a.q = dense(ATTILE_I8, {9, 4, 16, 64});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[1] (heads_kv) is 4"},
        {"other head_dim",
         [&](auto &a) {
             a.q = dense(ATTILE_I8, {9, 3, 16, 32});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "q.shape[3] (head_dim) is 32"},
        {"rank of x",
         [&](auto &a) {
             a.x = dense(ATTILE_F16, {3, 5, 64});
         },
         ATTILE_ERROR_INVALID_RANK, "x.rank"},
        {"scales of another cache",
         [&](auto &a) {
             a.scale = dense(ATTILE_F32, {9, 3, 1, 2});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "scale.shape[2] (page_size or len_k) is 1"},
        {"groups",
         [&](auto &a) {
             a.scale = dense(ATTILE_F32, {9, 3, 16, 3});
         },
         ATTILE_ERROR_SHAPE_MISMATCH, "scale.shape[3] is 3"},
        {"table alone",
         [&](auto &a) {
             a.append = 0;
             a.q = dense(ATTILE_I8, {2, 3, 5, 64});
         },
         ATTILE_ERROR_INVALID_VALUE, "block_table is given, but append is 0"},
        {"lengths that nothing asks for",
         [&](auto &a) {
             a.append = 0;
             a.block_table = {};
             a.q = dense(ATTILE_I8, {2, 3, 5, 64});
         },
         ATTILE_ERROR_INVALID_VALUE, "key_lengths is given; expected append"},
        {"q in the table", [&](auto &a) { a.block_table.data = a.q.data; }, ATTILE_ERROR_ALIASING, "q"},
        {"scale in the angles", [&](auto &a) { a.scale.data = a.rope_sin.data; }, ATTILE_ERROR_ALIASING, "scale"},
    };
    for (const auto &one : wrong) {
        attile_quantize_args changed = args;
        one.change(changed);
        EXPECT_EQ(attile_quantize(context, &changed), one.status) << one.name << ": " << last_error();
        EXPECT_NE(last_error().find(one.words), std::string::npos) << one.name << ": " << last_error();
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_quantize_query(context, &changed, &support), one.status) << one.name << ": " << last_error();
    }
    EXPECT_EQ(recording().runs, 0);
}

TEST_F(QuantizeAppendFront, AShorterStructIsOneOfBefore) {
    args.struct_size = offsetof(attile_quantize_args, rope_cos);
    EXPECT_EQ(attile_quantize(context, &args), ATTILE_ERROR_SHAPE_MISMATCH) << "q is not x's shape without append";
    args.q = dense(ATTILE_I8, {2, 3, 5, 64});
    args.scale = dense(ATTILE_F32, {2, 3, 5, 2});
    run();
    EXPECT_EQ(problem.append, 0);
    EXPECT_EQ(problem.rope_positions, 0);
    expect_absent(problem.key_lengths);
}

}  // namespace
}  // namespace attile_test
