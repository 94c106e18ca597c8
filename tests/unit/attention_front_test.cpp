// SPDX-License-Identifier: Apache-2.0
// What attile_attention makes of its arguments.
#include <cmath>
#include <cstddef>

#include "front_test.h"

namespace attile_test {
namespace {

class AttentionFront : public FrontTest {
  protected:
    AttentionFront() {
        attile_attention_init(&args, sizeof args);
        args.q = dense(ATTILE_F32, {2, 8, 3, 16});
        args.k = dense(ATTILE_F32, {2, 4, 7, 16});
        args.v = dense(ATTILE_F32, {2, 4, 7, 24});
        args.o = dense(ATTILE_F32, {2, 8, 3, 24});
    }
    void run() { ASSERT_EQ(attile_attention(context, &args), ATTILE_OK) << last_error(); }

    // total_q = 10 rows and total_k = 20 keys of 3 sequences.
    void pack() {
        args.q = dense(ATTILE_F32, {1, 8, 10, 16});
        args.k = dense(ATTILE_F32, {1, 4, 20, 16});
        args.v = dense(ATTILE_F32, {1, 4, 20, 24});
        args.o = dense(ATTILE_F32, {1, 8, 10, 24});
        args.cu_len_q = dense(ATTILE_I32, {4});
        args.cu_len_k = dense(ATTILE_I32, {4});
    }

    // 11 pages of 4 keys, 5 of them an entry.
    void page() {
        args.k = dense(ATTILE_F32, {11, 4, 4, 16});
        args.v = dense(ATTILE_F32, {11, 4, 4, 24});
        args.block_table = dense(ATTILE_I32, {2, 5});
        args.key_lengths = dense(ATTILE_I32, {2});
    }

    attile_attention_args args;
    const attile_attention_problem &problem = recording().attention;
};

TEST_F(AttentionFront, GroupedQueryDense) {
    args.lse = dense(ATTILE_F32, {2, 8, 3});
    args.softcap = 30.0;
    args.flags = ATTILE_FLAG_ALLOW_SPLIT_TF32;
    run();
    EXPECT_EQ(recording().queries, 0);
    EXPECT_EQ(problem.compute, ATTILE_F32);
    EXPECT_EQ(problem.launch.flags, ATTILE_FLAG_ALLOW_SPLIT_TF32);
    EXPECT_EQ(problem.batch, 2);
    EXPECT_EQ(problem.heads_q, 8);
    EXPECT_EQ(problem.heads_kv, 4);
    EXPECT_EQ(problem.len_q, 3);
    EXPECT_EQ(problem.len_k, 7);
    EXPECT_EQ(problem.head_dim, 16);
    EXPECT_EQ(problem.head_dim_v, 24);
    EXPECT_EQ(problem.total_q, 3);
    EXPECT_EQ(problem.total_k, 7);
    EXPECT_EQ(problem.page_size, 0);
    EXPECT_EQ(problem.pages, 0);
    EXPECT_EQ(problem.scale, 0.25);
    EXPECT_EQ(problem.softcap, 30.0);
    expect_operand(problem.q, args.q, {384, 48, 16, 1});
    expect_operand(problem.k, args.k, {448, 112, 16, 1});
    expect_operand(problem.v, args.v, {672, 168, 24, 1});
    expect_operand(problem.o, args.o, {576, 72, 24, 1});
    expect_operand(problem.lse, args.lse, {24, 3, 1, 0});
    for (const attile_operand *operand :
         {&problem.bias, &problem.allowed, &problem.alibi_slopes, &problem.sinks, &problem.key_lengths, &problem.cu_len_q,
          &problem.cu_len_k, &problem.block_table, &problem.key_starts, &problem.causal_offset, &problem.block_mask, &problem.tree_mask}) {
        expect_absent(*operand);
    }
    EXPECT_EQ(problem.tree_keys, 0);
}

TEST_F(AttentionFront, AnyLayoutIsAMatterOfStrides) {
    // [B, L, 3, H, D] in one buffer, o in a [B, L, H, D] of its own.
    constexpr int64_t B = 2, L = 5, H = 4, D = 16, row = 3 * H * D;
    const attile_tensor buffer = dense(ATTILE_F16, {B, L, 3 * H, D});
    const auto slice = [&](int64_t which) {
        attile_tensor part = dense(ATTILE_F16, {B, H, L, D});
        part = strided(part, {L * row, D, row, 1});
        part.data = static_cast<unsigned char *>(buffer.data) + 2 * which * H * D;
        return part;
    };
    args.q = slice(0);
    args.k = slice(1);
    args.v = slice(2);
    args.o = strided(dense(ATTILE_F16, {B, H, L, D}), {L * H * D, D, H * D, 1});
    run();
    expect_operand(problem.k, args.k, {L * row, D, row, 1});
    expect_operand(problem.o, args.o, {L * H * D, D, H * D, 1});
    // The output may even take the place of an unused slice of it; but not that of q.
    const attile_tensor wide = dense(ATTILE_F16, {B, L, 4 * H, D});
    const auto wide_slice = [&](int64_t which) {
        attile_tensor part = strided(dense(ATTILE_F16, {B, H, L, D}), {L * 4 * H * D, D, 4 * H * D, 1});
        part.data = static_cast<unsigned char *>(wide.data) + 2 * which * H * D;
        return part;
    };
    args.q = wide_slice(0);
    args.k = wide_slice(1);
    args.v = wide_slice(2);
    args.o = wide_slice(3);
    run();
    args.o = wide_slice(0);
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_ALIASING);
}

TEST_F(AttentionFront, Scale) {
    run();
    EXPECT_EQ(problem.scale, 1.0 / std::sqrt(16.0));
    args.scale = -0.125;
    run();
    EXPECT_EQ(problem.scale, -0.125);
    args.scale = 0.0;
    args.q = dense(ATTILE_F32, {2, 8, 3, 0});
    args.k = dense(ATTILE_F32, {2, 4, 7, 0});
    run();
    EXPECT_TRUE(std::isfinite(problem.scale)) << "without a dimension";
    EXPECT_EQ(problem.head_dim, 0);
}

TEST_F(AttentionFront, MasksAreOneWindowAboutOneOfTwoCorners) {
    const struct {
        int32_t mask;
        int64_t left, right;
        int32_t bottom_right, alibi_bottom_right;
        int64_t window_left, window_right;
    } cases[] = {
        {ATTILE_MASK_NONE, 0, 0, 0, 1, -1, -1},
        {ATTILE_MASK_CAUSAL_TOP_LEFT, 0, 0, 0, 0, -1, 0},
        {ATTILE_MASK_CAUSAL_BOTTOM_RIGHT, 0, 0, 1, 1, -1, 0},
        {ATTILE_MASK_WINDOW_TOP_LEFT, 2, 0, 0, 0, 2, 0},
        {ATTILE_MASK_WINDOW_TOP_LEFT, -1, 3, 0, 0, -1, 3},
        {ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 0, 0, 1, 1, 0, 0},
        {ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 9, -1, 1, 1, 9, -1},
        {ATTILE_MASK_WINDOW_BOTTOM_RIGHT, 10, 10, 1, 1, -1, -1},  // len_q + len_k: past everything
        {ATTILE_MASK_WINDOW_TOP_LEFT, INT64_MAX, INT64_MAX, 0, 0, -1, -1},
    };
    for (const auto &c : cases) {
        args.mask = c.mask;
        args.window_left = c.left;
        args.window_right = c.right;
        run();
        EXPECT_EQ(problem.bottom_right, c.bottom_right) << c.mask;
        EXPECT_EQ(problem.alibi_bottom_right, c.alibi_bottom_right) << c.mask;
        EXPECT_EQ(problem.window_left, c.window_left) << c.mask;
        EXPECT_EQ(problem.window_right, c.window_right) << c.mask;
    }
}

TEST_F(AttentionFront, BesideAnOffsetAWindowIsOpenFartherOut) {
    args.causal_offset = dense(ATTILE_I32, {2});
    args.mask = ATTILE_MASK_WINDOW_TOP_LEFT;
    constexpr int64_t kEnough = 3 + 7 + int64_t{ATTILE_CAUSAL_OFFSET_LIMIT};
    for (const int64_t bound : {int64_t{10}, kEnough - 1}) {  // an offset may lie that far beyond the keys
        args.window_left = args.window_right = bound;
        run();
        EXPECT_EQ(problem.window_left, bound);
        EXPECT_EQ(problem.window_right, bound);
    }
    for (const int64_t bound : {kEnough, int64_t{INT64_MAX}}) {
        args.window_left = args.window_right = bound;
        run();
        EXPECT_EQ(problem.window_left, -1) << bound;
        EXPECT_EQ(problem.window_right, -1) << bound;
    }
}

TEST_F(AttentionFront, BiasAndMaskBroadcast) {
    args.bias = dense(ATTILE_F32, {8, 1, 7});
    args.allowed = dense(ATTILE_U8, {2, 1, 3, 7});
    run();
    expect_operand(problem.bias, args.bias, {0, 7, 0, 1});
    expect_operand(problem.allowed, args.allowed, {21, 0, 7, 1});
    args.bias = dense(ATTILE_F32, {7});
    args.allowed = strided(dense(ATTILE_BOOL, {2, 8, 3, 7}), {0, 0, 7, 1});
    run();
    expect_operand(problem.bias, args.bias, {0, 0, 0, 1});
    expect_operand(problem.allowed, args.allowed, {0, 0, 7, 1});
    args.bias = dense(ATTILE_F32, {1});
    run();
    expect_operand(problem.bias, args.bias, {0, 0, 0, 0});
}

TEST_F(AttentionFront, PerHeadAndPerEntryParameters) {
    args.alibi_slopes = dense(ATTILE_F32, {8});
    args.sinks = dense(ATTILE_F32, {8});
    args.key_lengths = dense(ATTILE_I32, {2});
    run();
    expect_operand(problem.alibi_slopes, args.alibi_slopes, {0, 1, 0, 0});
    expect_operand(problem.sinks, args.sinks, {0, 1, 0, 0});
    expect_operand(problem.key_lengths, args.key_lengths, {1, 0, 0, 0});
    args.key_starts = dense(ATTILE_I32, {2});
    args.causal_offset = strided(dense(ATTILE_I32, {2}), {0});
    args.alibi_slopes = dense(ATTILE_F32, {2, 8});
    run();
    expect_operand(problem.alibi_slopes, args.alibi_slopes, {8, 1, 0, 0});
    expect_operand(problem.key_starts, args.key_starts, {1, 0, 0, 0});
    expect_operand(problem.causal_offset, args.causal_offset, {0, 0, 0, 0});
}

TEST_F(AttentionFront, MasksOfBlocksAndTrees) {
    args.block_mask = dense(ATTILE_BOOL, {2, 1, 1, 1});
    args.tree_mask = dense(ATTILE_U8, {8, 3, 5});
    run();
    expect_operand(problem.block_mask, args.block_mask, {1, 0, 0, 0});
    expect_operand(problem.tree_mask, args.tree_mask, {0, 15, 5, 1});
    EXPECT_EQ(problem.tree_keys, 5);
    args.tree_mask = dense(ATTILE_U8, {3, 0});
    run();
    expect_absent(problem.tree_mask);
    EXPECT_EQ(problem.tree_keys, 0);
    pack();  // Their extents are those of the longest sequences.
    args.max_len_q = 130;
    args.max_len_k = 257;
    args.block_mask = dense(ATTILE_BOOL, {3, 1, 2, 3});
    args.tree_mask = dense(ATTILE_BOOL, {257});
    run();
    expect_operand(problem.block_mask, args.block_mask, {6, 0, 3, 1});
    expect_operand(problem.tree_mask, args.tree_mask, {0, 0, 0, 1});
    args.tree_mask = dense(ATTILE_BOOL, {258});
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_SHAPE_MISMATCH);
}

TEST_F(AttentionFront, Types) {
    for (const int32_t type : {ATTILE_F64, ATTILE_F16, ATTILE_BF16}) {
        const int32_t wide = type == ATTILE_F64 ? ATTILE_F64 : ATTILE_F32;
        args.q = dense(type, {2, 8, 3, 16});
        args.k = dense(type, {2, 4, 7, 16});
        args.v = dense(type, {2, 4, 7, 24});
        args.o = dense(ATTILE_F32, {2, 8, 3, 24});
        args.lse = dense(wide, {2, 8, 3});
        args.sinks = dense(wide, {8});
        args.alibi_slopes = dense(ATTILE_F32, {8});
        args.bias = dense(ATTILE_F32, {3, 7});
        run();
        EXPECT_EQ(problem.compute, wide);
        args.lse = dense(type == ATTILE_F64 ? ATTILE_F32 : type, {2, 8, 3});
        EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_INVALID_DTYPE);
        args.lse = {};
    }
}

TEST_F(AttentionFront, PackedSequences) {
    pack();
    args.lse = dense(ATTILE_F32, {1, 8, 10});
    run();
    EXPECT_EQ(problem.batch, 3);
    EXPECT_EQ(problem.len_q, 10);
    EXPECT_EQ(problem.len_k, 20);
    EXPECT_EQ(problem.total_q, 10);
    EXPECT_EQ(problem.total_k, 20);
    expect_operand(problem.q, args.q, {0, 160, 16, 1});
    expect_operand(problem.k, args.k, {0, 320, 16, 1});
    expect_operand(problem.lse, args.lse, {0, 10, 1, 0});
    expect_operand(problem.cu_len_q, args.cu_len_q, {1, 0, 0, 0});
    expect_operand(problem.cu_len_k, args.cu_len_k, {1, 0, 0, 0});
    args.max_len_q = 6;
    args.max_len_k = 9;
    args.bias = dense(ATTILE_F32, {3, 8, 6, 9});
    args.key_lengths = dense(ATTILE_I32, {3});
    run();
    EXPECT_EQ(problem.len_q, 6);
    EXPECT_EQ(problem.len_k, 9);
    EXPECT_EQ(problem.total_k, 20);
    expect_operand(problem.bias, args.bias, {432, 54, 9, 1});
    args.bias = {};
    args.max_len_q = 1000;
    run();
    EXPECT_EQ(problem.len_q, 10) << "no sequence has more rows than there are";
}

TEST_F(AttentionFront, PagedKeys) {
    page();
    run();
    EXPECT_EQ(problem.batch, 2);
    EXPECT_EQ(problem.len_k, 20);
    EXPECT_EQ(problem.total_k, 20);
    EXPECT_EQ(problem.page_size, 4);
    EXPECT_EQ(problem.pages, 11);
    expect_operand(problem.k, args.k, {256, 64, 16, 1});
    expect_operand(problem.block_table, args.block_table, {5, 1, 0, 0});
    expect_operand(problem.key_lengths, args.key_lengths, {1, 0, 0, 0});
}

TEST_F(AttentionFront, PackedQueriesOverPagedKeys) {
    pack();
    page();
    args.cu_len_k = {};
    args.block_table = dense(ATTILE_I32, {3, 5});
    args.key_lengths = dense(ATTILE_I32, {3});
    args.max_len_q = 4;
    run();
    EXPECT_EQ(problem.batch, 3);
    EXPECT_EQ(problem.len_q, 4);
    EXPECT_EQ(problem.total_q, 10);
    EXPECT_EQ(problem.len_k, 20);
    expect_absent(problem.cu_len_k);
}

TEST_F(AttentionFront, PackedQueriesOverDenseKeys) {
    pack();
    args.k = dense(ATTILE_F32, {3, 4, 7, 16});
    args.v = dense(ATTILE_F32, {3, 4, 7, 24});
    args.cu_len_k = {};
    args.key_lengths = args.key_starts = dense(ATTILE_I32, {3});
    run();
    EXPECT_EQ(problem.batch, 3);
    EXPECT_EQ(problem.len_q, 10);
    EXPECT_EQ(problem.total_q, 10);
    EXPECT_EQ(problem.len_k, 7);
    EXPECT_EQ(problem.total_k, 7);
    expect_operand(problem.q, args.q, {0, 160, 16, 1});
    expect_operand(problem.k, args.k, {448, 112, 16, 1});
    expect_operand(problem.key_starts, args.key_starts, {1, 0, 0, 0});
    expect_absent(problem.cu_len_k);
}

TEST_F(AttentionFront, WhatIsBehindTheSizeOfTheFirstReleaseIsNotLookedAt) {
    args.key_starts = args.causal_offset = args.block_mask = args.tree_mask = dense(ATTILE_F64, {9});
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_INVALID_DTYPE);
    args.struct_size = offsetof(attile_attention_args, key_starts);
    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    run();
    expect_absent(problem.key_starts);
    expect_absent(problem.causal_offset);
    expect_absent(problem.block_mask);
    expect_absent(problem.tree_mask);
}

TEST_F(AttentionFront, AnOlderBackendIsNotGivenWhatItCannotSee) {
    attile_context *const older = recording_context(Recorder::kFirstVersions);
    const auto expect_refused = [&](const std::string &what) {
        const std::string sentence = ": the backend 'older' is too old to know " + what;
        EXPECT_EQ(attile_attention(older, &args), ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_EQ(last_error(), "attention" + sentence);
        attile_support support;
        attile_support_init(&support, sizeof support);
        EXPECT_EQ(attile_attention_query(older, &args, &support), ATTILE_OK) << last_error();
        EXPECT_EQ(support.level, ATTILE_SUPPORT_NONE);
        EXPECT_EQ(support.status, ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_EQ(support.text, "attention" + sentence);
        attile_prepared *prepared = nullptr;
        EXPECT_EQ(attile_attention_prepare(older, &args, &prepared), ATTILE_ERROR_UNSUPPORTED_FEATURE);
        EXPECT_NE(last_error().find(sentence), std::string::npos) << last_error();
        EXPECT_EQ(prepared, nullptr);
    };
    args.mask = ATTILE_MASK_CAUSAL_TOP_LEFT;
    args.key_starts = dense(ATTILE_I32, {2});
    expect_refused("key_starts");
    args.key_starts = {};
    args.causal_offset = dense(ATTILE_I32, {2});
    expect_refused("causal_offset");
    args.causal_offset = {};
    args.block_mask = dense(ATTILE_BOOL, {1});
    expect_refused("block_mask");
    args.block_mask = {};
    args.tree_mask = dense(ATTILE_BOOL, {2});
    expect_refused("tree_mask");
    args.tree_mask = {};
    EXPECT_EQ(attile_attention(older, &args), ATTILE_OK) << last_error();
    pack();
    EXPECT_EQ(attile_attention(older, &args), ATTILE_OK) << last_error();
    EXPECT_EQ(recording().runs, 2);
    args.k = dense(ATTILE_F32, {3, 4, 7, 16});
    args.v = dense(ATTILE_F32, {3, 4, 7, 24});
    args.cu_len_k = {};
    expect_refused("cu_len_q without cu_len_k");
    EXPECT_EQ(recording().runs, 2);
    EXPECT_EQ(recording().queries, 0);
    attile_context_destroy(older);
}

TEST_F(AttentionFront, PagesThatHoldNothingAreNoKeys) {
    page();
    args.k = dense(ATTILE_F32, {11, 4, 0, 16});
    args.v = dense(ATTILE_F32, {11, 4, 0, 24});
    args.k.data = args.v.data = nullptr;
    run();
    EXPECT_EQ(problem.len_k, 0);
    EXPECT_EQ(problem.page_size, 0);
    expect_absent(problem.block_table);
    expect_absent(problem.key_lengths);
    page();
    args.block_table = dense(ATTILE_I32, {2, 0});
    run();
    EXPECT_EQ(problem.len_k, 0);
    for (const int64_t stride : problem.k.stride) EXPECT_EQ(stride, 0);
}

TEST_F(AttentionFront, NoKeysGoToTheBackendNoRowsDoNot) {
    args.k = dense(ATTILE_F32, {2, 4, 0, 16});
    args.v = dense(ATTILE_F32, {2, 4, 0, 24});
    args.k.data = args.v.data = nullptr;
    run();
    EXPECT_EQ(recording().runs, 1) << "o becomes 0";
    EXPECT_EQ(problem.len_k, 0);
    args.q = dense(ATTILE_F32, {2, 8, 0, 16});
    args.o = dense(ATTILE_F32, {2, 8, 0, 24});
    args.q.data = args.o.data = nullptr;
    run();
    pack();
    args.cu_len_q = args.cu_len_k = dense(ATTILE_I32, {1});
    run();
    EXPECT_EQ(recording().runs, 1);
}

TEST_F(AttentionFront, ValuesWithoutADimensionStillHaveAnLse) {
    args.v = dense(ATTILE_F32, {2, 4, 7, 0});
    args.o = dense(ATTILE_F32, {2, 8, 3, 0});
    run();
    EXPECT_EQ(recording().runs, 0);
    args.lse = dense(ATTILE_F32, {2, 8, 3});
    run();
    EXPECT_EQ(recording().runs, 1);
    EXPECT_EQ(problem.head_dim_v, 0);
}

TEST_F(AttentionFront, MessagesNameArgumentValueAndExpectation) {
    args.k = dense(ATTILE_F32, {2, 3, 7, 16});
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_SHAPE_MISMATCH);
    EXPECT_EQ(last_error(), "attention: k.shape[1] (heads_kv) is 3; expected a divisor of q.shape[1] (heads_q) = 8");
    args.k = dense(ATTILE_F32, {2, 4, 7, 15});
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_SHAPE_MISMATCH);
    EXPECT_EQ(last_error(), "attention: k.shape[3] (head_dim) is 15; expected q.shape[3] (head_dim) = 16");
}

TEST_F(AttentionFront, QueriesTakeNullData) {
    for (attile_tensor *tensor : {&args.q, &args.k, &args.v, &args.o}) tensor->data = nullptr;
    args.bias = dense(ATTILE_F32, {3, 7});
    args.bias.data = nullptr;
    attile_support support;
    attile_support_init(&support, sizeof support);
    ASSERT_EQ(attile_attention_query(context, &args, &support), ATTILE_OK) << last_error();
    EXPECT_EQ(support.level, ATTILE_SUPPORT_NATIVE);
    EXPECT_STREQ(support.kernel, "recorder");
    EXPECT_EQ(problem.bias.dtype, ATTILE_F32);
    EXPECT_EQ(problem.bias.stride[2], 7);
    EXPECT_EQ(attile_attention(context, &args), ATTILE_ERROR_NULL_ARGUMENT);
}

}  // namespace
}  // namespace attile_test
